"""Random neurons: arc-cosine kernels by steps, rectified lines and parabolas, with their simple parts exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from scipy import special

from mercer import linalg
from mercer.errors import NoClosedFormError, ParameterError
from mercer.kernels import ArcCosine, Kernel
from mercer.kernels.arc_cosine import arc_cosine_values, unit_rows
from mercer.kernels.base import inner_products, squared_norms
from mercer.maps.base import BaseMap, for_kernel
from mercer.maps.checks import check_choice
from mercer.maps.coordinates import weighted_sum
from mercer.maps.directions import (
    BIASED,
    DENSE_DIRECTIONS,
    DIRECTIONS,
    STRUCTURED_FROM,
    Directions,
    butterfly_rotations,
    hadamard_signs,
    sobol_normals,
)
from mercer.maps.fourier import in_float64
from mercer.maps.monomials import Monomials
from mercer.maps.prepared import PreparedRows
from mercer.maps.projections import (
    ButterflyProjection,
    DenseProjection,
    HadamardProjection,
    Projection,
    apply_in_place,
    check_range,
)

__all__ = ["NeuronFeatures", "RandomNeurons"]

Array = np.ndarray
LAYOUTS = ("residual", "parity", "relu", "single")
# The odd or even part of a neuron that is drawn, by order: sgn u, |u| and u|u|.
PARITY: tuple[linalg.FunctionName, ...] = ("sign", "abs", "signed_square")
NEURON: tuple[linalg.FunctionName, ...] = ("sign", "relu", "relu_squared")
# Exact columns are worth it up to this part of all.
MOST_EXACT = 2 / 3


class RandomNeurons(BaseMap):
    r"""Random features of arc-cosine kernels: neurons with random weights, as much of them exact as has room.

    With :math:`\phi_b(u) = \max(u, 0)^b`, the sum of :math:`\phi_b(u)\phi_b(v)` and :math:`\phi_b(-u)\phi_b(-v)` is
    half of :math:`|uv|^b(1 + \mathrm{sgn}\,uv)`, so that

    .. math:: k_0 = \tfrac12 + \tfrac12 \mathbb{E}\,\mathrm{sgn}\,u\,\mathrm{sgn}\,v, \quad
        k_1 = \tfrac12 x^\top y + \tfrac12 \mathbb{E}\,|u||v|, \quad
        k_2 = \tfrac12|x|^2|y|^2 + (x^\top y)^2 + \tfrac12 \mathbb{E}\,u|u|\,v|v|

    with :math:`u = w^\top x` and :math:`v = w^\top y`: a polynomial, which has exact features, and a mean over
    directions.

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel to approximate: `ArcCosine`, also times a number or plus a constant; None means ``ArcCosine(1)``.
    n_components : int, default=512
        Width of the output, from 1 up.
    layout : {"auto", "residual", "parity", "relu", "single"}, default="auto"
        What is exact, see Notes. "auto" takes the first of these whose exact columns are at most two thirds of all;
        `layout_` tells.
    directions : {"auto", "big_block", "orthogonal", "simplex", "iid", "sobol", "butterfly", "hadamard", \
"source_butterfly"}, default="auto"
        How directions are drawn, as for `RandomFourier`. "auto" takes "butterfly" for dense rows of 32 columns or more,
        else whole blocks of "simplex" or "orthogonal" directions where their number allows it; where not, "orthogonal"
        for the residual layout and for order 2, and "big_block" for the rest. `directions_` tells.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    layout_, directions_ : str
        The layout and the directions drawn.
    kernel_ : Kernel
        The kernel approximated.
    features_ : NeuronFeatures
        The drawn map: a pure function of rows.
    signs_ : None
        The approximate kernel is positive semi-definite.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    Layouts, for rows of width d:

    - "parity": the polynomial above is exact, which takes 1, d or d(d + 1)/2 columns for order 0, 1 or 2; the other
      columns are sgn u, \|u\| or u\|u\|.
    - "residual": all spherical harmonics of degree two or less are exact, which takes 1 + d, d(d + 3)/2 and d(d + 3)/2
      columns; the others are what is left of sgn u, \|u\| or u\|u\|. The least variance by far, where it has room; but
      only "parity" with whole blocks of directions has the exact diagonal of orders 0 and 1.
    - "relu": pairs :math:`\phi_b(u)` and :math:`\phi_b(-u)` of one direction each; nothing is exact.
    - "single": one neuron a direction.

    A constant takes one exact column, which order 0 has anyway.

    All directions have one length r with :math:`r^{2b} = \mathbb{E}\chi_P^{2b}` in the dimension P of the sphere they
    are drawn from: neurons are homogeneous, so any law of lengths with this moment is unbiased, and this one has the
    least variance. `variance` has a closed form for independent directions but the residual layout.

    References
    ----------
    .. [1] Cho, Saul (2009), Kernel Methods for Deep Learning, NeurIPS.
    .. [2] Munkhoeva et al. (2018), Quadrature-based Features for Kernel Approximation, NeurIPS.

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
    preference: ClassVar[int] = 35
    default_kernel: ClassVar[Kernel] = ArcCosine(1)
    features_check_entries: ClassVar[bool] = True  # for the range of the features
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
            "source_butterfly",
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

    def with_independent_columns(self, kernel: Kernel, n_components: int) -> BaseMap | None:
        independent = {"layout": "single", "directions": "iid", "n_components": n_components}
        return for_kernel(self, kernel).set_params(**independent)

    def exact_columns(self, kernel: Kernel, n_features: int) -> int | None:
        # On a line all directions are the same but for signs: one pair of them says all.
        found = neuron_part(kernel)
        if n_features != 1 or found is None or self.layout not in ("auto", "parity", "relu"):
            return None
        _, order, constant = found
        return 2 + (constant > 0 and (order > 0 or self.layout == "relu"))

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> NeuronFeatures:  # noqa: ARG002
        check_choice(self, "layout", ("auto", *LAYOUTS))
        check_choice(self, "directions", ("auto", *DIRECTIONS))
        found = neuron_part(kernel)
        assert found is not None
        mass, order, constant = found
        d = X.shape[1]
        self.layout_ = self._choose_layout(order, constant, d)
        count = self.n_components - exact_width(self.layout_, order, constant, d)
        m = -(-count // 2) if self.layout_ == "relu" else count
        self.directions_ = self._choose_directions(order, m, X)
        projection, ambient = self._draw_projection(order, m, d, rng)
        whole = Expansion.of(self.layout_, order, ambient)
        columns = 0.5 * count if self.layout_ in ("relu", "single") else 2 * count
        signs, head = None, None
        if self.layout_ == "single" and constant > 0:
            # The constant stands in every column; random signs keep it from meeting the neurons on average.
            signs, head = rng.choice(np.array([-1.0, 1.0]), count), float(np.sqrt(constant / count))
        elif self.layout_ != "single" and (constant > 0 or whole.constant > 0):
            head = float(np.sqrt(mass * whole.constant + constant))
        exact = whole.scaled(mass)
        return NeuronFeatures(
            projection=projection,
            order=order,
            layout=self.layout_,
            n_components=self.n_components,
            exact=exact,
            head=head,
            scale=float(np.sqrt(mass / columns)),
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
                f"RandomNeurons: layout={self.layout!r} has {widths[self.layout]} exact columns for rows of width {d}, "
                f"and needs n_components above that, got {self.n_components}. Try layout='auto'."
            )
            raise ParameterError(msg)
        return self.layout

    def _choose_directions(self, order: int, m: int, X: Any) -> str:
        if self.directions != "auto":
            return self.directions
        d = X.shape[1]
        if d >= STRUCTURED_FROM and not sp.issparse(X):
            return "butterfly"
        # Whole blocks have exact second moments. One big block has them for any number of directions; but the lengths
        # of directions cut to d coordinates differ, and that counts most where second moments are exact anyway, or
        # where fourth ones matter.
        if m % (d + 1) == 0:
            return "simplex"
        return "orthogonal" if m % d == 0 or self.layout_ == "residual" or order == 2 else "big_block"

    def _draw_projection(self, order: int, m: int, d: int, rng: np.random.Generator) -> tuple[Projection, int]:
        """Draw m directions, all of one length, and return the dimension of their sphere, too."""
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
        moments = Moments.of(order, X, Y, self.n_features_in_)
        count = self.n_components - exact_width(self.layout_, order, constant, self.n_features_in_)
        if self.layout_ == "parity":
            total = moments.parity / (4 * count)
        elif self.layout_ == "relu":
            pairs, odd = divmod(count, 2)
            total = 4 * (pairs * moments.pair + odd * moments.single) / count**2
        else:
            total = 4 * moments.single / count
        total = mass**2 * total
        if self.layout_ == "single" and constant > 0:
            total = total + 2 * mass * constant * moments.sum_of_two / count
        return np.maximum(total, 0.0)


@dataclass(frozen=True)
class Expansion:
    """The part of a kernel that is exact, a0 + a1 x . y + a2 (x . y)^2 for rows of unit length, and what neurons lose.

    For other rows the features are multiplied by their length to the power b; the parity layout has that by itself.
    """

    constant: float = 0.0  # a constant kernel, for order 0
    linear: float | None = None  # a1; None leaves the columns out
    quadratic: float | None = None  # a2; None leaves the columns out, and a0 with them
    lengths: float = 0.0  # a0, which shares the columns of the quadratic part
    polynomial: tuple[float, float] = (0.0, 0.0)  # subtracted from the neurons: p0 + p1 u^2 if even, p1 u if odd

    @classmethod
    def of(cls, layout: str, order: int, ambient: int) -> Expansion:
        """Return the exact part of a layout.

        For a direction s, uniform on the sphere of R^P, and u = r s . x with |x| = 1, the means E[f(u) g(v)] of
        functions of different degrees in spherical harmonics are zero (Funk and Hecke). So the least-squares fit of
        |u| by p0 + p1 u^2, or of an odd function by p1 u, can be taken out of the neurons, and its mean, which is a
        polynomial in x . y, put in exactly. For P to infinity these are Hermite polynomials and normal weights.
        """
        if layout in ("relu", "single"):
            return cls()
        if order == 0:
            parity = cls(constant=0.5)
        elif order == 1:
            parity = cls(linear=0.5)
        else:
            parity = cls(quadratic=1.0, lengths=0.5)
        if layout == "parity":
            return parity
        r = radius(order, ambient)
        second = r**2 / ambient  # E u^2

        def moment(p: int) -> float:
            log = special.gammaln(0.5 * (p + 1)) + special.gammaln(0.5 * ambient) - special.gammaln(0.5 * (ambient + p))
            return float(r**p * np.exp(log) / np.sqrt(np.pi))

        if order == 1:
            # On a line u^2 is constant, and p0 says it all.
            slope = (moment(3) - moment(1)) / (moment(4) - 1) if ambient > 1 else 0.0
            p0 = moment(1) - slope
            mixed = ambient / (ambient + 2)  # E u^2 v^2 = mixed (1 + 2 t^2)
            a0 = p0**2 + 2 * p0 * slope + mixed * slope**2
            return replace(parity, lengths=0.5 * a0, quadratic=mixed * slope**2, polynomial=(p0, slope))
        slope = moment(order + 1) / second
        return replace(parity, linear=0.5 * slope**2 * second, polynomial=(0.0, slope))

    def scaled(self, mass: float) -> Expansion:
        """Return the exact part of the kernel times a number."""
        linear, quadratic = (None if a is None else mass * a for a in (self.linear, self.quadratic))
        return replace(
            self, constant=mass * self.constant, linear=linear, quadratic=quadratic,
            lengths=mass * self.lengths,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class NeuronFeatures:
    """Drawn neurons and exact columns: immutable, picklable, free of scikit-learn."""

    projection: Projection
    order: int
    layout: str
    n_components: int
    exact: Expansion
    head: float | None  # value of a constant column, or within each column for single neurons
    scale: float  # of the neurons
    signs_of_neurons: Array | None
    width: int  # of the rows
    squares: Monomials | None

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        signs = None if self.signs_of_neurons is None else self.signs_of_neurons.astype(dtype, copy=False)
        squares = None if self.squares is None else self.squares.astype(dtype)
        return replace(self, projection=self.projection.astype(dtype), signs_of_neurons=signs, squares=squares)

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`; both have the dtype of this draw."""
        check_range(self.projection, X, max(1, self.order))
        if self.layout == "single":
            self._write_single(X, out)
            return
        if self.head is not None:
            out[:, 0] = self.head
            out = out[:, 1:]
        if self.layout == "relu":
            self._write_pairs(X, out)
            return
        lengths = None
        if self.layout == "residual":
            X, lengths = unit_rows(X.toarray() if sp.issparse(X) else X)  # narrow, or it would have no room
        count = out.shape[1] - self.projection.n_frequencies
        self._write_exact(X, out[:, :count])
        if self.layout == "residual":
            self._write_residual(X, out[:, count:])
        else:
            self.projection.write(X, PARITY[self.order], self.scale, out[:, count:])
        if lengths is not None and self.order > 0:
            out *= np.power(lengths, self.order, dtype=out.dtype)[:, None]

    def _write_exact(self, X: Any, out: Array) -> None:
        if not out.shape[1]:
            return
        dense = X.toarray() if sp.issparse(X) else X
        if self.exact.linear is not None:
            linear, out = out[:, : self.width], out[:, self.width :]
            np.multiply(dense, out.dtype.type(np.sqrt(self.exact.linear)), out=linear)
        if self.exact.quadratic is None or self.squares is None:
            return
        # The sum over i of (g x_i^2 + h |x|^2)(g y_i^2 + h |y|^2) holds the a0 |x|^2 |y|^2, too, for the right h.
        a0, a2 = self.exact.lengths, self.exact.quadratic
        self.squares(PreparedRows(np.ascontiguousarray(dense), None, 0.0), out)
        shift = (np.sqrt(a2 + self.width * a0) - np.sqrt(a2)) / self.width
        first = np.cumsum([0, *range(self.width, 1, -1)])  # where x_i^2 stands
        out[:, first] += out.dtype.type(shift) * squared_norms(dense)[:, None]

    def _write_residual(self, X: Any, out: Array) -> None:
        """Write what is left of the neurons, in place."""
        p0, p1 = self.exact.polynomial
        if self.order == 1:
            self.projection.write(X, "abs", 1.0, out)
            if p1 == 0:
                out -= p0
                out *= self.scale
                return
            # |u| - p0 - p1 u^2 = -p1 ((|u| - c)^2 + p0 / p1 - c^2) with c = 1 / (2 p1).
            out -= 0.5 / p1
            np.square(out, out=out)
            out += p0 / p1 - 0.25 / p1**2
            out *= -p1 * self.scale
            return
        self.projection.write(X, "identity", 1.0, out)
        rest = np.abs(out)
        if self.order == 0:
            rest *= -p1
            rest += 1
            apply_in_place("sign", out)
        else:
            rest -= p1
        out *= rest
        out *= self.scale

    def _write_pairs(self, X: Any, out: Array) -> None:
        m = self.projection.n_frequencies
        left, right = out[:, :m], out[:, m:]
        if self.order == 0:
            # A step is half of one plus a sign; it is one half at zero.
            half = out.dtype.type(0.5 * self.scale)
            self.projection.write(X, "sign", 0.5 * self.scale, left)
            np.subtract(half, left[:, : right.shape[1]], out=right)
            left += half
            return
        self.projection.write(X, "identity", self.scale ** (1 / self.order), left)
        np.negative(left[:, : right.shape[1]], out=right)
        np.maximum(out, 0, out=out)
        if self.order == 2:
            np.square(out, out=out)

    def _write_single(self, X: Any, out: Array) -> None:
        self.projection.write(X, NEURON[self.order], self.scale if self.order else 0.5 * self.scale, out)
        if self.order == 0:
            out += 0.5 * self.scale
        if self.signs_of_neurons is not None and self.head is not None:
            out *= self.signs_of_neurons
            out += self.head


@dataclass(frozen=True)
class Moments:
    """Variances of one neuron's share of a kernel value, for a direction of length r that is uniform on the sphere."""

    parity: Array  # of p(u) p(v), the odd or even part
    pair: Array  # of phi(u) phi(v) + phi(-u) phi(-v)
    single: Array  # of phi(u) phi(v)
    sum_of_two: Array  # mean of (phi(u) + phi(v))^2

    @classmethod
    def of(cls, order: int, X: Any, Y: Any, d: int) -> Moments:
        """Return them for all pairs of rows."""
        kernel = ArcCosine(order)
        k, x, y = kernel(X, Y), kernel.diag(X)[:, None], kernel.diag(Y)[None, :]
        _, lengths = unit_rows(X)
        _, others = unit_rows(Y)
        zero = (lengths[:, None] == 0) | (others[None, :] == 0)
        # Normal weights have E[(uv)^2b; uv > 0] = k_2b; a fixed length has (E chi^2b)^2 / E chi^4b of that.
        chi = [1.0]
        for i in range(2 * order):
            chi.append(chi[-1] * (d + 2 * i))
        factor = chi[order] ** 2 / chi[2 * order]
        same = factor * arc_cosine_values(2 * order, X, Y)
        if order == 0:
            same = np.where(zero, 0.25, same)  # a row of zeros: both steps are one half
        every = np.where(zero, 0.0, factor * even_moment(order, X, Y))
        mean = 2 * k - 2 * polynomial_part(order, X, Y)
        single = 0.5 * same
        if order == 0:
            # A step of zero is one half, and its square one quarter, whatever the other step is.
            halves = np.where(lengths == 0, 0.25, 0.5)[:, None] * np.where(others == 0, 0.25, 0.5)[None, :]
            single = np.where(zero, halves, single)
            x, y = np.where(lengths == 0, 0.5, 1.0)[:, None], np.where(others == 0, 0.5, 1.0)[None, :]
        return cls(every - np.square(mean), same - np.square(k), single - np.square(0.5 * k), 0.5 * x + 0.5 * y + k)


def polynomial_part(order: int, X: Any, Y: Any) -> Array:
    """Return the polynomial in the inner product that the parity layout has exactly."""
    t, lengths = inner_products(X, Y), np.outer(squared_norms(X), squared_norms(Y))
    return (0.5 + 0 * t, 0.5 * t, 0.5 * lengths + np.square(t))[order]


def even_moment(order: int, X: Any, Y: Any) -> Array:
    """Return E (uv)^2b for normal weights."""
    t2, lengths = np.square(inner_products(X, Y)), np.outer(squared_norms(X), squared_norms(Y))
    return (1 + 0 * t2, lengths + 2 * t2, 9 * lengths**2 + 72 * lengths * t2 + 24 * t2**2)[order]


def neuron_part(kernel: Kernel) -> tuple[float, int, float] | None:
    """Return weight and order of the arc-cosine kernel in a sum with constants, and their value; else None."""
    found = weighted_sum(kernel, ArcCosine)
    if found is None:
        return None
    constant, leaves = found
    orders = {int(leaf.order) for _, leaf in leaves}
    return (sum(weight for weight, _ in leaves), orders.pop(), constant) if len(orders) == 1 else None


def exact_width(layout: str, order: int, constant: float, d: int) -> int:
    """Return how many exact columns a layout has."""
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


def radius(order: int, ambient: int) -> float:
    """Return the length r of directions of R^P with r^2b = E chi_P^2b; for order 0, where it is free, E u^2 = 1."""
    return float((ambient * (ambient + 2.0)) ** 0.25 if order == 2 else ambient**0.5)
