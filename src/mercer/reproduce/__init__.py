"""Published tables of the field, run again: the paper's figures, the paper's methods and mercer side by side."""

from mercer.reproduce.page import scoreboard_page
from mercer.reproduce.papers import TABLES
from mercer.reproduce.run import Cell, Scoreboard, reproduce

__all__ = ["TABLES", "Cell", "Scoreboard", "reproduce", "scoreboard_page"]
