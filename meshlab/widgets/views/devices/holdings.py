"""Which slice of a tensor each device holds, for the picture of devices and for the tensor beside it.

    holdings_view(plan, "params/w1")
        {"parts": [1, 1, 4], "edges": [[0, 28], [0, 28], [0, 256, 512, 768, 1024]], "held": [0, 1, 2, 3, 0, 1, 2, 3], …}

A tensor is cut along each of its axes; a slice is one part of each, and has a number, row-major over the parts. `held`
has the slice of each cell of the picture, in its order; of a cell that covers many devices, up to four and how many.
Nothing depends on the data, and all is arrays over devices: 65,536 take milliseconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np

from ....engine.specs.spec import Spec
from ...state.explorer_state import ExplorerState
from .arrangement import Arrangement, Window, arrange
from .picture import PictureView, devices_picture
from .sites import Sites, indices_of, sites_of
from .tensor_blocks import BlocksView, CutView, blocks_view

# Of a cell that covers many devices so many slices are drawn; of more parts along an axis than these no edges are sent.
MOST_IN_CELL, MOST_EDGES = 4, 512


class HeldView(TypedDict):
    """The slice of each cell; where cells are several devices up to four of them, and in `kinds` how many there are."""

    held: list[int] | list[list[int]]
    kinds: list[int]


class SlicesView(CutView):
    """A tensor in slices: each is one part along each axis, and has a number, row-major over the parts."""

    place: str
    dims: list[str]
    dtype: str
    splits: list[list[str]]
    partial: list[str]
    slices: int


class HoldingsView(SlicesView, HeldView):
    copies: int


class ShardsView(HoldingsView):
    blocks: BlocksView


class ZoomedView(TypedDict):
    picture: PictureView
    shards: HoldingsView | None


def holdings_view(plan: Any, place: str, window: Window | None = None) -> HoldingsView:
    """Describes who holds what of the tensor at a place.

    Args:
        plan: the plan.
        place: the place.
        window: the part of the mesh that is shown (`devices_picture`).

    Returns:
        The tensor, how it is cut, the slice of each cell, and how many slices and replicas there are.
    """
    return cut_view(plan, place, plan.program.place(place), plan.device_spec(place), window)


def cut_view(plan: Any, called: str, value: Any, spec: Spec, window: Window | None = None) -> HoldingsView:
    """Describes who holds what of any value in a spec of devices, as `holdings_view` does of a tensor with a place."""
    sizes = plan.mesh.axes
    parts = [math.prod(sizes[axis] for axis in axes) for axes in spec.splits]
    edges = [edges_of(plan, size, axes) for size, axes in zip(value.shape, spec.splits, strict=True)]
    slices = math.prod(parts)
    sites = sites_of(plan.mesh)
    return {
        "place": called,
        "dims": [name or "1" for name in value.dims],
        "shape": [int(size) for size in value.shape],
        "dtype": str(value.dtype),
        "splits": [list(axes) for axes in spec.splits],
        "partial": list(spec.partial),
        "parts": parts,
        "edges": [each if len(each) <= MOST_EDGES + 1 else [] for each in edges],
        "step": [max(stop - start for start, stop in itertools.pairwise(each)) for each in edges],
        "slices": slices,
        "copies": plan.mesh.size // slices,
        **held_in(sites, arrange(sites, window), slices_in(plan, spec)),
    }


def tensor_view(plan: Any, place: str) -> ShardsView:
    """Describes who holds what of the tensor at a place, and draws the tensor as its slices (`tensor_blocks`)."""
    holdings = holdings_view(plan, place)
    return {**holdings, "blocks": blocks_view(holdings)}


def zoomed_view(explorer: ExplorerState, window: list[list[int]]) -> ZoomedView:
    """Describes the part of the mesh in a window, and who holds what there of the tensor that is selected.

    Args:
        explorer: the Explorer.
        window: (first position, position behind the last) along each level (`sites`).
    """
    shown = [(int(low), int(high)) for low, high in window]
    place = explorer.selected
    shards = None if place is None else holdings_view(explorer.plan, place, shown)
    return {"picture": devices_picture(explorer.mesh, shown), "shards": shards}


def edges_of(plan: Any, size: int, axes: tuple[str, ...]) -> list[int]:
    """Returns where the parts of an axis begin and end, from 0 to its size; with padding the last may be empty."""
    if not axes:
        return [0, int(size)]
    return [*itertools.accumulate(plan.grid.part_sizes(int(size), axes), initial=0)]


def slices_of(plan: Any, place: str) -> np.ndarray:
    """Returns the number of the slice that each device holds of the tensor at a place: int [devices]."""
    return slices_in(plan, plan.device_spec(place))


def slices_in(plan: Any, spec: Spec) -> np.ndarray:
    """Returns the number of the slice that each device holds of a value in a spec of devices: int [devices]."""
    indices, sizes = indices_of(plan.mesh), plan.mesh.axes
    number = np.zeros(plan.mesh.size, int)
    for axes in spec.splits:
        for axis in axes:
            number = number * sizes[axis] + indices[axis]
    return number


def cut_text(dims: Sequence[str], spec: Spec) -> str:
    """Says how a tensor is cut in a spec, to go on after its name: "is whole on each device"."""
    cuts = [f"`{dim}` split over `{'+'.join(axes)}`" for dim, axes in zip(dims, spec.splits, strict=True) if axes]
    cut = " and ".join(cuts)
    if spec.partial:
        return f"is a partial sum over `{'+'.join(spec.partial)}`" + f", with {cut}" * bool(cuts)
    return f"has {cut}" if cuts else "is whole on each device"


def held_in(sites: Sites, arranged: Arrangement, slices: np.ndarray) -> HeldView:
    """Returns the slice of each cell; where cells cover several devices up to four of them, and how many there are."""
    at = np.empty(tuple(level.size for level in sites.levels), int)
    at[tuple(sites.positions.T)] = slices
    shown = at[tuple(slice(tier.low, tier.high) for tier in arranged.tiers)]
    if all(tier.step == 1 for tier in arranged.tiers):
        return {"held": shown.ravel().tolist(), "kinds": []}
    cells = [np.unique(shown[_box(arranged, numbers)]) for numbers in arranged.numbers()]
    return {
        "held": [cell[:: -(-len(cell) // MOST_IN_CELL)].tolist() for cell in cells],
        "kinds": [len(cell) for cell in cells],
    }


def _box(arranged: Arrangement, numbers: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(n * tier.step, (n + 1) * tier.step) for n, tier in zip(numbers, arranged.tiers, strict=True))
