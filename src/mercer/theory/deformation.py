r"""Bounds on the error of a kernel deformed by a graph, if the kernel is approximated by random Fourier features.

Let K be the kernel matrix of N rows, :math:`\hat K` its approximation, and :math:`M = \alpha L^c` a penalty matrix, a
power of the normalized graph Laplacian L of the rows. The deformed kernel matrices are

.. math:: \tilde K = K (I + M K)^{-1} \text{ (exact)}, \qquad \bar K = \hat K (I + M \hat K)^{-1} \text{ (approximate)}.

Ionescu, Popa and Sminchisescu (2017), Large-Scale Data-Dependent Kernel Approximation, AISTATS, bound
:math:`E \|\bar K - \tilde K\|` by a factor times :math:`E \|\hat K - K\|`. The functions implement this bound with
these corrections:

- The bound on :math:`E \|\hat K - K\|` has :math:`\log 2N` where the paper prints :math:`\log N`. Here :math:`\hat K`
  is a mean of one matrix per frequency. For cosines of random phase, :math:`\sqrt 2 \cos`, the bound on the norm of
  such a matrix is twice as large as for sine-cosine pairs.
- The factor and :math:`\hat K` depend on the same random frequencies, so the factor is bounded for all values of the
  frequencies and not on average.
- The factor is bounded in terms of :math:`\|\hat K\| \|M\|`, and not by determinants, which grow like a power of N.

See `docs/theory/deformation.md`.
"""

from __future__ import annotations

import math

import numpy as np

from mercer.errors import ParameterError
from mercer.theory.domains import (
    AT_LEAST_ZERO,
    COUNT,
    FAILURE,
    FORM,
    MATRIX,
    NORM,
    POSITIVE,
    FormName,
    checked,
    components,
    interval,
    probability,
    refuse,
    upper,
    within,
)

__all__ = [
    "deformation_components",
    "deformation_error",
    "deformation_factor",
    "deformation_mean_error",
    "graph_truncation_error",
    "kernel_matrix_failure",
    "kernel_matrix_mean_error",
    "matrix_bernstein",
    "penalty_norm",
]

Array = np.ndarray
# Eigenvalues that are left out; infinity if none is.
EIGENVALUE = interval(0, math.inf, "a number >= 0, or infinity", closed=(True, True))


@checked(exact=MATRIX, approximate=MATRIX, penalty=MATRIX)
def deformation_error(exact: Array, approximate: Array, penalty: Array) -> Array:
    r"""Return the error :math:`\bar K - \tilde K` of a deformed kernel matrix.

    The matrices are :math:`\tilde K = K (I + M K)^{-1}` and :math:`\bar K = \hat K (I + M \hat K)^{-1}`. Their
    difference is computed by the identity

    .. math:: \bar K - \tilde K = (I + K M)^{-1} (\hat K - K) (I + M \hat K)^{-1}

    Parameters
    ----------
    exact, approximate : ndarray of shape (n, n)
        Kernel matrices K and :math:`\hat K`, positive semi-definite.
    penalty : ndarray of shape (n, n)
        The penalty matrix M, positive semi-definite.

    Returns
    -------
    ndarray of shape (n, n)
        The error :math:`\bar K - \tilde K`.

    See Also
    --------
    deformation_factor : Bound on the norm of this error divided by the norm of :math:`\hat K - K`.

    Examples
    --------
    >>> deformation_error(np.array([[1.0]]), np.array([[1.5]]), np.array([[2.0]]))
    array([[0.04166667]])
    >>> round(1.5 / (1 + 2 * 1.5) - 1 / (1 + 2 * 1), 8)
    0.04166667
    """
    for name, matrix in (("approximate", approximate), ("penalty", penalty)):
        if matrix.shape != exact.shape:
            refuse("deformation_error", name, f"of the shape {exact.shape} of exact", str(matrix.shape))
    eye = np.eye(len(exact))
    with np.errstate(over="ignore", invalid="ignore"):
        left, right, gap = eye + exact @ penalty, eye + penalty @ approximate, approximate - exact
    if not all(np.isfinite(matrix).all() for matrix in (left, right, gap)):
        refuse("deformation_error", "penalty", "small enough for I + K M to be within float64", "an overflow")
    try:
        error = np.linalg.solve(right.T, np.linalg.solve(left, gap).T).T
    except np.linalg.LinAlgError:
        error = np.full_like(gap, np.nan)
    if not np.isfinite(error).all():
        msg = "deformation_error: I + K M is singular, which it never is for positive semi-definite matrices."
        raise ParameterError(msg)
    return error


@checked(strength=AT_LEAST_ZERO, power=AT_LEAST_ZERO)
def penalty_norm(strength: float, power: float) -> float:
    r"""Return the bound :math:`\alpha 2^c` on the spectral norm of the penalty matrix :math:`\alpha L^c`.

    It holds because the eigenvalues of a normalized graph Laplacian L are at most two.

    Parameters
    ----------
    strength : float
        Strength :math:`\alpha` of the graph, at least zero.
    power : float
        Power c of the Laplacian, at least zero.

    %(theory_bound)s

    See Also
    --------
    deformation_factor : Bound on the error of a deformed kernel, which uses the norm.

    Examples
    --------
    >>> penalty_norm(10.0, 2)
    40.0
    """
    fraction, exponent = math.frexp(strength)
    whole = math.floor(power)
    try:
        # 2^c alone may exceed the range of float64 even if alpha 2^c does not.
        return math.ldexp(fraction * 2.0 ** (power - whole), exponent + whole)
    except OverflowError:
        return math.inf


@checked(kernel_norm=NORM, approximate_norm=NORM, penalty_norm=NORM)
def deformation_factor(kernel_norm: float, approximate_norm: float, penalty_norm: float) -> float:
    r"""Return the bound :math:`(1 + \|K\| \|M\|)(1 + \|\hat K\| \|M\|)` on how much a deformation amplifies errors.

    The deformation maps K to :math:`\tilde K = K (I + M K)^{-1}` and its approximation :math:`\hat K` to
    :math:`\bar K = \hat K (I + M \hat K)^{-1}`. In spectral norms,
    :math:`\|\bar K - \tilde K\| \le (1 + T)(1 + R) \|\hat K - K\|` with
    :math:`T = \|(I + M K)^{-1} M K\| \le \|K\| \|M\|` and
    :math:`R = \|\hat K M (I + \hat K M)^{-1}\| \le \|\hat K\| \|M\|`. This is a worst case: errors that are smooth on
    the graph, as most are, are hardly amplified, and errors that are rough on the graph are damped.

    Parameters
    ----------
    kernel_norm, approximate_norm, penalty_norm : float
        Spectral norms of K, :math:`\hat K` and M, or upper bounds of them.

    Returns
    -------
    float
        The factor; infinite if it exceeds the range of float64.

    See Also
    --------
    deformation_mean_error : Bound on the expected error.

    References
    ----------
    .. [1] Ionescu, Popa, Sminchisescu (2017), Large-Scale Data-Dependent Kernel Approximation, AISTATS, appendix,
       Lemma 3.

    Examples
    --------
    >>> deformation_factor(2.0, 3.0, 0.5)
    5.0
    """
    return upper((1 + kernel_norm * penalty_norm) * (1 + approximate_norm * penalty_norm))


@checked(variance=AT_LEAST_ZERO, bound=AT_LEAST_ZERO, n=COUNT)
def matrix_bernstein(variance: float, bound: float, n: int) -> float:
    r"""Return a bound on the expected spectral norm of a sum of independent symmetric matrices of mean zero.

    For n x n matrices :math:`S_i` with :math:`\|S_i\| \le R` and :math:`\|\sum_i E[S_i^2]\| \le v`, the bound is
    :math:`E \|\sum_i S_i\| \le \sqrt{2 v \log 2n} + \tfrac{1}{3} R \log 2n` [1]_. (Ionescu et al. (2017) use the weaker
    :math:`\sqrt{3 v \log 2n} + R \log 2n`.)

    Parameters
    ----------
    variance : float
        Bound v on the spectral norm of :math:`\sum_i E[S_i^2]`.
    bound : float
        Bound R on the spectral norm of every :math:`S_i`.
    n : int
        Number n of rows and columns of the matrices.

    %(theory_bound)s

    See Also
    --------
    kernel_matrix_mean_error : The bound for the error of kernel matrices.

    %(theory_tropp)s

    Examples
    --------
    >>> round(matrix_bernstein(1.0, 0.1, 50), 3)
    3.188
    """
    log = math.log(2) + math.log(n)
    return math.sqrt(variance) * math.sqrt(2 * log) + bound * log / 3


@checked(kernel_norm=POSITIVE, n_rows=COUNT, n_terms=COUNT, mass=POSITIVE, form=FORM)
def kernel_matrix_mean_error(
    kernel_norm: float, n_rows: int, n_terms: int, *, mass: float = 1.0, form: FormName = "pairs"
) -> float:
    r"""Return a bound on the expected error :math:`E \|\hat K - K\|` of a kernel matrix from iid Fourier features.

    The approximation :math:`\hat K` is the mean of m matrices, one per frequency. In spectral norms the bound is
    :math:`\sqrt{2 B \|K\| \log(2N) / m} + B \log(2N) / (3m)`, where B bounds the norm of the matrix of one frequency.
    With Z = k(0), B is N Z for a sine-cosine pair or a complex exponential, and 2 N Z for a cosine of random phase. It
    is a corrected form of Theorem 2 of the appendix of [1]_, which follows [2]_.

    Parameters
    ----------
    kernel_norm : float
        Spectral norm of K, at least Z and at most N Z.
    n_rows : int
        Number N of rows.
    n_terms : int
        Number m of independent frequencies, which is half the number of components for sine-cosine pairs.
    mass : float, default=1.0
        Value Z = k(0) of the kernel at zero.
    %(theory_form)s

    %(theory_bound)s

    See Also
    --------
    kernel_matrix_failure : Bound on the probability of a large error.
    deformation_mean_error : Bound on the expected error of a deformed kernel matrix.

    References
    ----------
    .. [1] Ionescu, Popa, Sminchisescu (2017), Large-Scale Data-Dependent Kernel Approximation, AISTATS.
    .. [2] Lopez-Paz, Sra, Smola, Ghahramani, Schölkopf (2014), Randomized Nonlinear Component Analysis, ICML.

    Examples
    --------
    >>> round(kernel_matrix_mean_error(20.0, 60, 50), 1)
    17.1
    """
    return _mean_error("kernel_matrix_mean_error", kernel_norm, n_rows, n_terms, mass, form)


@checked(eps=POSITIVE, kernel_norm=POSITIVE, n_rows=COUNT, n_terms=COUNT, mass=POSITIVE, form=FORM)
def kernel_matrix_failure(
    eps: float, kernel_norm: float, n_rows: int, n_terms: int, *, mass: float = 1.0, form: FormName = "pairs"
) -> float:
    r"""Return a bound on the probability that the error :math:`\|\hat K - K\|` of a kernel matrix is at least `eps`.

    The approximation :math:`\hat K` is the mean of m matrices, one per independent frequency of Fourier features. In
    spectral norms the bound is :math:`2N \exp(-\tfrac{1}{2} \epsilon^2 / (v + R \epsilon / 3))` [1]_ with
    :math:`v = B \|K\| / m` and R = B / m. Here B bounds the norm of the matrix of one frequency: with Z = k(0), it is
    N Z for a sine-cosine pair or a complex exponential, and 2 N Z for a cosine of random phase.

    Parameters
    ----------
    eps : float
        Spectral norm of the error.
    kernel_norm : float
        Spectral norm of K, at least Z and at most N Z.
    n_rows : int
        Number N of rows.
    n_terms : int
        Number m of independent frequencies, which is half the number of components for sine-cosine pairs.
    mass : float, default=1.0
        Value Z = k(0) of the kernel at zero.
    %(theory_form)s

    %(theory_probability)s

    See Also
    --------
    kernel_matrix_mean_error : Bound on the expected error.

    %(theory_tropp)s

    Examples
    --------
    >>> kernel_matrix_failure(10.0, 20.0, 60, 5000) < 1e-6
    True
    """
    kernel_norm = _admissible("kernel_matrix_failure", kernel_norm, n_rows, mass)
    bound = _term_bound(n_rows, mass, form) / n_terms
    divisor = bound * kernel_norm / eps + bound / 3
    exponent = 0.5 * eps / divisor if divisor > 0 else math.inf
    return probability(math.log(2) + math.log(n_rows) - exponent)


@checked(kernel_norm=POSITIVE, penalty_norm=NORM, n_rows=COUNT, n_terms=COUNT, mass=POSITIVE, form=FORM)
def deformation_mean_error(
    kernel_norm: float,
    penalty_norm: float,
    n_rows: int,
    n_terms: int,
    *,
    mass: float = 1.0,
    form: FormName = "pairs",
) -> float:
    r"""Return a bound on the expected error :math:`E \|\bar K - \tilde K\|` of a deformed kernel matrix.

    The matrices are :math:`\tilde K = K (I + M K)^{-1}` and :math:`\bar K = \hat K (I + M \hat K)^{-1}`, where
    :math:`\hat K` is the kernel matrix from iid Fourier features, and the norm is the spectral norm. The bound is
    `kernel_matrix_mean_error`, which bounds :math:`E \|\hat K - K\|`, times the factor
    :math:`(1 + \|K\| \|M\|)(1 + B \|M\|)`, with B = 2 N Z for cosines of random phase and B = N Z otherwise. The factor
    is `deformation_factor` with :math:`\|\hat K\| \le B`, which is true for all values of the random frequencies.

    Parameters
    ----------
    kernel_norm : float
        Spectral norm of K, at least Z and at most N Z.
    %(theory_penalty_norm)s
    n_rows : int
        Number N of rows.
    n_terms : int
        Number m of independent frequencies, which is half the number of components for sine-cosine pairs.
    mass : float, default=1.0
        Value Z = k(0) of the kernel at zero.
    %(theory_form)s

    %(theory_bound)s

    See Also
    --------
    deformation_components : The number of components for a given error.

    References
    ----------
    .. [1] Ionescu, Popa, Sminchisescu (2017), Large-Scale Data-Dependent Kernel Approximation, AISTATS, appendix,
       Proposition 3.

    Examples
    --------
    >>> round(deformation_mean_error(20.0, 0.01, 60, 5000), 2)
    2.95
    """
    plain = _mean_error("deformation_mean_error", kernel_norm, n_rows, n_terms, mass, form)
    return upper(deformation_factor(kernel_norm, _term_bound(n_rows, mass, form), penalty_norm) * plain)


@checked(eps=POSITIVE, delta=FAILURE, kernel_norm=POSITIVE, penalty_norm=NORM, n_rows=COUNT, mass=POSITIVE, form=FORM)
def deformation_components(
    eps: float,
    delta: float,
    kernel_norm: float,
    penalty_norm: float,
    n_rows: int,
    *,
    mass: float = 1.0,
    form: FormName = "pairs",
) -> int:
    r"""Return how many Fourier components give a deformed kernel matrix an error <= `eps` with probability 1 - `delta`.

    The frequencies are independent. If the error :math:`\|\hat K - K\|` of the kernel matrix is at most e, then
    :math:`\|\hat K\| \le \|K\| + e`, and by `deformation_factor` the error of the deformed matrix is at most
    :math:`e (1 + \|K\| \|M\|)(1 + (\|K\| + e) \|M\|)`. This is set equal to `eps` and solved for e; the number of
    components follows from `kernel_matrix_failure` for an error of e. It is a worst case and far larger than usually
    needed; `mercer.audit` measures the error of a fitted map.

    Parameters
    ----------
    eps : float
        Largest spectral norm of the error.
    delta : float
        Probability of a larger error, in (0, 1).
    kernel_norm : float
        Spectral norm of the kernel matrix K, at least Z and at most N Z.
    %(theory_penalty_norm)s
    n_rows : int
        Number N of rows.
    mass : float, default=1.0
        Value Z = k(0) of the kernel at zero.
    %(theory_form)s

    %(theory_number_of_components)s

    See Also
    --------
    mercer.Deformed : The map.
    mercer.audit : Measure the error of a fitted map.

    Examples
    --------
    >>> deformation_components(1.0, 0.05, 20.0, 0.01, 60)
    79266
    """
    kernel_norm = _admissible("deformation_components", kernel_norm, n_rows, mass)
    T = 1.0 + kernel_norm * penalty_norm
    # The positive root of a e^2 + b e = eps with a = T |M| and b = T^2, without a division by a, which may be zero.
    error = 2 * eps / (T * T + math.sqrt(T * T * T * T + 4 * T * penalty_norm * eps))
    needed = math.inf
    if error > 0:
        log = math.log(2) + math.log(n_rows) - math.log(delta)
        needed = 2 * _term_bound(n_rows, mass, form) * (kernel_norm / error + 1 / 3) / error * log
    given = {"eps": eps, "kernel_norm": kernel_norm, "penalty_norm": penalty_norm}
    terms = components("deformation_components", needed, **given)
    return 2 * terms if form == "pairs" else terms


def _mean_error(owner: str, kernel_norm: float, n_rows: int, n_terms: int, mass: float, form: FormName) -> float:
    """Return the bound that `kernel_matrix_mean_error` documents; error messages name the function `owner`.

    The approximation is the mean of m matrices A_i, one per frequency. The norm of A_i - K is at most B, because A_i
    and K are positive semi-definite and have norms of at most B.
    """
    kernel_norm = _admissible(owner, kernel_norm, n_rows, mass)
    bound = _term_bound(n_rows, mass, form) / n_terms
    if not bound * kernel_norm < math.inf:
        return math.inf
    return matrix_bernstein(bound * kernel_norm, bound, n_rows)


def _admissible(owner: str, kernel_norm: float, n_rows: int, mass: float) -> float:
    """Return `kernel_norm`, the spectral norm of an N x N kernel matrix; raise unless it is in [Z, N Z].

    Here Z is `mass` and N is `n_rows`. The norm of every kernel matrix lies in the interval, because the trace is N Z.
    """
    return float(
        within(
            owner,
            "kernel_norm",
            kernel_norm,
            mass,
            n_rows * mass,
            "in [mass, n_rows * mass], for a trace n_rows * mass",
        )
    )


def _term_bound(n_rows: int, mass: float, form: FormName) -> float:
    """Return a bound B on the spectral norm of the N x N kernel matrix that is estimated from one frequency.

    With N = `n_rows` and Z = `mass`, B is 2 N Z for cosines of random phase and N Z for the other forms.
    """
    return n_rows * mass * (2.0 if form == "phase" else 1.0)


@checked(next_eigenvalue=EIGENVALUE, strength=AT_LEAST_ZERO, power=POSITIVE)
@checked(next_eigenvalue=NORM, strength=AT_LEAST_ZERO, power=AT_LEAST_ZERO)
def graph_truncation_error(next_eigenvalue: float, strength: float, power: float) -> float:
    r"""Return the error of the kernel of a graph if only the smoothest eigenvectors of its Laplacian are used.

    The kernel :math:`(I + s L^c)^{-1}` minus its part on the eigenvectors of the smallest eigenvalues is positive
    semi-definite, and its spectral norm is :math:`1 / (1 + s \mu^c)`, where :math:`\mu` is the smallest eigenvalue that
    is left out. This is an equality, not only a bound.

    It follows for the values of functions: let :math:`f_k` and f be the ridge fits of m targets y with the penalty
    :math:`\rho`, with and without truncation. At all nodes,

    .. math:: |f_k - f| \le \varepsilon |y| / \rho \, (1 + 1 / \rho),

    where :math:`\varepsilon` is the error, since the norms of both kernels are at most one.

    Parameters
    ----------
    next_eigenvalue : float
        The smallest eigenvalue :math:`\mu` that is left out; infinity if none is. See `GraphBasis.next_eigenvalue_`.
    strength, power : float
        The parameters s and c of the kernel.

    Returns
    -------
    float
        The spectral norm of the difference of the kernel matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.theory import graph_truncation_error
    >>> round(graph_truncation_error(0.15, 1e4, 1.5), 6)
    0.001718
    """
    if np.isinf(next_eigenvalue):
        return 0.0
    if strength == 0:  # whatever overflows below
        return 1.0
    with np.errstate(over="ignore"):
        return float(1.0 / (1.0 + strength * np.float64(next_eigenvalue) ** power))
