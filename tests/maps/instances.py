"""One list of maps for every test that holds for all of them."""

from itertools import product

from mercer import (
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    Matern,
    Nystroem,
    Polynomial,
    RandomFourier,
    Transformed,
)

FORMS = ("pairs", "phase", "complex")
DENSE = ("iid", "orthogonal", "big_block", "sobol")
DIRECTIONS = (*DENSE, "butterfly", "hadamard")
RADII = ("plain", "stratified")
KERNEL = Gaussian(1.3)

DESIGNS = [
    {"form": form, "directions": directions, "radii": radii}
    for form, directions, radii in product(FORMS, DIRECTIONS, RADII)
    if (directions, radii) != ("sobol", "stratified")  # Sobol points carry radii of their own
]
FOURIER = [
    *(RandomFourier(KERNEL, 20, **design) for design in DESIGNS),
    *(RandomFourier(KERNEL, n) for n in (1, 2, 7)),
    RandomFourier(1 + 2 * Matern(0.5), 7, directions="hadamard"),
    RandomFourier(3 + Laplacian() * Gaussian(), 12),
    RandomFourier(Transformed(Cauchy(), columns=(2, 0), lengthscales=(0.5, 2.0)), 9, form="complex"),
    RandomFourier(Transformed(Gaussian(), lengthscales=(0.5, 2.0, 1.0)), 9, directions="hadamard"),
]
NYSTROEM = [
    Nystroem(KERNEL, 10),
    Nystroem(Exponential() @ Laplacian(), 8, landmarks="uniform"),
    Nystroem(Polynomial(2), 20),
]
MAPS = FOURIER + NYSTROEM


def name_of(value):
    """Return a short identity for a map or a design."""
    if isinstance(value, dict):
        return "-".join(value.values())
    return "".join(repr(value).split())
