"""Level of permutation tests, and power of quadratic-time, feature and linear-time statistics of two samples."""

from __future__ import annotations

import math

import numpy as np

from mercer.errors import ParameterError
from mercer.theory.domains import AT_LEAST_ZERO, COUNT, FAILURE, POSITIVE, WEIGHTS, checked

__all__ = ["linear_mmd_power", "mmd_power", "permutation_level"]

Array = np.ndarray


@checked(level=FAILURE, n_permutations=COUNT)
def permutation_level(level: float, n_permutations: int) -> float:
    r"""Return the exact probability that a permutation test rejects a true null hypothesis.

    The p-value is :math:`(1 + b) / (1 + B)`, where b of B random permutations have a statistic at least as large as the
    observed one. Under the null hypothesis, if ties have probability zero, it is uniform on the multiples of
    :math:`1 / (1 + B)`, so that it is at most `level` with probability
    :math:`\lfloor \alpha (1 + B) \rfloor / (1 + B)`. Ties make the probability smaller.

    Parameters
    ----------
    level : float
        Nominal level, in (0, 1).
    n_permutations : int
        Number B of permutations.

    Returns
    -------
    float
        At most `level`.

    References
    ----------
    .. [1] Phipson, Smyth (2010), Permutation p-values should never be zero, Statistical Applications in Genetics and
       Molecular Biology.

    Examples
    --------
    >>> from mercer.theory import permutation_level
    >>> permutation_level(0.05, 999), permutation_level(0.05, 100) < 0.05
    (0.05, True)
    """
    n = 1 + n_permutations
    return min(level, math.floor(level * n * (1 + 1e-12)) / n)  # 0.05 * 1000 is 50 despite rounding


@checked(eigenvalues=WEIGHTS, signals=WEIGHTS, m=COUNT, n=COUNT, level=FAILURE)
def mmd_power(eigenvalues: Array, signals: Array, m: int, n: int, level: float = 0.05) -> float:
    r"""Return the approximate power of the two-sample test with the squared difference of mean features.

    Along eigenvector i of the covariance of the features, with eigenvalue :math:`\lambda_i`, the difference of the
    means of samples of m and n rows is nearly normal, with variance :math:`\lambda_i (1/m + 1/n)` and a mean whose
    square is :math:`s_i`. The statistic is therefore a weighted sum of noncentral chi-squared variables, and its tails
    are computed by matching cumulants [1]_. With the eigenvalues of the kernel operator this is the power of the
    quadratic-time test; with those of the covariance matrix of D features it is that of the test on features. The
    difference is the power that the features lose.

    Parameters
    ----------
    eigenvalues : ndarray of shape (r,)
        Eigenvalues >= 0 of the covariance of the features, of which at least one is positive.
    signals : ndarray of shape (r,)
        Squared differences of the two means along the eigenvectors.
    m, n : int
        Sample sizes.
    level : float, default=0.05
        Level of the test.

    Returns
    -------
    float
        Power, in [0, 1].

    See Also
    --------
    linear_mmd_power : Power of the statistic that uses each row once.

    References
    ----------
    .. [1] Liu, Tang, Zhang (2009), A new chi-square approximation to the distribution of non-negative definite
       quadratic forms in non-central normal variables, Computational Statistics and Data Analysis.

    Examples
    --------
    One eigenvalue gives a noncentral chi-squared test with one degree of freedom, here at a shift of 2.8 standard
    errors:

    >>> from mercer.theory import mmd_power
    >>> round(mmd_power([1.0], [2.8**2 * 2 / 100], 100, 100), 2)
    0.8

    The same shift beside 20 other directions is harder to detect:

    >>> round(mmd_power([1.0] * 21, [2.8**2 * 2 / 100] + [0.0] * 20, 100, 100), 2)
    0.3
    """
    eigenvalues, signals = np.ravel(eigenvalues), np.ravel(signals)
    if eigenvalues.shape != signals.shape:
        msg = f"mmd_power: signals must have one number per eigenvalue, {len(eigenvalues)}, got {len(signals)}."
        raise ParameterError(msg)
    largest = float(eigenvalues.max(initial=0.0))
    if not largest > 0:
        msg = "mmd_power: eigenvalues must contain a number > 0."
        raise ParameterError(msg)
    scaled = eigenvalues / largest
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        shifts = signals / largest / (1 / m + 1 / n)  # squared means, in units of the largest variance
    if not shifts.sum() < MOST_SHIFT:
        return 1.0
    null = cumulants(scaled, np.zeros_like(scaled))
    return float(np.clip(upper_tail(upper_quantile(level, null), cumulants(scaled, shifts)), 0.0, 1.0))


# Sum of squared means, in units of the largest variance, above which a test is certain to reject.
MOST_SHIFT = 1e8


def cumulants(scaled: Array, shifts: Array) -> Array:
    """Return c_k = sum_i l_i^k + k l_i^(k-1) s_i for k from 1 to 4: those of sum_i (sqrt(l_i) z_i + sqrt(s_i))^2."""
    return np.array([(scaled**k).sum() + k * (scaled ** (k - 1) * shifts).sum() for k in range(1, 5)])


def matched(c: Array) -> tuple[float, float, float, float, float]:
    """Return mean and deviation of a quadratic form, and the parameters of the chi-squared variable that matches it.

    These are the degrees of freedom, the noncentrality and the deviation of the latter.
    """
    skewness, kurtosis = c[2] / c[1] ** 1.5, c[3] / c[1] ** 2
    if skewness**2 > kurtosis:
        a = 1 / (skewness - math.sqrt(skewness**2 - kurtosis))
        noncentrality = skewness * a**3 - a**2
        degrees = a**2 - 2 * noncentrality
    else:
        a, noncentrality = 1 / skewness, 0.0
        degrees = c[1] ** 3 / c[2] ** 2
    return float(c[0]), math.sqrt(2 * c[1]), degrees, noncentrality, math.sqrt(2) * a


def upper_quantile(level: float, c: Array) -> float:
    """Return the value that a central quadratic form exceeds with a probability of `level`."""
    from scipy.stats import chi2

    mean, deviation, degrees, noncentrality, own = matched(c)
    return mean + deviation * (float(chi2.isf(level, degrees)) - degrees - noncentrality) / own


def upper_tail(value: float, c: Array) -> float:
    """Return the probability that a quadratic form exceeds a value."""
    from scipy.stats import chi2, ncx2

    mean, deviation, degrees, noncentrality, own = matched(c)
    at = (value - mean) / deviation * own + degrees + noncentrality
    if at <= 0:
        return 1.0
    return float(ncx2.sf(at, degrees, noncentrality) if noncentrality > 0 else chi2.sf(at, degrees))


@checked(mmd2=AT_LEAST_ZERO, deviation=POSITIVE, n=COUNT, level=FAILURE)
def linear_mmd_power(mmd2: float, deviation: float, n: int, level: float = 0.05) -> float:
    r"""Return the approximate power of the linear-time statistic, the mean of n / 2 independent terms.

    Each term :math:`h = k(x, x') + k(y, y') - k(x, y') - k(x', y)` uses two rows of each sample once [1]_. Its mean is
    the squared discrepancy, and the power is :math:`\Phi(\sqrt{n/2}\, \mathrm{MMD}^2 / \sigma_h - z_\alpha)`.
    Detectable discrepancies are therefore of order :math:`n^{-1/2}`, and of order :math:`n^{-1}` for `mmd_power`.

    Parameters
    ----------
    mmd2 : float
        Squared maximum mean discrepancy of the two distributions.
    deviation : float
        Standard deviation of one term.
    n : int
        Number of rows of each sample.
    level : float, default=0.05
        Level of the test.

    Returns
    -------
    float
        Power, in [0, 1].

    See Also
    --------
    mmd_power : Power of the statistic that uses all pairs of rows, or features.

    References
    ----------
    .. [1] Gretton, Borgwardt, Rasch, Schoelkopf, Smola (2012), A kernel two-sample test, JMLR, section 6.

    Examples
    --------
    >>> from mercer.theory import linear_mmd_power
    >>> round(linear_mmd_power(0.02, 0.5, 1000), 2)
    0.23
    """
    from scipy.special import ndtr, ndtri

    return float(ndtr(min(math.sqrt(n // 2) * mmd2 / deviation, 1e3) + ndtri(level)))
