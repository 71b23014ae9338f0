"""Fitted maps and learners as modules of PyTorch, with gradients (needs ``pip install 'mercer[torch]'``)."""

from __future__ import annotations

from typing import Any

__all__ = ["FeatureLayer", "LinearHead"]


def __getattr__(name: str) -> Any:
    # PyTorch is imported when a class is used, so that this module can be imported without it.
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from mercer.errors.packages import optional_module

    optional_module("torch", f"mercer.torch.{name}", "'mercer[torch]'")
    from mercer.torch import layers

    return getattr(layers, name)
