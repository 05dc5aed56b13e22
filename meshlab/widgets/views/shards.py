"""The shards of one tensor, device by device, as JSON-like data for the grid of the mesh.

Every device holds an index range on each axis; devices with the same ranges hold the same slice (replicas of each
other) and bear the same letter. With `hidden` on `model` of a mesh of 2 by 2, `params/w1` has two slices, each twice:

    >>> [tile["slice"] for tile in shards_view(plan, "params/w1")["tiles"]]
    [0, 1, 0, 1]

Nothing depends on the data, and a mesh of any size gives at most 64 tiles.
"""

from __future__ import annotations

from typing import Any

MOST_TILES = 64


def shards_view(plan: Any, place: str) -> dict:
    """Describes the shards of the tensor at a place.

    Args:
        plan: the plan.
        place: the place.

    Returns:
        The devices in order, each with its coordinates, its index ranges and the number of its slice; and how many
        slices and copies there are in the whole mesh.
    """
    value, spec = plan.program.place(place), plan.spec(place)
    sizes = plan.mesh.axes
    split_axes = [axis for axes in spec.splits for axis in axes]
    slices = 1
    for axis in split_axes:
        slices *= sizes[axis]
    count = min(plan.mesh.size, MOST_TILES)
    numbers: dict[tuple, int] = {}
    tiles = []
    for device in range(count):
        ranges = tuple(tuple(int(edge) for edge in pair) for pair in plan.shard(place, device))
        number = numbers.setdefault(ranges, len(numbers))
        coordinates = list(plan.mesh.coordinates(device).values())
        tiles.append({"device": device, "coords": coordinates, "ranges": [list(r) for r in ranges], "slice": number})
    return {
        "place": place,
        "dims": [name or "1" for name in value.dims],
        "shape": [int(size) for size in value.shape],
        "dtype": str(value.dtype),
        "splits": [list(axes) for axes in spec.splits],
        "partial": list(spec.partial),
        "copied_over": [axis for axis in sizes if axis not in split_axes and axis not in spec.partial],
        "slices": slices,
        "copies": plan.mesh.size // slices,
        "tiles": tiles,
        "left_out": plan.mesh.size - count,
    }
