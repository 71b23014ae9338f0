"""Shared paragraphs of docstrings."""

import inspect
import subprocess
import sys

import pytest

import mercer
from mercer._docs import MARKER, PARAGRAPHS, doc


def test_a_marker_is_replaced_at_its_indentation():
    @doc
    class Model:
        """Model.

        Parameters
        ----------
        %(n_jobs)s
        other : int, default=100%
            Text with %(n_jobs)s within a line stays.
        """

    head, text = inspect.getdoc(Model).split("----------\n")
    assert head == "Model.\n\nParameters\n"
    assert text.startswith(PARAGRAPHS["n_jobs"] + "\nother : int, default=100%\n    Text with %(n_jobs)s within")


def test_several_names_on_a_line_give_several_paragraphs():
    @doc
    def function():
        """Function.

        Parameters
        ----------
        %(random_state, n_jobs)s
        """

    assert inspect.getdoc(function).endswith(f"----------\n{PARAGRAPHS['random_state']}\n{PARAGRAPHS['n_jobs']}")


def test_an_unknown_name_raises():
    def function():
        """%(nothing_of_that_name)s"""

    with pytest.raises(KeyError, match="nothing_of_that_name"):
        doc(function)


def test_the_decorated_object_is_returned_and_no_docstring_stays_none():
    def function():
        pass

    assert doc(function) is function
    assert function.__doc__ is None


def test_no_public_docstring_holds_a_marker():
    for name in mercer.__all__:
        thing = getattr(mercer, name)
        texts = [thing.__doc__ or ""]
        if inspect.isclass(thing):
            texts += [member.__doc__ or "" for _, member in inspect.getmembers(thing)]
        assert not any(MARKER.search(text) for text in texts if isinstance(text, str)), name


def test_stripped_docstrings_are_no_obstacle():
    code = "import mercer; assert mercer.RandomFourier.__doc__ is None; print('imported')"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "imported", done.stderr
