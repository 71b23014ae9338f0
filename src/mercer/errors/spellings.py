"""Advice for parameter names that do not exist, such as those of scikit-learn.

`advice` is called after the fact, to write an error message: nothing here is evaluated for a correct call. It looks at
the names that the class or function has, so that a user's own class is covered as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any, TypeGuard

__all__ = ["advice", "kernel_expression", "object_hint"]

# Names in other libraries, or in formulas, and the names of the same parameter here, in order of preference.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "lengthscale": ("length_scale", "length_scales", "lengthscales", "sigma", "bandwidth", "ell", "width", "l"),
    "n_components": (
        *("n_features", "num_features", "n_landmarks", "num_components", "n_rff", "n_samples", "dim", "rank", "D", "m"),
        "n_inducing",
    ),
    "n_clusters": ("k", "num_clusters", "n_classes", "clusters"),
    "n_neighbors": ("k", "num_neighbors", "neighbors"),
    "random_state": ("seed", "random_seed", "rng", "generator"),
    "n_jobs": ("n_threads", "num_threads", "threads", "n_workers", "workers", "n_cpus"),
    "alpha": (
        "lambda_",
        "lam",
        "lambd",
        "reg",
        "reg_param",
        "ridge",
        "l2",
        "regularization",
        "penalty",
        "weight_decay",
    ),
    "C": ("c", "cost"),
    "block_size": ("chunk_size", "chunksize", "chunks", "batch_rows"),
    "batch_size": ("minibatch_size", "batch", "chunk_size"),
    "degree": ("p", "order", "deg", "d"),
    "order": ("degree", "n"),
    "coef0": ("c", "c0", "constant", "bias", "offset", "intercept"),
    "scale": ("gamma", "factor"),
    "tol": ("tolerance", "eps", "epsilon"),
    "max_iter": ("n_iter", "max_iterations", "iterations", "epochs", "n_epochs", "n_passes"),
    "fit_intercept": ("intercept", "bias"),
    "noise": ("noise_std", "sigma_n", "noise_level"),
    "kernel": ("feature_map",),
    "feature_map": ("map", "features", "feature_maps", "transformer", "embedding"),
    "estimator": ("model", "base_estimator", "learner"),
    "weight": ("weights", "sample_weight", "constant_value", "scale"),
    "target": ("y", "label", "labels", "targets", "target_column"),
    "columns": ("usecols", "features", "names"),
    "source": ("path", "file", "filename", "files"),
    "criterion": ("scoring", "score"),
    "strengths": ("strength", "alphas"),
    "strength": ("alpha", "gamma", "lambda_"),
    "max_bytes": ("memory", "max_memory", "bytes"),
    "lengthscale_tuning": ("lengthscale", "ard"),
    "powers": ("power",),
    "penalties": ("alpha", "penalty"),
    "n_permutations": ("permutations", "n_resamples", "n_perm", "n_bootstraps"),
    "n_rows": ("n_samples", "sample_size", "rows"),
    "exact": ("approximate",),
}
KERNEL_NAMES = ("kernel", "gamma", "degree", "coef0", "kernel_params", "length_scale", "lengthscale", "nu", "sigma")
MEDIAN = 'mercer.Gaussian("median")'


def advice(owner: str, unknown: Mapping[str, Any], accepted: Sequence[str]) -> str:
    """Return sentences that say what to write instead of unknown keyword arguments.

    Parameters
    ----------
    owner : str
        Name of the class or function that was called.
    unknown : mapping
        Names and values of the arguments that it does not have.
    accepted : sequence of str
        Names of the parameters that it has.

    Examples
    --------
    >>> advice("Gaussian", {"gamma": 2}, ["lengthscale"])
    "scikit-learn's gamma is 1 / (2 lengthscale^2): write Gaussian(lengthscale=0.5) or Gaussian.from_gamma(2)."
    >>> advice("KernelKMeans", {"n_cluster": 3}, ["feature_map", "n_clusters"])
    'Did you mean n_clusters=3?'
    """
    rest = dict(unknown)
    sentences = []
    for rule in (_kernel_of_learner, _gamma_of_kernel, _components_of_learner, _penalty):
        sentence = rule(owner, rest, accepted)
        if sentence:
            sentences.append(sentence)
    sentences += [_other_name(name, value, accepted) for name, value in rest.items()]
    if not all(sentences):
        sentences.append(f"{owner} has {_list(accepted)}." if accepted else f"{owner} has no parameters.")
    return " ".join(filter(None, sentences))


def object_hint(choice: Any, parameter: str) -> str:
    """Return a sentence that says what to pass, if `choice` was passed where a kernel or a map is needed.

    Strings of scikit-learn, numbers, classes in place of objects, and kernels and maps of scikit-learn are recognized;
    otherwise the result is empty.

    Examples
    --------
    >>> object_hint("rbf", "kernel")
    'Kernels are objects: write kernel=mercer.Gaussian("median").'
    """
    if isinstance(choice, str):
        known = kernel_expression({"kernel": choice})
        if known:
            return f"Kernels are objects: write {parameter}={known}."
        return f'Kernels and maps are objects, such as {MEDIAN} or mercer.Nystroem(). There is none named "{choice}".'
    if isinstance(choice, Real):
        return f"Numbers have names: n_clusters={choice} for clusters, n_components={choice} for components."
    if isinstance(choice, type):
        return f"Pass an object, not the class: write {parameter}={choice.__name__}()."
    if callable(choice) and not hasattr(choice, "get_params"):
        return f"A function is made a kernel by mercer.CallableKernel({getattr(choice, '__name__', 'function')})."
    if type(choice).__module__.partition(".")[0] == "sklearn":
        like = {"RBF": MEDIAN, "Matern": 'mercer.Matern(1.5, "median")', "RBFSampler": "mercer.RandomFourier()"}
        name = type(choice).__name__
        return f"Those of scikit-learn cannot be used: write {parameter}={like.get(name, _twin(name, parameter))}."
    return ""


def _twin(name: str, parameter: str) -> str:
    return "mercer.Nystroem()" if name == "Nystroem" else MEDIAN if parameter == "kernel" else "mercer.RandomFourier()"


def kernel_expression(given: Mapping[str, Any]) -> str | None:
    """Return the expression of a kernel, given parameters as scikit-learn spells them; None if it does not exist here.

    Examples
    --------
    >>> kernel_expression({"kernel": "poly", "degree": 2, "gamma": 0.1})
    'mercer.Polynomial(2, coef0=1, scale=0.1)'
    """
    given = {**given, **(given.get("kernel_params") or {})}
    kernel, gamma = given.get("kernel"), given.get("gamma")
    if kernel is None:
        kernel = "poly" if "degree" in given or "coef0" in given else "matern" if "nu" in given else "rbf"
    if not isinstance(kernel, str):
        return None if callable(kernel) and not hasattr(kernel, "get_params") else repr(kernel)
    name = kernel.lower().replace("-", "_").replace(" ", "_")
    scale = next((given[one] for one in ("lengthscale", "length_scale", "sigma") if one in given), None)
    if name in ("rbf", "gaussian", "se", "squared_exponential", "squaredexponential"):
        if _is_positive(gamma):
            scale = (2 * gamma) ** -0.5
        return f"mercer.Gaussian(lengthscale={scale:.4g})" if _is_positive(scale) else MEDIAN
    if name == "laplacian":
        scale = 1 / gamma if _is_positive(gamma) else scale
        return f"mercer.Laplacian(lengthscale={scale:.4g})" if _is_positive(scale) else 'mercer.Laplacian("median")'
    if name in ("poly", "polynomial"):
        factor = f", scale={gamma:.4g}" if _is_positive(gamma) else ""
        return f"mercer.Polynomial({given.get('degree', 3)}, coef0={given.get('coef0', 1)}{factor})"
    if name == "matern":
        tail = f"lengthscale={scale:.4g}" if _is_positive(scale) else 'lengthscale="median"'
        return f"mercer.Matern({given.get('nu', 1.5)}, {tail})"
    return {
        "linear": "mercer.Polynomial(1, coef0=0)",
        "intersection": "mercer.Intersection()",
        "cauchy": 'mercer.Cauchy("median")',
        "precomputed": "mercer.Precomputed()",
    }.get(name)


# ---- rules, which remove the names that they answer from `rest` ------------------------------------


def _kernel_of_learner(owner: str, rest: dict[str, Any], accepted: Collection[str]) -> str:
    """Kernels and their parameters, passed to a learner, to a map or to a test."""
    parameter = next((name for name in ("feature_map", "kernel") if name in accepted), None)
    names = [name for name in KERNEL_NAMES if parameter and name in rest and name not in accepted]
    if "lengthscale_tuning" in accepted:  # a string says how to tune the lengthscale
        names = [name for name in names if name != "lengthscale" or not isinstance(rest[name], str)]
    found = {name: rest.pop(name) for name in names}
    if not found:
        return ""
    expression = kernel_expression(found)
    if expression is None:
        return f"{found['kernel']!r} is no kernel of mercer; kernels are objects, such as {parameter}={MEDIAN}."
    belong = "belongs" if len(found) == 1 else "belong"
    why = "" if "kernel" in found else f"{_list(sorted(found))} {belong} to the kernel. "
    which = "kernels and maps are passed as feature_map" if parameter == "feature_map" else "kernels are objects"
    return f"{why}In mercer {which}: write {owner}({parameter}={expression})."


def _gamma_of_kernel(owner: str, rest: dict[str, Any], accepted: Collection[str]) -> str:
    """scikit-learn's gamma, passed to a kernel that has a lengthscale."""
    if "gamma" not in rest or "lengthscale" not in accepted or "kernel" in accepted:
        return ""
    gamma = rest.pop("gamma")
    if owner == "Laplacian":
        value = f"{1 / gamma:.4g}" if _is_positive(gamma) else '"median"'
        return f"scikit-learn's gamma is 1 / lengthscale: write {owner}(lengthscale={value})."
    if owner == "Gaussian":
        if not _is_positive(gamma):
            return f'scikit-learn\'s gamma is 1 / (2 lengthscale^2): write {owner}("median"), or a number.'
        line = f"{owner}(lengthscale={(2 * gamma) ** -0.5:.4g}) or {owner}.from_gamma({gamma!r})"
        return f"scikit-learn's gamma is 1 / (2 lengthscale^2): write {line}."
    return f'It has a lengthscale, in the units of the rows: write {owner}(lengthscale="median"), or a number.'


def _components_of_learner(owner: str, rest: dict[str, Any], accepted: Collection[str]) -> str:
    """Numbers of components, passed to a learner instead of its map."""
    names = ("n_components", *SYNONYMS["n_components"])
    name = next((name for name in names if name in rest), None)
    if name is None or "n_components" in accepted or "feature_map" not in accepted:
        return ""
    value = rest.pop(name)
    return f"The map has the components: write {owner}(feature_map=mercer.RandomFourier(n_components={value!r}))."


def _penalty(owner: str, rest: dict[str, Any], accepted: Collection[str]) -> str:
    """C in place of alpha, alpha in place of C or of noise, and lists of penalties."""
    if "C" in rest and "alpha" in accepted:
        C = rest.pop("C")
        return f"The penalty is alpha = 1 / (2 C): write alpha={1 / (2 * C):.4g}." if _is_positive(C) else "Use alpha."
    if "alphas" in rest and "alpha" in accepted:
        rest.pop("alphas")
        rest.pop("cv", None)
        return f'It chooses among penalties by itself: write {owner}(alpha="loo").'
    if "alpha" in rest and "C" in accepted:
        alpha = rest.pop("alpha")
        return f"C = 1 / (2 alpha): write C={1 / (2 * alpha):.4g}." if _is_positive(alpha) else "Use C."
    if "alpha" in rest and "noise" in accepted:
        alpha = rest.pop("alpha")
        value = f"{alpha**0.5:.4g}" if _is_positive(alpha) else '"tune"'
        return f"scikit-learn's alpha is the variance of the noise; noise is its square root: write noise={value}."
    return ""


def _other_name(name: str, value: Any, accepted: Sequence[str]) -> str:
    """Return "Did you mean ...?" for a synonym or a misspelling, or an empty string if nothing is similar."""
    if name in ("verbose", "show_progress", "tqdm", "disp") and "progress" in accepted:
        return f"Write progress={bool(value)}."
    for own in accepted:
        if name in SYNONYMS.get(own, ()) or name.lower().replace("_", "") == own.lower().replace("_", ""):
            return f"Did you mean {own}={_short(value)}?"
    close = difflib.get_close_matches(name, accepted, 1, 0.6)
    return f"Did you mean {close[0]}={_short(value)}?" if close else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else "..."


def _is_positive(value: Any) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < float("inf")


def _list(names: Collection[str]) -> str:
    *head, last = names
    return f"{', '.join(head)} and {last}" if head else last
