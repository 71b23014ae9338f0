"""Figures of the structure of the package: run by hand, and by `.ci/run` with ``--check``.

Four figures and their limits: files directly in one folder, own classes in the longest chain of bases, overrides of
concrete methods, and the files of which functions are called by one fit of a classifier.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import mercer

SOURCE = Path(mercer.__file__).parent
LIMITS = {"files in the fullest folder": 12, "own classes in the longest MRO": 4, "overrides": 20, "files of a fit": 23}
# Methods that every class may define: construction, the operators of Python, and scikit-learn's merging of tags.
FREE = {"__init__", "__post_init__", "__init_subclass__", "__sklearn_tags__", "__getattr__"}


def classes() -> list[type]:
    """Return all classes that are defined in the package."""
    found = set()
    for info in pkgutil.walk_packages(mercer.__path__, "mercer."):
        if info.name.endswith(("._native", "__main__")):
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if error.name != "torch":  # the modules of PyTorch are left out where it is not installed
                raise
            continue
        found |= {c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == info.name}
    return sorted(found, key=lambda c: (c.__module__, c.__qualname__))


def own_bases(cls: type) -> list[type]:
    """Return the classes of the package that a class inherits from."""
    return [base for base in cls.__mro__[1:] if base.__module__.startswith("mercer")]


def overrides(cls: type) -> list[str]:
    """Return the methods and properties of a class that replace concrete ones of a class of the package."""
    out = []
    for name, value in vars(cls).items():
        if name in FREE or not _is_code(value) or _is_generated(cls, name):
            continue
        for base in own_bases(cls):
            before = vars(base).get(name)
            if before is None:
                continue
            if _is_code(before) and not getattr(before, "__isabstractmethod__", False) and not _is_protocol(base):
                out.append(f"{cls.__module__.removeprefix('mercer.')}.{cls.__qualname__}.{name} of {base.__name__}")
            break
    return out


def _is_code(value: Any) -> bool:
    return (
        inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod) or hasattr(value, "func")
    )


def _is_generated(cls: type, name: str) -> bool:
    """Return whether a method was written by `dataclass` rather than by hand."""
    code = getattr(vars(cls)[name], "__code__", None)
    return code is not None and code.co_filename != inspect.getsourcefile(cls)


def _is_protocol(cls: type) -> bool:
    return bool(getattr(cls, "_is_protocol", False))


def files_of_a_fit() -> Counter[str]:
    """Return the files of the package whose functions one fit calls, and how many functions of each."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    model = mercer.KernelRidgeClassifier(mercer.RandomFourier(random_state=0), alpha="loo", random_state=0)
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and code.co_name != "<module>":
            seen.add((str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Counter(file for file, _ in seen)


def main() -> int:
    """Print the figures; with ``--check`` return 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a figure is above its limit")
    parser.add_argument("--list", action="store_true", help="show what is counted")
    options = parser.parse_args()
    every = classes()
    folders = Counter(str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.stem != "__init__")
    longest = max(every, key=lambda c: len(own_bases(c)))
    replaced = [line for c in every for line in overrides(c)]
    fit = files_of_a_fit()
    if options.list:
        print(*replaced, *(f"{file}: {count} functions" for file, count in sorted(fit.items())), sep="\n")
        print(
            *(f"{1 + len(own_bases(c))} {c.__module__}.{c.__qualname__}" for c in every if len(own_bases(c)) > 3),
            sep="\n",
        )
    folder, most = folders.most_common(1)[0]
    figures = {
        "files in the fullest folder": (most, folder),
        "own classes in the longest MRO": (1 + len(own_bases(longest)), longest.__qualname__),
        "overrides": (
            len(replaced),
            f"in {len({line.split(' of ')[0].rpartition('.')[0] for line in replaced})} classes",
        ),
        "files of a fit": (len(fit), f"{sum(fit.values())} functions"),
    }
    for name, (value, note) in figures.items():
        print(f"{name}: {value} (at most {LIMITS[name]}; {note})")
    return int(options.check and any(value > LIMITS[name] for name, (value, _) in figures.items()))


if __name__ == "__main__":
    sys.exit(main())
