"""Tests as classes with the methods ``statistic`` and ``test``, in the shape of hyppo's."""

from __future__ import annotations

from typing import Any, NamedTuple

from mercer.hypothesis_tests.given.independence import ConditionalIndependenceTest, conditional_independence_test
from mercer.hypothesis_tests.hsic import hsic_test
from mercer.hypothesis_tests.mmd import mmd_test
from mercer.hypothesis_tests.permutation import PermutationTest
from mercer.hypothesis_tests.samples import k_sample_test
from mercer.parameters import known_names

__all__ = ["HSIC", "MMD", "ConditionalIndependence", "TestOutput"]


class TestOutput(NamedTuple):
    """Statistic and p-value of a test."""

    stat: float
    pvalue: float


TestOutput.__test__ = False  # type: ignore[attr-defined] # not a class of tests for pytest


class MMD:
    """Test of two or more samples, with the methods of hyppo's ``ksample`` classes.

    Parameters
    ----------
    **options : dict
        Options of `mmd_test` (two samples) or `k_sample_test` (more), such as ``transform``.

    Attributes
    ----------
    result_ : PermutationTest
        The complete result of the latest call.

    See Also
    --------
    mmd_test, k_sample_test : The same as functions.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import MMD
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 1
    >>> stat, pvalue = MMD().test(x, y, reps=199, random_state=0)
    >>> pvalue
    0.005
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.result_: PermutationTest | None = None

    @known_names
    def statistic(self, *samples: Any, random_state: Any = 0) -> float:
        """Return the standardized statistic of the samples, by a hundred permutations."""
        return self.test(*samples, reps=100, random_state=random_state).stat

    @known_names
    def test(self, *samples: Any, reps: int = 1000, workers: int | None = None, random_state: Any = None) -> TestOutput:
        """Return statistic and p-value.

        Parameters
        ----------
        *samples : array-like of shape (n_i, d)
            Two or more samples.
        reps : int, default=1000
            Number of permutations.
        workers : int or None, default=None
            Number of threads; None means all cores.
        random_state : int, Generator, RandomState or None, default=None
            Seed.

        Returns
        -------
        TestOutput
            Named tuple (stat, pvalue).
        """
        function = mmd_test if len(samples) == 2 else k_sample_test
        options = {"n_permutations": reps, "n_jobs": workers, "random_state": random_state} | self.options
        self.result_ = function(*samples, **options)
        return TestOutput(self.result_.statistic, self.result_.p_value)


class HSIC:
    """Test of independence, with the methods of hyppo's ``independence`` classes.

    Parameters
    ----------
    **options : dict
        Options of `hsic_test`.

    Attributes
    ----------
    result_ : PermutationTest
        The complete result of the latest call.

    See Also
    --------
    hsic_test : The same as a function.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import HSIC
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 1))
    >>> stat, pvalue = HSIC().test(x, x**2 + rng.normal(size=(200, 1)), reps=199, random_state=0)
    >>> pvalue
    0.005
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.result_: PermutationTest | None = None

    @known_names
    def statistic(self, x: Any, y: Any, random_state: Any = 0) -> float:
        """Return the standardized statistic of the pairs, by a hundred permutations."""
        return self.test(x, y, reps=100, random_state=random_state).stat

    @known_names
    def test(
        self, x: Any, y: Any, reps: int = 1000, workers: int | None = None, random_state: Any = None
    ) -> TestOutput:
        """Return statistic and p-value.

        Parameters
        ----------
        x, y : array-like of shape (n, d) and (n, e)
            Pairs of rows.
        reps : int, default=1000
            Number of permutations.
        workers : int or None, default=None
            Number of threads; None means all cores.
        random_state : int, Generator, RandomState or None, default=None
            Seed.

        Returns
        -------
        TestOutput
            Named tuple (stat, pvalue).
        """
        options = {"n_permutations": reps, "n_jobs": workers, "random_state": random_state} | self.options
        self.result_ = hsic_test(x, y, **options)
        return TestOutput(self.result_.statistic, self.result_.p_value)


class ConditionalIndependence:
    """Test of conditional independence, with the methods of hyppo's ``conditional`` classes.

    Attributes
    ----------
    result_ : ConditionalIndependenceTest
        The complete result of the latest call.

    See Also
    --------
    conditional_independence_test : The same as a function.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import ConditionalIndependence
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(500, 1))
    >>> x, y = z + rng.normal(size=(500, 1)), z + rng.normal(size=(500, 1))
    >>> ConditionalIndependence().test(x, y, z).pvalue > 0.05
    True
    """

    def __init__(self) -> None:
        self.result_: ConditionalIndependenceTest | None = None

    @known_names
    def statistic(self, x: Any, y: Any, z: Any = None, random_state: Any = 0) -> float:
        """Return the sum of squared covariances of residuals, times the number of rows."""
        return self.test(x, y, z, random_state=random_state).stat

    @known_names
    def test(self, x: Any, y: Any, z: Any = None, workers: int | None = None, random_state: Any = 0) -> TestOutput:
        """Return statistic and p-value.

        Parameters
        ----------
        x, y : array-like of shape (n, d) and (n, e)
            Variables.
        z : array-like of shape (n, f) or None, default=None
            Variables that are conditioned on.
        workers : int or None, default=None
            Number of threads; None means all cores.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the random features.

        Returns
        -------
        TestOutput
            Named tuple (stat, pvalue).
        """
        self.result_ = conditional_independence_test(x, y, z, n_jobs=workers, random_state=random_state)
        return TestOutput(self.result_.statistic, self.result_.p_value)
