"""Pipelines: layers on an axis of stages, micro-batches in time, alone and with data and tensor parallelism."""

from __future__ import annotations

import meshlab as ml

from .steps import DEEP
from .technique import Technique, Term, loss

PRESET = "ml.layouts.data_parallel(program, mesh) & ml.layouts.pipeline_parallel(program, mesh)"
# Elements of all layers' weights.
LAYERS = "layers * (W + 2 * embed)"
_GRADIENTS = Term("gradients of layers", "all-reduce", "data", "9", bytes=f"4 * {LAYERS} / pipe")
_TIED = Term(
    "gradients of the embedding and the last norm", "all-reduce", "data+pipe", "2", bytes="4 * (vocab + 1) * embed"
)
_SUMS = "2 * (data - 1) / data * 4 * {layers} / pipe + 2 * (data * pipe - 1) / (data * pipe) * 4 * (vocab + 1) * embed"


def _hops(ticks: str) -> tuple[Term, ...]:
    """What stages send each other in each of so many ticks."""
    return (
        Term("stream, to the next stage", "collective-permute", "pipe", ticks, each="4 * x / (data * micro)"),
        Term("its gradient, to the stage before", "collective-permute", "pipe", ticks, each="4 * x / (data * micro)"),
    )


def _law(ticks: str, layers: str = LAYERS) -> str:
    return f"2 * ({ticks}) * 4 * x / (data * micro) + {_SUMS.format(layers=layers)}"


_IN_TURN = "2 * (micro + pipe - 1)"
_REMARK = (
    "In the paper a stage sends each micro-batch once in each direction. Here all stages send in each tick: `micro` of"
    " the ticks carry a micro-batch in each direction."
)
_CHUNKS = "2 * (chunks * micro + pipe - 1)"
_DEALT = "min(chunks, pipe - 1)"
_SPLIT = "layers * (W / model + 2 * embed)"
_PAIRED = "micro + 2 * (pipe - 1)"

ROWS = (
    Technique(
        name="GPipe",
        step=DEEP,
        mesh=ml.mesh(data=2, pipe=ml.stages(4, "gpipe"), micro=ml.serial(8)),
        written=PRESET,
        sources=(
            "https://arxiv.org/abs/1811.06965",
            "https://github.com/tensorflow/lingvo/blob/master/lingvo/core/gpipe.py",
        ),
        there="The model is written as a sequence of layers, and its loss and optimizer in the library's classes.",
        here="Two presets and `&`: the step is unmodified.",
        terms=(*_hops(_IN_TURN), _GRADIENTS, _TIED, loss("data+pipe")),
        law=_law(_IN_TURN),
        remark=_REMARK,
        bubble="(pipe - 1) / micro",
        lockstep="(pipe - 1) / micro",
    ),
    Technique(
        name="PipeDream, 1F1B with flushes",
        step=DEEP,
        mesh=ml.mesh(data=2, pipe=ml.stages(4, "1f1b"), micro=ml.serial(8)),
        written=PRESET,
        sources=("https://arxiv.org/abs/2006.09503", "https://github.com/msr-fiddle/pipedream"),
        there="A profile of the layers, an optimizer that assigns them to stages, and code that is generated for each.",
        here='The same layout; the mesh has `pipe=ml.stages(4, "1f1b")`.',
        terms=(*_hops(_IN_TURN), _GRADIENTS, _TIED, loss("data+pipe")),
        law=_law(_IN_TURN),
        remark=(
            "As GPipe, with at most `pipe` micro-batches in flight. In lockstep a tick lasts as long as a backward cell"
            " as soon as one stage has one, so that `paired`, the default, is faster here."
        ),
        bubble="(pipe - 1) / micro",
        lockstep="(micro + 3 * pipe - 4) / (3 * micro)",
    ),
    Technique(
        name="Megatron, interleaved",
        step=DEEP,
        mesh=ml.mesh(data=2, pipe=ml.stages(4, "interleaved"), micro=ml.serial(8)),
        written=PRESET,
        sources=(
            "https://arxiv.org/abs/2104.04473",
            "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/pipeline_parallel/schedules.py",
        ),
        there="Each process builds the chunks of its layers, and a schedule in Python sends between processes.",
        here='The same layout; the mesh has `pipe=ml.stages(4, "interleaved")`.',
        terms=(
            *_hops(_CHUNKS),
            Term(
                "weights of layers, to the stages in turn",
                "collective-permute",
                "pipe",
                f"9 * {_DEALT}",
                bytes=f"{_DEALT} * 4 * {LAYERS} / (pipe * chunks)",
            ),
            Term(
                "their gradients, back",
                "collective-permute",
                "pipe",
                f"9 * {_DEALT}",
                bytes=f"{_DEALT} * 4 * {LAYERS} / (pipe * chunks)",
            ),
            _GRADIENTS,
            _TIED,
            loss("data+pipe"),
        ),
        law=f"{_law(_CHUNKS)} + 2 * {_DEALT} * 4 * {LAYERS} / (pipe * chunks)",
        remark=(
            "There each process stores its chunks. Here layers are stored in order, and dealt to the stages once in a"
            " step."
        ),
        bubble="(pipe - 1) / (chunks * micro)",
        lockstep="(chunks * (micro - pipe) + 4 * (pipe - 1)) / (3 * chunks * micro)",
    ),
    Technique(
        name="3-D parallelism",
        step=DEEP,
        mesh=ml.mesh(data=2, pipe=ml.stages(2), model=2, micro=ml.serial(8)),
        written=(f'ml.layouts.tensor_parallel(program, mesh, dims="heads ffn") & {PRESET}'),
        sources=("https://arxiv.org/abs/2104.04473", "https://github.com/deepspeedai/Megatron-DeepSpeed"),
        there="Modules for tensor parallelism, a pipeline engine with its own model class, and groups of processes.",
        here="Three presets and `&`.",
        terms=(
            *_hops(_PAIRED),
            Term(
                "stream: 2 a layer forward, 2 backward",
                "all-reduce",
                "model",
                "micro * 4 * layers // pipe",
                each="4 * x / (data * micro)",
            ),
            Term("gradients of layers", "all-reduce", "data", "9", bytes=f"4 * {_SPLIT} / pipe"),
            _TIED,
            loss("data+pipe"),
        ),
        law=f"{_law(_PAIRED, _SPLIT)} + 4 * layers / pipe * 2 * (model - 1) / model * 4 * x / data",
        remark="The schedule is `paired`, the default: each tick is a forward and a backward cell.",
        bubble="(pipe - 1) / micro",
        lockstep="(pipe - 1) / micro",
    ),
)
