"""Output of results as text and HTML.

The modules only format results. Optional packages are imported inside the functions that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.diagnostics.fits.results import FitResult

__all__ = ["model_page"]


def model_page(result: FitResult) -> str:
    """Return the report of a fitted model as an HTML page; see `mercer.report.model.page.model_page`."""
    from mercer.report.model import page

    return page.model_page(result)
