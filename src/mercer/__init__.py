"""Kernel methods at linear cost: explicit feature maps with an error bar, and the learners on top."""

import lazy_loader

__version__ = "0.1.0"

# The public names are those of `__init__.pyi`. Each is imported at first use, so that `import mercer` and the command
# line start at once.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
