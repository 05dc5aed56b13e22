"""Reads shardings as HLO prints them, as mesh axes for each axis of an array.

splits("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", {"data": 2, "model": 4}, 2)   (("data",), ())
splits("{mesh['data'=2,'model'=4], [{'data'}, {}]}", …, 2)                             the same, since JAX 0.12
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from ..engine.specs.spec import Axes

_TILES = re.compile(
    r"devices=\[(?P<tiles>[\d,]+)\](?:<=\[(?P<sizes>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?|(?P<listed>\d[\d,]*))"
)
_MESH = re.compile(r"mesh\[.*?\].*?\[(?P<axes>.*)\]")
_ENTRY = re.compile(r"\{([^{}]*)\}")
# A part of a mesh axis: the second half of four is 'model':(2)2.
_PART = re.compile(r"'[^']+':\(")


def splits(printed: str, axes: Mapping[str, int], rank: int) -> tuple[Axes, ...] | None:
    """Returns the mesh axes that split each axis of an array, major first; None where they are no whole mesh axes.

    Args:
        printed: one sharding, of one array.
        axes: the mesh's sizes by name, major first.
        rank: of the array.
    """
    if "maximal" in printed or "manual" in printed:
        return None
    if named := _MESH.search(printed):
        entries = _ENTRY.findall(named["axes"])
        if any(_PART.search(entry) for entry in entries):
            return None
        found = tuple(tuple(re.findall(r"'([^']+)'", entry)) for entry in entries)
        return found if len(found) == rank and all(a in axes for row in found for a in row) else None
    tiled = _TILES.search(printed)
    return _of_tiles(tiled, axes, rank) if tiled else ((),) * rank


def of_each(printed: str) -> list[str]:
    """Returns the shardings of the arrays of a tuple; of one array its own.

    Example:
        >>> of_each("{{replicated}, {devices=[2,1]<=[2]}}")
        ['{replicated}', '{devices=[2,1]<=[2]}']
    """
    if not printed.startswith("{{"):
        return [printed]
    parts, depth = [""], 0
    for letter in printed[1:-1]:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [re.sub(r"^\s*(/\*.*?\*/)?\s*", "", part) for part in parts]


def _of_tiles(tiled: re.Match[str], axes: Mapping[str, int], rank: int) -> tuple[Axes, ...] | None:
    """Finds the axes by which the position of a device on the mesh says which tile it has."""
    shape = _numbers(tiled["tiles"])
    if tiled["listed"]:
        ids = np.array(_numbers(tiled["listed"]))
    else:
        sizes = _numbers(tiled["sizes"])
        order = _numbers(tiled["order"]) if tiled["order"] else range(len(sizes))
        ids = np.arange(math.prod(sizes)).reshape(sizes).transpose(order)
    where = np.array(np.unravel_index(ids.reshape(shape), list(axes.values())))
    found = []
    for dim in range(rank):
        along = np.moveaxis(where, dim + 1, 1).reshape(len(axes), shape[dim], -1)[:, :, 0]
        moving = [i for i in range(len(axes)) if np.ptp(along[i])]
        # The major axis is the last to change.
        moving.sort(key=lambda i: -int(np.argmax(along[i] != along[i, 0])))
        names = tuple(list(axes)[i] for i in moving)
        if math.prod(axes[name] for name in names) != shape[dim]:
            return None
        found.append(names)
    return tuple(found)


def _numbers(printed: str) -> list[int]:
    return [int(number) for number in printed.split(",")]
