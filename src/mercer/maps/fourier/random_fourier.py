"""Random Fourier features: cosines and sines of the products of rows with random frequencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer import linalg
from mercer._docs import doc
from mercer.errors import NoClosedFormError, UnsupportedKernelError
from mercer.features import Features, Lengthscales, RowGradients
from mercer.kernels import Gaussian, Kernel, Matern
from mercer.kernels.isotropic import IsotropicKernel
from mercer.kernels.spectral import SpectralFactor, SpectralPart
from mercer.maps.base import DrawnMap
from mercer.maps.fourier.directions import DENSE_DIRECTIONS, DIRECTIONS, sobol_normals
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
from mercer.theory import orthogonal_covariance
from mercer.theory.variance import pair_term_variance, phase_term_variance

__all__ = ["RandomFourier", "TrigFeatures"]

Array = np.ndarray


@doc
class RandomFourier(DrawnMap):
    r"""Random Fourier features for shift-invariant kernels.

    Samples frequencies :math:`w_j` from the spectral distribution of the kernel (Bochner's theorem) [1]_ and maps x to
    cosines and sines of :math:`w_j^\top x`, so that

    .. math:: \mathbb{E}\,[z(x)^\top z(y)] = k(x, y)

    for kernels with any value k(0), called the mass, and for sums, products, multiples and linear input maps of
    shift-invariant kernels.

    Parameters
    ----------
    %(kernel)s
    n_components : int, default=512
        Number of components of the output, at least 1. An odd number of trigonometric components leaves one cosine
        unpaired, with a random phase: still unbiased, with a little more variance.
    form : {"pairs", "phase", "complex"}, default="pairs"
        "pairs": cosine and sine of each frequency. "phase": one cosine of random phase per frequency, as in
        scikit-learn's RBFSampler. "complex": complex exponentials. At equal `n_components`, "pairs" has less variance
        than "phase", and its diagonal is exact.
    directions : {"auto", "big_block", "orthogonal", "iid", "sobol", "butterfly", "hadamard", "simplex"}, default="auto"
        Distribution of the directions of the frequencies; see Notes. "auto" uses "butterfly" where it is faster (for
        rows of 32 to 32768 features and sums of isotropic kernels) and "big_block" otherwise.
    radii : {"plain", "stratified"}, default="plain"
        Distribution of the lengths of the frequencies. "plain": independent. "stratified": one radius in each of
        equally probable intervals, which is also unbiased and usually has less variance. Not used for
        ``directions="sobol"``, where the Sobol points determine the radii.
    %(random_state, n_jobs)s

    Attributes
    ----------
    %(kernel_)s
    features_ : TrigFeatures
        The sampled features: a function from rows to features.
    directions_, radii_ : str
        The directions and radii that were used.
    %(signs_none, n_features_in_)s

    See Also
    --------
    SphericalRadial : Quadrature features, with less error at small distances.
    Nystroem : Landmark features, which adapt to the rows.
    mercer.audit : Measures the error of a fitted map.

    Notes
    -----
    Directions, for m frequencies of rows of width d:

    - "big_block": one block of m orthogonal directions of :math:`\mathbb{R}^m`, cut to d coordinates. Unbiased; the
      least variance near the diagonal; drawing costs :math:`O(m d^2)`.
    - "orthogonal": blocks of d orthogonal directions of :math:`\mathbb{R}^d` [2]_, at the same cost. Unbiased.
    - "iid": independent. `variance` is :math:`(1 + k(2\delta) - 2k(\delta)^2)/D` for D components, k(0) = 1 and
      :math:`\delta = x - y`.
    - "sobol": scrambled Sobol points. Unbiased; the best in low dimension, no better than "iid" in high dimension.
    - "butterfly": blocks of orthogonal directions as products of rotations and one Hadamard transform [3]_. Time
      :math:`O(D \log d)` per row and memory :math:`O(D \log d)` instead of O(d D), for sums of isotropic kernels.
      Unbiased: the angles are drawn from another distribution than in [3]_.
    - "hadamard": sign-Hadamard products [4]_. Time :math:`O(D \log d)` per row and memory O(D), for sums of isotropic
      kernels. Not exactly unbiased: the directions are uniform only as d grows.
    - "simplex": blocks of the d + 1 vertices of a regular simplex [3]_, at the cost of "orthogonal". Unbiased.

    Frequencies of a sum of kernels are allocated in proportion to the mass of each term; a constant takes one exact
    component. Dense directions take O(n d D) time, and O(d D) memory for the frequencies.

    References
    ----------
    .. [1] Rahimi, Recht (2007), Random Features for Large-Scale Kernel Machines, NeurIPS.
    .. [2] Yu, Suresh, Choromanski, Holtmann-Rice, Kumar (2016), Orthogonal Random Features, NeurIPS.
    .. [3] Munkhoeva, Kapushev, Burnaev, Oseledets (2018), Quadrature-based Features for Kernel Approximation, NeurIPS.
    .. [4] Choromanski, Rowland, Weller (2017), The Unreasonable Effectiveness of Structured Random Orthogonal
       Embeddings, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> feature_map = RandomFourier(Gaussian(lengthscale=2.0), n_components=4096, random_state=0).fit(X)
    >>> Z = feature_map.transform(X)
    >>> Z.shape
    (100, 4096)
    >>> bool(abs(Z @ Z.T - Gaussian(lengthscale=2.0)(X)).max() < 0.1)
    True
    """

    needs: ClassVar[str] = "a shift-invariant kernel, k(x, y) = f(x - y), or a sum or product of such"
    features_check_entries: ClassVar[bool] = True  # for the range of the angles
    tunes_own_draw: ClassVar[bool] = True  # a lengthscale divides the frequencies
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "form": Choice("pairs", "phase", "complex"),
        "directions": Choice("auto", *DIRECTIONS),
        "radii": Choice(*RADII),
    }
    features_: TrigFeatures
    directions_: str
    radii_: str

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        form: Literal["pairs", "phase", "complex"] = "pairs",
        directions: Literal[
            "auto", "big_block", "orthogonal", "iid", "sobol", "butterfly", "hadamard", "simplex"
        ] = "auto",
        radii: Literal["plain", "stratified"] = "plain",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.form = form
        self.directions = directions
        self.radii = radii
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        return kernel.spectral_parts() is not None

    @property
    def unbiased(self) -> bool | str:
        return BIASED.get(getattr(self, "directions_", self.directions), True)

    def _independent(self, kernel: Kernel) -> dict[str, Any] | None:
        parts = kernel.spectral_parts()
        if parts is None or not all(part.factors for part in parts):
            return None  # a constant has a component of its own
        return {"form": "phase", "directions": "iid", "radii": "plain"}

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> TrigFeatures:  # noqa: ARG002
        d = X.shape[1]
        mass, constant, parts = split_constant(kernel, self.n_components)
        self.directions_ = self._choose_directions(parts, X)
        self.radii_ = self.radii
        width = self.n_components - (constant > 0)
        m = -(-width // 2) if self.form == "pairs" else width
        labels = self._share_out(np.array([part.mass for part in parts]), m, rng)
        draw = self._draw_structured if self.directions_ in STRUCTURED_DIRECTIONS else self._draw_dense
        projection = draw(parts, labels, d, rng)
        phases = rng.uniform(0, 2 * np.pi, m)  # drawn for every form, so that all forms share the frequencies
        if self.form != "phase":
            paired = m if self.form == "complex" else width // 2
            phases[:paired] = 0.0
        terms = m if self.form == "complex" else 0.5 * width
        return TrigFeatures(projection, phases, self.form, self.n_components, np.sqrt(mass / terms), np.sqrt(constant))

    def _bytes_to_draw(self, n: int, d: int) -> int:  # noqa: ARG002 - the signature of the contract
        dense = self.directions in DENSE_DIRECTIONS or (self.directions == "auto" and d < STRUCTURED_FROM)
        return (4 * d if dense else 8) * self.n_components  # at least half as many frequencies as components

    def _choose_directions(self, parts: tuple[SpectralPart, ...], X: Any) -> str:
        if self.directions != "auto":
            return self.directions
        wide = STRUCTURED_FROM <= X.shape[1] <= STRUCTURED_UP_TO
        return "butterfly" if wide and common_isotropic_factors(parts) is not None else "big_block"

    def _share_out(self, masses: Array, m: int, rng: np.random.Generator) -> Array:
        """Assign each of m frequencies to a spectral part (term of the kernel). Return the indices (m,).

        Part p has the probability masses[p] / masses.sum().
        """
        if len(masses) == 1 or masses.sum() == 0:
            return np.zeros(m, dtype=int)
        edges = np.cumsum(masses / masses.sum())
        edges[-1] = 1.0
        if self.directions_ == "iid":
            return np.searchsorted(edges, rng.random(m), side="right")
        # Systematic sampling: the number of frequencies of part p differs from its mean by less than one.
        return rng.permutation(np.searchsorted(edges, (np.arange(m) + rng.random()) / m, side="right"))

    def _draw_dense(
        self, parts: tuple[SpectralPart, ...], labels: Array, d: int, rng: np.random.Generator
    ) -> DenseProjection:
        frequencies = np.zeros((len(labels), d))
        for p, part in enumerate(parts):
            mine = np.flatnonzero(labels == p)
            for factor in part.factors if len(mine) else ():
                normals, uniforms = self._normals(len(mine), factor.width(d), rng)
                frequencies[mine] += factor.pull_back(factor.kernel.frequencies(normals, uniforms), d)
        return DenseProjection(np.ascontiguousarray(frequencies.T))

    def _normals(self, m: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return m standard normal vectors (m, d) and m uniform numbers (m,).

        The vectors need not be independent. The parameters `directions` and `radii` determine their joint distribution.
        """
        if self.directions_ == "sobol":
            return sobol_normals(m, d, rng)
        directions = DENSE_DIRECTIONS[self.directions_](m, d, rng)
        uniforms = RADII[self.radii]
        lengths = chi_quantile(uniforms(m, rng), directions.ambient)
        return lengths[:, None] * directions.vectors, uniforms(m, rng)

    def _draw_structured(
        self, parts: tuple[SpectralPart, ...], labels: Array, d: int, rng: np.random.Generator
    ) -> Projection:
        factors = common_isotropic_factors(parts)
        if factors is None:
            msg = (
                f"directions={self.directions_!r} cannot approximate {self.kernel!r}.\n"
                "  needs: a sum of isotropic kernels of the same inputs\n"
                "  got:   a product over coordinates or of kernels, different inputs, or a matrix of the inputs\n"
                "  try:   directions='big_block'"
            )
            raise UnsupportedKernelError(msg)
        # An input map multiplies the frequencies feature by feature. Here it multiplies the features of X instead.
        first = next(iter(factors.values()), None)
        scale = first.pull_back(np.ones((1, first.width(d))), d)[0] if first is not None and first.inputs else None
        draw_radii = partial(self._radii, factors, labels, rng)
        return draw_structured(self.directions_, len(labels), d, draw_radii, rng, input_scale=scale)

    def _radii(
        self, factors: dict[int, SpectralFactor], labels: Array, rng: np.random.Generator, ambient: int
    ) -> Array:
        """Sample and return the length of each frequency.

        Frequency j belongs to the spectral part (term of the kernel) labels[j], with the isotropic kernel
        factors[labels[j]]. Its direction is a unit vector of R^ambient.
        """
        radii = np.zeros(len(labels))
        uniforms = RADII[self.radii]
        for p, factor in factors.items():
            mine = np.flatnonzero(labels == p)
            lengths = chi_quantile(uniforms(len(mine), rng), ambient)
            assert isinstance(factor.kernel, IsotropicKernel)
            radii[mine] = factor.kernel.scales(uniforms(len(mine), rng)) * lengths
        return radii

    def _variance(self, X: Any, Y: Any) -> Array:
        # A closed form is known for plain radii, with iid directions for every kernel, and with orthogonal or big-block
        # directions for a single Gaussian kernel.
        features = self.features_
        mass, constant, parts = split_constant(self.kernel_, features.n_components)
        self._check_closed_form(parts)
        X, Y = in_float64(X), None if Y is None else in_float64(Y)
        k = self.kernel_(X, Y) - constant
        k_double = self.kernel_(2 * X, None if Y is None else 2 * Y) - constant
        v_pair, v_phase = pair_term_variance(k, k_double, mass), phase_term_variance(k, k_double, mass)
        m = features.projection.n_frequencies
        width = features.n_components - (constant > 0)
        # Frequency w adds share * mass * cos(w'(x - y)); if it has a random phase, this is the mean over the phase.
        has_phase = features.phases != 0
        shares = np.full(m, 1 / m) if features.form == "complex" else np.where(has_phase, 1 / width, 2 / width)
        total = np.square(shares[~has_phase]).sum() * v_pair + np.square(shares[has_phase]).sum() * v_phase
        if self.directions_ != "iid" and mass > 0:
            d = parts[0].factors[0].width(self.n_features_in_)
            block, ambient = (d, d) if self.directions_ == "orthogonal" else (m, max(m, d))
            sums = np.array([shares[i : i + block].sum() for i in range(0, m, block)])
            coupled = np.square(sums).sum() - np.square(shares).sum()
            with np.errstate(divide="ignore"):
                distance = np.sqrt(-2 * np.log(np.minimum(k / mass, 1.0)))
            total = total + coupled * mass * mass * orthogonal_covariance(distance, ambient)
        return np.maximum(total, 0.0)

    def _check_closed_form(self, parts: tuple[SpectralPart, ...]) -> None:
        one_gaussian = len(parts) == 1 and len(parts[0].factors) == 1 and is_gaussian(parts[0].factors[0].kernel)
        exact = self.directions_ == "iid" or (self.directions_ in ("orthogonal", "big_block") and one_gaussian)
        if exact and self.radii_ == "plain":
            return
        msg = (
            f"No closed form is known for the variance of {self.kernel_!r} with directions={self.directions_!r} and "
            f"radii={self.radii_!r}.\n"
            "  needs: radii='plain' with directions='iid', or 'orthogonal' or 'big_block' for one Gaussian kernel\n"
            "  try:   mercer.audit(feature_map, X), which measures the error"
        )
        raise NoClosedFormError(msg)


@dataclass(frozen=True, eq=False)
class TrigFeatures(Features):
    """Cosines and sines of the angles X W of rows X, for sampled frequencies W.

    The object is immutable and picklable, and does not depend on scikit-learn.
    """

    projection: Projection
    phases: Array  # (m,), zero where both sine and cosine are written
    form: str
    n_components: int
    amplitude: float
    constant: float  # value of an exact first component; zero means no such component

    @property
    def is_complex(self) -> bool:
        return self.form == "complex"

    @property
    def lengthscales(self) -> Lengthscales | None:
        dense = isinstance(self.projection, DenseProjection) and not self.is_complex
        return FrequencyScales(self) if dense else None

    def gradients(self, coef: Array) -> RowGradients | None:
        """Return the gradients of z(x)'c with respect to x, for the columns c of `coef`."""
        return None if self.is_complex else FrequencyGradients(self.astype(np.float64), coef[int(self.constant > 0) :])

    def astype(self, dtype: Any) -> Self:
        return replace(self, projection=self.projection.astype(dtype), phases=self.phases.astype(dtype, copy=False))

    def __call__(self, X: Any, out: Array) -> None:
        check_range(self.projection, X)
        if self.constant:
            out[:, 0] = self.constant
            out = out[:, 1:]
        if self.form == "phase":
            self.projection.cosines(X, self.phases, self.amplitude, out)
        elif self.form == "complex":
            self._write_complex(X, out)
        elif out.shape[1] % 2 == 0:
            self.projection.pairs(X, self.amplitude, out)
        else:
            angles = self.projection(X)
            angles[:, -1] += self.phases[-1]  # the cosine without its sine
            linalg.sincos_pairs(angles, self.amplitude, out)

    def _write_complex(self, X: Any, out: Array) -> None:
        m = self.projection.n_frequencies
        pairs = np.empty((X.shape[0], 2 * m), out.real.dtype)
        self.projection.pairs(X, self.amplitude, pairs)
        out.real = pairs[:, :m]
        np.negative(pairs[:, m:], out=out.imag)


@dataclass(frozen=True, eq=False)
class FrequencyGradients:
    """Gradients of linear functions of cosines and sines of the angles X W + b, with respect to the rows X."""

    features: TrigFeatures  # real, in float64
    coef: Array  # (2 m, t), (2 m - 1, t) or (m, t), without the coefficient of the constant

    def __call__(self, X: Any) -> Iterator[Array]:
        f, d = self.features, X.shape[1]
        m = f.projection.n_frequencies
        weights = f.projection(np.eye(d))  # (d, m), of a structured projection too
        angles = f.projection(X.astype(np.float64)) + f.phases
        cosines, sines = self.coef[:m], self.coef[m:]  # "phase" has no sines, an odd number lacks the last one
        in_cosines, in_sines = -f.amplitude * np.sin(angles), f.amplitude * np.cos(angles[:, : len(sines)])
        for j in range(self.coef.shape[1]):
            in_angles = in_cosines * cosines[:, j]
            in_angles[:, : len(sines)] += in_sines * sines[:, j]
            yield in_angles @ weights.T


@dataclass(frozen=True, eq=False)
class FrequencyScales:
    """Derivatives of random Fourier features with respect to the lengthscales.

    The features are cosines and sines of the angles X W, where row i of the frequencies W is divided by lengthscale i.
    """

    features: TrigFeatures  # real, of a dense projection

    @property
    def _weights(self) -> Array:
        assert isinstance(self.features.projection, DenseProjection)
        return np.asarray(self.features.projection.weights, dtype=np.float64)

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        """Return the contribution of a block of rows to the gradient of an objective, with respect to log lengthscales.

        Z are the features of the rows `X`, and G is the derivative of the objective with respect to Z. The features are
        cosines and sines of the angles X W, where row i of the frequencies W is divided by lengthscale i.
        """
        f, weights = self.features, self._weights
        start = int(f.constant > 0)
        Z, G, m = Z[:, start:], G[:, start:], weights.shape[1]
        if f.form == "phase":
            in_angles = -G * f.amplitude * np.sin(X @ weights + f.phases)
        else:
            paired = Z.shape[1] - m
            in_angles = np.empty((len(Z), m))
            in_angles[:, :paired] = G[:, m:] * Z[:, :paired] - G[:, :paired] * Z[:, m:]
            if paired < m:  # the cosine without its sine
                angle = X @ weights[:, -1] + f.phases[-1]
                in_angles[:, -1] = -G[:, m - 1] * f.amplitude * np.sin(angle)
        return -(weights * (X.T @ in_angles)).sum(axis=1)

    def gradient_of_draw(self, ZG: Array) -> Array:  # noqa: ARG002 - frequencies do not depend on rows
        """Return zeros (d,), because the sum of `gradient` over all blocks of rows is the complete gradient."""
        return np.zeros(len(self._weights))

    def multiplied(self, factors: Array) -> TrigFeatures:
        """Return the features with lengthscale i times factors[i], that is, with row i of W divided by factors[i]."""
        return replace(self.features, projection=DenseProjection(self._weights / factors[:, None]))


def split_constant(kernel: Kernel, n_components: int) -> tuple[float, float, tuple[SpectralPart, ...]]:
    """Split a kernel into a constant, which gets an exact component, and parts with random frequencies.

    The result has three entries: the sum of the masses of the random parts, the constant, and the random parts. If
    `n_components` is 1, there is no exact component. The constant is then one of the random parts, with frequency zero.
    """
    parts = kernel.spectral_parts()
    assert parts is not None
    constant = sum(part.mass for part in parts if not part.factors) if n_components > 1 else 0.0
    random = tuple(part for part in parts if part.mass > 0 and (part.factors or not constant))
    return sum(part.mass for part in random), constant, random


def common_isotropic_factors(parts: tuple[SpectralPart, ...]) -> dict[int, SpectralFactor] | None:
    """Return a dictionary from the index of each part to its factor, if every part is a single isotropic kernel.

    None is returned if a part is a product of several factors, if a factor is not an isotropic kernel, or if two
    factors are kernels of different inputs, or of inputs that are multiplied by a matrix. A constant part has no
    factor, and its index is not in the dictionary.
    """
    drawn = {p: part.factors[0] for p, part in enumerate(parts) if len(part.factors) == 1}
    others = [part for part in parts if len(part.factors) > 1]
    isotropic = all(isinstance(factor.kernel, IsotropicKernel) for factor in drawn.values())
    same_inputs = len({factor.inputs for factor in drawn.values()}) <= 1
    diagonal = all(factor.is_diagonal for factor in drawn.values())
    return drawn if not others and isotropic and same_inputs and diagonal else None


def is_gaussian(kernel: Kernel) -> bool:
    """Return whether the kernel is Gaussian: `Gaussian`, or `Matern` with nu = inf."""
    return isinstance(kernel, Gaussian) or (isinstance(kernel, Matern) and kernel.nu == np.inf)


def in_float64(X: Any) -> Any:
    """Return rows, sparse or dense, in float64.

    Variances require this precision, because they are differences of nearly equal numbers.
    """
    return X.astype(np.float64, copy=False)
