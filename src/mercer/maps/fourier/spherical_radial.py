"""Quadrature features of isotropic kernels: the spherical-radial rule of degree (3, 3).

This quadrature rule approximates the Fourier integral of the kernel by a weighted sum over random frequencies. If the
directions of the frequencies are orthogonal, it integrates quadratic functions of the frequency exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer import linalg
from mercer._docs import doc
from mercer.errors import UnsupportedKernelError
from mercer.features import Features
from mercer.kernels import Kernel
from mercer.kernels.isotropic import LARGEST_SCALE, IsotropicKernel
from mercer.kernels.spectral import SpectralFactor
from mercer.maps.base import DrawnMap
from mercer.maps.fourier.directions import DENSE_DIRECTIONS, DIRECTIONS, Directions
from mercer.maps.fourier.projections import (
    BIASED,
    RADII,
    STRUCTURED_DIRECTIONS,
    STRUCTURED_FROM,
    STRUCTURED_UP_TO,
    DenseProjection,
    Projection,
    check_range,
    chi_quantile,
    draw_structured,
)
from mercer.parameters import Choice, Domain

__all__ = ["QuadratureFeatures", "SphericalRadial"]

Array = np.ndarray
RULES = tuple(name for name in DIRECTIONS if name != "sobol")
# The weights 1 / rho^2 with rho ~ chi(P + 2) have a finite variance for P >= 3. Rows of one or two features are padded
# to P = 4, where the variance is much lower than for P = 3.
LEAST_AMBIENT = 4
# Without the constant of the rule, the variance is in proportion to E[tau] E[1 / tau]. Above this number, the constant
# is retained. For a rational quadratic kernel the number is reached at alpha = 10 / 9.
LARGEST_SPREAD = 10.0
# Largest number of trials for constant="resample" (Munkhoeva et al. 2018), which needs two on average.
MOST_DRAWS = 1000


@doc
class SphericalRadial(DrawnMap):
    r"""Quadrature features by the spherical-radial rule of degree (3, 3).

    Points :math:`w_j = \rho_j u_j` have the directions of `RandomFourier` and longer radii,
    :math:`\rho_j \sim \chi(P + 2)` instead of :math:`\chi(P)`, for which weights compensate [1]_:

    .. math:: k(x, y) \approx \Bigl(1 - \sum_j a_j^2\Bigr) + \sum_j a_j^2 \cos w_j^\top (x - y),
              \qquad a_j^2 = \frac{P}{m \rho_j^2}

    Here m is the number of points, the directions :math:`u_j` are unit vectors of :math:`\mathbb{R}^P` with
    :math:`P \ge d`, and k is the Gaussian kernel of unit lengthscale; other isotropic kernels are mixtures of Gaussian
    kernels. The approximation is unbiased if the directions are uniform. A block of orthogonal directions integrates
    quadratic functions without error, because :math:`\sum_j a_j^2 w_j w_j^\top = I`, so that the error at small
    distances is of higher order than that of random Fourier features.

    Parameters
    ----------
    kernel : Kernel, default=None
        An isotropic kernel, which may be multiplied by a number, have transformed inputs, and have a constant added;
        None means ``Gaussian(lengthscale="median")``. `Matern` needs nu > 1. For `Matern` and `RationalQuadratic`,
        `RandomFourier` has less error at larger distances. `RationalQuadratic` with alpha <= 1, and every kernel that
        decays like :math:`1 / r^2` or slower, has weights of infinite variance; see `constant`.
    %(n_components)s
    directions : {"auto", "big_block", "orthogonal", "simplex", "butterfly", "iid", "hadamard"}, default="auto"
        Distribution of the directions, as for `RandomFourier`; "simplex", with blocks of d + 1 points, is the rule of
        [1]_. "auto" uses "butterfly" for rows of 32 to 32768 features, and "big_block" otherwise.
    radii : {"stratified", "plain"}, default="stratified"
        "stratified": one radius in each of equally probable intervals. "plain": independent radii. With stratified
        radii the constant (see `constant`) is so small that it can be dropped.
    constant : {"auto", "signed", "drop", "resample"}, default="auto"
        How to treat :math:`1 - \sum_j a_j^2`, which has mean zero and either sign. "drop" leaves it out: still
        unbiased, but the diagonal is not exact. "signed" keeps it as a component with a sign, in `signs_`; learners do
        not accept features with signs. "resample" samples all radii again until it is not negative, as [1]_ does for a
        single block: biased. The constant also compensates for weights of large variance. With "signed" the variance
        of the approximate kernel is finite for every kernel. With "drop" it is in proportion to the mean of 1 / tau
        over the mixing distribution of the kernel, which is infinite for `RationalQuadratic` with alpha <= 1. "auto"
        means "drop" if the variance is less than ten times that for the Gaussian kernel, and "signed" otherwise.
    %(random_state, n_jobs)s

    Attributes
    ----------
    constant_ : float
        :math:`1 - \sum_j a_j^2` of the sampled radii, whether or not it is retained. It is relative to the value
        k(0) of the isotropic kernel.
    directions_ : str
        The directions that were used.
    %(kernel_)s
    features_ : QuadratureFeatures
        The sampled features: a function from rows to features.
    signs_ : None or ndarray of +1 and -1
        The sign of each component if ``constant="signed"`` and the constant is negative, else None.
    %(n_features_in_)s

    See Also
    --------
    RandomFourier : Random Fourier features, for all shift-invariant kernels.
    mercer.theory : Error bounds.

    Notes
    -----
    With complete blocks and the constant retained, the approximate kernel at :math:`\delta = x - y` always lies between
    :math:`1 - |\delta|^2 / 2` and 1 for the Gaussian kernel of unit lengthscale, so that the mean over independent
    blocks satisfies Hoeffding's bound; see `mercer.theory`.

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
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "directions": Choice("auto", *RULES),
        "radii": Choice(*RADII),
        "constant": Choice("auto", "signed", "drop", "resample"),
    }
    features_: QuadratureFeatures
    directions_: str
    constant_: float

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        directions: Literal["auto", "big_block", "orthogonal", "simplex", "butterfly", "iid", "hadamard"] = "auto",
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
            return "radii drawn again until the constant is not negative have another distribution"
        return BIASED.get(getattr(self, "directions_", self.directions), True)

    def _rule(self, kernel: Kernel) -> str:
        """Return the parameter `constant`, with "auto" replaced by the rule that it means for the kernel."""
        if self.constant != "auto":
            return self.constant
        return "drop" if spread_of_weights(kernel) <= LARGEST_SPREAD else "signed"

    def _doubts(self, X: Any) -> str | None:  # noqa: ARG002 - the same for all rows
        spread = spread_of_weights(self.kernel_)
        if spread <= LARGEST_SPREAD or self.features_.retains_constant or self._rule(self.kernel_) == "resample":
            return None
        size = "infinite" if np.isinf(spread) else f"{spread:.3g} times that for a Gaussian kernel"
        return (
            f"without the constant of the rule, the variance of the approximate {self.kernel_!r} is {size}. Use "
            "constant='signed' and at least 3 components, or RandomFourier."
        )

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> QuadratureFeatures:  # noqa: ARG002
        found = isotropic_part(kernel)
        assert found is not None
        mass, factor, offset = found
        self.directions_ = self._choose_directions(factor, X)
        own = offset > 0 and self.n_components > 1
        retained = self._rule(kernel) in ("signed", "resample") and self.n_components > 1 + own
        width = self.n_components - own - retained
        m = -(-width // 2)
        shares = np.where(np.arange(m) < width // 2, 2.0, 1.0) / width
        phases = np.where(np.arange(m) < width // 2, 0.0, rng.uniform(0, 2 * np.pi, m))
        projection, squares = self._draw_points(factor, m, X.shape[1], shares, rng)
        self.constant_ = 1.0 - float(squares.sum())
        amplitudes = np.sqrt(mass * squares)
        amplitudes[width // 2 :] *= np.sqrt(2)  # a cosine of random phase, without its sine
        heads = [np.sqrt(offset)] * own + [np.sqrt(mass * abs(self.constant_))] * retained
        signs = None
        if retained and self.constant_ < 0:
            signs = np.ones(self.n_components)
            signs[int(own)] = -1.0
        if offset > 0 and not own:
            # A single component is either the constant or a cosine, with probabilities in proportion to their masses.
            return self._single_component(projection, phases, amplitudes, mass, offset, rng)
        return QuadratureFeatures(projection, phases, amplitudes, np.array(heads), self.n_components, signs, retained)

    def _single_component(
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

    def _bytes_to_draw(self, n: int, d: int) -> int:  # noqa: ARG002 - the signature of the contract
        dense = self.directions in DENSE_DIRECTIONS or (self.directions == "auto" and d < STRUCTURED_FROM)
        return (4 * d if dense else 8) * self.n_components  # at least half as many frequencies as components

    def _choose_directions(self, factor: SpectralFactor, X: Any) -> str:
        if self.directions == "auto":
            wide = STRUCTURED_FROM <= X.shape[1] <= STRUCTURED_UP_TO
            return "butterfly" if wide and factor.is_diagonal else "big_block"
        if self.directions in STRUCTURED_DIRECTIONS and not factor.is_diagonal:
            msg = (
                f"SphericalRadial: directions={self.directions!r} needs features that are multiplied by numbers, got a "
                "kernel whose inputs are multiplied by a matrix. Try directions='big_block'."
            )
            raise UnsupportedKernelError(msg)
        return self.directions

    def _draw_points(
        self, factor: SpectralFactor, m: int, n_features: int, shares: Array, rng: np.random.Generator
    ) -> tuple[Projection, Array]:
        """Sample m frequencies. Return the projection on these frequencies, and their squared weights a_j^2.

        `shares` (m,) are the weights that the frequencies would have as random Fourier features. Their sum is 1.
        """
        d = factor.width(n_features)
        # Structured projections use all features of X; features that the kernel ignores are multiplied by zero.
        scale = factor.pull_back(np.ones((1, d)), n_features)[0] if factor.inputs else None
        if self.directions_ in STRUCTURED_DIRECTIONS:
            drawn: list[Array] = []

            def draw_radii(ambient: int) -> Array:
                radii, squares = self._draw_radii(factor, shares, ambient, rng)
                drawn.append(squares)
                return radii

            padded_width = max(n_features, LEAST_AMBIENT)
            projection = draw_structured(self.directions_, m, padded_width, draw_radii, rng, input_scale=scale)
            return projection, drawn[0]
        directions = padded(self.directions_, m, d, rng)
        radii, squares = self._draw_radii(factor, shares, directions.ambient, rng)
        frequencies = factor.pull_back(directions.vectors * radii[:, None], n_features)
        return DenseProjection(np.ascontiguousarray(frequencies.T)), squares

    def _draw_radii(
        self, factor: SpectralFactor, shares: Array, ambient: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Sample the lengths of the frequencies. Return the lengths and the squared weights a_j^2.

        A length is sqrt(tau) rho / lengthscale. The density of tau is tau / E[tau] times the density of the mixing
        distribution of the kernel, over which E is the mean. The distribution of rho is chi(P + 2) with P = `ambient`.
        The squared weight is shares[j] E[tau] P / (tau rho^2). Frequencies with these weights represent the spectral
        distribution of the kernel, because P / rho^2 times the density of chi(P + 2) is the density of chi(P)
        (Munkhoeva et al. 2018, for tau = 1).
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
class QuadratureFeatures(Features):
    """Cosines and sines of the angles X W of rows X, multiplied by one weight per frequency (column of W).

    The object is immutable and does not depend on scikit-learn.
    """

    projection: Projection
    phases: Array  # (m,), zero where both sine and cosine are written
    amplitudes: Array  # (m,)
    heads: Array  # values of the constant components, which come first
    n_components: int
    signs: Array | None
    retains_constant: bool = False  # whether a head is the constant of the quadrature rule

    def astype(self, dtype: Any) -> Self:
        cast = {name: getattr(self, name).astype(dtype, copy=False) for name in ("phases", "amplitudes", "heads")}
        return replace(self, projection=self.projection.astype(dtype), **cast)

    def __call__(self, X: Any, out: Array) -> None:
        check_range(self.projection, X)
        out[:, : len(self.heads)] = self.heads
        out = out[:, len(self.heads) :]
        if not len(self.amplitudes):
            return
        if out.shape[1] % 2 == 0:
            self.projection.pairs(X, 1.0, out)
        else:
            angles = self.projection(X)
            angles[:, -1] += self.phases[-1]
            linalg.sincos_pairs(angles, 1.0, out)
        m = len(self.amplitudes)
        out[:, :m] *= self.amplitudes
        out[:, m:] *= self.amplitudes[: out.shape[1] - m]


def spread_of_weights(kernel: Kernel) -> float:
    """Return E[tau] E[1 / tau] for the isotropic part of a kernel, where tau has its mixing distribution.

    The mean square of a weight a_j^2 of the quadrature rule is in proportion to this number, which is one for the
    Gaussian kernel.
    """
    found = isotropic_part(kernel)
    isotropic = None if found is None else found[1].kernel
    assert isinstance(isotropic, IsotropicKernel)
    return isotropic.mean_mixing * isotropic.mean_inverse_mixing


def padded(name: str, m: int, d: int, rng: np.random.Generator) -> Directions:
    """Return the first d coordinates of m dense directions of R^P, with the P of `ambient_of`."""
    ambient = ambient_of(d)
    drawn = DENSE_DIRECTIONS[name](m, ambient, rng)
    return replace(drawn, vectors=drawn.vectors[:, :d])


def ambient_of(d: int) -> int:
    """Return the dimension P of dense directions for rows of d features: d if d >= 3, and 4 otherwise.

    In dimension P < 3 the weights of the quadrature rule would have an infinite variance.
    """
    return d if d >= LEAST_AMBIENT - 1 else LEAST_AMBIENT


def isotropic_part(kernel: Kernel) -> tuple[float, SpectralFactor, float] | None:
    """Return (mass, factor, constant) such that the kernel is mass * factor + constant, with an isotropic factor.

    None is returned if the kernel does not have this form.
    """
    parts = kernel.spectral_parts()
    if parts is None:
        return None
    random = [part for part in parts if part.factors]
    if len(random) != 1 or len(random[0].factors) != 1 or not isinstance(random[0].factors[0].kernel, IsotropicKernel):
        return None
    return random[0].mass, random[0].factors[0], sum(part.mass for part in parts if not part.factors)
