import pytest

from mercer import MissingPackageError
from mercer.workflows.pages import check_page


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr("mercer.report.page.missing_packages", lambda: ["jinja2"])
    with pytest.raises(MissingPackageError, match=r"A report needs jinja2. Try: pip install 'mercer\[report\]'"):
        check_page()
