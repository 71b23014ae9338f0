"""Landmark features of any kernel."""

from mercer.maps.landmarks.nystroem import Nystroem

__all__ = ["Nystroem"]
