"""Says which device sends to which in a collective-permute: one account for what is run and what is drawn.

    pairs(Shifted(("x",), 1, False), {"x": 3})      ("x",), [(0, 1), (1, 2)]: the last part has none behind it

A permute changes the mesh axes that split a value (`Rerouted`), moves parts on by a distance (`Shifted`), reverses
their order (`Mirrored`), or is given device by device (`Permuted`). Devices are counted over the mesh axes that are
returned with the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..specs.spec import Axes, Spec
from .permutation import permutation

Pairs = list[tuple[int, int]]


class Rerouted(NamedTuple):
    """Blocks of a value from one spec to another with as many blocks."""

    start: Spec
    result: Spec


class Shifted(NamedTuple):
    """Each part to the device so many parts further along `axes`, major first."""

    axes: Axes
    distance: int
    wrap: bool


class Mirrored(NamedTuple):
    """Each part to the device that has as many parts behind it as this one has before it."""

    axes: Axes


class Permuted(NamedTuple):
    """Any permutation: each part to the device that is given, counted over `axes`, in the order of the mesh.

    A device to which nobody sends gets zeros.
    """

    axes: Axes
    pairs: tuple[tuple[int, int], ...]


Route = Rerouted | Shifted | Mirrored | Permuted


def pairs(route: Route, sizes: Mapping[str, int]) -> tuple[Axes, Pairs]:
    """Returns the mesh axes over which devices are counted, in the order of the mesh, and who sends to whom."""
    if isinstance(route, Permuted):
        return route.axes, list(route.pairs)
    if isinstance(route, Rerouted):
        blocks = permutation(*route, tuple(sizes.items()))
        return blocks.axes, list(blocks.pairs)
    ordered = tuple(a for a in sizes if a in route.axes and (sizes[a] > 1 or isinstance(route, Shifted)))
    count = math.prod(sizes[a] for a in ordered)
    if isinstance(route, Mirrored):
        return ordered, [(i, count - 1 - i) for i in range(count)]
    # Parts are counted along the axes as they are given, devices in the order of the mesh.
    numbers = np.arange(count).reshape([sizes[a] for a in ordered])
    order = numbers.transpose([ordered.index(a) for a in route.axes]).ravel().tolist()
    targets = ((i, i + route.distance) for i in range(count))
    return ordered, [(order[i], order[j % count]) for i, j in targets if route.wrap or 0 <= j < count]


def crossing(axes: Axes, distance: int, wrap: bool, sizes: Mapping[str, int]) -> tuple[Axes, int]:
    """Returns the mesh axes that a permute of so many parts crosses, and the distance without full circles.

    A distance that is a multiple of a minor axis leaves the place on that axis as it is. Where no axis is crossed
    nothing is sent: each part stays where it is, or, with a distance that is left, leaves the mesh.
    """
    count = math.prod(sizes[a] for a in axes)
    distance = distance % count if wrap else distance
    left, crossed = abs(distance), list(axes)
    if not left or left >= count:
        return (), distance
    while crossed and left % sizes[crossed[-1]] == 0:
        left //= sizes[crossed.pop()]
    return tuple(crossed), distance
