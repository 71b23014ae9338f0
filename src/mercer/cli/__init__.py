"""The command line interface ``mercer``: commands parse arguments, call one function of the library and print it.

Exit codes are 0 for success, 1 for failure, 2 for wrong usage and 130 for an interrupt. Numerical libraries take
seconds to import, so they are imported inside the commands, and ``mercer --help`` remains fast.
"""

from mercer.cli import about as _about  # noqa: F401 - commands register themselves
from mercer.cli.app import app, main

__all__ = ["app", "main"]
