"""The presets of `ml.layouts` as buttons: what each makes of a program on a mesh, or why it makes nothing of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ...engine.errors import LayoutError, closest, shown, some
from ...engine.specs.layout import Layout
from ...layouts.by_name import PRESETS, beside

# The presets that are buttons, in their order, with what is on them.
LABELS = {
    "data_parallel": "DP",
    "fsdp": "FSDP",
    "hsdp": "HSDP",
    "zero1": "ZeRO-1",
    "zero2": "ZeRO-2",
    "tensor_parallel": "TP",
    "sequence_parallel": "TP+SP",
    "expert_parallel": "EP",
    "context_parallel": "CP",
    "ulysses": "Ulysses",
    "accumulate": "micro-batches",
}


@dataclasses.dataclass(frozen=True)
class Preset:
    """A preset for one program and mesh.

    Attributes:
        name: the function of `ml.layouts`, or its kind.
        label: on its button.
        layout: the result; None where there is none.
        refused: why there is none.
        beside: makes the layout that combines it with another one.
    """

    name: str
    label: str
    layout: Layout | None = None
    refused: str = ""
    beside: Callable[[Layout], Layout] | None = dataclasses.field(default=None, compare=False)


def presets_of(program: Any, mesh: Any) -> tuple[Preset, ...]:
    """Returns what each preset makes of a program on a mesh; micro-batches are for a mesh with a serial axis."""
    return tuple(_preset(name, program, mesh) for name in LABELS if mesh.in_time or name != "accumulate")


def _preset(name: str, program: Any, mesh: Any) -> Preset:
    label, function = LABELS[name], PRESETS[name]
    try:
        layout = function(program, mesh)
        program.refusals(mesh, layout)  # which raises where the layout is illegal
    except LayoutError as error:
        return Preset(name, label, refused=str(error))
    return Preset(name, label, layout, beside=lambda other: beside(other, function, program, mesh))


def layout_taken(presets: Sequence[Preset], layout: Layout, name: str, combine: bool) -> Layout:
    """Returns the layout of a preset, alone or combined with another."""
    preset = next((preset for preset in presets if preset.name == name), None)
    if preset is None:
        known = [preset.name for preset in presets]
        raise LayoutError(f"There is no preset {shown(name)}.{closest(name, known)} There are {some(known)}.")
    if preset.layout is None or preset.beside is None:
        raise LayoutError(preset.refused)
    return preset.beside(layout) if combine else preset.layout
