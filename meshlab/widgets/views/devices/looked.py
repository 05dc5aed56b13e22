"""A value of a run's last step as the devices held it: the slice of each, its numbers, and the addends of partial sums.

    looked_view(explorer, number=1)                 {"there": True, "shards": {…}, "cells": {…}, "rows": [{…}, …], …}
    looked_view(explorer, number=1, form=1, iterations=[2], addend=None)

What was watched is here in whole (`state/looks.py`); a page is sent cells, as of the numbers of arguments (`heat.py`),
and a line for each device. A value may be on the devices in several forms: as it is made, and after each move. In a
loop there is one in each iteration, of which one is shown. Of a partial sum an addend is shown, or their sum, which no
device holds.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from ....engine.errors import listed
from ....engine.inside.assembled import Blocks, blocks_of
from ....engine.inside.watch import Form, Watched
from ....engine.specs.in_time import without_all
from ...documents.intents import Refused
from ...state.explorer_state import ExplorerState
from ...state.looks import Looked
from ..charts.sameness import tolerance_of
from .cells import HeatCellsView, as_real, cells_view, grid_of, short, stats_of
from .device_shards import Difference, Piece, difference_of, same_bits
from .heat import ENDED, replicas_text, strides_of
from .holdings import ShardsView, cut_view, slices_in
from .picture import PictureView, devices_picture
from .tensor_blocks import blocks_view

# Devices that have a line each; a slice of so few numbers is written out there.
MOST_ROWS, FEW = 64, 8


class NotThereView(TypedDict):
    there: Literal[False]
    why: str


class DeviceNumbersView(TypedDict):
    """What a device held: its slice, mean and extremes of its finite numbers, and all numbers where they are few."""

    device: int
    where: str
    slice: int
    least: float | None
    mean: float | None
    most: float | None
    nan: int
    infinite: int
    numbers: list[float | str]


class LoopShownView(TypedDict):
    """A loop around a value: how often it runs, and the iteration that is shown."""

    times: int
    shown: int


class LookedView(TypedDict):
    """A value as the devices held it; of `values`, `forms` and `addends` one is shown, or the sum of all addends."""

    there: Literal[True]
    label: str
    source: str
    values: list[str]
    value: int
    forms: list[str]
    form: int
    loops: list[LoopShownView]
    addends: list[str]
    addend: int | None
    sums: bool
    picture: PictureView
    shards: ShardsView
    cells: HeatCellsView
    rows: list[DeviceNumbersView]
    rows_left_out: int
    when: str
    read: str
    sampled: str
    unframed: str
    notes: list[str]


def looked_view(
    explorer: ExplorerState,
    number: int,
    *,
    value: int = 0,
    form: int = 0,
    iterations: Sequence[int] = (),
    addend: int | None = 0,
) -> LookedView | NotThereView | Refused:
    """Describes what the devices held of a value that was looked at.

    Args:
        explorer: the Explorer.
        number: of the look.
        value: which value, of a name that has several.
        form: as it is made, or after which move.
        iterations: of each loop around it, outermost first; the first where they are not given.
        addend: of a partial sum; None for their sum.
    """
    job = explorer.looks.last
    if job is None or job.number != number or job.result is None:
        return Refused("This is not looked at any more.", "Look at it again.", "nothing")
    looked: Looked = job.result
    plan = looked.values.plan
    if dict(plan.mesh.axes) != dict(explorer.mesh.axes):
        why = f"Run {looked.run.number} was on another mesh, of {plan.mesh}: run again to look at it on this one."
        return {"there": False, "why": why}
    every = [(name, each) for name in looked.seen for each in looked.seen.all(name)]
    at = min(value, len(every) - 1)
    watched = every[at][1]
    chosen = min(form, len(watched.forms) - 1)
    shown = Shown.of(plan, watched.forms[chosen], iterations, addend)
    called = every[at][0]
    return {
        "there": True,
        "label": watched.value.label,
        "source": str(watched.value.source or ""),
        "values": _values(every) if len(every) > 1 else [],
        "value": at,
        "forms": [_made(each, number) for number, each in enumerate(watched.forms)],
        "form": chosen,
        "loops": [
            {"times": loop.times or 0, "shown": at}
            for loop, at in zip(shown.form.tap.apart, shown.iterations, strict=True)
        ],
        "addends": [_where(zip(shown.partial, index, strict=True)) for index in shown.addends] if shown.partial else [],
        "addend": shown.addend,
        "sums": not shown.form.own_order,
        **_numbers(shown, called, watched),
        "when": _when(explorer, looked),
        "unframed": "",
        "notes": _notes(explorer, looked, shown),
    }


@dataclasses.dataclass(frozen=True)
class Shown:
    """What is shown of a value.

    Attributes:
        plan: the plan that was run.
        form: the value on the devices.
        iterations: that of each loop that makes several values.
        partial: the mesh axes over which it is a partial sum, with their sizes.
        addend: the addend; None for their sum.
    """

    plan: Any
    form: Form
    iterations: tuple[int, ...]
    partial: dict[str, int]
    addend: int | None

    @classmethod
    def of(cls, plan: Any, form: Form, iterations: Sequence[int], addend: int | None) -> Shown:
        tap = form.tap
        sizes = dict(plan.mesh.devices.axes) | {loop.in_time: loop.times or 1 for loop in tap.loops if loop.in_time}
        partial = {axis: sizes[axis] for axis in tap.spec.partial if axis in sizes}
        asked = [*iterations, *(0 for _ in tap.apart)]
        shown = tuple(min(max(0, at), (loop.times or 1) - 1) for at, loop in zip(asked, tap.apart, strict=False))
        count = math.prod(partial.values())
        if addend is None and (count == 1 or form.own_order):
            addend = 0
        return cls(plan, form, shown, partial, addend if addend is None else min(addend, count - 1))

    @property
    def addends(self) -> list[tuple[int, ...]]:
        """Where each addend stands along the mesh axes of the partial sum."""
        return [*itertools.product(*map(range, self.partial.values()))]

    def pieces(self, strides: Sequence[int]) -> Iterator[tuple[int, Piece]]:
        """Yields what each device held, with the number of its addend: in pieces that lie side by side in the value."""
        tap = self.form.tap
        sizes = tuple(self.partial.values())
        for device in range(self.plan.mesh.size):
            for at in self._iterations():
                where = dict(self.plan.mesh.coordinates(device))
                where |= {loop.in_time: i for loop, i in zip(tap.loops, at, strict=True) if loop.in_time}
                index = [where[axis] for axis in self.partial]
                number = int(np.ravel_multi_index(index, sizes)) if sizes else 0
                for runs in itertools.product(*self._runs(where)):
                    cut = tuple(_every(stride, *run) for stride, run in zip(strides, runs, strict=True))
                    ranges = tuple((start, stop) for start, stop, _ in runs)
                    yield number, Piece(device, ranges, self.form.taken[(device, *at)][cut])

    @functools.cached_property
    def blocks(self) -> Blocks | None:
        """How the value lies in blocks that devices share otherwise than they were cut; None of all others."""
        return blocks_of(self.plan, self.form.tap)

    def _runs(self, where: Mapping[str, int]) -> Iterator[list[tuple[int, int, int]]]:
        """Yields for each axis what a shard has that lies side by side: (start, stop), and where that is in the shard.

        Args:
            where: the coordinate on each mesh axis, and the iteration of each in time.
        """
        shape, grid = self.plan.program.code.shapes[self.form.tap.number], self.plan.grid
        for axis, (size, every) in enumerate(zip(shape, self.form.tap.spec.splits, strict=True)):
            split = tuple(each for each in every if each in where)
            if self.blocks is not None and axis == self.blocks.axis:
                now = tuple(each for each in split if each != self.blocks.over)
                shard, _ = grid.part_range(self.blocks.shards, now, where)
                yield self.blocks.runs(shard, where[self.blocks.over])
            else:
                yield [(*grid.part_range(size, split, where), 0)]

    def _iterations(self) -> list[tuple[int, ...]]:
        """Returns the iterations of all loops that are read: of those whose blocks or addends meet, each."""
        shown = iter(self.iterations)
        meeting = self.form.tap.meeting
        loops = self.form.tap.loops
        return [*itertools.product(*(range(e.times or 0) if e.in_time in meeting else (next(shown),) for e in loops))]


def _every(stride: int, start: int, stop: int, first: int) -> slice:
    """Returns where in a shard the multiples of n are of a range of the whole axis, which starts at `first` in it."""
    return slice(first + min(-(-start // stride) * stride - start, stop - start), first + stop - start, stride)


class _NumbersView(TypedDict):
    picture: PictureView
    shards: ShardsView
    cells: HeatCellsView
    rows: list[DeviceNumbersView]
    rows_left_out: int
    read: str
    sampled: str


def _numbers(shown: Shown, called: str, watched: Watched) -> _NumbersView:
    plan, form = shown.plan, shown.form
    spec = without_all(form.spec, plan.mesh.in_time)
    holdings = cut_view(plan, called, watched.value, spec)
    blocks = blocks_view(holdings)
    grid = grid_of(holdings, blocks)
    strides = strides_of(grid, form.taken[:, *((0,) * len(form.tap.loops))].size)
    sampled = math.prod(strides) > 1
    held = [*shown.pieces(strides)]
    first, differences = _first(held)
    cells = cells_view(
        grid, stats_of(grid, _drawn(shown, first), strides), sampled, holdings["dtype"].startswith("complex")
    )
    devices = plan.mesh.size
    text = f"Read from {devices:,} device{'s' * (devices != 1)}, each its own shard"
    replicas = len(held) > len(first)
    read = replicas_text(text, differences, tolerance_of(plan.program), sampled) if replicas else f"✓ {text}."
    return {
        "picture": devices_picture(plan.mesh),
        "shards": {**holdings, "blocks": blocks},
        "cells": cells,
        "rows": _rows(shown, held, slices_in(plan, spec)),
        "rows_left_out": max(0, devices - MOST_ROWS),
        "read": read,
        "sampled": f"One number in {math.prod(strides):,} is read, evenly along each axis." * sampled,
    }


def _first(held: Sequence[tuple[int, Piece]]) -> tuple[dict[Any, Piece], list[Difference]]:
    """Returns each piece once, of the first device that has it, by addend and ranges; and the replicas that differ."""
    first: dict[Any, Piece] = {}
    differences = []
    for number, piece in held:
        known = first.setdefault((number, piece.ranges), piece)
        if known is not piece and not same_bits(piece.numbers, known.numbers):
            differences.append(difference_of(piece, known))
    return first, differences


def _drawn(shown: Shown, first: dict[Any, Piece]) -> list[Piece]:
    """Returns the pieces of the addend that is shown, or of the sum of all."""
    if shown.addend is not None:
        return [piece for (number, _), piece in first.items() if number == shown.addend]
    by_ranges: dict[Any, list[Piece]] = {}
    for (_, ranges), piece in first.items():
        by_ranges.setdefault(ranges, []).append(piece)
    return [
        Piece(pieces[0].device, ranges, np.sum([each.numbers for each in pieces], 0, dtype=pieces[0].numbers.dtype))
        for ranges, pieces in by_ranges.items()
    ]


def _rows(shown: Shown, held: Sequence[tuple[int, Piece]], slices: np.ndarray) -> list[DeviceNumbersView]:
    rows: list[DeviceNumbersView] = []
    for device, pieces in itertools.groupby(held, key=lambda each: each[1].device):
        if device == MOST_ROWS:
            break
        own = [each.numbers.ravel() for _, each in pieces]
        numbers = np.concatenate(own)
        real = as_real(numbers)
        finite = real[np.isfinite(real)]
        few = numbers.size <= FEW and not np.iscomplexobj(numbers)
        rows.append(
            {
                "device": device,
                "where": _where(shown.plan.mesh.coordinates(device).items()),
                "slice": int(slices[device]),
                "least": short(float(finite.min())) if finite.size else None,
                "mean": short(float(finite.mean())) if finite.size else None,
                "most": short(float(finite.max())) if finite.size else None,
                "nan": int(np.isnan(real).sum()),
                "infinite": int(np.isinf(real).sum()),
                "numbers": [_written(float(each)) for each in real] if few else [],
            }
        )
    return rows


def _written(number: float) -> float | str:
    """Returns a number as JSON can have it."""
    if math.isnan(number):
        return "NaN"
    return float(f"{number:.5g}") if math.isfinite(number) else ("∞" if number > 0 else "−∞")


def _values(every: Sequence[tuple[str, Watched]]) -> list[str]:
    """Returns what tells apart the values of one name, or of several."""
    names = [name for name, _ in every]
    counts = {name: names.count(name) for name in names}
    seen = dict.fromkeys(names, 0)
    texts = []
    for name in names:
        seen[name] += 1
        texts.append(f"{name}, {seen[name]} of {counts[name]}" if counts[name] > 1 else name)
    return texts


def _made(form: Form, number: int) -> str:
    made = f"{'after' if number else 'made by'} {form.by}" if form.by else "as passed"
    return f"{made}: {form.spec}"


def _where(indices: Any) -> str:
    return ", ".join(f"{axis} {index}" for axis, index in indices)


def _when(explorer: ExplorerState, looked: Looked) -> str:
    run = looked.run
    under = "" if _is_shown(explorer, looked) else f", under {str(run.document.layout) or 'nothing sharded'}"
    return f"in step {looked.values.step:,} of run {run.number}{ENDED.get(run.phase, '')}{under}"


def _is_shown(explorer: ExplorerState, looked: Looked) -> bool:
    return looked.run.document.layout == explorer.layout


def _notes(explorer: ExplorerState, looked: Looked, shown: Shown) -> list[str]:
    notes = []
    if not _is_shown(explorer, looked):
        notes.append(
            "The board shows another layout by now: these are the slices and numbers that the devices held in run"
            f" {looked.run.number}."
        )
    if shown.partial:
        count = math.prod(shown.partial.values())
        what = "their sum, which no device holds"
        if shown.addend is not None:
            what = f"the addend of {_where(zip(shown.partial, shown.addends[shown.addend], strict=True))}"
        notes.append(
            f"A partial sum over {listed(shown.partial)}: each device holds one of {count:,} addends. Drawn is {what}."
        )
    if shown.form.own_order:
        notes.append(f"Along {listed(shown.form.own_order)} each device has an order of its own.")
    if not looked.seen.exact:
        notes.append(
            "The program that returns this value too rounds otherwise: its results differ from the run's in the last"
            " bits."
        )
    return notes
