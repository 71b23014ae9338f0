"""One small run of the demo for all tests of reports, and its page."""

import pytest

from mercer.diagnostics.demo import run_demo


@pytest.fixture(scope="session")
def demo(little_effort):
    with little_effort():
        return run_demo(n_components=32, random_state=0, data_sets=["diabetes"])


@pytest.fixture(scope="session")
def page(demo):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    from mercer.report.page import demo_page

    return demo_page(demo)
