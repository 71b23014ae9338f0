"""Random neurons for arc-cosine kernels: the map `RandomNeurons`.

The map chooses a layout, that is, which part of the kernel has exact components, and random directions for the neurons.
The module `expansion` has the coefficients of the exact components, the module `features` evaluates all components, and
the module `variance` has the variance of the approximate kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import doc
from mercer.errors import NoClosedFormError, ParameterError
from mercer.kernels import ArcCosine, Kernel
from mercer.maps.base import DrawnMap
from mercer.maps.fourier.directions import DENSE_DIRECTIONS, DIRECTIONS, Directions, sobol_normals
from mercer.maps.fourier.projections import (
    BIASED,
    STRUCTURED_FROM,
    STRUCTURED_UP_TO,
    ButterflyProjection,
    DenseProjection,
    HadamardProjection,
    Projection,
    butterfly_rotations,
    hadamard_signs,
)
from mercer.maps.fourier.random_fourier import in_float64
from mercer.maps.neurons.expansion import Expansion, radius
from mercer.maps.neurons.features import NeuronFeatures
from mercer.maps.neurons.variance import NeuronVariances
from mercer.maps.series.monomials import Monomials
from mercer.maps.summands import weighted_sum
from mercer.parameters import Choice, Domain

__all__ = ["RandomNeurons"]

Array = np.ndarray
LAYOUTS = ("residual", "parity", "relu", "single")
# layout="auto" takes "residual" or "parity" only if at most this fraction of the components is exact.
MOST_EXACT = 2 / 3


@doc
class RandomNeurons(DrawnMap):
    r"""Random neurons for arc-cosine kernels, with exact components for the polynomial part of the kernel.

    The arc-cosine kernel of order b is
    :math:`k_b(x, y) = 2\,\mathbb{E}[\phi_b(w^\top x)\,\phi_b(w^\top y)]` with standard normal weights w and the
    activation :math:`\phi_b(u) = \max(u, 0)^b` [1]_. Since :math:`\phi_b(u)\phi_b(v) + \phi_b(-u)\phi_b(-v)` is half of
    :math:`|uv|^b(1 + \mathrm{sgn}\,uv)`,

    .. math:: k_0 = \tfrac12 + \tfrac12 \mathbb{E}\,\mathrm{sgn}\,u\,\mathrm{sgn}\,v, \quad
        k_1 = \tfrac12 x^\top y + \tfrac12 \mathbb{E}\,|u||v|, \quad
        k_2 = \tfrac12|x|^2|y|^2 + (x^\top y)^2 + \tfrac12 \mathbb{E}\,u|u|\,v|v|

    with :math:`u = w^\top x` and :math:`v = w^\top y`. The terms before the expectation are polynomials and have exact
    features. Only the expectation is estimated by random directions w.

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel to approximate: `ArcCosine`, optionally multiplied by a number or with a constant added; None means
        ``ArcCosine(1)``.
    %(n_components)s
    layout : {"auto", "residual", "parity", "relu", "single"}, default="auto"
        Which part of the kernel is exact; see Notes. "auto" takes the first of "residual" and "parity" in which at most
        two thirds of the components are exact. If there is none, it takes "single" if `n_components` is 1 and the
        kernel has a constant, and "relu" otherwise.
    directions : {"auto", "big_block", "orthogonal", "simplex", "iid", "sobol", "butterfly", "hadamard"}, default="auto"
        Distribution of the directions w, as for `RandomFourier`. "auto" takes "butterfly" for rows with 32 to
        32768 features. For other rows with d features it takes "simplex" [2]_ if the number of directions is a
        multiple of d + 1. Otherwise it takes "orthogonal" if the number is a multiple of d, for the residual layout and
        for order 2, and "big_block" in all remaining cases.
    %(random_state)s
    %(n_jobs)s

    Attributes
    ----------
    layout_, directions_ : str
        The layout and the kind of directions that were chosen.
    %(kernel_)s
    features_ : NeuronFeatures
        The sampled features: a pure function of rows.
    %(signs_none)s
    %(n_features_in_)s

    See Also
    --------
    ArcCosine : The kernel.
    RandomFourier : Approximates shift-invariant kernels.
    CompositionMap, ProductMap, SumMap : Approximate kernels composed of arc-cosine kernels, such as
        `neural_tangent_kernel`.

    Notes
    -----
    Layouts, for rows with d features:

    - "parity": the polynomial above is exact, which takes 1, d or d(d + 1)/2 components for order 0, 1 or 2. The other
      components are sgn u, \|u\| or u\|u\|. The diagonal :math:`k(x, x)` is exact for order 0, and for
      order 1 if the directions form complete blocks, of d orthogonal or d + 1 simplex directions.
    - "residual": all spherical harmonics of degree at most two are exact, which takes 1 + d, d(d + 3)/2 or d(d + 3)/2
      components for order 0, 1 or 2. The other components are sgn u, \|u\| or u\|u\| minus their least-squares fits by
      polynomials of degree at most two. This layout has by far the least variance, but needs many components, and
      its diagonal is not exact.
    - "relu": pairs :math:`\phi_b(u)` and :math:`\phi_b(-u)` for each direction; nothing is exact.
    - "single": one neuron for each direction; nothing is exact.

    A constant added to the kernel takes one more exact component, except for order 0 in the layouts "parity" and
    "residual", which have a constant component anyway, and in the layout "single", where it is added to all components.

    All directions have the norm r with :math:`r^{2b} = \mathbb{E}\chi_P^{2b}`, where P is the dimension of the space
    whose sphere they are drawn from. Because neurons are homogeneous, any distribution of norms with this moment is
    unbiased, and a fixed norm has the least variance. `variance` has a closed form for independent directions in all
    layouts except "residual".

    References
    ----------
    .. [1] Cho, Saul (2009), Kernel Methods for Deep Learning, NeurIPS.
    .. [2] Munkhoeva, Kapushev, Burnaev, Oseledets (2018), Quadrature-based Features for Kernel Approximation, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import ArcCosine, RandomNeurons
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> feature_map = RandomNeurons(ArcCosine(1), n_components=200, random_state=0).fit(X)
    >>> feature_map.layout_, feature_map.transform(X).shape
    ('residual', (100, 200))
    >>> bool(abs(feature_map.gram(X) - ArcCosine(1)(X)).mean() < 0.02)
    True
    """

    needs: ClassVar[str] = "an arc-cosine kernel, times a number or plus a constant"
    default_kernel: ClassVar[Kernel] = ArcCosine(1)
    features_check_entries: ClassVar[bool] = True  # they must check the range of the entries anyway
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "layout": Choice("auto", *LAYOUTS),
        "directions": Choice("auto", *DIRECTIONS),
    }
    features_: NeuronFeatures
    layout_: str
    directions_: str

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        layout: Literal["auto", "residual", "parity", "relu", "single"] = "auto",
        directions: Literal[
            "auto",
            "big_block",
            "orthogonal",
            "simplex",
            "iid",
            "sobol",
            "butterfly",
            "hadamard",
        ] = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.layout = layout
        self.directions = directions
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        return neuron_part(kernel) is not None

    @property
    def unbiased(self) -> bool | str:
        return BIASED.get(getattr(self, "directions_", self.directions), True)

    def _independent(self, kernel: Kernel) -> dict[str, Any] | None:  # noqa: ARG002 - the same for every kernel
        return {"layout": "single", "directions": "iid"}

    def _exact_at(self, kernel: Kernel, n_features: int) -> int | None:
        # In one dimension there are only two directions, w > 0 and w < 0, so that one pair of neurons is exact.
        found = neuron_part(kernel)
        if n_features != 1 or found is None or self.layout not in ("auto", "parity", "relu"):
            return None
        _, order, constant = found
        return 2 + (constant > 0 and (order > 0 or self.layout == "relu"))

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> NeuronFeatures:  # noqa: ARG002
        found = neuron_part(kernel)
        assert found is not None
        mass, order, constant = found
        d = X.shape[1]
        self.layout_ = self._choose_layout(order, constant, d)
        count = self.n_components - exact_width(self.layout_, order, constant, d)
        m = -(-count // 2) if self.layout_ == "relu" else count
        self.directions_ = self._choose_directions(order, m, X)
        projection, ambient = self._draw_projection(order, m, d, rng)
        expansion = Expansion.of(self.layout_, order, ambient)
        # The kernel is 2 E[phi(u) phi(v)], with the activation phi. In the layouts "parity" and "residual" it is a
        # polynomial plus E[p(u) p(v)] / 2, with p(u) = sgn u, |u| or u|u|, or their remainders.
        divisor = 0.5 * count if self.layout_ in ("relu", "single") else 2 * count
        signs, head = None, None
        if self.layout_ == "single" and constant > 0:
            # The constant is added to every component. Random signs of the neurons make the cross terms have mean zero.
            signs, head = rng.choice(np.array([-1.0, 1.0]), count), float(np.sqrt(constant / count))
        elif self.layout_ != "single" and (constant > 0 or expansion.constant > 0):
            head = float(np.sqrt(mass * expansion.constant + constant))
        exact = expansion.scaled(mass)
        return NeuronFeatures(
            projection=projection,
            order=order,
            layout=self.layout_,
            n_components=self.n_components,
            exact=exact,
            constant=head,
            scale=float(np.sqrt(mass / divisor)),
            signs_of_neurons=signs,
            width=d,
            squares=None if exact.quadratic is None else Monomials.of(d, {2: exact.quadratic}),
        )

    def _choose_layout(self, order: int, constant: float, d: int) -> str:
        widths = {name: exact_width(name, order, constant, d) for name in LAYOUTS}
        if self.layout == "auto":
            fits = (name for name in LAYOUTS[:2] if widths[name] <= MOST_EXACT * self.n_components)
            return next(fits, "relu" if widths["relu"] < self.n_components else "single")
        if self.n_components <= widths[self.layout]:
            msg = (
                f"RandomNeurons: layout={self.layout!r} has {widths[self.layout]} exact components for rows with {d} "
                f"features and needs more n_components than that, got {self.n_components}. Try layout='auto'."
            )
            raise ParameterError(msg)
        return self.layout

    def _choose_directions(self, order: int, m: int, X: Any) -> str:
        if self.directions != "auto":
            return self.directions
        d = X.shape[1]
        if STRUCTURED_FROM <= d <= STRUCTURED_UP_TO:
            return "butterfly"
        # In complete blocks the mean of w w' over the directions w is exact, a multiple of the identity. One big block
        # achieves this for any number of directions, but its directions have different norms after truncation to d
        # coordinates. These norms do the most harm where second moments of w do not contribute to the error (the
        # residual layout) or where fourth moments matter (order 2).
        if m % (d + 1) == 0:
            return "simplex"
        return "orthogonal" if m % d == 0 or self.layout_ == "residual" or order == 2 else "big_block"

    def _draw_projection(self, order: int, m: int, d: int, rng: np.random.Generator) -> tuple[Projection, int]:
        """Sample m random directions, uniform on the sphere of radius ``radius(order, P)`` in R^P.

        Returns
        -------
        projection : Projection
            Projection of rows with d features on the directions.
        ambient : int
            The dimension P. It exceeds d if rows are padded with zeros, or directions are truncated to d coordinates.
        """
        if self.directions_ == "butterfly":
            mixing, rotations = butterfly_rotations(m, d, rng)
            ambient = mixing.shape[1]
            return ButterflyProjection(mixing, rotations, np.full(m, radius(order, ambient))), ambient
        if self.directions_ == "hadamard":
            signs = hadamard_signs(m, d, rng)
            ambient = signs.shape[2]
            return HadamardProjection(signs, np.full(m, radius(order, ambient))), ambient
        if self.directions_ == "sobol":
            normals = sobol_normals(m, d, rng)[0]
            drawn = Directions(normals / np.linalg.norm(normals, axis=1, keepdims=True), d, (1,) * m)
        else:
            drawn = DENSE_DIRECTIONS[self.directions_](m, d, rng)
        weights = radius(order, drawn.ambient) * drawn.vectors.T
        return DenseProjection(np.ascontiguousarray(weights)), drawn.ambient

    def _variance(self, X: Any, Y: Any) -> Array:
        if self.directions_ != "iid" or self.layout_ == "residual":
            msg = (
                f"No closed form is known for the variance of layout={self.layout_!r} with "
                f"directions={self.directions_!r}.\n"
                "  needs: directions='iid' with layout='parity', 'relu' or 'single'\n"
                "  try:   mercer.audit(feature_map, X), which measures the error"
            )
            raise NoClosedFormError(msg)
        found = neuron_part(self.kernel_)
        assert found is not None
        mass, order, constant = found
        X = in_float64(X)
        Y = X if Y is None else in_float64(Y)
        variances = NeuronVariances.of(order, X, Y, self.n_features_in_)
        count = self.n_components - exact_width(self.layout_, order, constant, self.n_features_in_)
        if self.layout_ == "parity":
            total = variances.parity / (4 * count)
        elif self.layout_ == "relu":
            pairs, odd = divmod(count, 2)
            total = 4 * (pairs * variances.pair + odd * variances.single) / count**2
        else:
            total = 4 * variances.single / count
        total = mass**2 * total
        if self.layout_ == "single" and constant > 0:
            total = total + 2 * mass * constant * variances.sum_of_two / count
        return np.maximum(total, 0.0)


def neuron_part(kernel: Kernel) -> tuple[float, int, float] | None:
    """Return (weight, order, constant) for a kernel of the form weight * ArcCosine(order) + constant.

    A sum of arc-cosine kernels of equal order is treated as one kernel whose weight is the sum. None is returned if the
    kernel does not have this form.
    """
    found = weighted_sum(kernel, ArcCosine)
    if found is None:
        return None
    constant, leaves = found
    orders = {int(leaf.order) for _, leaf in leaves}
    return (sum(weight for weight, _ in leaves), orders.pop(), constant) if len(orders) == 1 else None


def exact_width(layout: str, order: int, constant: float, d: int) -> int:
    """Return the number of exact components of a layout for ArcCosine(order) + constant and rows with `d` features."""
    if layout == "single":
        return 0
    head = int(constant > 0)
    if layout == "relu":
        return head
    if order == 0:
        return 1 + (d if layout == "residual" else 0)
    quadratics = d * (d + 1) // 2
    if layout == "residual":
        return head + d + quadratics
    return head + (d if order == 1 else quadratics)
