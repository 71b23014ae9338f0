"""Measurement of the errors and times of feature maps: `audit` for one fitted map, `compare` for several."""

from mercer.diagnostics.audit import Audit, audit
from mercer.diagnostics.compare import Comparison, compare

__all__ = ["Audit", "Comparison", "audit", "compare"]
