"""Nearest rows of queries."""

from mercer.linalg import dispatch
from mercer.linalg.numpy_kernels import PANEL_ROWS

__all__ = ["PANEL_ROWS", "nearest_rows", "pack_rows"]


def pack_rows(*args):
    dispatch.kernels.pack_rows(*args)


def nearest_rows(*args):
    dispatch.kernels.nearest_rows(*args)
