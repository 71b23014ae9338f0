"""The only place that reads or writes files."""

from mercer.io.files import write_text

__all__ = ["write_text"]
