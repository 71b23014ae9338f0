"""Feature maps of scikit-learn for kernels of mercer, to measure them in the same way as maps of mercer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from mercer.errors import NoClosedFormError
from mercer.kernels import Chi2, Gaussian, Kernel, Laplacian, Polynomial

__all__ = ["Peer", "peers_for"]

Array = np.ndarray
#: Function from a number of components and a seed to an unfitted transformer, or to the reason why there is none.
MakePeer = Callable[[int, int], Any]
# Numbers of steps for which AdditiveChi2Sampler has a default interval of frequencies.
CHI2_STEPS = (1, 2, 3)


@dataclass(frozen=True)
class Peer:
    """A fitted transformer of scikit-learn with the kernel that it approximates, in the interface of a fitted map."""

    transformer: Any
    kernel_: Kernel
    n_components: int
    signs_: Array | None = None
    unbiased: bool | str = "it is a map of another library"
    residual_is_kernel: bool = False
    fitted_rows_: Array | None = None

    @classmethod
    def of(cls, transformer: Any, kernel: Kernel, X: Any) -> Peer:
        """Return the peer of a fitted transformer, given some rows."""
        return cls(transformer, kernel, transformer.transform(X[:1]).shape[1])

    @property
    def features_(self) -> Peer:
        """The object that has the number and the dtype of the components."""
        return self

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features, for rows of some dtype; at most this one."""
        return np.result_type(dtype, np.float64)

    def transform(self, X: Any) -> Array:
        """Return the features of rows."""
        return self.transformer.transform(X)

    def apply(self, X: Any) -> Array:
        """Return the features of rows as an array."""
        Z = self.transformer.transform(X)
        return Z.toarray() if sp.issparse(Z) else Z

    def inner_products(self, left: Array, right: Array) -> Array:
        """Return the approximate kernel matrix, given the features of two sets of rows."""
        return left @ right.T

    def gram(self, X: Any) -> Array:
        """Return the approximate kernel matrix of rows."""
        Z = self.apply(X)
        return self.inner_products(Z, Z)

    def known_variance(self, X: Any, Y: Any = None) -> NoReturn:  # noqa: ARG002 - the signature of a map
        """Raise: closed forms of variances are known for maps of mercer only."""
        msg = f"{type(self.transformer).__name__} has no closed form for its variance."
        raise NoClosedFormError(msg)


def peers_for(kernel: Kernel, n_features: int) -> Mapping[str, MakePeer]:
    """Return the transformers of scikit-learn that approximate a kernel, by name.

    `RBFSampler`, `PolynomialCountSketch` and `AdditiveChi2Sampler` are returned for the kernel of each, and `Nystroem`
    for the kernels that scikit-learn can evaluate on matrices. `SkewedChi2Sampler` approximates a kernel that mercer
    does not have.

    Parameters
    ----------
    kernel : Kernel
        The kernel, with a number for every parameter.
    n_features : int
        Number of features of the rows.

    Returns
    -------
    dict
        Values are functions of the number of components and the seed. They return an unfitted transformer, or a string
        that says why there is none with so few components.
    """
    make = PEERS.get(type(kernel))
    return {} if make is None else {f"sklearn {name}": one for name, one in make(kernel, n_features).items()}


def _nystroem(**kernel: Any) -> MakePeer:
    from sklearn.kernel_approximation import Nystroem

    return lambda width, seed: Nystroem(n_components=width, random_state=seed, **kernel)


def _of_gaussian(kernel: Any, n_features: int) -> dict[str, MakePeer]:  # noqa: ARG001 - the same for all of them
    from sklearn.kernel_approximation import RBFSampler

    gamma = 0.5 / float(kernel.lengthscale) ** 2
    return {
        "RBFSampler": lambda width, seed: RBFSampler(gamma=gamma, n_components=width, random_state=seed),
        "Nystroem": _nystroem(kernel="rbf", gamma=gamma),
    }


def _of_laplacian(kernel: Any, n_features: int) -> dict[str, MakePeer]:  # noqa: ARG001 - the same for all of them
    return {"Nystroem": _nystroem(kernel="laplacian", gamma=1 / float(kernel.lengthscale))}


def _of_polynomial(kernel: Any, n_features: int) -> dict[str, MakePeer]:  # noqa: ARG001 - the same for all of them
    from sklearn.kernel_approximation import PolynomialCountSketch

    shared = {"degree": int(kernel.degree), "gamma": float(kernel.scale), "coef0": float(kernel.coef0)}
    return {
        "PolynomialCountSketch": lambda width, seed: PolynomialCountSketch(
            n_components=width, random_state=seed, **shared
        ),
        "Nystroem": _nystroem(kernel="poly", **shared),
    }


def _of_chi2(kernel: Any, n_features: int) -> dict[str, MakePeer]:  # noqa: ARG001 - it has no parameters
    from sklearn.kernel_approximation import AdditiveChi2Sampler

    def make(width: int, seed: int) -> Any:  # noqa: ARG001 - it is not random
        fitting = [steps for steps in CHI2_STEPS if (2 * steps - 1) * n_features <= width]
        if not fitting:
            return f"AdditiveChi2Sampler has at least one component per feature, which are {n_features}"
        return AdditiveChi2Sampler(sample_steps=fitting[-1])

    return {"AdditiveChi2Sampler": make}


#: Kernels that scikit-learn has maps for.
PEERS: dict[type[Kernel], Callable[[Any, int], dict[str, MakePeer]]] = {
    Gaussian: _of_gaussian,
    Laplacian: _of_laplacian,
    Polynomial: _of_polynomial,
    Chi2: _of_chi2,
}
