"""Every example in every docstring of the installed package runs and shows what it says."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import mercer

MODULES = sorted(
    info.name for info in pkgutil.walk_packages(mercer.__path__, "mercer.") if not info.name.endswith("._native")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    if name.startswith("mercer.torch."):
        pytest.importorskip("torch")
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_public_classes_and_functions_have_examples():
    homes = [getattr(mercer, name) for name in mercer.__all__]
    without = [
        thing.__name__
        for thing in homes
        if not (isinstance(thing, type) and issubclass(thing, Exception | Warning))
        and not inspect.ismodule(thing)
        and ">>>" not in (thing.__doc__ or "")
        # Written by operators, whose examples stand with Kernel's relatives.
        and thing.__name__ not in {"Kernel", "Sum", "Product", "Scaled"}
    ]
    assert without == []
