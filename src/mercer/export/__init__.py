"""Fitted models for serving: as ONNX graphs, or as files of plain NumPy."""

from mercer.export.export import ExportResult, export_model

__all__ = ["ExportResult", "export_model"]
