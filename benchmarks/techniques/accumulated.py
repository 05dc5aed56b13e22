"""Gradient accumulation, alone and with other techniques: the same rows, over a serial axis as well."""

from __future__ import annotations

import dataclasses

import meshlab as ml

from .activations import SEQUENCES
from .data_parallel import DATA
from .data_parallel import ROWS as DATA_PARALLEL
from .model_parallel import MEGATRON_LM
from .steps import KEPT
from .technique import Technique, Term

MICRO = ("micro", ml.serial(2))
SOURCES = ("https://arxiv.org/abs/1811.06965", "https://github.com/pytorch/pytorch/tree/main/torch/nn/parallel")
THERE = (
    "A loop in the training script, the loss divided by hand, and `no_sync()` around all micro-batches but the last."
)
# What is once in a step, whatever the number of micro-batches.
_AFTER = ("new parameters", "loss")


def _with(name: str, law: str, remark: str) -> Technique:
    """Returns the row of a technique, over micro-batches as well.

    What is of the batch is sent in each micro-batch, and is so much smaller. What is of parameters is sent once, after
    the loop, where all gradients are all-reduced, and in each iteration where they are gathered and scattered.
    """
    (row,) = (each for each in (*DATA_PARALLEL, *MEGATRON_LM, *SEQUENCES) if each.name == name)
    return dataclasses.replace(
        row,
        name=f"{name}, accumulated",
        mesh=ml.Mesh((*row.mesh.shape, MICRO)),
        written=f"{row.written} & ml.layouts.accumulate(program, mesh)",
        sources=SOURCES,
        there=THERE,
        here="The same layout, `& ml.layouts.accumulate(program, mesh)`.",
        terms=tuple(map(_repeated, row.terms)),
        law=law,
        remark=remark,
    )


def _repeated(term: Term) -> Term:
    """Returns what a term is over micro-batches."""
    times, formula = f"micro * ({term.times})", term.each or term.bytes
    if "batch" in formula or "x" in formula.split():
        return dataclasses.replace(term, times=times, each="", bytes=term.total)
    if term.what == "shards of gradients":  # of the stacks of all layers, behind the loop
        return dataclasses.replace(term, times="11")
    if term.what in _AFTER or term.kind == "all-reduce":
        return term
    return dataclasses.replace(term, times=times, each="", bytes=f"micro * ({term.total})")


ROWS = (
    Technique(
        name="Gradient accumulation",
        step=KEPT,
        mesh=ml.Mesh((*DATA.shape, MICRO)),
        written="ml.layouts.accumulate(program, mesh)",
        sources=SOURCES,
        there=THERE,
        here="One rule, over an axis in time: `batch:micro`.",
        terms=(),
        law="0",
        remark="Nothing is sent over a serial axis. All devices of this mesh do the same.",
    ),
    _with("Data parallelism", "2 * (n - 1) / n * 4 * P", "Sums of all micro-batches are reduced once, after the loop."),
    _with(
        "ZeRO-2",
        "(micro + 1) * (n - 1) / n * 4 * P",
        'Gradients are in shards from one micro-batch to the next; `ml.serial(2, reduce="once")` holds them whole.',
    ),
    _with(
        "FSDP",
        "micro * ((n - 1) / n * 4 * (3 * P - vocab * embed - S))",
        "Weights are gathered and gradients scattered in each micro-batch, so that no device holds them whole.",
    ),
    _with(
        "HSDP",
        "micro * (data - 1) / data * 4 * (3 * P - vocab * embed - S) + 2 * (replica - 1) / replica * 4 * P / data",
        "Only shards of sums of all micro-batches go from group to group, once.",
    ),
    _with("Megatron, tensor-parallel", "4 * layers * 2 * (n - 1) / n * 4 * x", "Smaller messages, as many bytes."),
    _with(
        "DeepSpeed Ulysses",
        "2 * layers * (n - 1) / n * (2 * 4 * batch * seq * q / n + 2 * 4 * batch * seq * kv / n)",
        "8 all-to-alls a layer and micro-batch.",
    ),
)
