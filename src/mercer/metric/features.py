"""Features of rows in a metric, and the rule by which engines read such rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.engines import Block, some_rows
from mercer.features import Features, LinearForm
from mercer.metric.inputs import MetricInputs
from mercer.statistics.sample import exponentials

__all__ = ["MetricFeatures", "MetricRows"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class MetricFeatures(Features):
    """Features z(A(x)) of rows x, with an input map A and features z of the rows in the metric."""

    inputs: MetricInputs
    inner: Features

    @property
    def n_components(self) -> int:
        return self.inner.n_components

    @property
    def signs(self) -> Array | None:
        return self.inner.signs

    @property
    def is_complex(self) -> bool:
        return self.inner.is_complex

    @property
    def linear_form(self) -> LinearForm | None:
        form = self.inner.linear_form
        return None if form is None else replace(form, inner=replace(self, inner=form.inner))

    def astype(self, dtype: Any) -> Self:
        return replace(self, inner=self.inner.astype(dtype))

    def __call__(self, X: Any, out: Array) -> None:
        # The input map is computed in float64: columns may be far from zero, and in any units.
        self.inner(self.inputs(X).astype(X.dtype, copy=False), out)


@dataclass(frozen=True)
class MetricRows:
    """Rule of a `FilteredEngine`: rows in the metric, with scaled targets, of all rows or of a random sample.

    Whether a row belongs to the sample depends on its index and the seed, so that it does not depend on the blocks.
    """

    inputs: MetricInputs
    target_scale: Array | None = None  # (t,): numeric targets are divided by it; None if targets are labels
    fraction: float = 1.0  # of the rows, approximately
    seed: int = 0

    def __call__(self, block: Block) -> Block:
        if self.fraction < 1:
            keys = exponentials(block.index.astype(np.uint64), self.seed)
            block = some_rows(block, keys < -np.log1p(-self.fraction))
        y = block.y if self.target_scale is None else block.y / self.target_scale
        return replace(block, X=self.inputs(block.X), y=y)
