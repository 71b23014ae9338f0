"""Table of all maps in order of preference, and the choice of a map for a kernel.

The table has three kinds of maps. Direct maps have formulas for a kernel itself. Composed maps combine maps of the
parts of a kernel (terms, factors), which are looked up in this table. Landmarks (`Nystroem`) accept any kernel and are
last. A user's own map is not in the table: it is passed as an object wherever a map is accepted.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal, NamedTuple

from mercer.errors import ParameterError
from mercer.errors.spellings import object_hint
from mercer.kernels import Kernel
from mercer.maps.base import BaseMap, DrawnMap, fresh_copy
from mercer.statistics.sample import seed_of

__all__ = [
    "Entry",
    "check_grows",
    "default_map",
    "explicit_map",
    "map_width",
    "maps_for",
    "seeded",
    "table",
    "unfitted_map",
    "why",
]


class Entry(NamedTuple):
    """Entry of the table: a map class, its kind, and the reason to use it for a kernel that it accepts."""

    map: type[DrawnMap]
    kind: Literal["direct", "composed", "any"]
    reason: str


@cache
def table() -> tuple[Entry, ...]:
    """Return the entries of the table, in order of preference."""
    # Imported here, since composed maps import this module to find maps of their parts.
    from mercer.maps.algebra import CompositionMap, ProductMap, SumMap
    from mercer.maps.fourier import RandomFourier, ResampledFourier, SphericalRadial
    from mercer.maps.histogram import HomogeneousFeatures, ThresholdFeatures
    from mercer.maps.landmarks import Nystroem
    from mercer.maps.neurons import RandomNeurons
    from mercer.maps.series import PolynomialSketch, RandomMaclaurin, TensorSketch

    return (
        Entry(RandomFourier, "direct", "shift-invariant: unbiased, bounded, and fast for wide rows"),
        Entry(SphericalRadial, "direct", "isotropic and smooth: less error at small distances, more at large ones"),
        Entry(ResampledFourier, "direct", "shift-invariant: frequencies chosen for rows of few features"),
        Entry(RandomMaclaurin, "direct", "a power series: low degrees are exact, and the plan follows the rows"),
        Entry(ThresholdFeatures, "direct", "minima: an error that falls as one over the number of components"),
        Entry(RandomNeurons, "direct", "arc-cosine: polynomial parts are exact"),
        Entry(HomogeneousFeatures, "direct", "homogeneous: a grid of frequencies with a bound on the error"),
        Entry(TensorSketch, "direct", "polynomial: for very wide sparse rows; low degrees are not exact"),
        Entry(PolynomialSketch, "direct", "polynomial: for high degrees; low degrees are not exact"),
        Entry(SumMap, "composed", "a sum of kernels that have maps"),
        Entry(ProductMap, "composed", "a product of kernels that have maps"),
        Entry(CompositionMap, "composed", "a power series of a kernel that has a map"),
        Entry(Nystroem, "any", "landmarks take any kernel; biased, and as good as the rows they are chosen from"),
    )


def maps_for(kernel: Kernel, *, direct: bool = False) -> list[type[DrawnMap]]:
    """Return the maps that can approximate a kernel, the default first.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    direct : bool, default=False
        If True, omit `Nystroem`, and omit maps that are composed of maps for parts of the kernel.

    Returns
    -------
    list of classes
    """
    entries = (entry for entry in table() if entry.kind == "direct" or not direct)
    return [entry.map for entry in entries if entry.map.accepts(kernel)]


def why(kernel: Kernel) -> str:
    """Return a text that lists the maps for a kernel, one per line with the reason to use it, the default first.

    Examples
    --------
    >>> from mercer import Laplacian
    >>> print(why(Laplacian()))
    RandomFourier: shift-invariant: unbiased, bounded, and fast for wide rows
    ResampledFourier: shift-invariant: frequencies chosen for rows of few features
    Nystroem: landmarks take any kernel; biased, and as good as the rows they are chosen from
    """
    return "\n".join(f"{entry.map.__name__}: {entry.reason}" for entry in table() if entry.map.accepts(kernel))


def explicit_map(kernel: Kernel, *, direct: bool = False) -> DrawnMap | None:
    """Return the first unbiased map for a kernel, unfitted, or None if no map of the table is unbiased for it.

    If `direct` is True, maps that are composed of maps for parts of the kernel are not considered.
    """
    candidates = (kind(kernel) for kind in maps_for(kernel, direct=direct))
    return next((candidate for candidate in candidates if candidate.unbiased is True), None)


def default_map(kernel: Kernel | None, *, random_state: Any = None) -> DrawnMap:
    """Return an unfitted map for a kernel: explicit features where they exist, landmarks otherwise.

    Parameters
    ----------
    kernel : Kernel or None
        The kernel; None means ``Gaussian(lengthscale="median")``.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map.

    Returns
    -------
    DrawnMap
    """
    kind = table()[0].map if kernel is None else maps_for(kernel)[0]
    return kind(kernel, random_state=random_state)


# ---- the parameter `feature_map` of a learner -----------------------------------------------------


def unfitted_map(owner: str, choice: Any, random_state: Any, **options: Any) -> BaseMap:
    """Return the unfitted map that the parameter `feature_map` of a learner represents.

    Parameters
    ----------
    owner : str
        Name of the learner, for error messages.
    choice : BaseMap, Kernel or None
        A map, which is copied; or a kernel, whose default map is used; or None, as in `default_map`.
    random_state : int, Generator, RandomState or None
        Seed of the default map, and of a map that is passed as `choice` with ``random_state=None``.
    **options
        Further parameters of the default map.

    Returns
    -------
    BaseMap
    """
    if choice is None or isinstance(choice, Kernel):
        return default_map(choice, random_state=random_state).set_params(**options)
    given_map(owner, choice).check()
    return seeded(fresh_copy(choice), random_state)


def seeded(feature_map: BaseMap, random_state: Any) -> BaseMap:
    """Set the missing seeds of an unfitted map, and return the map. If `random_state` is None, nothing is changed.

    A parameter `random_state` that is None, of the map or of an object nested in it, is replaced by a number that is
    derived from `random_state` and the name of the parameter. There are two exceptions, since a map gives its seed to
    its inner map: an inner map needs no seed of its own, and a map whose inner map has a seed gets that one.
    """
    if random_state is None:
        return feature_map
    seeds = {name: seed for name, seed in feature_map.get_params().items() if name.split("__")[-1] == "random_state"}
    for name in sorted(seeds, key=lambda name: name.count("__")):  # outer maps first
        outer = name.removesuffix("feature_map__random_state") + "random_state"
        if seeds[name] is not None or seeds.get(outer) is not None:
            continue
        inner = rf"{name.removesuffix('random_state')}(feature_map__)+random_state"
        given = [seed for other, seed in seeds.items() if seed is not None and re.fullmatch(inner, other)]
        seeds[name] = given[0] if given else seed_of(random_state, name)
    return feature_map.set_params(**seeds)


def map_width(owner: str, choice: Any) -> int:
    """Return the number of components of the map that the parameter `feature_map` of a learner represents."""
    if choice is None or isinstance(choice, Kernel):
        return default_map(choice).width
    return given_map(owner, choice).width


def given_map(owner: str, choice: Any) -> BaseMap:
    """Return `choice` if it is a map. Otherwise raise a `ParameterError` that suggests what to pass instead."""
    if isinstance(choice, BaseMap):
        return choice
    msg = f"{owner}: feature_map must be a mercer map such as RandomFourier(), a kernel, or None; got {choice!r}."
    raise ParameterError(f"{msg} {object_hint(choice, 'feature_map')}".rstrip())


def check_grows(model: Any) -> bool:
    """Return True if the feature map of a learner can be updated with new rows. Otherwise raise a `ParameterError`.

    Learners call this function in the condition that they pass to scikit-learn's decorator `available_if` for the
    method `partial_fit`. If this function raises, ``hasattr(learner, "partial_fit")`` is False.
    """
    reason = model.feature_map.refuses_rows if isinstance(model.feature_map, BaseMap) else None
    if reason is not None:
        msg = f"{type(model).__name__}: {reason}"
        raise ParameterError(msg)
    return True
