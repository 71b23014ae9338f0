"""Statistical tests whose tolerance is a theorem.

`misfit` is at most one, except with probability `FAILURE`, if the samples have the expected means. So a test that
asserts ``misfit(...) <= 1`` never fails by chance, and its twin that asserts ``misfit(...) > 1`` for a wrong
expectation shows that it would see such a mistake.
"""

import numpy as np

FAILURE = 1e-9


def bernstein_radius(samples, *, width, failure=FAILURE):
    """Radius that the mean of independent rows leaves with probability <= `failure`, in any column.

    Maurer and Pontil (2009), Theorem 4, for values in an interval of length `width`: on both sides, hence
    `failure / 2`, and over the columns, hence a share of it for each.
    """
    n, columns = samples.shape
    log = np.log(2 / (failure / (2 * columns)))
    return np.sqrt(2 * samples.var(axis=0, ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))


def misfit(samples, expected, *, width):
    """Return the largest gap between column means and expected means, in units of its calibrated radius."""
    gap = np.abs(samples.mean(axis=0) - expected)
    return float((gap / bernstein_radius(samples, width=width)).max())


def pairs_of_rows(d, seed, *, unit_norm=False):
    """Return rows and partners: equal, near, one unit apart on an axis and off it, far; not around the origin."""
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
    """Return k(x, y) of each row and its partner."""
    return np.diagonal(kernel(X, Y))


def products(Z, W):
    """Return the approximate kernel of each row and its partner from their features."""
    return (Z * W.conj()).sum(axis=1).real


def estimates(feature_map, X, Y, n, seed):
    """Return the approximate kernel of each row and its partner for n independent draws: (n, rows)."""
    feature_map.set_params(random_state=np.random.default_rng(seed))
    rows = np.concatenate([X, Y])
    values = np.empty((n, len(X)))
    for i in range(n):
        # What fit and transform do, without the checks of the rows.
        features = feature_map.fit_sample(X[:1]).features_.astype(rows.dtype)
        Z = np.empty((len(rows), features.n_components), features.output_dtype(rows.dtype))
        features(rows, Z)
        values[i] = products(Z[: len(X)], Z[len(X) :])
    return values


def mass_of(kernel):
    """Return k(0)."""
    return sum(part.mass for part in kernel.spectral_parts())


def width_of(feature_map):
    """Return the length of an interval that holds every estimate: pairs stay within the mass, phases within twice."""
    even = (feature_map.form == "pairs" and feature_map.n_components % 2 == 0) or feature_map.form == "complex"
    constant = sum(part.mass for part in feature_map.kernel.spectral_parts() if not part.factors)
    # With an exact constant column, an even width leaves an odd number of cosines: take the wider interval.
    paired = even and not (constant and feature_map.form == "pairs")
    return (2 if paired else 4) * mass_of(feature_map.kernel)


# Groups of a median of means.
GROUPS = 61


def median_misfit(samples, expected, *, variance):
    """Return the same for medians of means of independent rows of a known variance, with no bound on their values.

    The mean of a group of g rows is further than 3 deviations / sqrt(g) from its own mean with a chance of at most 1/9
    (Chebyshev), and the median of 61 groups only if 31 of them are: by the binomial law a chance below 1e-11, which
    leaves 1e-9 for up to a hundred columns.
    """
    n, columns = samples.shape
    if n < GROUPS or columns > 100:
        raise ValueError(f"medians of means need at least {GROUPS} rows and at most 100 columns, got {samples.shape}.")
    size = n // GROUPS
    means = samples[: GROUPS * size].reshape(GROUPS, size, columns).mean(axis=1)
    # Values that are exact have no variance, but round.
    radius = 3 * np.sqrt(np.asarray(variance) / size) + 1e-10 * (1 + np.abs(expected))
    return float((np.abs(np.median(means, axis=0) - expected) / radius).max())


# Squared errors are cut off at this many variances: their tail would need more draws than a test can take.
CUT = 30


def excess(samples, expected, variance):
    """Return by how much squared errors exceed the claimed variance, in units of the calibrated radius.

    Squares that are cut off have a mean of at most the variance, and a range: this is one side of a test, without a
    bound of the values.
    """
    cut = np.minimum(np.square(samples - expected) / variance, CUT)
    return float(((cut.mean(axis=0) - 1) / bernstein_radius(cut, width=CUT)).max())


def bernstein_radius_of_sum(variance, bound, *, columns, failure=FAILURE):
    """Radius that a sum of independent terms, of a known variance and each within a bound, leaves with this chance.

    Bernstein's inequality, on both sides, and over the columns.
    """
    log = np.log(2 * columns / failure)
    return np.sqrt(2 * variance * log) + 2 * (2 * bound) * log / 3  # a term and its mean are apart by twice the bound
