"""The demo: models without arguments beside those of scikit-learn, and feature maps on the digits data."""

from mercer.diagnostics.demo.results import Demo
from mercer.diagnostics.demo.run import run_demo

__all__ = ["Demo", "run_demo"]
