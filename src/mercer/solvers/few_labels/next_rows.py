r"""Rows to label next: those whose labels reduce the variance of a Gaussian process on the graph the most.

With features z, prior covariance I of the coefficients and noise :math:`\rho`, the labels of some rows leave the
covariance C of the coefficients. A further label at x reduces the sum of the variances of all nodes by
:math:`z' C G C z / (\rho + z' C z)`, where G is the sum of :math:`z z'` over the nodes [1]_. This prefers rows that
represent many others; the largest variance alone prefers outliers.

.. [1] Ji, Han (2012), A variance minimization criterion to active learning on graphs, AISTATS.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from mercer.engines.base import blas_threads_for

__all__ = ["next_rows", "posterior_covariance"]

Array = np.ndarray


def posterior_covariance(Z: Array, noise: float, n_components: int) -> Array:
    """Return the covariance (D, D) of coefficients with prior covariance I, after observations at rows Z (m, D)."""
    C = np.eye(n_components)
    if len(Z):
        system = Z @ Z.T
        system[np.diag_indices_from(system)] += noise
        with blas_threads_for(len(system)):
            C -= Z.T @ scipy.linalg.solve(system, Z, assume_a="pos")
    return (C + C.T) / 2


def next_rows(
    Z: Array, gram: Array, labeled: Array, count: int, *, noise: float, criterion: str = "total"
) -> tuple[Array, Array]:
    """Return rows to label, one after the other, each as if those before it were labeled.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
        Features of the rows that can be labeled.
    gram : ndarray of shape (D, D)
        Mean of z z' over all nodes.
    labeled : ndarray of shape (m, D)
        Features of the rows that are labeled.
    count : int
        Number of rows to return.
    noise : float
        Variance of the noise.
    criterion : {"total", "largest"}, default="total"
        The reduction of the mean variance of all nodes, or the variance of the row itself.

    Returns
    -------
    rows : ndarray of shape (count,)
        Indices of the rows.
    gains : ndarray of shape (count,)
        The value of the criterion for each of them.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[1.0, 0.0], [0.9, 0.0], [0.0, 0.5]])
    >>> next_rows(Z, Z.T @ Z / 3, Z[:1], 1, noise=0.01)[0].tolist()  # the second row is near the labeled one
    [2]
    """
    C = posterior_covariance(labeled, noise, Z.shape[1])
    free = np.ones(len(Z), dtype=bool)
    rows, gains = [], []
    for _ in range(min(count, len(Z))):
        image = Z @ C
        variance = np.einsum("ij,ij->i", image, Z)
        if criterion == "total":
            gain = np.einsum("ij,ij->i", image @ gram, image) / (noise + np.maximum(variance, 0.0))
        else:
            gain = variance
        gain = np.where(free, gain, -np.inf)
        best = int(gain.argmax())
        rows.append(best)
        gains.append(float(gain[best]))
        free[best] = False
        C -= np.outer(image[best], image[best]) / (noise + max(variance[best], 0.0))
    return np.array(rows, dtype=int), np.array(gains)
