"""Pipelines: layers on an axis of stages, micro-batches in time, alone and with data and tensor parallelism."""

from __future__ import annotations

from typing import Any

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
_CHUNKS = "2 * (chunks * micro + pipe - 1)"
_ROUNDS = "min(chunks, pipe - 1)"
_DEALT = f"{_ROUNDS} * 4 * {LAYERS} / (pipe * chunks)"
_SPLIT = "layers * (W / model + 2 * embed)"
_PAIRED = "micro + 2 * (pipe - 1)"
_ENDS = (_TIED, loss("data+pipe"))


def _dealt(what: str) -> Term:
    """What layers in several chunks send once in a step."""
    return Term(what, "collective-permute", "pipe", f"9 * {_ROUNDS}", bytes=_DEALT)


def _with_data(name: str, schedule: str, ticks: str, *dealt: Term, **row: Any) -> Technique:
    """A pipeline beside data parallelism, which is one layout whatever the schedule."""
    return Technique(
        name=name,
        step=DEEP,
        mesh=ml.mesh(data=2, pipe=ml.stages(4, schedule), micro=ml.serial(8)),
        written=PRESET,
        terms=(*_hops(ticks), *dealt, _GRADIENTS, *_ENDS),
        law=" + ".join((_law(ticks), *([f"2 * {_DEALT}"] if dealt else []))),
        **row,
    )


ROWS = (
    _with_data(
        "GPipe",
        "gpipe",
        _IN_TURN,
        sources=(
            "https://arxiv.org/abs/1811.06965",
            "https://github.com/tensorflow/lingvo/blob/master/lingvo/core/gpipe.py",
        ),
        there="The model is written as a sequence of layers, and its loss and optimizer in the library's classes.",
        here="Two presets and `&`: the step is unmodified.",
        remark=(
            "In the paper a stage sends each micro-batch once in each direction. Here all stages send in each tick:"
            " `micro` of the ticks carry a micro-batch in each direction."
        ),
        bubble="(pipe - 1) / micro",
        lockstep="(pipe - 1) / micro",
    ),
    _with_data(
        "PipeDream, 1F1B with flushes",
        "1f1b",
        _IN_TURN,
        sources=("https://arxiv.org/abs/2006.09503", "https://github.com/msr-fiddle/pipedream"),
        there="A profile of the layers, an optimizer that assigns them to stages, and code that is generated for each.",
        here='The same layout; the mesh has `pipe=ml.stages(4, "1f1b")`.',
        remark=(
            "Like GPipe, but at most `pipe` micro-batches are in flight. In lockstep a tick lasts as long as a backward"
            " cell if any stage runs one, so the default, `paired`, is faster here."
        ),
        bubble="(pipe - 1) / micro",
        lockstep="(micro + 3 * pipe - 4) / (3 * micro)",
    ),
    _with_data(
        "Megatron, interleaved",
        "interleaved",
        _CHUNKS,
        _dealt("weights of layers, to the stages in turn"),
        _dealt("their gradients, back"),
        sources=(
            "https://arxiv.org/abs/2104.04473",
            "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/pipeline_parallel/schedules.py",
        ),
        there="Each process builds the chunks of its layers, and a schedule in Python sends between processes.",
        here='The same layout; the mesh has `pipe=ml.stages(4, "interleaved")`.',
        remark=(
            "In Megatron-LM each process stores its chunks. Here layers are stored in order: once in a step, they are"
            " sent to the stages in turn, and their gradients back."
        ),
        bubble="(pipe - 1) / (chunks * micro)",
        lockstep="(chunks * (micro - pipe) + 4 * (pipe - 1)) / (3 * chunks * micro)",
    ),
    Technique(
        name="3-D parallelism",
        step=DEEP,
        mesh=ml.mesh(data=2, pipe=ml.stages(2), model=2, micro=ml.serial(8)),
        written=f'ml.layouts.tensor_parallel(program, mesh, dims="heads ffn") & {PRESET}',
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
            *_ENDS,
        ),
        law=f"{_law(_PAIRED, _SPLIT)} + 4 * layers / pipe * 2 * (model - 1) / model * 4 * x / data",
        remark="The schedule is `paired`, the default: each tick is a forward and a backward cell.",
        bubble="(pipe - 1) / micro",
        lockstep="(pipe - 1) / micro",
    ),
)
