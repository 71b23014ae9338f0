"""The demo, which compares three feature maps of mercer and scikit-learn's RBFSampler on the digits data."""

from mercer.diagnostics.demo.results import Demo
from mercer.diagnostics.demo.run import run_demo

__all__ = ["Demo", "run_demo"]
