"""Presets by their names, one or several: what `meshlab plan --layout "fsdp & tensor_parallel"` takes.

PRESETS["ulysses"](program, mesh)      all presets, as the board and a search try them
presets_in("fsdp & tensor_parallel")   [fsdp, tensor_parallel]
SHORT["ulysses"]                       what it is called for short
together(presets, program, mesh)       the layout that all of them make, each beside those before it
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

from ..engine.errors import LayoutError, closest, listed
from ..engine.programs.program import Program
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from .accumulation import accumulate
from .context import context_parallel
from .data_parallel import data_parallel, fsdp, hsdp, zero1, zero2, zero3
from .experts import expert_parallel
from .model import sequence_parallel, tensor_parallel
from .pipeline import pipeline_parallel

Preset = Callable[..., Layout]

# By their names: the functions of `ml.layouts`; one of several kinds is named after its kind.
PRESETS: dict[str, Preset] = {
    "data_parallel": data_parallel,
    "fsdp": fsdp,
    "hsdp": hsdp,
    "zero1": zero1,
    "zero2": zero2,
    "zero3": zero3,
    "tensor_parallel": tensor_parallel,
    "sequence_parallel": sequence_parallel,
    "expert_parallel": expert_parallel,
    "context_parallel": context_parallel,
    "ulysses": functools.partial(context_parallel, kind="ulysses"),
    "ring": functools.partial(context_parallel, kind="ring"),
    "zigzag_ring": functools.partial(context_parallel, kind="ring", balanced=True),
    "usp": functools.partial(context_parallel, kind="usp"),
    "accumulate": accumulate,
    "pipeline_parallel": pipeline_parallel,
}
# What they are called for short: on a button, in a name ("FSDP over data + TP over model").
SHORT: dict[str, str] = {
    "data_parallel": "DP",
    "fsdp": "FSDP",
    "hsdp": "HSDP",
    "zero1": "ZeRO-1",
    "zero2": "ZeRO-2",
    "zero3": "ZeRO-3",
    "tensor_parallel": "TP",
    "sequence_parallel": "TP+SP",
    "expert_parallel": "EP",
    "context_parallel": "CP",
    "ulysses": "Ulysses",
    "ring": "Ring",
    "zigzag_ring": "Zigzag ring",
    "usp": "USP",
    "accumulate": "micro-batches",
    "pipeline_parallel": "PP",
}


def presets_in(text: str) -> list[Preset]:
    """Returns the presets that a text names, with `&` between them; none where it has rules."""
    words = [word.strip() for word in text.split("&")]
    if ":" in text or not all(word.isidentifier() for word in words):
        return []
    unknown = [word for word in words if word not in PRESETS]
    if unknown:
        raise LayoutError(
            f"{listed(unknown)} is neither a preset nor a rule such as batch:data.{closest(unknown[0], PRESETS)}"
            f" Presets are {listed(PRESETS)}; write several as fsdp & tensor_parallel."
        )
    return [PRESETS[word] for word in words]


def together(presets: Sequence[Preset], program: Program, mesh: Mesh) -> Layout:
    """Returns the layout of several presets, each beside those before it."""
    return functools.reduce(lambda layout, preset: beside(layout, preset, program, mesh), presets, Layout())


def beside(layout: Layout, preset: Preset, program: Program, mesh: Mesh) -> Layout:
    """Returns the layout of a preset combined with another, by which it chooses its dims if it has such an argument."""
    if "beside" in inspect.signature(preset).parameters:
        return preset(program, mesh, beside=layout)
    return layout & preset(program, mesh)
