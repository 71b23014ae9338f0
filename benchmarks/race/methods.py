"""The methods of the race: ours, trees, and kernel methods of other libraries, each as its users would call it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import mean_squared_error, zero_one_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelBinarizer, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.metaestimators import available_if

import mercer
from race.tuning import Tuned, log_uniform, quiet, tune

TRIALS = 20
COMPONENTS = 1000
Family = Literal["ours", "trees", "exact kernels", "other kernels"]


@dataclass(frozen=True)
class Options:
    """What the methods may use: seconds of a limited fit of ours, and seconds and bytes of the others."""

    seed: int = 0
    time_limit: float = 600.0
    peer_seconds: float = 300.0
    tuned_seconds: float = 1800.0
    peer_bytes: float = 6e9


@dataclass(frozen=True)
class Fitted:
    """A fitted model, the rows that its last fit had, and how it was chosen, as text."""

    model: Any
    rows: int
    chosen: str = "default parameters"
    #: Rows of one call of predict, where the model has one number per pair of a new and a fitted row.
    at_once: int | None = None

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return labels or values."""
        return np.concatenate([np.asarray(quiet(self.model.predict, part)) for part in self._parts(X)])

    @property
    def has_probabilities(self) -> bool:
        """Whether the model predicts probabilities."""
        return hasattr(self.model, "predict_proba")

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """Return the probabilities of the classes of the model."""
        return np.concatenate([np.asarray(quiet(self.model.predict_proba, part)) for part in self._parts(X)])

    def deviations(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return means and standard deviations of new targets, with their noise, or None if the model has none."""
        last = self.model[-1] if hasattr(self.model, "steps") else self.model
        known = inspect.signature(last.predict).parameters
        if "return_std" not in known:
            return None
        keywords = {"return_std": True} | ({"with_noise": True} if "with_noise" in known else {})
        both = [quiet(self.model.predict, part, **keywords) for part in self._parts(X)]
        return np.concatenate([mean for mean, _ in both]), np.concatenate([std for _, std in both])

    def _parts(self, X: np.ndarray) -> list[np.ndarray]:
        step = self.at_once or len(X)
        return [X[i : i + step] for i in range(0, len(X), step)]


@dataclass(frozen=True)
class Method:
    """A title for tables, a family for colors, and a function from rows, labels or not, and options to a model.

    `labels` and `values` say which targets it can have; `needs` are packages that may be missing.
    """

    title: str
    family: Family
    fit: Callable[[np.ndarray, np.ndarray, bool, Options], Fitted]
    labels: bool = True
    values: bool = True
    needs: tuple[str, ...] = ()

    def takes(self, is_classification: bool) -> bool:
        """Return whether the method is for labels, or for values."""
        return self.labels if is_classification else self.values

    def missing(self) -> str | None:
        """Return why the method cannot run here, or None."""
        packages = [name for name in self.needs if find_spec(name) is None]
        if packages:
            return f"{' and '.join(packages)} not installed"
        if self.family == "ours" and not hasattr(mercer, "KernelRegressor"):
            return "this version of mercer has no KernelRegressor"
        return None


# ---- ours and trees ---------------------------------------------------------------------------


def fit_ours(X: np.ndarray, y: np.ndarray, labels: bool, options: Options, *, limited: bool = False) -> Fitted:
    """Fit our model without arguments, or with a time limit only."""
    keywords = {"time_limit": options.time_limit} if limited else {}
    build = mercer.KernelClassifier if labels else mercer.KernelRegressor
    model = quiet(build(random_state=options.seed, **keywords).fit, X, y)
    chosen = model.explain() if hasattr(model, "explain") else repr(model)
    return Fitted(model, len(X), str(chosen))


def fit_hist(X: np.ndarray, y: np.ndarray, labels: bool, options: Options) -> Fitted:
    """Fit scikit-learn's histogram trees with default parameters."""
    build = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    model = build(random_state=options.seed)
    if labels and len(X) > 10_000 and np.unique(y, return_counts=True)[1].min() < 2:
        # Its default stops early above 10,000 rows, on a stratified share, which fails for a class of one row.
        chosen = "default parameters, without early stopping, which fails for a class of one row"
        return Fitted(model.set_params(early_stopping=False).fit(X, y), len(X), chosen)
    return Fitted(model.fit(X, y), len(X))


def lightgbm_model(labels: bool, options: Options, **keywords: Any) -> Any:
    """Return a model of LightGBM that is silent."""
    import lightgbm

    build = lightgbm.LGBMClassifier if labels else lightgbm.LGBMRegressor
    return build(random_state=options.seed, verbosity=-1, **keywords)


def fit_lightgbm(X: np.ndarray, y: np.ndarray, labels: bool, options: Options) -> Fitted:
    """Fit LightGBM with default parameters."""
    return Fitted(lightgbm_model(labels, options).fit(X, y), len(X))


def fit_lightgbm_tuned(X: np.ndarray, y: np.ndarray, labels: bool, options: Options) -> Fitted:
    """Fit LightGBM with the best of 20 random settings, the first of which is the default.

    Trials stop early on 20 % of the rows; the best one is fitted again to all rows with its number of trees.
    """
    import lightgbm

    start = time.perf_counter()
    rng = np.random.default_rng(options.seed)
    counts = np.unique(y, return_counts=True)[1] if labels else np.array([2])
    stratify = y if labels and counts.min() > 1 else None
    X_fit, X_out, y_fit, y_out = train_test_split(X, y, test_size=0.2, random_state=options.seed, stratify=stratify)
    if labels:  # LightGBM refuses labels in the validation rows that are not in the others
        known = np.isin(y_out, y_fit)
        X_out, y_out = X_out[known], y_out[known]
    found = []
    for trial in range(TRIALS):
        if trial and time.perf_counter() - start > options.tuned_seconds:
            break
        settings: dict[str, Any] = {} if trial == 0 else random_trees(rng)
        model = lightgbm_model(labels, options, **settings, n_estimators=3000)
        quiet(
            model.fit, X_fit, y_fit, eval_set=[(X_out, y_out)], callbacks=[lightgbm.early_stopping(50, verbose=False)]
        )
        (scores,) = model.best_score_.values()
        found.append((min(scores.values()), model.best_iteration_, settings))
    _, trees, settings = min(found, key=lambda one: one[0])
    model = lightgbm_model(labels, options, **settings, n_estimators=trees).fit(X, y)
    chosen = f"{trees} trees, {settings or 'default parameters'}, best of {len(found)} trials"
    return Fitted(model, len(X), chosen)


def random_trees(rng: np.random.Generator) -> dict[str, Any]:
    """Return random parameters of LightGBM."""
    return {
        "learning_rate": round(log_uniform(rng, 0.02, 0.3), 4),
        "num_leaves": round(log_uniform(rng, 8, 256)),
        "min_child_samples": round(log_uniform(rng, 2, 100)),
        "subsample": round(rng.uniform(0.5, 1.0), 3),
        "subsample_freq": 1,
        "colsample_bytree": round(rng.uniform(0.4, 1.0), 3),
        "reg_lambda": round(log_uniform(rng, 1e-3, 10.0), 4),
    }


# ---- scikit-learn, tuned ----------------------------------------------------------------------


def loss_of(labels: bool) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return the loss that tuning compares."""
    return zero_one_loss if labels else mean_squared_error


def standardized(model: Any, *, targets: bool = False) -> Any:
    """Return a model of standardized columns, and of standardized targets."""
    line = make_pipeline(StandardScaler(), model)
    return TransformedTargetRegressor(line, transformer=StandardScaler()) if targets else line


def fitted(tuned: Tuned, *, pairs: bool = False) -> Fitted:
    """Return the result of tuning with its description."""
    limit = "all there are" if tuned.limit == "all rows" else f"limited by {tuned.limit}"
    chosen = (
        f"{describe(tuned.model)}; best of {tuned.trials} trials on {tuned.search_rows} rows; "
        f"last fit {tuned.last_fit_seconds:.1f} s on {tuned.rows} rows, {limit}"
    )
    return Fitted(tuned.model, tuned.rows, chosen, max(1, 50_000_000 // tuned.rows) if pairs else None)


def describe(model: Any) -> str:
    """Return the last step of a pipeline without the steps around it."""
    model = getattr(model, "regressor_", model)
    steps = (
        [step for _, step in model.steps if not isinstance(step, StandardScaler)]
        if hasattr(model, "steps")
        else [model]
    )
    return " ".join(", ".join(map(repr, steps)).split())


def fit_svm(X: np.ndarray, y: np.ndarray, labels: bool, options: Options) -> Fitted:
    """Fit SVC or SVR with the Gaussian kernel."""
    rng = np.random.default_rng(options.seed)
    d = X.shape[1]
    settings = [{"C": 1.0, "gamma": 1 / d}, {"C": 10.0, "gamma": 1 / d}]
    settings += [
        {"C": log_uniform(rng, 0.3, 1000.0), "gamma": log_uniform(rng, 1 / 16, 8) / d} for _ in range(TRIALS - 2)
    ]
    if labels:
        candidates = [standardized(SVC(cache_size=1000, **one)) for one in settings]
    else:
        for one in settings[1:]:
            one["epsilon"] = log_uniform(rng, 0.01, 0.2)
        candidates = [standardized(SVR(cache_size=1000, **one), targets=True) for one in settings]
    return fitted(tune(candidates, X, y, loss=loss_of(labels), seconds=options.peer_seconds, seed=options.seed))


class KernelRidgeCodes(ClassifierMixin, BaseEstimator):
    """Scikit-learn's KernelRidge on one column of zeros and ones per class; the largest value is predicted."""

    def __init__(self, alpha: float = 1.0, gamma: float | None = None, kernel: str = "rbf") -> None:
        self.alpha = alpha
        self.gamma = gamma
        self.kernel = kernel

    def fit(self, X: np.ndarray, y: np.ndarray) -> KernelRidgeCodes:
        """Fit to the codes of the labels."""
        coding = LabelBinarizer().fit(y)
        codes = coding.transform(y)
        codes = np.hstack([1 - codes, codes]) if codes.shape[1] == 1 else codes
        self.classes_ = coding.classes_
        self.model_ = KernelRidge(alpha=self.alpha, gamma=self.gamma, kernel=self.kernel).fit(X, codes)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class of the largest value."""
        return self.classes_[self.model_.predict(X).argmax(axis=1)]


def fit_kernel_ridge(X: np.ndarray, y: np.ndarray, labels: bool, options: Options) -> Fitted:
    """Fit KernelRidge with the Gaussian or the Laplacian kernel."""
    rng = np.random.default_rng(options.seed)
    d = X.shape[1]
    settings = [{"kernel": kernel, "alpha": 0.01, "gamma": 0.5 / d} for kernel in ("rbf", "laplacian")]
    settings += [
        {
            "kernel": ("rbf", "laplacian")[i % 2],
            "alpha": log_uniform(rng, 1e-5, 1.0),
            "gamma": log_uniform(rng, 1 / 16, 8) / d,
        }
        for i in range(TRIALS - 2)
    ]
    build = KernelRidgeCodes if labels else KernelRidge
    candidates = [standardized(build(**one), targets=not labels) for one in settings]
    most = int(np.sqrt(options.peer_bytes / 24))  # the kernel matrix, and copies of it
    return fitted(
        tune(
            candidates,
            X,
            y,
            loss=loss_of(labels),
            seconds=options.peer_seconds,
            seed=options.seed,
            search_rows=most,
            last_rows=most,
        ),
        pairs=True,
    )


def fit_gaussian_process(X: np.ndarray, y: np.ndarray, labels: bool, options: Options) -> Fitted:
    """Fit GaussianProcessRegressor: kernels by marginal likelihood on a subset, then the best with more rows."""
    del labels
    d = X.shape[1]
    scales: list[Any] = [np.full(1, np.sqrt(d)), np.full(d, np.sqrt(d))]
    if d > 30:  # the gradient of one lengthscale per column has n^2 d numbers
        del scales[1]
    candidates = [
        standardized(
            GaussianProcessRegressor(
                ConstantKernel(1.0) * shape(length_scale=scale) + WhiteKernel(0.1),
                normalize_y=True,
                random_state=options.seed,
            )
        )
        for scale in scales
        for shape in (partial(Matern, nu=1.5), RBF)
    ]
    parameters = 3 if len(scales) == 1 else d + 2
    tuned = tune(
        candidates,
        X,
        y,
        loss=mean_squared_error,
        seconds=options.peer_seconds,
        seed=options.seed,
        search_rows=int(np.sqrt(options.peer_bytes / (16 * parameters))),
        last_rows=int(np.sqrt(options.peer_bytes / 32)),
        folds=1,
        freeze=with_found_kernel,
    )
    return fitted(tuned, pairs=True)


def with_found_kernel(model: Any) -> Any:
    """Return the pipeline of a process whose kernel is the one that was found, and no longer changes."""
    frozen = clone(model)
    frozen[-1].set_params(kernel=model[-1].kernel_, optimizer=None)
    return frozen


def fit_neighbors(X: np.ndarray, y: np.ndarray, labels: bool, options: Options) -> Fitted:
    """Fit k nearest neighbors."""
    build = KNeighborsClassifier if labels else KNeighborsRegressor
    settings = [{"n_neighbors": k, "weights": weights, "p": p}
                for k in (5, 10, 3, 20, 1, 50) for weights in ("distance", "uniform") for p in (2, 1)]  # fmt: skip
    candidates = [standardized(build(n_jobs=-1, **one)) for one in settings]
    return fitted(tune(candidates, X, y, loss=loss_of(labels), seconds=options.peer_seconds, seed=options.seed))


def fit_features(X: np.ndarray, y: np.ndarray, labels: bool, options: Options, *, build: Callable[..., Any]) -> Fitted:
    """Fit a linear model of 1000 random features or landmarks of scikit-learn."""
    rng = np.random.default_rng(options.seed)
    gammas = [0.5 / X.shape[1]] + [log_uniform(rng, 1 / 32, 4) / X.shape[1] for _ in range(TRIALS - 1)]
    strengths = [100.0] + [log_uniform(rng, 1.0, 1e4) for _ in range(TRIALS - 1)]
    candidates = []
    for gamma, C in zip(gammas, strengths, strict=True):
        features = build(gamma=gamma, n_components=COMPONENTS, random_state=options.seed)
        linear = LogisticRegression(C=C, max_iter=300) if labels else RidgeCV(np.logspace(-6, 2, 9))
        candidates.append(make_pipeline(StandardScaler(), features, linear))
    return fitted(
        tune(
            candidates,
            X,
            y,
            loss=loss_of(labels),
            seconds=options.peer_seconds,
            seed=options.seed,
            last_rows=int(options.peer_bytes / (24 * COMPONENTS)),
        )
    )


# ---- xRFM -------------------------------------------------------------------------------------


class XRFM(BaseEstimator):
    """xRFM as its documentation recommends it: columns standardized, except for those of zeros and ones.

    A fifth of the rows is its validation set. Targets are standardized. Parameters that are None are its defaults.
    """

    def __init__(self, labels: bool = False, bandwidth: float | None = None, reg: float = 1e-3,
                 exponent: float = 1.0, seed: int = 0) -> None:  # fmt: skip
        self.labels = labels
        self.bandwidth = bandwidth
        self.reg = reg
        self.exponent = exponent
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> XRFM:
        """Fit to four fifths of the rows, with the others for validation."""
        import torch
        from xrfm import xRFM

        binary = np.all((X == 0) | (X == 1), axis=0)
        self.center_ = np.where(binary, 0.0, X.mean(axis=0))
        spread = X.std(axis=0)
        self.scale_ = np.where(binary | (spread == 0), 1.0, spread)
        if self.labels:
            self.classes_, codes = np.unique(y, return_inverse=True)
            targets = torch.from_numpy(codes.astype(np.int64))
        else:
            self.mean_, self.spread_ = float(np.mean(y)), float(np.std(y)) or 1.0
            targets = torch.from_numpy(((y - self.mean_) / self.spread_).astype(np.float32))
        rows = self._rows(X)
        fit, check = train_test_split(np.arange(len(X)), test_size=0.2, random_state=self.seed)
        self.model_ = xRFM(rfm_params=self._parameters(), random_state=self.seed, verbose=False, device="cpu")
        self.model_.fit(rows[fit], targets[fit], rows[check], targets[check])
        return self

    def _parameters(self) -> dict[str, Any] | None:
        if self.bandwidth is None:
            return None
        return {
            "model": {"kernel": "l2_high_dim", "bandwidth": self.bandwidth, "exponent": self.exponent, "diag": False,
                      "bandwidth_mode": "constant"},
            "fit": {"reg": self.reg, "iters": 5, "get_agop_best_model": True, "return_best_params": True,
                    "early_stop_rfm": False},
        }  # fmt: skip

    def _rows(self, X: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(((X - self.center_) / self.scale_).astype(np.float32))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return labels or values."""
        values = np.asarray(self.model_.predict(self._rows(X)))
        if self.labels:
            return self.classes_[values.ravel().astype(int)]
        return values.ravel() * self.spread_ + self.mean_

    @available_if(lambda self: self.labels)
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return probabilities of the classes."""
        return np.asarray(self.model_.predict_proba(self._rows(X)))


def fit_xrfm(X: np.ndarray, y: np.ndarray, labels: bool, options: Options, *, tuned: bool = False) -> Fitted:
    """Fit xRFM with its default parameters, or with the best of 20 random ones on a subset."""
    if not tuned:
        return Fitted(XRFM(labels, seed=options.seed).fit(X, y), len(X), "default parameters")
    rng = np.random.default_rng(options.seed)
    candidates: Sequence[Any] = [XRFM(labels, seed=options.seed)] + [
        XRFM(labels, log_uniform(rng, 1.0, 100.0), log_uniform(rng, 1e-6, 1.0), rng.uniform(0.7, 1.4), options.seed)
        for _ in range(TRIALS - 1)
    ]
    found = tune(
        candidates, X, y, loss=loss_of(labels), seconds=options.peer_seconds, seed=options.seed, folds=1,
        search_rows=5000, last_rows=int(np.sqrt(options.peer_bytes / 16)),
    )  # fmt: skip
    return fitted(found)


METHODS = {
    "ours": Method("mercer, no arguments", "ours", fit_ours),
    "ours-limited": Method("mercer, 10 minutes", "ours", partial(fit_ours, limited=True)),
    "hist": Method("HistGradientBoosting", "trees", fit_hist),
    "lightgbm": Method("LightGBM", "trees", fit_lightgbm, needs=("lightgbm",)),
    "lightgbm-tuned": Method("LightGBM, tuned", "trees", fit_lightgbm_tuned, needs=("lightgbm",)),
    "svm": Method("SVC or SVR", "exact kernels", fit_svm),
    "gpr": Method("GaussianProcessRegressor", "exact kernels", fit_gaussian_process, labels=False),
    "kernel-ridge": Method("KernelRidge", "exact kernels", fit_kernel_ridge),
    "neighbors": Method("k nearest neighbors", "other kernels", fit_neighbors),
    "rbf-sampler": Method("RBFSampler", "other kernels", partial(fit_features, build=RBFSampler)),
    "nystroem": Method("Nystroem", "other kernels", partial(fit_features, build=Nystroem)),
    "xrfm": Method("xRFM", "other kernels", fit_xrfm, needs=("xrfm", "torch")),
    "xrfm-tuned": Method("xRFM, tuned", "other kernels", partial(fit_xrfm, tuned=True), needs=("xrfm", "torch")),
}
