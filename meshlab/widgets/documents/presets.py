"""Intents that take presets of `ml.layouts`: the document after them, and what is said where they do not fit.

toggle(documents, TogglePreset("fsdp"))         `batch:data`, say, becomes FSDP over data
short_name(documents.name_of(document))         "FSDP & TP", as cards are called
"""

from __future__ import annotations

import dataclasses

from ...engine.errors import LayoutError
from ...engine.specs.layout import on_mesh
from ...layouts.by_name import PRESETS, SHORT, beside
from ...layouts.naming import Named
from ..presets.buttons import Preset
from ..presets.toggles import OnBoard, preset_of, toggled
from .document import Document
from .documents import Documents
from .intents import Refused, TakePreset, TogglePreset, refused


def preset(documents: Documents, intent: TakePreset) -> Document:
    document = documents.present
    taken = preset_of(documents.presets, intent.name)
    if taken.layout is None:
        raise LayoutError(taken.refused)
    if not intent.combine:
        return dataclasses.replace(document, layout=taken.layout)
    layout = on_mesh(document.layout, documents.mesh)  # text alone does not say which of its axes are in time
    both = beside(layout, PRESETS[intent.name], documents.program, documents.mesh)
    return dataclasses.replace(document, layout=both)


def toggle(documents: Documents, intent: TogglePreset) -> Document:
    document, program, mesh = documents.present, documents.program, documents.mesh
    layout, name = on_mesh(document.layout, mesh), documents.name_of(document)
    board = OnBoard(program, mesh, layout, name, documents.presets)
    return dataclasses.replace(document, layout=toggled(board, intent.name, intent.over))


def refused_beside(documents: Documents, intent: TogglePreset, error: LayoutError) -> Refused:
    """Returns why a preset does not go with what is on the board; where it can be alone, that it can."""
    preset = next((each for each in documents.presets if each.name == intent.name), None)
    if preset is None or preset.layout is None:
        return refused(error) if preset is None or not preset.why else _without_preset(preset, error)
    answer, there = refused(error), short_name(documents.name_of(documents.present)) or "the layout by hand"
    why = answer.said[0].split(": both are", 1)[0].rstrip(".")
    brief = f"{preset.label} does not go with {there}: {why}.", ""
    return dataclasses.replace(answer, brief=brief, instead=((f"{preset.label} alone", TakePreset(preset.name)),))


def _without_preset(preset: Preset, error: LayoutError) -> Refused:
    needs = f"{preset.label} needs {preset.needs}." if preset.needs else ""
    return dataclasses.replace(refused(error), brief=(f"No {preset.label} here: {preset.why}", needs))


def short_name(name: Named | None) -> str:
    """Returns "FSDP & TP", "~FSDP" of one that differs from the preset, as the whole name says; "" for no name."""
    return " & ".join(f"{'~' * bool(part.note)}{SHORT[part.preset]}" for part in name.parts) if name else ""
