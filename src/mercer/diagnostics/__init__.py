"""How good, after drawing: measured errors of fitted maps, as frozen results."""

from mercer.diagnostics.audit import Audit, audit
from mercer.diagnostics.compare import Comparison, compare

__all__ = ["Audit", "Comparison", "audit", "compare"]
