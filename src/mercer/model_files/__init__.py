"""Model files: models that are written to a file and read again without executing code."""

from mercer.model_files.files import ModelDescription, describe_model, load_model, save_model

__all__ = ["ModelDescription", "describe_model", "load_model", "save_model"]
