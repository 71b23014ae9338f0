"""Errors, times and sizes of feature maps: `audit` for one fitted map, `compare` for several, `component_table`."""

from mercer.diagnostics.audit import Audit, audit
from mercer.diagnostics.compare import Comparison, compare
from mercer.diagnostics.sizes import ComponentTable, component_table

__all__ = ["Audit", "Comparison", "ComponentTable", "audit", "compare", "component_table"]
