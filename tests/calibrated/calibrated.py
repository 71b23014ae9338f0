"""Statistical tests with a proven failure probability.

`misfit` is at most one, except with probability `FAILURE`, if the samples have the expected means. So a test that
asserts ``misfit(...) <= 1`` practically never fails at random. Its twin asserts ``misfit(...) > 1`` for a wrong
expectation, which shows that the test detects such a mistake.
"""

import numpy as np

FAILURE = 1e-9


def bernstein_radius(samples, *, width, failure=FAILURE):
    """Return the radius of a confidence interval for the means of independent rows, simultaneous over the columns.

    The probability that any column mean deviates by more is at most `failure`. This is the empirical Bernstein bound of
    Maurer and Pontil (2009, COLT), Theorem 4, for values in an interval of length `width`. It is applied to both sides
    and to all columns by a union bound.
    """
    n, columns = samples.shape
    log = np.log(2 / (failure / (2 * columns)))
    return np.sqrt(2 * samples.var(axis=0, ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))


def misfit(samples, expected, *, width):
    """Return the largest deviation of a column mean from its expectation, in units of its confidence radius."""
    gap = np.abs(samples.mean(axis=0) - expected)
    return float((gap / bernstein_radius(samples, width=width)).max())


def pairs_of_rows(d, seed, *, unit_norm=False):
    """Return rows and partners that are equal, close, one unit apart along an axis and off it, and distant.

    The rows are not centered.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(0.5, 1.0, size=(5, d))
    if unit_norm:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        Y = rng.normal(size=(5, d))
        Y /= np.linalg.norm(Y, axis=1, keepdims=True)
        Y[0] = X[0]
        return X, Y
    lags = rng.normal(size=(5, d))
    lags *= np.array([0.0, 0.3, 0.0, 1.0, 2.5])[:, None] / np.linalg.norm(lags, axis=1, keepdims=True)
    lags[2, 0] = 1.0
    return X, X + lags


def kernel_of_pairs(kernel, X, Y):
    """Return k(x, y) for each row and its partner."""
    return np.diagonal(kernel(X, Y))


def products(Z, W):
    """Return the approximate kernel for each row and its partner from their features."""
    return (Z * W.conj()).sum(axis=1).real


def estimates(feature_map, X, Y, n, seed):
    """Return the approximate kernel for each row and its partner in n independent draws: (n, rows)."""
    feature_map.set_params(random_state=np.random.default_rng(seed))
    rows = np.concatenate([X, Y])
    values = np.empty((n, len(X)))
    for i in range(n):
        # The same as fit and transform, without validation of the rows.
        features = feature_map.fit_sample(X[:1]).features_.astype(rows.dtype)
        Z = np.empty((len(rows), features.n_components), features.output_dtype(rows.dtype))
        features(rows, Z)
        values[i] = products(Z[: len(X)], Z[len(X) :])
    return values


def mass_of(kernel):
    """Return k(0)."""
    return sum(part.mass for part in kernel.spectral_parts())


def width_of(feature_map):
    """Return the length of an interval that contains every estimate.

    Sine-cosine pairs are bounded by the mass of the kernel, and cosines with a phase by twice the mass.
    """
    even = (feature_map.form == "pairs" and feature_map.n_components % 2 == 0) or feature_map.form == "complex"
    constant = sum(part.mass for part in feature_map.kernel.spectral_parts() if not part.factors)
    # With an exact constant component, an even number of components leaves an odd number of cosines.
    paired = even and not (constant and feature_map.form == "pairs")
    return (2 if paired else 4) * mass_of(feature_map.kernel)


# Number of groups of a median of means.
GROUPS = 61


def median_misfit(samples, expected, *, variance):
    """Return the misfit of medians of means, for independent rows of known variance and without bounds of the values.

    By Chebyshev's inequality, the mean of a group of g rows deviates from its expectation by more than 3 standard
    deviations / sqrt(g) with probability at most 1/9. The median of 61 groups deviates as much only if 31 of them do,
    which by the binomial distribution has probability below 1e-11. So the failure probability is at most 1e-9 for up to
    a hundred columns.
    """
    n, columns = samples.shape
    if n < GROUPS or columns > 100:
        raise ValueError(f"medians of means need at least {GROUPS} rows and at most 100 columns, got {samples.shape}.")
    size = n // GROUPS
    means = samples[: GROUPS * size].reshape(GROUPS, size, columns).mean(axis=1)
    # Exact values have no variance, but rounding errors.
    radius = 3 * np.sqrt(np.asarray(variance) / size) + 1e-10 * (1 + np.abs(expected))
    return float((np.abs(np.median(means, axis=0) - expected) / radius).max())


# Squared errors are truncated at this many variances, since a heavy tail would need too many draws.
CUT = 30


def excess(samples, expected, variance):
    """Return by how much squared errors exceed the claimed variance, in units of the confidence radius.

    Truncated squares are bounded and have a mean of at most the variance. This gives a one-sided test that needs no
    bound of the values.
    """
    cut = np.minimum(np.square(samples - expected) / variance, CUT)
    return float(((cut.mean(axis=0) - 1) / bernstein_radius(cut, width=CUT)).max())


def bernstein_radius_of_sum(variance, bound, *, columns, failure=FAILURE):
    """Return the radius of a confidence interval for sums of independent bounded terms of known variance.

    The probability that any of `columns` sums deviates by more is at most `failure`, by Bernstein's inequality on both
    sides and a union bound.
    """
    log = np.log(2 * columns / failure)
    return (
        np.sqrt(2 * variance * log) + 2 * (2 * bound) * log / 3
    )  # a term differs from its mean by at most twice the bound
