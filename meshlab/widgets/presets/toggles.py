"""Presets as toggles that combine: one is put on the board beside those that are there, or taken away again.

    toggled(board, "tensor_parallel")       FSDP over data becomes FSDP over data + TP over model
    toggled(board, "tensor_parallel")       and again: FSDP over data

What is on the board is known by its name (`ml.layouts.named`). A preset of the same group takes the place of the one
that is there, over the same mesh axes where it can be: a batch is divided in one way. A layout without a name is one by
hand: a preset is put beside its rules.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from ...engine.errors import LayoutError, closest, listed, shown, some
from ...engine.specs.layout import Layout
from ...engine.specs.spec import Axes
from ...layouts.axis_names import called
from ...layouts.by_name import PRESETS, beside
from ...layouts.naming import Named, NamedPart, made
from .buttons import KINDS, Preset


def preset_of(presets: Sequence[Preset], name: str) -> Preset:
    """Returns the preset of a name; refuses one that there is not."""
    preset = next((preset for preset in presets if preset.name == name), None)
    if preset is None:
        known = [preset.name for preset in presets]
        raise LayoutError(f"There is no preset {shown(name)}.{closest(name, known)} There are {some(known)}.")
    return preset


@dataclasses.dataclass(frozen=True)
class OnBoard:
    """What presets are put beside.

    Attributes:
        program: the program.
        mesh: its mesh.
        layout: the layout.
        name: what it is called; None where it has no name.
        presets: what they make of the program on the mesh.
    """

    program: Any
    mesh: Any
    layout: Layout
    name: Named | None
    presets: Sequence[Preset]


def presses(presets: Sequence[Preset], name: Named | None) -> Iterator[tuple[Preset, str | None, bool]]:
    """Yields each press of a button: its preset, the mesh axis that is chosen where it asks, whether it is there."""
    there = {part.preset for part in name.parts} if name else set[str]()
    for preset in presets:
        here, finds = preset.name in there, preset.layout is not None
        if not preset.why:
            yield from ((preset, over, here) for over in ((None,) if here or finds else preset.choices))


def toggled(board: OnBoard, wanted: str, over: str | None = None) -> Layout:
    """Returns the layout on the board with a preset beside what it has, or without it where that is there.

    Args:
        board: what is there.
        wanted: the preset.
        over: its mesh axis; None is the one that it finds by its name.
    """
    preset, parts = preset_of(board.presets, wanted), board.name.parts if board.name else ()
    if over is None and any(part.preset == wanted for part in parts):
        return made(board.program, board.mesh, [part for part in parts if part.preset != wanted])
    kept = [part for part in parts if not _in_the_way(part.preset, wanted)]
    batch = next((part.batch for part in parts if part not in kept), ())
    for given in _where_the_batch_is(preset, batch) if over is None else ():
        with contextlib.suppress(LayoutError):
            layout = made(board.program, board.mesh, [*kept, NamedPart(wanted, batch, given)])
            board.program.refusals(board.mesh, layout)  # which raises where the layout is illegal
            return layout
    given = _given(preset, over)
    if not parts:
        return beside(board.layout, functools.partial(PRESETS[wanted], **given), board.program, board.mesh)
    return made(board.program, board.mesh, [*kept, NamedPart(wanted, (over,) if over else (), given)])


def _where_the_batch_is(preset: Preset, batch: Axes) -> Iterator[dict[str, Axes]]:
    """Yields the arguments by which a preset leaves the batch on the axes on which the one before it has put it."""
    if preset.name != "hsdp":
        yield from [{"data": batch}] if batch else []
    elif len(batch) > 1:
        shards = called(batch, "shards") or batch[-1]
        yield {"data": (shards,), "replica": tuple(axis for axis in batch if axis != shards)}


def _given(preset: Preset, over: str | None) -> dict[str, str]:
    """Returns the arguments of a preset; refuses one that makes nothing, or does not know its axis."""
    if over is not None:
        return {preset.kind.axis: over}
    if preset.choices:
        write = f'explorer.toggle("{preset.name}", over="{preset.choices[0]}")'
        raise LayoutError(f"{preset.label} can be over {listed(preset.choices)}: say which, as in {write}.")
    if preset.layout is None:
        raise LayoutError(preset.refused)
    return {}


def _in_the_way(there: str, wanted: str) -> bool:
    """Says whether a preset on the board makes room for another: of a group one is there at a time."""
    return KINDS[there].group == KINDS[wanted].group
