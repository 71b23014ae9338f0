"""Random Fourier features: trigonometric functions of projections on random frequencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer import linalg
from mercer.errors import NoClosedFormError, UnsupportedKernelError
from mercer.kernels import Gaussian, Kernel, Matern
from mercer.kernels.isotropic import IsotropicKernel
from mercer.kernels.spectral import SpectralFactor, SpectralPart
from mercer.maps.base import for_kernel
from mercer.maps.drawn import DrawnMap
from mercer.maps.fourier.directions import (
    BIASED,
    DENSE_DIRECTIONS,
    DIRECTIONS,
    STRUCTURED_DIRECTIONS,
    STRUCTURED_FROM,
    butterfly_rotations,
    hadamard_signs,
    sobol_normals,
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
from mercer.theory import orthogonal_covariance
from mercer.theory.variance import pair_term_variance, phase_term_variance

__all__ = ["RandomFourier", "TrigFeatures"]

Array = np.ndarray
FORMS = ("pairs", "phase", "complex")


class RandomFourier(DrawnMap):
    r"""Random Fourier features for shift-invariant kernels.

    Draws frequencies :math:`w_j` from the spectral law of the kernel (Bochner's theorem) and maps x to cosines and
    sines of :math:`w_j^\top x`, so that

    .. math:: \mathbb{E}\,[z(x)^\top z(y)] = k(x, y)

    for kernels of any mass k(0), and for sums, products, scalings and linear input maps of such kernels.

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel to approximate; None means ``Gaussian(lengthscale="median")``.
    n_components : int, default=512
        Width of the output, from 1 up. An odd number of trigonometric columns leaves one cosine unpaired, with a
        random phase: still unbiased, a little more variance.
    form : {"pairs", "phase", "complex"}, default="pairs"
        Cosines and sines of each frequency; one cosine of random phase a frequency, as in scikit-learn's
        RBFSampler; or complex exponentials. Pairs have the lower variance at equal width and an exact diagonal.
    directions : {"auto", "big_block", "orthogonal", "iid", "sobol", "butterfly", "hadamard", "simplex", \
"source_butterfly"}, default="auto"
        How directions are drawn; see Notes. "auto" takes butterflies where they are faster, from 32 columns of X up,
        for dense rows and sums of isotropic kernels, and one big block otherwise; `directions_` tells.
    radii : {"plain", "stratified"}, default="plain"
        Independent radii, or one in each of equally likely cells: also unbiased, usually less variance. Sobol points
        carry radii of their own.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with every parameter a number.
    features_ : TrigFeatures
        The drawn map: a pure function of rows.
    directions_, radii_ : str
        The directions and radii drawn.
    signs_ : None
        The approximate kernel is positive semi-definite.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    Directions, for m frequencies of rows of width d:

    - "big_block": one block of m orthogonal directions of :math:`\mathbb{R}^m`, cut to d coordinates. Unbiased; the
      least variance near the diagonal; drawing costs :math:`O(m d^2)`.
    - "orthogonal": blocks of d orthogonal directions of :math:`\mathbb{R}^d` [2]_, at the same cost. Unbiased.
    - "iid": independent. `variance` is :math:`(1 + k(2\delta) - 2k(\delta)^2)/D` for D columns and mass one.
    - "sobol": scrambled Sobol points. Unbiased; the best in low dimension, no better than iid in high.
    - "butterfly": blocks of orthogonal directions as products of rotations and one Hadamard transform [3]_. Time
      :math:`O(D \log d)` a row and memory :math:`O(D \log d)` instead of O(d D), for sums of isotropic kernels.
      Unbiased.
    - "hadamard": sign-Hadamard products [4]_. Time :math:`O(D \log d)` a row and memory O(D), for
      sums of isotropic kernels. Not exactly unbiased: the directions are uniform only as d grows.
    - "simplex": blocks of the d + 1 vertices of a regular simplex [3]_, at the cost of "orthogonal". Unbiased.
    - "source_butterfly": the same turned by the butterfly matrices of [3]_ with its own law of the angles, in dense
      form. Biased, by up to 0.3 along an axis; kept to reproduce it.

    Frequencies of a sum of kernels are shared out by mass; a constant takes one exact column. Time O(n d D) for dense
    directions, memory O(d D) for the draw.

    References
    ----------
    .. [1] Rahimi, Recht (2007), Random Features for Large-Scale Kernel Machines, NeurIPS.
    .. [2] Yu et al. (2016), Orthogonal Random Features, NeurIPS.
    .. [3] Munkhoeva et al. (2018), Quadrature-based Features for Kernel Approximation, NeurIPS; the law of the angles
       is another here, and exact.
    .. [4] Choromanski et al. (2017), The Unreasonable Effectiveness of Structured Random Orthogonal Embeddings,
       NeurIPS.

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
    preference: ClassVar[int] = 10
    features_check_entries: ClassVar[bool] = True  # for the range of the angles
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
            "auto", "big_block", "orthogonal", "iid", "sobol", "butterfly", "hadamard", "simplex", "source_butterfly"
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

    def with_independent_columns(self, kernel: Kernel, n_components: int) -> DrawnMap | None:
        parts = kernel.spectral_parts()
        if parts is None or not all(part.factors for part in parts):
            return None  # a constant has a column of its own
        independent = {"form": "phase", "directions": "iid", "radii": "plain", "n_components": n_components}
        return for_kernel(self, kernel).set_params(**independent)

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> TrigFeatures:  # noqa: ARG002
        check_choice(self, "form", FORMS)
        check_choice(self, "directions", ("auto", *DIRECTIONS))
        check_choice(self, "radii", RADII)
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

    def _choose_directions(self, parts: tuple[SpectralPart, ...], X: Any) -> str:
        if self.directions != "auto":
            return self.directions
        # Sparse rows stay sparse in a dense projection; butterflies would have to fill them up.
        wide = X.shape[1] >= STRUCTURED_FROM and not sp.issparse(X)
        return "butterfly" if wide and common_isotropic_factors(parts) is not None else "big_block"

    def _share_out(self, masses: Array, m: int, rng: np.random.Generator) -> Array:
        """Return for each of m frequencies the part it belongs to, with probability its share of the mass."""
        if len(masses) == 1 or masses.sum() == 0:
            return np.zeros(m, dtype=int)
        edges = np.cumsum(masses / masses.sum())
        edges[-1] = 1.0
        if self.directions_ == "iid":
            return np.searchsorted(edges, rng.random(m), side="right")
        # Systematic: each part gets its share to within one frequency. The random order keeps single columns fair.
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
        """Return m standard normal rows, coupled as `directions` and `radii` say, and a uniform number for each."""
        if self.directions_ == "sobol":
            return sobol_normals(m, d, rng)
        directions = DENSE_DIRECTIONS[self.directions_](m, d, rng)
        uniforms = RADII[self.radii]
        lengths = chi_quantile(uniforms(m, rng), directions.ambient)
        return lengths[:, None] * directions.vectors, uniforms(m, rng)

    def _draw_structured(
        self, parts: tuple[SpectralPart, ...], labels: Array, d: int, rng: np.random.Generator
    ) -> HadamardProjection | ButterflyProjection:
        factors = common_isotropic_factors(parts)
        if factors is None:
            msg = (
                f"directions={self.directions_!r} cannot approximate {self.kernel!r}.\n"
                "  needs: a sum of isotropic kernels of the same inputs\n"
                "  got:   a product over coordinates or of kernels, or different inputs\n"
                "  try:   directions='big_block'"
            )
            raise UnsupportedKernelError(msg)
        # The frequencies of a linear input map are pulled back column by column: here that is a scale of the input.
        first = next(iter(factors.values()), None)
        scale = first.pull_back(np.ones((1, first.width(d))), d)[0] if first is not None and first.inputs else None
        m = len(labels)
        if self.directions_ == "butterfly":
            signs, rotations = butterfly_rotations(m, d, rng)
            return ButterflyProjection(signs, rotations, self._radii(factors, labels, signs.shape[1], rng), scale)
        signs = hadamard_signs(m, d, rng)
        return HadamardProjection(signs, self._radii(factors, labels, signs.shape[2], rng), scale)

    def _radii(
        self, factors: dict[int, SpectralFactor], labels: Array, ambient: int, rng: np.random.Generator
    ) -> Array:
        """Return the length of each frequency, given which part it belongs to and the dimension of its direction."""
        radii = np.zeros(len(labels))
        uniforms = RADII[self.radii]
        for p, factor in factors.items():
            mine = np.flatnonzero(labels == p)
            lengths = chi_quantile(uniforms(len(mine), rng), ambient)
            assert isinstance(factor.kernel, IsotropicKernel)
            radii[mine] = factor.kernel.scales(uniforms(len(mine), rng)) * lengths
        return radii

    def _variance(self, X: Any, Y: Any) -> Array:
        # In closed form for iid directions and every kernel, and for orthogonal or big-block directions and a single
        # Gaussian kernel; with plain radii.
        features = self.features_
        mass, constant, parts = split_constant(self.kernel_, features.n_components)
        self._check_closed_form(parts)
        X, Y = in_float64(X), None if Y is None else in_float64(Y)
        k = self.kernel_(X, Y) - constant
        k_double = self.kernel_(2 * X, None if Y is None else 2 * Y) - constant
        v_pair, v_phase = pair_term_variance(k, k_double, mass), phase_term_variance(k, k_double, mass)
        m = features.projection.n_frequencies
        width = features.n_components - (constant > 0)
        # Each frequency adds share * Z cos(w'(x - y)), on average over its phase if it has one.
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
            total = total + coupled * mass**2 * orthogonal_covariance(distance, ambient)
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
class TrigFeatures:
    """Drawn trigonometric features: immutable, picklable, free of scikit-learn."""

    projection: Projection
    phases: Array  # (m,), zero where sine and cosine are both there
    form: str
    n_components: int
    amplitude: float
    constant: float  # the value of an exact first column; zero means there is none

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, projection=self.projection.astype(dtype), phases=self.phases.astype(dtype, copy=False))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.result_type(dtype, np.complex64) if self.form == "complex" else np.dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`; both have the dtype of this draw."""
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


def split_constant(kernel: Kernel, n_components: int) -> tuple[float, float, tuple[SpectralPart, ...]]:
    """Return the random mass, the mass of the exact constant column, and the parts drawn at random.

    A single column has no room for an exact constant: there it is drawn like any other part, at frequency zero.
    """
    parts = kernel.spectral_parts()
    assert parts is not None
    constant = sum(part.mass for part in parts if not part.factors) if n_components > 1 else 0.0
    random = tuple(part for part in parts if part.mass > 0 and (part.factors or not constant))
    return sum(part.mass for part in random), constant, random


def common_isotropic_factors(parts: tuple[SpectralPart, ...]) -> dict[int, SpectralFactor] | None:
    """Return the one isotropic factor of each part if all have just that, of the same inputs; else None.

    A constant has no factor and frequency zero; it is among the parts only if it had no column of its own.
    """
    drawn = {p: part.factors[0] for p, part in enumerate(parts) if len(part.factors) == 1}
    others = [part for part in parts if len(part.factors) > 1]
    isotropic = all(isinstance(factor.kernel, IsotropicKernel) for factor in drawn.values())
    same_inputs = len({factor.inputs for factor in drawn.values()}) <= 1
    return drawn if not others and isotropic and same_inputs else None


def is_gaussian(kernel: Kernel) -> bool:
    """Return whether the kernel is Gaussian under any of its names."""
    return isinstance(kernel, Gaussian) or (isinstance(kernel, Matern) and kernel.nu == np.inf)


def in_float64(X: Any) -> Any:
    """Return rows in float64, sparse or dense: a variance is a difference of nearly equal numbers."""
    return X.astype(np.float64, copy=False)
