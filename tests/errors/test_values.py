"""Entries that are not finite, unequal lengths and bad weights: messages say what was needed, got, and what to try."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from mercer import Gaussian, GaussianProcessRegressor, KernelRidge, KernelRidgeClassifier, RandomFourier
from mercer.errors import DataError

X = np.random.default_rng(0).normal(size=(20, 3))
Y = X[:, 0]
SMALL = RandomFourier(Gaussian(1.0), 8, random_state=0)


def with_entry(value):
    rows = X.copy()
    rows[4, 2] = rows[7, 1] = value
    return rows


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_the_first_entry_that_is_not_finite_is_named(value, what):
    rows = with_entry(value)
    for bad in (rows, sp.csr_array(rows)):
        text = f"Input X contains {what}.* in 2 of 20 rows, first in row 4, column 2. KernelRidge needs a finite"
        with pytest.raises(DataError, match=text):
            KernelRidge(SMALL).fit(bad, Y)
    if what == "infinity":  # the messages of missing values in tables name the column with the first one
        table = pd.DataFrame(rows, columns=["a", "b", "c"])
        with pytest.raises(DataError, match="first in row 4, column 'c'"):
            KernelRidge(SMALL).fit(table, Y)
    fitted = KernelRidge(SMALL).fit(X, Y)
    with pytest.raises(DataError, match=f"contains {what}.*KernelRidge needs"):
        fitted.predict(rows)


def test_complex_rows_keep_the_message_of_their_own():
    with pytest.raises(ValueError, match="Complex data not supported"):
        KernelRidge(SMALL).fit(X + 1j, Y)


def test_lengths_are_named():
    text = "inconsistent numbers of samples: needed one entry of y per row, got 20 rows and 19 entries"
    for learner in (KernelRidge(SMALL), KernelRidgeClassifier(SMALL), KernelRidge(SMALL, unlabeled=np.nan)):
        y = Y > 0 if isinstance(learner, KernelRidgeClassifier) else Y
        with pytest.raises(DataError, match=text):
            learner.fit(X, y[:-1])
        with pytest.raises(DataError, match=text):
            learner.fit(X, y).score(X, y[:-1])


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (np.ones(3), "shape .20,., got .3,."),
        (np.r_[1.0, -1.0, np.ones(18)], "Negative values in 1 of 20 rows, first in row 1"),
        (np.r_[np.nan, np.ones(19)], "NaN in 1 of 20 rows, first in row 0"),
    ],
)
def test_weights_say_what_they_need(weight, text):
    with pytest.raises(DataError, match=f"KernelRidge: sample_weight needs one finite number >= 0 per row.*{text}"):
        KernelRidge(SMALL).fit(X, Y, weight)


def test_a_process_with_near_rows_checks_rows_in_its_own_name():
    model = GaussianProcessRegressor(SMALL, lengthscale_tuning=None, neighbors=4).fit(X, Y)
    with pytest.raises(ValueError, match="GaussianProcessRegressor is expecting 3 features"):
        model.predict(X[:, :2])
    with pytest.raises(DataError, match="GaussianProcessRegressor needs"):
        model.predict(with_entry(np.nan))
