"""Quadrature features: the spherical-radial rule of degree (3, 3), whose blocks are exact for quadratic functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer import linalg
from mercer.kernels import Kernel
from mercer.kernels.isotropic import LARGEST_SCALE, IsotropicKernel
from mercer.kernels.spectral import SpectralFactor
from mercer.maps.drawn import DrawnMap
from mercer.maps.fourier.directions import (
    BIASED,
    DENSE_DIRECTIONS,
    DIRECTIONS,
    STRUCTURED_FROM,
    Directions,
    butterfly_rotations,
    hadamard_signs,
)
from mercer.maps.fourier.projections import (
    ButterflyProjection,
    DenseProjection,
    HadamardProjection,
    Projection,
    check_range,
)
from mercer.maps.fourier.radii import RADII, chi_quantile
from mercer.maps.parameters import check_choice

__all__ = ["QuadratureFeatures", "SphericalRadial"]

Array = np.ndarray
CONSTANTS = ("auto", "signed", "drop", "resample")
RULES = tuple(name for name in DIRECTIONS if name != "sobol")
# Weights 1 / rho^2 with rho ~ chi(P + 2) have a finite variance from P = 3 on. Rows of fewer columns are padded to one
# more, which has much less of it.
LEAST_AMBIENT = 4
# The source draws radii again until its constant is a real number: two draws on average.
MOST_DRAWS = 1000


class SphericalRadial(DrawnMap):
    r"""Quadrature features by the spherical-radial rule of degree (3, 3).

    Points :math:`w_j = \rho_j u_j` have directions as `RandomFourier` and radii that are longer,
    :math:`\rho_j \sim \chi(P + 2)` in place of :math:`\chi(P)`, with weights to make up for it [1]_:

    .. math:: k(x, y) \approx \Bigl(1 - \sum_j a_j^2\Bigr) + \sum_j a_j^2 \cos w_j^\top (x - y),
              \qquad a_j^2 = \frac{P}{m \rho_j^2}

    Unbiased where the directions are uniform. A block of orthogonal directions integrates quadratic functions without
    any error, because :math:`\sum_j a_j^2 w_j w_j^\top = I`: so the error at small distances is of higher order than
    that of random Fourier features.

    Parameters
    ----------
    kernel : Kernel, default=None
        An isotropic kernel, also scaled, of transformed inputs, or plus a constant; None means
        ``Gaussian(lengthscale="median")``. `Matern` needs nu > 1, and like `RationalQuadratic` is better served by
        `RandomFourier` at larger distances. `RationalQuadratic` with alpha <= 1 has weights of infinite variance: give
        it ``constant="signed"``, which makes up for them.
    n_components : int, default=512
        Width of the output, from 1 up.
    directions : {"auto", "big_block", "orthogonal", "simplex", "butterfly", "iid", "hadamard", "source_butterfly"}, \
default="auto"
        Blocks of points, as for `RandomFourier`. "simplex" is the source's rule, d + 1 points a block, and
        "source_butterfly" the same turned by its butterfly matrices, which bias the estimate. "auto" takes "butterfly"
        for dense rows of 32 columns or more, else "big_block".
    radii : {"stratified", "plain"}, default="stratified"
        One radius in each of equally likely cells, or independent radii. Stratified ones leave so little of the
        constant that it can be dropped.
    constant : {"auto", "signed", "drop", "resample"}, default="auto"
        What becomes of :math:`1 - \sum_j a_j^2`, which has mean zero and any sign. "drop" leaves it out: still
        unbiased, but the diagonal is not exact. "signed" keeps a column with a sign, in `signs_`; learners take no such
        features. "resample" draws all radii again until it is not negative, as the source prints for a single rule:
        biased. "auto" is "drop".
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    constant_ : float
        :math:`1 - \sum_j a_j^2` of the draw, kept or not, in units of the kernel's mass.
    directions_ : str
        The directions drawn.
    kernel_ : Kernel
        The kernel with every parameter a number.
    features_ : QuadratureFeatures
        The drawn map: a pure function of rows.
    signs_ : None or ndarray of +-1
        A sign a column, with ``constant="signed"`` where the constant is negative.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    With whole blocks and the constant kept, every draw lies between :math:`1 - |\delta|^2 / 2` and 1 for the Gaussian
    kernel of unit lengthscale, so that n independent blocks obey Hoeffding's bound; see `mercer.theory`.

    References
    ----------
    .. [1] Munkhoeva, Kapushev, Burnaev, Oseledets (2018), Quadrature-based Features for Kernel Approximation, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, SphericalRadial
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> feature_map = SphericalRadial(Gaussian(3.0), n_components=512, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - Gaussian(3.0)(X)).mean() < 0.02)
    True
    """

    needs: ClassVar[str] = "one isotropic kernel with a second derivative at zero, times a number or plus a constant"
    preference: ClassVar[int] = 15
    features_: QuadratureFeatures
    directions_: str
    constant_: float

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        directions: Literal[
            "auto", "big_block", "orthogonal", "simplex", "butterfly", "iid", "hadamard", "source_butterfly"
        ] = "auto",
        radii: Literal["stratified", "plain"] = "stratified",
        constant: Literal["auto", "signed", "drop", "resample"] = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.directions = directions
        self.radii = radii
        self.constant = constant
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        found = isotropic_part(kernel)
        if found is None:
            return False
        isotropic = found[1].kernel
        return isinstance(isotropic, IsotropicKernel) and isotropic.mean_mixing < np.inf

    @property
    def unbiased(self) -> bool | str:
        if self.constant == "resample":
            return "radii drawn again until the constant is not negative no longer have their law"
        return BIASED.get(getattr(self, "directions_", self.directions), True)

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> QuadratureFeatures:  # noqa: ARG002
        check_choice(self, "directions", ("auto", *RULES))
        check_choice(self, "radii", RADII)
        check_choice(self, "constant", CONSTANTS)
        found = isotropic_part(kernel)
        assert found is not None
        mass, factor, offset = found
        self.directions_ = self._choose_directions(X)
        own = offset > 0 and self.n_components > 1
        kept = self.constant in ("signed", "resample") and self.n_components > 1 + own
        width = self.n_components - own - kept
        m = -(-width // 2)
        shares = np.where(np.arange(m) < width // 2, 2.0, 1.0) / width
        phases = np.where(np.arange(m) < width // 2, 0.0, rng.uniform(0, 2 * np.pi, m))
        projection, squares = self._draw_points(factor, m, X.shape[1], shares, rng)
        self.constant_ = 1.0 - float(squares.sum())
        amplitudes = np.sqrt(mass * squares)
        amplitudes[width // 2 :] *= np.sqrt(2)  # a cosine of random phase, without its sine
        heads = [np.sqrt(offset)] * own + [np.sqrt(mass * abs(self.constant_))] * kept
        signs = None
        if kept and self.constant_ < 0:
            signs = np.ones(self.n_components)
            signs[int(own)] = -1.0
        if offset > 0 and not own:
            # A single column has no room for an exact constant: it is drawn with probability its share.
            return self._single_column(projection, phases, amplitudes, mass, offset, rng)
        return QuadratureFeatures(projection, phases, amplitudes, np.array(heads), self.n_components, signs)

    def _single_column(
        self,
        projection: Projection,
        phases: Array,
        amplitudes: Array,
        mass: float,
        offset: float,
        rng: np.random.Generator,
    ) -> QuadratureFeatures:
        share = mass / (mass + offset)
        if rng.random() < share:
            return QuadratureFeatures(projection, phases, amplitudes / np.sqrt(share), np.zeros(0), 1, None)
        return QuadratureFeatures(projection, phases[:0], amplitudes[:0], np.array([np.sqrt(mass + offset)]), 1, None)

    def _choose_directions(self, X: Any) -> str:
        if self.directions != "auto":
            return self.directions
        return "butterfly" if X.shape[1] >= STRUCTURED_FROM and not sp.issparse(X) else "big_block"

    def _draw_points(
        self, factor: SpectralFactor, m: int, n_features: int, shares: Array, rng: np.random.Generator
    ) -> tuple[Projection, Array]:
        """Draw frequencies, and the squared weight of each."""
        d = factor.width(n_features)
        # Structured projections take all columns, and those that the kernel does not look at times zero.
        scale = factor.pull_back(np.ones((1, d)), n_features)[0] if factor.inputs else None
        if self.directions_ == "butterfly":
            mixing, rotations = butterfly_rotations(m, max(n_features, LEAST_AMBIENT), rng)
            radii, squares = self._draw_radii(factor, shares, mixing.shape[1], rng)
            return ButterflyProjection(mixing, rotations, radii, scale), squares
        if self.directions_ == "hadamard":
            signs = hadamard_signs(m, max(n_features, LEAST_AMBIENT), rng)
            radii, squares = self._draw_radii(factor, shares, signs.shape[2], rng)
            return HadamardProjection(signs, radii, scale), squares
        directions = padded(self.directions_, m, d, rng)
        radii, squares = self._draw_radii(factor, shares, directions.ambient, rng)
        frequencies = factor.pull_back(directions.vectors * radii[:, None], n_features)
        return DenseProjection(np.ascontiguousarray(frequencies.T)), squares

    def _draw_radii(
        self, factor: SpectralFactor, shares: Array, ambient: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw the length of each frequency from its size-biased law, and return the squared weights, too.

        A frequency sqrt(tau) rho / lengthscale with tau from the law of the mixture in proportion to tau, and rho from
        chi(P + 2), has the spectral law once it is weighted by E[tau] P / (tau rho^2) (MATHS S1.1 and C.2).
        """
        kernel = factor.kernel
        assert isinstance(kernel, IsotropicKernel)
        uniforms = RADII[self.radii]
        for _ in range(MOST_DRAWS):
            lengths = chi_quantile(uniforms(len(shares), rng), ambient + 2)
            tau = np.minimum(kernel.size_biased_mixing(uniforms(len(shares), rng)), LARGEST_SCALE**2)
            squares = shares * kernel.mean_mixing * ambient / (tau * np.square(lengths))
            if self.constant != "resample" or squares.sum() <= 1:
                break
        return np.sqrt(tau) * lengths / kernel.lengthscale, squares


@dataclass(frozen=True, eq=False)
class QuadratureFeatures:
    """Drawn cosines and sines, each with a weight of its own: immutable, free of scikit-learn."""

    projection: Projection
    phases: Array  # (m,), zero where sine and cosine are both there
    amplitudes: Array  # (m,)
    heads: Array  # constant columns at the front
    n_components: int
    signs: Array | None

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        cast = {name: getattr(self, name).astype(dtype, copy=False) for name in ("phases", "amplitudes", "heads")}
        return replace(self, projection=self.projection.astype(dtype), **cast)

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`; both have the dtype of this draw."""
        check_range(self.projection, X)
        out[:, : len(self.heads)] = self.heads
        columns = out[:, len(self.heads) :]
        if not len(self.amplitudes):
            return
        if columns.shape[1] % 2 == 0:
            self.projection.pairs(X, 1.0, columns)
        else:
            angles = self.projection(X)
            angles[:, -1] += self.phases[-1]
            linalg.sincos_pairs(angles, 1.0, columns)
        m = len(self.amplitudes)
        columns[:, :m] *= self.amplitudes
        columns[:, m:] *= self.amplitudes[: columns.shape[1] - m]


def padded(name: str, m: int, d: int, rng: np.random.Generator) -> Directions:
    """Draw dense directions in at least as many dimensions as give the weights a finite variance."""
    ambient = d if d >= LEAST_AMBIENT - 1 else LEAST_AMBIENT
    drawn = DENSE_DIRECTIONS[name](m, ambient, rng)
    return replace(drawn, vectors=drawn.vectors[:, :d])


def isotropic_part(kernel: Kernel) -> tuple[float, SpectralFactor, float] | None:
    """Return mass and factor of the one isotropic kernel in a sum with constants, and their value; else None."""
    parts = kernel.spectral_parts()
    if parts is None:
        return None
    random = [part for part in parts if part.factors]
    if len(random) != 1 or len(random[0].factors) != 1 or not isinstance(random[0].factors[0].kernel, IsotropicKernel):
        return None
    return random[0].mass, random[0].factors[0], sum(part.mass for part in parts if not part.factors)
