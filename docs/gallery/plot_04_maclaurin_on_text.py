"""
Maclaurin features on text
==========================

Dot-product kernels suit text: words that occur together matter. Their power series has features for each degree:
`RandomMaclaurin` computes low degrees exactly and divides the other components by variance. The documents are the
paragraphs of the docstrings of SciPy, and their labels the modules that they come from.
"""

# %%
# Documents
# ---------
# Rows are sparse, of about three thousand words, and of unit norm.

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from mercer import ExponentialDotProduct, KernelRidgeClassifier, Nystroem, RandomMaclaurin, audit

modules = ["stats", "linalg", "signal", "ndimage", "sparse", "optimize"]
documents, labels = [], []
for name in modules:
    module = importlib.import_module(f"scipy.{name}")
    for function in sorted(n for n in dir(module) if not n.startswith("_")):
        for paragraph in (inspect.getdoc(getattr(module, function)) or "").split("\n\n"):
            if paragraph.count(" ") > 15 and ">>>" not in paragraph:
                documents.append(paragraph)
                labels.append(name)
words = TfidfVectorizer(min_df=5, max_features=3000, token_pattern=r"[a-z]{3,}", stop_words=["scipy", *modules])
X, y = words.fit_transform(documents), np.array(labels)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
X_train, y_train, X_test, y_test = X_train[:3000], y_train[:3000], X_test[:1000], y_test[:1000]
print(f"{X.shape[0]} paragraphs of {X.shape[1]} words")

# %%
# Error of the kernel, and accuracy
# ---------------------------------
# The kernel exp(2 x.y) counts words, pairs of words, triples, and so on.

kernel = ExponentialDotProduct(2.0)
widths = [128, 256, 512, 1024]
maps = {
    "Maclaurin": RandomMaclaurin(kernel, random_state=0),
    "Maclaurin, as published": RandomMaclaurin(kernel, plan="geometric", random_state=0),
    "landmarks": Nystroem(kernel, random_state=0),
}
errors, scores = {name: [] for name in maps}, {name: [] for name in maps}
for name, feature_map in maps.items():
    for width in widths:
        model = KernelRidgeClassifier(feature_map.set_params(n_components=width), alpha="loo").fit(X_train, y_train)
        errors[name].append(audit(model.feature_map_, X_test[:400], n_rows=400).rmse)
        scores[name].append(model.score(X_test, y_test))

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
for name in maps:
    left.loglog(widths, errors[name], "o-", label=name)
    right.plot(widths, scores[name], "o-", label=name)
left.set(xlabel="components", ylabel="RMSE of exp(2 x.y) on new paragraphs", title="error of the kernel")
right.set(xlabel="components", ylabel="accuracy", title="which module is a paragraph from?")
for axes in (left, right):
    axes.set_xscale("log")
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()
right.legend()
plt.show()
