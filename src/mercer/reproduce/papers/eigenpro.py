"""Table 2 of EigenPro 3 (Abedsoltan et al. 2023): kernel models by the number and the choice of their centers."""

from __future__ import annotations

import time

import numpy as np

from mercer.kernels import Matern
from mercer.learners import KernelRidgeClassifier
from mercer.maps import Nystroem
from mercer.reproduce.datasets import load
from mercer.reproduce.tables import Measured, Method, Table, Trial

__all__ = ["TABLE"]

PROTOCOL = """\
Accuracy on the test rows of MNIST of kernel models with p centers, all training rows, and the kernel exp(-|x - y| / s).
The paper does not state its width s: here it is chosen on 5000 training rows, once for all methods, with 1000 centers.
Pixels are divided by 255. The models are ridge classifiers on p landmarks, whose penalty is chosen by leave-one-out;
EigenPro stops early instead. Random centers are a uniform sample of the rows, and others are centers of clusters, as in
the paper. Ours are centers that are selected by randomly pivoted Cholesky factorization, and, apart from the number of
centers, p columns that are spanned by 4p centers of clusters, where 4p is at most 4000."""
CENTERS = {"MNIST, p = 100": 100, "MNIST, p = 1000": 1000, "MNIST, p = 10000": 10_000}
SCALES = (4.0, 8.0, 16.0, 32.0)
SCALE_ROWS, SCALE_CENTERS = 5000, 1000
METHODS = {
    "random": Method("random centers", "paper", "random"),
    "clusters": Method("centers of clusters", "paper", "k-means"),
    "pivoted": Method("pivoted landmarks", "ours"),
    "spanned": Method("p columns of 4p centers", "ours"),
}

# How landmarks are selected, and how many there are per column.
SELECTIONS = {"random": ("uniform", 1), "clusters": ("kmeans", 1), "pivoted": ("pivoted", 1), "spanned": ("kmeans", 4)}
MOST_CENTERS = 4000


def scale_of(X: np.ndarray, y: np.ndarray) -> float:
    """Return the width with the best accuracy on held-out training rows."""
    rows, labels = X[:SCALE_ROWS], y[:SCALE_ROWS]
    n = 4 * SCALE_ROWS // 5
    scores = []
    for scale in SCALES:
        landmarks = Nystroem(Matern(nu=0.5, lengthscale=scale), SCALE_CENTERS, random_state=0)
        scores.append(
            KernelRidgeClassifier(landmarks, alpha="loo").fit(rows[:n], labels[:n]).score(rows[n:], labels[n:])
        )
    return SCALES[int(np.argmax(scores))]


def measure(trial: Trial) -> dict[str, Measured]:
    """Fit both models, and return their accuracy on the test rows in per cent."""
    arrays = load(trial.folder, "mnist")
    X, X_test = (arrays[name].astype(np.float32) / 255 for name in ("X_train", "X_test"))
    y, y_test = arrays["y_train"], arrays["y_test"]
    kernel = Matern(nu=0.5, lengthscale=scale_of(X, y))
    found = {}
    for method in trial.methods:
        p = CENTERS[trial.row]
        selection, wider = SELECTIONS[method]
        if wider * p > MOST_CENTERS and wider > 1:
            continue
        start = time.perf_counter()
        landmarks = Nystroem(kernel, p, landmarks=selection, n_landmarks=wider * p, random_state=trial.split)
        model = KernelRidgeClassifier(landmarks, alpha="loo").fit(X, y)
        accuracy = float(100 * model.score(X_test, y_test))
        found[method] = Measured(accuracy, time.perf_counter() - start, {"lengthscale": float(kernel.lengthscale)})
    return found


TABLE = Table(
    name="eigenpro",
    protocol=PROTOCOL,
    methods=METHODS,
    rows=lambda quick: tuple(CENTERS)[:1] if quick else tuple(CENTERS),
    splits=lambda row, quick: 1 if quick or CENTERS[row] == 10_000 else 3,
    measure=measure,
    datasets=lambda _row: ("mnist",),
    apart=True,
)
