"""The maps that are tried for a kernel: those of the registry, some of them with several sets of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mercer.errors import ParameterError
from mercer.kernels import Kernel
from mercer.maps.base import DrawnMap, fresh_copy
from mercer.maps.registry import Entry, table

__all__ = ["Candidate", "candidates_for", "check_method"]

# Sobol points beat orthogonal directions up to about this number of features.
SOBOL_FEATURES = 32
# Number of landmarks whose leading directions are found at once. With more landmarks this takes most of the time.
FEW_LANDMARKS = 1024


@dataclass(frozen=True)
class Candidate:
    """A map for a kernel, with parameters other than the number of components.

    Attributes
    ----------
    name : str
        The class of the map, with the parameters that differ from its defaults.
    reason : str
        When to use the map.
    prototype : DrawnMap
        The unfitted map.
    most_components : int or infinity
        Largest number of components for which the map is tried; with more, its fit would take too long.
    """

    name: str
    reason: str
    prototype: DrawnMap
    options: Mapping[str, Callable[[int], Any]]  # parameters that depend on the number of components
    most_components: float = float("inf")

    def at(self, n_components: int, random_state: Any) -> DrawnMap:
        """Return the unfitted map with a number of components and a seed."""
        options = {name: value(n_components) for name, value in self.options.items()}
        return fresh_copy(self.prototype, n_components=n_components, random_state=random_state, **options)


@dataclass(frozen=True)
class Variant:
    """Parameters of a map that are worth trying, and the largest numbers of features and components for them."""

    parameters: Mapping[str, Any]
    most_features: float = float("inf")
    most_components: float = float("inf")
    of_width: Mapping[str, Callable[[int], Any]] | None = None


def more_landmarks(n_components: int) -> int:
    """Return the number of landmarks of which the leading directions are kept: two to four times as many."""
    return min(4 * n_components, max(2 * n_components, FEW_LANDMARKS))


# Parameters that are tried, by the name of the map; other maps are tried with their defaults.
VARIANTS: Mapping[str, tuple[Variant, ...]] = {
    "RandomFourier": (
        Variant({"radii": "stratified"}),
        Variant({"directions": "sobol"}, most_features=SOBOL_FEATURES),
    ),
    "Nystroem": (
        Variant({}),
        Variant({"landmarks": "kmeans"}),
        Variant({}, of_width={"n_landmarks": more_landmarks}, most_components=FEW_LANDMARKS),
    ),
}


def candidates_for(
    kernel: Kernel, n_features: int, *, method: Any = "auto", n_jobs: int | None = None
) -> list[Candidate]:
    """Return the maps to try for a kernel and rows of `n_features` features, in order of preference.

    Parameters
    ----------
    kernel : Kernel
        The kernel, with a number for every parameter.
    n_features : int
        Number of features of the rows.
    method : "auto", str or sequence of str, default="auto"
        Names of the maps to try, such as "Nystroem". "auto" means all maps that accept the kernel.
    n_jobs : int or None, default=None
        Parameter of the maps.
    """
    entries = [entry for entry in table() if entry.map.accepts(kernel)]
    if method != "auto":
        names = [method] if isinstance(method, str) else list(method)
        unfit = [name for name in names if name not in {entry.map.__name__ for entry in entries}]
        if unfit:
            msg = (
                f"FeatureMap: method {unfit[0]!r} cannot approximate {kernel!r}. Maps for this kernel: "
                f"{', '.join(entry.map.__name__ for entry in entries)}."
            )
            raise ParameterError(msg)
        entries = [entry for entry in entries if entry.map.__name__ in names]
    return [
        _candidate(entry, variant, kernel, n_jobs)
        for entry in entries
        for variant in VARIANTS.get(entry.map.__name__, (Variant({}),))
        if n_features <= variant.most_features
    ]


def _candidate(entry: Entry, variant: Variant, kernel: Kernel, n_jobs: int | None) -> Candidate:
    of_width = variant.of_width or {}
    shown = [f"{name}={value!r}" for name, value in variant.parameters.items()]
    shown += [f"{name}>n_components" for name in of_width]
    name = f"{entry.map.__name__}({', '.join(shown)})" if shown else entry.map.__name__
    prototype = entry.map(kernel, n_jobs=n_jobs, **variant.parameters)
    return Candidate(name, entry.reason, prototype, of_width, variant.most_components)


def check_method(method: Any) -> None:
    """Raise if the parameter `method` is not "auto", the name of a map, or a sequence of such names."""
    if isinstance(method, str) and method == "auto":
        return
    names = [method] if isinstance(method, str) else method
    known = {entry.map.__name__ for entry in table()}
    valid = isinstance(names, list | tuple) and len(names) > 0 and all(isinstance(name, str) for name in names)
    wrong = [name for name in names if name not in known] if valid else [method]
    if wrong:
        msg = (
            f"FeatureMap: method must be 'auto', the name of a map, or a list of such names, got {method!r}. Maps: "
            f"{', '.join(entry.map.__name__ for entry in table())}."
        )
        raise ParameterError(msg)
