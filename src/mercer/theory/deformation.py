r"""How far the kernel of deformed features is from the exact deformed kernel.

With a kernel matrix K of N rows, its approximation :math:`\hat K` and a penalty :math:`M = \alpha L^c`, write
:math:`\tilde K = K (I + M K)^{-1}` and :math:`\bar K = \hat K (I + M \hat K)^{-1}`. Ionescu, Popa, Sminchisescu (2017)
bound :math:`E \|\bar K - \tilde K\|`; what is here is what holds of it. The expected error of :math:`\hat K` needs
:math:`\log 2N` where :math:`\log N` is printed, and twice the bound for phase cosines, :math:`\sqrt 2 \cos`; the factor
in front of it must be bounded for every draw, not on average, because it depends on the same draw; and the bound of
that factor through determinants, which grows like a power of N, is replaced by :math:`\|\hat K\| \|M\|`.
"""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from mercer.errors import ParameterError
from mercer.theory.bounds import FORM_WIDTH
from mercer.theory.domains import check_not_negative, check_positive, probability, square_matrices

__all__ = [
    "deformation_components",
    "deformation_error",
    "deformation_factor",
    "deformation_mean_error",
    "kernel_matrix_failure",
    "kernel_matrix_mean_error",
    "matrix_bernstein",
    "penalty_norm",
]

Array = np.ndarray


def deformation_error(exact: Array, approximate: Array, penalty: Array) -> Array:
    r"""Error of the deformed kernel matrix: an identity, not a bound.

    .. math:: \bar K - \tilde K = (I + K M)^{-1} (\hat K - K) (I + M \hat K)^{-1}

    Parameters
    ----------
    exact, approximate : ndarray of shape (n, n)
        Kernel matrices K and :math:`\hat K`, positive semi-definite.
    penalty : ndarray of shape (n, n)
        The matrix M, positive semi-definite.

    Returns
    -------
    ndarray of shape (n, n)

    Examples
    --------
    >>> deformation_error(np.array([[1.0]]), np.array([[1.5]]), np.array([[2.0]]))
    array([[0.04166667]])
    >>> round(1.5 / (1 + 2 * 1.5) - 1 / (1 + 2 * 1), 8)
    0.04166667
    """
    K, hat, M = square_matrices("deformation_error", exact=exact, approximate=approximate, penalty=penalty)
    eye = np.eye(len(K))
    try:
        left = np.linalg.solve(eye + K @ M, hat - K)
        return np.linalg.solve((eye + M @ hat).T, left.T).T
    except np.linalg.LinAlgError as error:
        msg = "deformation_error: I + K M is singular, which it never is for positive semi-definite matrices."
        raise ParameterError(msg) from error


def penalty_norm(strength: float, power: float) -> float:
    """Bound on the spectral norm of strength * L^power: a normalized Laplacian has eigenvalues of at most two.

    Examples
    --------
    >>> penalty_norm(10.0, 2)
    40.0
    """
    check_not_negative("penalty_norm", strength=strength, power=power)
    fraction, exponent = math.frexp(strength)
    whole = math.floor(power)
    try:
        # The power may be far out of range where the product is not.
        return math.ldexp(fraction * 2.0 ** (float(power) - whole), exponent + whole)
    except OverflowError as error:
        msg = f"penalty_norm: strength * 2^power overflows, got strength={strength!r} and power={power!r}. Try 1 to 3."
        raise ParameterError(msg) from error


def deformation_factor(kernel_norm: float, approximate_norm: float, penalty_norm: float) -> float:
    r"""Bound on how much a deformation magnifies the error of a kernel matrix, in spectral norms.

    :math:`\|\bar K - \tilde K\| \le (1 + T)(1 + R) \|\hat K - K\|` with
    :math:`T = \|(I + M K)^{-1} M K\| \le \|K\| \|M\|` and
    :math:`R = \|\hat K M (I + \hat K M)^{-1}\| \le \|\hat K\| \|M\|`, for every draw.
    A worst case: smooth errors, which are most of them, are hardly magnified, and rough ones shrink.

    Examples
    --------
    >>> deformation_factor(2.0, 3.0, 0.5)
    5.0
    """
    norms = {"kernel_norm": kernel_norm, "approximate_norm": approximate_norm, "penalty_norm": penalty_norm}
    check_not_negative("deformation_factor", **norms)
    return float((1 + kernel_norm * penalty_norm) * (1 + approximate_norm * penalty_norm))


def matrix_bernstein(variance: float, bound: float, n: int) -> float:
    r"""Bound on the expected spectral norm of a sum of independent symmetric matrices of mean zero.

    :math:`\sqrt{2 v \log 2n} + \tfrac{1}{3} R \log 2n` for n x n matrices of norm at most R whose squares have means of
    a sum of norm at most v: Tropp (2015), Theorem 1.6.2. (The source uses :math:`\sqrt{3 v \log 2n} + R \log 2n`.)

    Examples
    --------
    >>> round(matrix_bernstein(1.0, 0.1, 50), 3)
    3.188
    """
    check_positive("matrix_bernstein", n=n)
    check_not_negative("matrix_bernstein", variance=variance, bound=bound)
    log = math.log(2 * n)
    return math.sqrt(2 * variance * log) + bound * log / 3


def kernel_matrix_mean_error(
    kernel_norm: float, n_rows: int, n_terms: int, *, mass: float = 1.0, form: str = "pairs"
) -> float:
    r"""Bound on the expected spectral norm of the error of a kernel matrix from iid Fourier features.

    :math:`\sqrt{2 B \|K\| \log(2N) / m} + B \log(2N) / (3m)`, where B bounds the norm of the matrix of one term: N Z
    for a sine-cosine pair, 2 N Z for a phase cosine, with mass Z = k(0). (Lopez-Paz et al. 2014, corrected.)

    Parameters
    ----------
    kernel_norm : float
        Spectral norm of K, at most N Z.
    n_rows : int
        Rows N.
    n_terms : int
        Independent frequencies m: of pairs, half the columns.
    mass : float, default=1.0
        Total mass k(0).
    form : {"pairs", "phase", "complex"}, default="pairs"
        Form of the features.

    Returns
    -------
    float

    Examples
    --------
    >>> round(kernel_matrix_mean_error(20.0, 60, 50), 1)
    17.1
    """
    variance, bound = _moments(kernel_norm, n_rows, n_terms, mass, form)
    return matrix_bernstein(variance, bound, n_rows)


def kernel_matrix_failure(
    eps: float, kernel_norm: float, n_rows: int, n_terms: int, *, mass: float = 1.0, form: str = "pairs"
) -> float:
    r"""Bound on the probability that the spectral norm of that error reaches `eps`.

    :math:`2N \exp(-\tfrac{1}{2} \epsilon^2 / (v + R \epsilon / 3))`: Tropp (2015), Theorem 1.6.2. Parameters as in
    `kernel_matrix_mean_error`.

    Examples
    --------
    >>> kernel_matrix_failure(10.0, 20.0, 60, 5000) < 1e-6
    True
    """
    check_positive("kernel_matrix_failure", eps=eps)
    variance, bound = _moments(kernel_norm, n_rows, n_terms, mass, form)
    return probability(math.log(2 * n_rows) - 0.5 * eps / (variance / eps + bound / 3))


def deformation_mean_error(
    kernel_norm: float,
    penalty_norm: float,
    n_rows: int,
    n_terms: int,
    *,
    mass: float = 1.0,
    form: str = "pairs",
) -> float:
    r"""Bound on the expected spectral norm of the error of a deformed kernel matrix.

    The bound of the plain matrix times the factor of every draw, :math:`(1 + \|K\| \|M\|)(1 + B \|M\|)`: the norm of
    :math:`\hat K` is at most B whatever is drawn. Other parameters as in `kernel_matrix_mean_error`.

    Examples
    --------
    >>> round(deformation_mean_error(20.0, 0.01, 60, 5000), 2)
    2.95
    """
    largest = _term_bound(n_rows, mass, form)
    factor = deformation_factor(kernel_norm, largest, penalty_norm)
    return factor * kernel_matrix_mean_error(kernel_norm, n_rows, n_terms, mass=mass, form=form)


def deformation_components(
    eps: float,
    delta: float,
    kernel_norm: float,
    penalty_norm: float,
    n_rows: int,
    *,
    mass: float = 1.0,
    form: str = "pairs",
) -> int:
    r"""Columns of iid Fourier features that put a deformed kernel matrix within `eps` with probability 1 - `delta`.

    If the plain matrix is within e, so that :math:`\|\hat K\| \le \|K\| + e`, the deformed one is within
    :math:`e (1 + \|K\| \|M\|)(1 + (\|K\| + e) \|M\|)`; e is solved for, and the columns follow from
    `kernel_matrix_failure`. A worst case, far above what is usually needed: the audit of a fitted map measures.

    Examples
    --------
    >>> deformation_components(1.0, 0.05, 20.0, 0.01, 60)
    79266
    """
    check_positive("deformation_components", eps=eps, kernel_norm=kernel_norm)
    check_not_negative("deformation_components", penalty_norm=penalty_norm)
    if not (isinstance(delta, Real) and 0 < delta < 1):
        msg = f"deformation_components: delta must be in (0, 1), got {delta!r}."
        raise ParameterError(msg)
    B = _term_bound(n_rows, mass, form)
    T = 1.0 + kernel_norm * penalty_norm
    # a e^2 + b e = eps with a = T |M| and b = T^2; written so that |M| = 0 is no division by zero.
    error = 2 * eps / (T * T + math.sqrt(T * T * T * T + 4 * T * penalty_norm * eps))
    needed = 2 * B * (kernel_norm / error + 1 / 3) / error * math.log(2 * n_rows / delta) if error > 0 else math.inf
    if not needed < math.inf:
        msg = (
            f"deformation_components: the bound asks for more columns than there are numbers, got eps={eps!r}, "
            f"kernel_norm={kernel_norm!r} and penalty_norm={penalty_norm!r}. Give a larger eps, or use mercer.audit."
        )
        raise ParameterError(msg)
    terms = max(1, math.ceil(needed))
    return 2 * terms if form == "pairs" else terms


def _moments(kernel_norm: float, n_rows: int, n_terms: int, mass: float, form: str) -> tuple[float, float]:
    """Return the variance and the bound of the terms: one is at most B off, a difference of matrices >= 0."""
    B = _term_bound(n_rows, mass, form)
    check_positive("kernel matrix", kernel_norm=kernel_norm, n_terms=n_terms)
    return B * kernel_norm / n_terms, B / n_terms


def _term_bound(n_rows: int, mass: float, form: str) -> float:
    """Return a bound on the norm of the matrix of one term."""
    check_positive("kernel matrix", n_rows=n_rows, mass=mass)
    if form not in FORM_WIDTH:
        msg = f"kernel matrix: form must be one of {', '.join(FORM_WIDTH)}, got {form!r}."
        raise ParameterError(msg)
    return n_rows * mass * (2.0 if form == "phase" else 1.0)
