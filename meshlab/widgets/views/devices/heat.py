"""The numbers that the devices hold after a run, as a heat map in the blocks of a tensor.

    numbers_view(explorer, "params/w1", run=1)      {"there": True, "when": "after step 5 of run 1", …}
    heat_view(explorer, "params/w1", run=1)         {"cells": {…}, "read": "✓ Read from 8 devices, …"}

There are numbers of what goes into a step and comes out of it: parameters and optimizer state as the last step left
them, its batch, its outputs. What is made inside the step (a tag) is not kept, and nothing is drawn in its place. They
are read from each device by itself (`device_shards`), whichever layout the run had: a layout changes where numbers are,
and none of them. Where its devices held the slices of the layout on the board these frame the numbers; where they held
others, nothing does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypedDict

import jax
import numpy as np

from ...state.explorer_state import ExplorerState
from ...state.run_values import Numbers
from ...state.runs import Run
from ..charts.sameness import tolerance_of
from .cells import Grid, HeatCellsView, cells_view, grid_of, stats_of
from .device_shards import Difference, Read, read_shards
from .holdings import cut_text, holdings_view, slices_of
from .tensor_blocks import blocks_view

# So many numbers are read at most, of all devices together; of more every n-th.
MOST_READ = 1 << 23
ENDED = {"cancelled": ", which was cancelled", "failed": ", which failed"}


class NumbersView(TypedDict):
    """Whether a run has numbers of a tensor, whose they are, and why there are none; "" where that needs no words."""

    run: int
    there: bool
    when: str
    why: str
    stale: bool


class NoHeatView(NumbersView):
    cells: None


class HeatView(NumbersView):
    """The numbers of a tensor after a run; of replicas that differ (device, other device, by how much)."""

    parts: list[int]
    dtype: str
    cells: HeatCellsView
    devices: int
    as_planned: bool
    differences: list[tuple[int, int, float | None]]
    read: str
    sampled: str
    unframed: str


def numbers_view(explorer: ExplorerState, place: str, run: int) -> NumbersView:
    """Describes which numbers of a tensor there are after a run.

    Args:
        explorer: the Explorer.
        place: the place of the tensor.
        run: the number of the run.

    Returns:
        Whether they are there, whose they are (`when`), and why there are none, in words; "" where that needs no words.
    """
    _, _, view = _found(explorer, place, run)
    return view


def heat_view(explorer: ExplorerState, place: str, run: int, beside: bool = False) -> HeatView | NoHeatView:
    """Describes the numbers of a tensor after a run, in cells that never cross a slice.

    Args:
        explorer: the Explorer.
        place: the place of the tensor.
        run: the number of the run.
        beside: whether the slices are those of the layout that is shown beside the one on the board.

    Returns:
        What `numbers_view` says; the cells (`cells_view`), the slices that they are cut by (`parts`), what was read of
        which devices, whether they hold what the plan says, and whether replicas agree; and why these slices do not
        frame the numbers (`unframed`), "" where they do.
    """
    ran, numbers, view = _found(explorer, place, run)
    other = explorer.other
    if ran is None or numbers is None or ran.values is None or (beside and other is None):
        return {**view, "cells": None}
    document = other.under(explorer.document) if beside and other is not None else explorer.document
    shown = explorer.plan_at(document)
    holdings = holdings_view(shown, place)
    grid, plan = grid_of(holdings, blocks_view(holdings)), ran.values.plan
    strides = strides_of(grid, plan.mesh.size * math.prod(stop - start for start, stop in plan.shard(place, 0)))
    read = read_shards(plan, place, numbers.array, strides)
    sampled = math.prod(strides) > 1
    return {
        **view,
        "parts": holdings["parts"],
        "dtype": holdings["dtype"],
        "cells": cells_view(
            grid, stats_of(grid, read.pieces, strides), sampled, holdings["dtype"].startswith("complex")
        ),
        "devices": read.devices,
        "as_planned": read.as_planned,
        "differences": [(each.device, each.other, _finite(each.most)) for each in read.differences],
        "read": read_text(read, tolerance_of(plan.program), sampled),
        "sampled": f"One number in {math.prod(strides):,} is read, evenly along each axis." * sampled,
        "unframed": "" if _held_alike(shown, plan, place) else _unframed(ran.number, plan, place),
    }


def _held_alike(shown: Any, ran: Any, place: str) -> bool:
    """Whether each device that ran held the slice that the plan that is shown gives it."""
    cuts = [(cut["parts"], cut["step"]) for cut in (holdings_view(shown, place), holdings_view(ran, place))]
    return cuts[0] == cuts[1] and np.array_equal(slices_of(shown, place), slices_of(ran, place))


def _unframed(number: int, ran: Any, place: str) -> str:
    dims = [name or "1" for name in ran.program.place(place).dims]
    how = cut_text(dims, ran.device_spec(place))
    return f"In run {number} it {how}: its slices differ from these, so they do not frame its numbers."


def _found(explorer: ExplorerState, place: str, number: int) -> tuple[Run | None, Numbers | None, NumbersView]:
    """Returns the run of a number and its array at a place, where it has one, and what is said of it."""
    run = next((each for each in explorer.runs if each.number == number), None)
    values = run.values if run is not None else None
    program = explorer.program
    if run is None or run.active or values is None or place not in program.places:
        return None, None, _view(number)
    numbers = values.at(place)
    if numbers is None:
        why = f"No numbers: `{place}` is computed inside the step, and not stored. Look shows them."
        return None, None, _view(number, why=why)
    if isinstance(numbers.array, jax.Array) and numbers.array.is_deleted():
        why = f"No numbers: a later call took the memory of `{place}` (donate=True). Run again to see them."
        return None, None, _view(number, why=why)
    shape, dtype = tuple(numbers.array.shape), numbers.array.dtype
    if jax.numpy.issubdtype(dtype, jax.dtypes.extended):
        return None, None, _view(number, why=f"No numbers: `{place}` are random keys.")
    if place not in program.places_values or shape != tuple(program.place(place).shape):
        return None, None, _view(number, why=f"No numbers: run {number} had other sizes.")
    if not math.prod(shape):
        return None, None, _view(number, why=f"No numbers: `{place}` is empty.")
    layout = str(run.document.layout) or "nothing sharded"
    same = run.document.layout == explorer.layout
    when = f"{numbers.when} of run {run.number}{ENDED.get(run.phase, '')}{'' if same else f', under {layout}'}"
    return run, numbers, {**_view(number, when), "stale": not same}


def _view(number: int, when: str = "", why: str = "") -> NumbersView:
    return {"run": number, "there": bool(when), "when": when, "why": why, "stale": False}


def strides_of(grid: Grid, count: int) -> list[int]:
    """Returns n for each axis, of which every n-th number is read, so that few enough are and each cell has some.

    Args:
        grid: the cells.
        count: how many numbers all devices together hold.
    """
    narrow = [int(min(edges[1:] - edges[:-1])) for edges in grid.edges]
    strides = [1] * len(narrow)
    while count > MOST_READ * math.prod(strides):
        room = [width // stride for width, stride in zip(narrow, strides, strict=True)]
        widest = max(range(len(room)), key=lambda axis: room[axis], default=-1)
        if widest < 0 or room[widest] < 2:
            break
        strides[widest] += 1
    return strides


def read_text(read: Read, tolerance: float, sampled: bool) -> str:
    """Says what was read of which devices, and whether it is what the plan says.

    Args:
        read: what was read.
        tolerance: how far apart replicas may be by rounding, as a share of their root mean square.
        sampled: whether some numbers were not read, of which nothing is known then.
    """
    devices = f"{read.devices:,} device{'s' * (read.devices != 1)}"
    again = "Put on the devices again in the step's sharding, and read" if read.put_again else "Read"
    text = f"{again} from {devices}, each its own shard:"
    if not read.as_planned:
        return f"✕ {text} some hold index ranges that differ from the plan."
    text = f"{text} the index ranges match the plan"
    if not read.replicas or read.put_again:
        return f"✓ {text}."
    return replicas_text(text, read.differences, tolerance, sampled)


def replicas_text(text: str, differences: Sequence[Difference], tolerance: float, sampled: bool) -> str:
    """Says whether devices that should hold the same do.

    Args:
        text: what was read, to go on from.
        differences: of each device that holds something else than the first with the same slice.
        tolerance: how far apart they may be by rounding, as a share of their root mean square.
        sampled: whether some numbers were not read.
    """
    if not differences:
        return f"✓ {text}, and replicas agree bit for bit{' in what was read' * sampled}."
    worst = max(differences, key=lambda each: each.share)
    by = f"by up to {worst.most:.3g}" if math.isfinite(worst.most) else "where one of them is not a finite number"
    if worst.share <= tolerance:
        return f"✓ {text}; replicas differ {by}, which is rounding."
    which = _listed([each.device for each in differences])
    return (
        f"✕ {text}, but replicas differ {by}: {which} "
        f"{'holds' if len(differences) == 1 else 'hold'} other numbers than the first device with the same slice,"
        " whose numbers are drawn."
    )


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(f"{number:,}" for number in numbers[:6])
    more = f" and {len(numbers) - 6:,} more" if len(numbers) > 6 else ""
    return f"device{'s' * (len(numbers) != 1)} {shown}{more}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
