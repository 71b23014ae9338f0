"""HTML pages of results."""

from __future__ import annotations

import os

from mercer.diagnostics.fits import FitResult
from mercer.errors import MissingPackageError
from mercer.io import write_text

__all__ = ["check_page", "write_page"]


def check_page() -> None:
    """Raise an error if the packages that pages need are not installed."""
    from mercer.report.page import missing_packages

    missing = missing_packages()
    if missing:
        msg = f"A report needs {' and '.join(missing)}. Try: pip install 'mercer[report]', or omit the report."
        raise MissingPackageError(msg)


def write_page(result: FitResult, path: str | os.PathLike[str]) -> str:
    """Write the page of a fitted model, and return its absolute path."""
    from mercer.report import model_page

    return str(write_text(path, model_page(result)))
