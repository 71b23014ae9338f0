"""Every map that takes a kernel and claims to be unbiased has the kernel as its mean over seeds, for all kernels."""

import inspect
import warnings

import pytest

import mercer
from mercer import MercerWarning
from mercer.maps import BaseMap
from mercer.testing import check_unbiased, sample_rows

from ..instances import KERNELS

DRAWS = 100
WIDTH = 32
# These draw other maps, or take ten to a hundred times as long, and have calibrated tests of their own.
OTHERS = {"SumMap", "ProductMap", "CompositionMap", "RandomMaclaurin", "ResampledFourier"}
# These have no kernel of their own, or no draws.
UNDRAWN = {"Deformed", "FeatureMap", "GraphBasis", "GridFourier", "LearnedMetric", "ScaledColumns"}
PUBLIC = [getattr(mercer, name) for name in mercer.__all__]
KINDS = [
    kind
    for kind in PUBLIC
    if inspect.isclass(kind) and issubclass(kind, BaseMap) and kind.__name__ not in OTHERS | UNDRAWN
]
CASES = [
    (kind, kernel)
    for kernel in KERNELS
    for kind in KINDS
    if kind.accepts(kernel) and kind(kernel, WIDTH).unbiased is True
]


@pytest.mark.covering(1, kernel=type)
@pytest.mark.parametrize(("kind", "kernel"), CASES, ids=lambda value: getattr(value, "__name__", repr(value)))
def test_the_mean_over_seeds_is_the_kernel(kind, kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)  # more components than an exact map has
        check_unbiased(kind(kernel, WIDTH), sample_rows(positive=kernel.positive_only), DRAWS)


def test_most_kernels_have_an_unbiased_map():
    with_map = {kernel for _, kernel in CASES}
    assert len(with_map) > len(KERNELS) // 2
