"""How: maps from rows to features. Fit draws, transform applies."""

from mercer.kernels import Kernel
from mercer.maps.base import BaseMap, maps_for
from mercer.maps.fourier import RandomFourier
from mercer.maps.maclaurin import RandomMaclaurin
from mercer.maps.nystroem import Nystroem

__all__ = ["BaseMap", "Nystroem", "RandomFourier", "RandomMaclaurin", "default_map", "maps_for"]


def default_map(kernel: Kernel | None, *, random_state: object = None) -> BaseMap:
    """Return an unfitted map for a kernel: Fourier features where they exist, landmarks otherwise."""
    feature_map = RandomFourier if kernel is None or RandomFourier.accepts(kernel) else Nystroem
    return feature_map(kernel, random_state=random_state)
