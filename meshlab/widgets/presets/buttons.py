"""The presets of `ml.layouts` as buttons: what each makes of a program on a mesh, or why it makes nothing of it.

    fsdp = presets_of(program, mesh)[1]
    fsdp.layout, fsdp.choices       its layout; or the axes that it can be over, where the mesh's do not say which
    fsdp.about, fsdp.why            what it is, in a sentence; why it is not to be had here

What a preset is comes first: who does not know HSDP learns nothing of why it is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ...engine.attention.recognise import positions, unnamed_keys
from ...engine.errors import LayoutError
from ...engine.legality.uneven import FITTING
from ...engine.programs.axis_conflicts import exchangeable_dims, scanned_dims
from ...engine.specs.layout import Layout
from ...layouts.by_name import PRESETS, SHORT

Group = Literal["batch", "model", "experts", "sequence", "time"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A preset in words.

    Attributes:
        group: what it divides; of a group one is on the board at a time.
        axis: the keyword of its mesh axis.
        about: what it is.
        needs: what it needs of a program and a mesh.
    """

    group: Group
    axis: str
    about: str
    needs: str


_SHARDED = "a parameter with a dim that the mesh axis divides"
_BATCH = "data with a batch dim that no parameter has, in a program that says what its parameters are"
_SEQUENCE = "a sequence, a dim called `seq`, that the mesh axis divides"
_ATTENTION = "attention that is recognised as one operation, or written so: `ml.attention`"


def _attends(program: Any) -> bool:
    """Whether a program has attention that may be a ring, written so or recognised."""
    return bool(exchangeable_dims(program) or positions(program) or unnamed_keys(program))


# Those that are for some programs: with attention, with a scan over layers.
_ONLY_WITH: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("ring", "zigzag_ring", "usp"), _attends),
    "pipeline_parallel": scanned_dims,
}
# Those that are over axes of another kind than devices.
_AXES: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "accumulate": lambda mesh: mesh.in_time,
    "pipeline_parallel": lambda mesh: mesh.stages,
}
# The presets that are buttons, in their order.
KINDS: dict[str, Kind] = {
    "data_parallel": Kind(
        "batch", "data", "Data parallel: each device computes a part of the batch with all parameters.", _BATCH
    ),
    "fsdp": Kind(
        "batch",
        "data",
        "Fully sharded data parallel: parameters, gradients and optimizer state are sharded, and parameters are"
        " gathered where needed.",
        _SHARDED,
    ),
    "hsdp": Kind(
        "batch",
        "replica",
        "Hybrid sharded data parallel: FSDP within each group of devices, and copies of the shards across groups.",
        "a mesh with two axes for the batch, one for the shards and one for the copies: split an axis in its header",
    ),
    "zero1": Kind(
        "batch",
        "data",
        "ZeRO-1: data parallel with the optimizer state sharded.",
        "a training step that carries its optimizer's state",
    ),
    "zero2": Kind(
        "batch",
        "data",
        "ZeRO-2: data parallel with the optimizer state and the gradients sharded.",
        "a whole training step, whose gradients are taken in it",
    ),
    "tensor_parallel": Kind(
        "model",
        "model",
        "Tensor parallel: heads, hidden and vocabulary dims are split; each device has a part of every such weight.",
        "a dim called `heads`, `ffn`, `vocab` or `hidden` that the mesh axis divides",
    ),
    "sequence_parallel": Kind(
        "model",
        "model",
        "Tensor parallel, with the residual stream split along the sequence between blocks.",
        'a residual stream that is tagged in each layer: `x = ml.tag(x, "residual")`',
    ),
    "expert_parallel": Kind(
        "experts",
        "expert",
        "Expert parallel: each device has a part of the experts, and tokens are sent to where their expert is.",
        "a mixture of experts, whose dim is called `experts`",
    ),
    "context_parallel": Kind(
        "sequence",
        "context",
        "Context parallel: each device has a part of every sequence; keys and values are gathered for attention.",
        _SEQUENCE,
    ),
    "ulysses": Kind(
        "sequence",
        "context",
        "Ulysses: each device has a part of every sequence and, in attention's core, of the heads instead, by"
        " all-to-alls.",
        f'{_SEQUENCE}, and a scope around attention\'s core: `with jax.named_scope("core")`',
    ),
    "ring": Kind(
        "sequence",
        "context",
        "Ring attention: each device has a part of every sequence, and keys and values go around the devices.",
        f"{_SEQUENCE}, and {_ATTENTION}",
    ),
    "zigzag_ring": Kind(
        "sequence",
        "context",
        "Zigzag ring: a ring under a causal mask, in which each device has an early and a late part of every sequence,"
        " so that all do the same work.",
        f"a sequence, a dim called `seq`, that twice the mesh axis divides, and causal {_ATTENTION}",
    ),
    "usp": Kind(
        "sequence",
        "context",
        "USP: a ring over the first of two mesh axes, and in attention's core heads over the second.",
        f"{_SEQUENCE}, {_ATTENTION}, a scope around it, and two mesh axes, or two called `ring` and `ulysses`",
    ),
    "accumulate": Kind(
        "time",
        "micro",
        "Gradient accumulation: the batch in micro-batches, one after the other on each device.",
        "a serial mesh axis: `ml.mesh(data=4, micro=ml.serial(8))`",
    ),
    "pipeline_parallel": Kind(
        "time",
        "pipe",
        "Pipeline parallel: each stage has a part of the layers, and micro-batches pass from stage to stage.",
        "an axis of stages and a serial one, `ml.mesh(pipe=ml.stages(4), micro=ml.serial(8))`, and a whole training"
        " step whose layers are one scan",
    ),
}


@dataclasses.dataclass(frozen=True)
class Preset:
    """A preset for one program and mesh.

    Attributes:
        name: the function of `ml.layouts`, or its kind.
        layout: the result; None where there is none, or the mesh does not say which axis it is over.
        choices: the mesh axes that it can be over, where it does not find its own by its name.
        refused: why there is none, with all problems and what to write.
        why: the same in few words; "" where there is a layout, or a choice.
        needs: what it needs instead; "" where other sizes are enough, which `why` says.
    """

    name: str
    layout: Layout | None = None
    choices: tuple[str, ...] = ()
    refused: str = ""
    why: str = ""
    needs: str = ""

    @property
    def label(self) -> str:
        return SHORT[self.name]

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]


def presets_of(program: Any, mesh: Any) -> tuple[Preset, ...]:
    """Returns what each preset makes of a program on a mesh; those of an operation only where the program has it."""
    names = (name for name in KINDS if name not in _ONLY_WITH or _ONLY_WITH[name](program))
    return tuple(_preset(name, program, mesh) for name in names)


def _preset(name: str, program: Any, mesh: Any) -> Preset:
    try:
        return Preset(name, _made(name, program, mesh))
    except LayoutError as error:
        choices, problem = (), error
        if _asks(error):
            choices, others = _choices(name, program, mesh)
            # Over none of them it can be: that no axis is called as its own is not why.
            problem = next((each for each in others if _sizes(each)), error)
        if choices:
            return Preset(name, choices=choices, refused=str(error))
        sizes = _sizes(problem)
        why = f"{_why(problem)} {sizes}".strip()
        return Preset(name, refused=str(problem), why=why, needs="" if sizes else KINDS[name].needs)


def _made(name: str, program: Any, mesh: Any, **given: str) -> Layout:
    layout = PRESETS[name](program, mesh, **given)
    program.refusals(mesh, layout)  # which raises where the layout is illegal
    return layout


def _asks(error: LayoutError) -> bool:
    """Says whether it is not said which mesh axis to take."""
    return any(getattr(problem, "code", "") == "unknown_axis" for problem in error.problems)


def _choices(name: str, program: Any, mesh: Any) -> tuple[tuple[str, ...], list[LayoutError]]:
    """Returns the mesh axes that a preset can be over, and why it cannot be over the others."""
    axes, errors = [], []
    for axis in _AXES.get(name, lambda mesh: mesh.devices.axes)(mesh):
        try:
            _made(name, program, mesh, **{KINDS[name].axis: axis})
        except LayoutError as error:
            errors.append(error)
        else:
            axes.append(axis)
    return tuple(axes), errors


def _why(error: LayoutError) -> str:
    """Returns why a preset is refused in few words: the first of its problems, without what to write in Python."""
    texts = [getattr(problem, "text", "") for problem in error.problems]
    return next(filter(None, texts), str(error).split("\n", 1)[0])


def _sizes(error: LayoutError) -> str:
    """Returns the sizes of a dim that would do; "" where it is not refused for its size."""
    first = error.problems[0] if error.problems else None
    fix = getattr(first, "fix", "") if getattr(first, "code", "") == "not_divisible" else ""
    return f"{fix.split(';', 1)[0].rstrip('.')}." if fix.startswith(FITTING) else ""
