"""The command line interface ``mercer``: commands parse arguments, call one function of the library and print it.

Exit codes are 0 for success, 1 for failure, 2 for wrong usage and 130 for an interrupt. Numerical libraries take
seconds to import, so they are imported inside the commands, and ``mercer --help`` remains fast.
"""

from mercer.cli import about, maps, models, papers
from mercer.cli.app import app, main

__all__ = ["app", "main"]

# In the order of the help.
for _command in (
    models.fit,
    models.predict,
    models.evaluate,
    models.report,
    models.export,
    maps.transform,
    maps.audit,
    maps.compare,
    maps.choose,
    maps.cluster,
    maps.two_sample,
    papers.reproduce,
    about.demo,
    about.info,
):
    app.command("test" if _command is maps.two_sample else None)(_command)
