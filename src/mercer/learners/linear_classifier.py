"""What classifiers that are linear in the features share: decision values, and the label of the largest."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.learners.base import Classifier, check_fitted

__all__ = ["LinearClassifier"]

Array = np.ndarray


class LinearClassifier(Classifier):
    """A learner of labels whose fit leaves `classes_`, `coef_` and `intercept_`: a row a label, of two labels one."""

    def decision_function(self, X: Any) -> Array:
        """Return decision values: for two labels one a row, positive for the second; otherwise one a label.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
        """
        check_fitted(self)
        values = self._linear(X, self.coef_.T, self.intercept_)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Array:
        """Return the label of the largest decision value of each row."""
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]
