"""Finds which devices take part in a collective, and along which mesh axes.

XLA names the devices of a collective by number, in one of four notations. On a mesh `data=2, model=4` these say the
same, an operation over `model`:

    {{0,1,2,3},{4,5,6,7}}                   listed
    [2,4]<=[8]                              counted: 0 to 7, as 2 groups of 4
    [2,4]<=[4,2]T(1,0)                      counted and transposed (this one is {{0,2,4,6},{1,3,5,7}})
    mesh['axis_0'=2,'axis_1'=4] {'axis_1'}  by axes of a mesh of XLA's own, whose names are not the user's

So each is expanded to the numbers that it stands for, and these are matched with the user's mesh, whose devices are
numbered row-major (the last axis changes fastest). A number is a position in the compiled program's device list.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping

import numpy as np

from ..errors import RunError

_NUMBERS = r"\[([\d,]+)\]"
_IOTA = re.compile(rf"{_NUMBERS}<={_NUMBERS}(?:T\(([\d,]+)\))?")
_MESH = re.compile(r"mesh\[(.*?)\](?:, device_ids=\((.*?(?:T\([\d,]+\))?)\))?\s*\{(.*)\}")
_MESH_IOTA = re.compile(rf"{_NUMBERS}(?:T\(([\d,]+)\))?")
_AXIS = re.compile(r"'?([^',=:]+)'?(?::\((\d+)\)(\d+))?")


def read_groups(printed: str, devices: int) -> np.ndarray:
    """Expands printed replica groups, which must be of one size and hold each device once.

    Args:
        printed: the value of `replica_groups`, in any of XLA's notations.
        devices: how many devices the program runs on.

    Returns:
        Device numbers: [groups, devices in a group].

    Example:
        >>> read_groups("[2,2]<=[2,2]T(1,0)", 4).tolist()
        [[0, 2], [1, 3]]
    """
    try:
        groups = _expand(printed.strip(), devices)
    except (ValueError, KeyError):  # sizes that do not fit each other
        groups = None
    if groups is None:
        raise RunError(f"The replica groups `{printed}` of a collective are in an unknown notation.")
    if sorted(groups.flat) != list(range(devices)):
        raise RunError(
            f"The replica groups `{printed}` of a collective do not contain each of the mesh's {devices} devices once."
            " Was the program compiled for this mesh?"
        )
    return groups


def _expand(printed: str, devices: int) -> np.ndarray | None:
    if printed == "{}":
        return np.arange(devices)[None]
    if printed.startswith("mesh["):
        return _expand_mesh(printed)
    if iota := _IOTA.fullmatch(printed):
        return _iota(iota[2], iota[3]).reshape(_numbers(iota[1]))
    listed = [_numbers(group) for group in re.findall(r"\{([\d,\s]+)\}", printed)]
    if not printed.startswith("{{") or len({len(group) for group in listed}) != 1:
        return None
    return np.array(listed)


def _numbers(printed: str) -> list[int]:
    return [int(number) for number in printed.split(",")]


def _iota(sizes: str, order: str | None) -> np.ndarray:
    shape = _numbers(sizes)
    counted = np.arange(math.prod(shape)).reshape(shape)
    return counted.transpose(_numbers(order)) if order else counted


def _expand_mesh(printed: str) -> np.ndarray | None:
    match = _MESH.fullmatch(printed)
    if match is None:
        return None
    sizes = {name: int(size) for name, size in re.findall(r"'?([^',=]+)'?=(\d+)", match[1])}
    spans = [
        (name, int(before or 1), int(before or 1) * int(size or sizes[name]))
        for name, before, size in _AXIS.findall(match[3])
    ]
    shape, places = _cut(sizes, spans)
    # In the order in which the axes are listed, so that a group's devices come in the order of its data.
    grouped = [
        place
        for axis, start, end in spans
        for (name, low), place in places.items()
        if name == axis and start <= low < end
    ]
    rest = [place for place in range(len(shape)) if place not in grouped]
    ids = _mesh_devices(match[2], math.prod(shape)).reshape(shape)
    return ids.transpose(rest + grouped).reshape(-1, math.prod(shape[place] for place in grouped))


def _cut(sizes: Mapping[str, int], spans: list[tuple[str, int, int]]) -> tuple[list[int], dict[tuple[str, int], int]]:
    """Cuts axes into pieces where a sub-axis starts or ends.

    A sub-axis `'a':(2)4` of an axis of size 16 starts where 2 divides it and ends where 8 does: `a` is 2 x 4 x 2.

    Args:
        sizes: of the axes, major first.
        spans: (axis, start, end) of each sub-axis.

    Returns:
        The sizes of all pieces in order, and the position of each piece by its axis and start.
    """
    shape, places = [], {}
    for name, size in sizes.items():
        cuts = {1, size} | {cut for axis, start, end in spans if axis == name for cut in (start, end)}
        for low, high in itertools.pairwise(sorted(cuts)):
            places[name, low] = len(shape)
            shape.append(high // low)
    return shape, places


def _mesh_devices(printed: str | None, devices: int) -> np.ndarray:
    if not printed:
        return np.arange(devices)
    iota = _MESH_IOTA.fullmatch(printed)
    return _iota(iota[1], iota[2]) if iota else np.array(_numbers(printed))


def axes_of_groups(groups: np.ndarray, axes: Mapping[str, int]) -> tuple[str, ...] | None:
    """Finds the mesh axes that each group runs along.

    Args:
        groups: device numbers, [groups, devices in a group].
        axes: the mesh's sizes by name, major first.

    Returns:
        The axes in the mesh's order, without those of size 1; None where the groups are those of no set of axes.
    """
    sizes = tuple(axes.values())
    coordinates = np.array(np.unravel_index(groups[0], sizes)).reshape(len(sizes), -1)
    varying = [place for place in range(len(sizes)) if len(set(coordinates[place])) > 1]
    rest = [place for place in range(len(sizes)) if place not in varying]
    width = math.prod(sizes[place] for place in varying)
    expected = np.arange(math.prod(sizes)).reshape(sizes).transpose(rest + varying).reshape(-1, width)
    if expected.shape != groups.shape or not np.array_equal(_canonical(expected), _canonical(groups)):
        return None
    return tuple(list(axes)[place] for place in varying)


def _canonical(groups: np.ndarray) -> np.ndarray:
    inside = np.sort(groups, axis=1)
    return inside[np.argsort(inside[:, 0])]


def axes_of_pairs(printed: str, axes: Mapping[str, int]) -> tuple[str, ...] | None:
    """Finds the mesh axes along which a collective-permute moves data.

    Args:
        printed: the value of `source_target_pairs`.
        axes: the mesh's sizes by name, major first.

    Returns:
        The axes in the mesh's order, none if nothing moves; None where other axes decide what moves along these.
    """
    pairs = np.array([_numbers(pair) for pair in re.findall(r"\{(\d+,\d+)\}", printed)], dtype=int).reshape(-1, 2)
    sizes, count = tuple(axes.values()), math.prod(axes.values())
    if not re.fullmatch(r"\{(\{\d+,\d+\},?)*\}", printed):
        raise RunError(f"The source and target pairs `{printed}` of a collective-permute cannot be read.")
    if pairs.size and pairs.max() >= count:
        raise RunError(f"A collective-permute names device {pairs.max()}; the mesh has the devices 0 to {count - 1}.")
    sources, targets = (np.array(np.unravel_index(pairs[:, side], sizes)).reshape(len(sizes), -1) for side in (0, 1))
    moving = [place for place in range(len(sizes)) if (sources[place] != targets[place]).any()]
    rest = [place for place in range(len(sizes)) if place not in moving]
    # The same moves must be made wherever the other axes stand.
    moves: dict[tuple, set] = {}
    for source, target in zip(sources.T, targets.T, strict=True):
        moves.setdefault(tuple(source[rest]), set()).add((tuple(source[moving]), tuple(target[moving])))
    if moving and len(moves) != math.prod(sizes[place] for place in rest):
        return None
    if any(targets_of != next(iter(moves.values())) for targets_of in moves.values()):
        return None if moving else ()
    return tuple(list(axes)[place] for place in moving)
