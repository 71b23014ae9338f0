"""Measured errors and times of fitted feature maps."""

from mercer.diagnostics.audit import Audit, audit
from mercer.diagnostics.compare import Comparison, compare

__all__ = ["Audit", "Comparison", "audit", "compare"]
