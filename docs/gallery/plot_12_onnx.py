"""
A model file served by onnxruntime
==================================

A fitted model leaves mercer as one ONNX file of standard operators. The server needs onnxruntime only. The export
runs the graph and compares it with the model; here the difference and the throughput are measured once more.
"""

# %%
# Fit, export, and serve
# ----------------------

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mercer import Gaussian, KernelLogisticRegression, RandomFourier, export_model

X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
model = KernelLogisticRegression(RandomFourier(Gaussian("median"), 512, random_state=0)).fit(X_train, y_train)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.onnx"
    result = export_model(model, path, rows=X_train)
    print(f"{path.stat().st_size / 1e3:.0f} kB, largest difference {result.largest_difference:.1e}")
    session = onnxruntime.InferenceSession(path)
rows = session.get_inputs()[0].name
outputs = [output.name for output in session.get_outputs()]
print("outputs:", ", ".join(outputs))


def serve(X):
    """Return the probabilities of the classes, as a server without mercer would."""
    answers = dict(zip(outputs, session.run(None, {rows: X.astype(np.float32)}), strict=True))
    return answers["probabilities"]


# %%
# The same answers
# ----------------
# Left: each point is a probability of one class for one new row. Right: rows per second by the size of a request.

served, expected = serve(X_test), model.predict_proba(X_test)
sizes, rates = [1, 4, 16, 64, 256], {"onnxruntime": [], "mercer": []}
for size in sizes:
    for name, function in (("onnxruntime", serve), ("mercer", model.predict_proba)):
        times = []
        for _ in range(8):
            start = time.perf_counter()
            function(X_test[:size])
            times.append(time.perf_counter() - start)
        rates[name].append(size / min(times))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.plot(expected.ravel(), served.ravel(), ".", ms=3)
left.set(xlabel="probability by mercer", ylabel="probability by onnxruntime")
left.set_title(f"largest difference {np.abs(served - expected).max():.0e}")
for name, values in rates.items():
    right.loglog(sizes, values, "o-", label=name)
right.set(xlabel="rows per request", ylabel="rows per second", title="throughput")
right.set_xticks(sizes, [str(size) for size in sizes])
right.minorticks_off()
right.legend()
plt.show()
