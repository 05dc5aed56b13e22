"""Data parallelism, and what is stored in shards beside it."""

from __future__ import annotations

import meshlab as ml

from .steps import KEPT, MUON, REMATERIALISED
from .technique import Technique, Term, loss

DATA = ml.mesh(data=8)
REPLICAS = ml.mesh(replica=2, data=4)
ZERO = "https://arxiv.org/abs/1910.02054"
MUON_SOURCES = ("https://arxiv.org/abs/2502.16982", "https://github.com/NVIDIA/Megatron-LM/issues/6676")
FSDP = "https://arxiv.org/abs/2304.11277"


SCATTERED = Term("gradients", "reduce-scatter", "data", "9 * layers + 2", bytes="4 * P")
# Where nothing is rematerialised scales of norms, and what is in no layer, are gathered once.
GATHERED = (
    Term("parameters, forward", "all-gather", "data", "9 * layers + 2", bytes="4 * P / data"),
    Term("matrices, backward", "all-gather", "data", "7 * layers", bytes="4 * layers * W / data"),
)

ROWS = (
    Technique(
        name="Data parallelism",
        step=KEPT,
        mesh=DATA,
        written="ml.layouts.data_parallel(program, mesh)",
        sources=(
            "https://arxiv.org/abs/2006.15704",
            "https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/distributed.py",
        ),
        there="PyTorch wraps the model in `DistributedDataParallel`, whose hooks all-reduce gradients in buckets.",
        here="One rule: `batch:data`.",
        terms=(Term("gradients", "all-reduce", "data", "11", bytes="4 * P"), loss()),
        law="2 * (n - 1) / n * 4 * P",
    ),
    Technique(
        name="ZeRO-1",
        step=KEPT,
        mesh=DATA,
        written="ml.layouts.zero1(program, mesh)",
        sources=(ZERO, "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/stage_1_and_2.py"),
        there="DeepSpeed replaces the optimizer by one of its own, which flattens and partitions parameters.",
        here="A rule at the place `opt_state/*`.",
        terms=(SCATTERED, Term("new parameters", "all-gather", "data", "11", bytes="4 * P / n"), loss()),
        law="2 * (n - 1) / n * 4 * P",
    ),
    Technique(
        name="ZeRO-2",
        step=KEPT,
        mesh=DATA,
        written="ml.layouts.zero2(program, mesh)",
        sources=(ZERO, "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/stage_1_and_2.py"),
        there="The same optimizer, with hooks on every gradient.",
        here="One rule more, at `grads/*`.",
        terms=(SCATTERED, Term("new parameters", "all-gather", "data", "11", bytes="4 * P / n"), loss()),
        law="2 * (n - 1) / n * 4 * P",
    ),
    Technique(
        name="ZeRO-3",
        step=REMATERIALISED,
        mesh=DATA,
        written="ml.layouts.zero3(program, mesh)",
        sources=(ZERO, "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/stage3.py"),
        there="Hooks on every module fetch its parameters before it runs, and release them behind it.",
        here="A rule at `params/*`.",
        terms=(
            Term("parameters, forward", "all-gather", "data", "9 * layers + 2", bytes="4 * P / n"),
            Term("layers, backward", "all-gather", "data", "9 * layers", bytes="4 * layers * (W + 2 * embed) / n"),
            SCATTERED,
            loss(),
        ),
        law="3 * (n - 1) / n * 4 * P - (n - 1) / n * 4 * (vocab + 1) * embed",
        remark="Of 3 Ψ the second gather of what is in no layer (embedding and last norm) is saved: it is kept.",
    ),
    Technique(
        name="FSDP",
        step=KEPT,
        mesh=DATA,
        written="ml.layouts.fsdp(program, mesh)",
        sources=(FSDP, "https://github.com/pytorch/pytorch/tree/main/torch/distributed/fsdp"),
        there="PyTorch wraps modules in units, flattens their parameters, and gathers them in hooks.",
        here="A rule at `params/*`.",
        terms=(
            *GATHERED,
            SCATTERED,
            loss(),
        ),
        law="3 * (n - 1) / n * 4 * P - (n - 1) / n * 4 * (vocab * embed + S)",
        remark="Scales of norms are not gathered again; nor is what is in no layer, FSDP's root unit.",
    ),
    Technique(
        name="HSDP",
        step=KEPT,
        mesh=REPLICAS,
        written="ml.layouts.hsdp(program, mesh)",
        sources=(FSDP, "https://github.com/pytorch/pytorch/tree/main/torch/distributed/fsdp"),
        there="`ShardingStrategy.HYBRID_SHARD`, with two process groups.",
        here="The batch on two axes, parameters stored over one of them.",
        terms=(
            *GATHERED,
            SCATTERED,
            Term("shards of gradients", "all-reduce", "replica", "9 * layers + 2", bytes="4 * P / data"),
            loss("replica+data"),
        ),
        law=("(data - 1) / data * 4 * (3 * P - vocab * embed - S) + 2 * (replica - 1) / replica * 4 * P / data"),
    ),
    Technique(
        name="Muon, layer by layer",
        step=MUON,
        mesh=DATA,
        written=(
            '{"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"},'
            ' "momentum/mu/*": {"layers": "data"}, "@muon": {"layers": "data"}}'
        ),
        sources=MUON_SOURCES,
        there="An optimizer that knows process groups: a home rank for each matrix, exchanges written by hand.",
        here="`optax.contrib.scale_by_muon` as it is, in a scope; momentum and scope over `layers`.",
        terms=(
            *GATHERED,
            Term("gradients of matrices, to their layers", "reduce-scatter", "data", "7", bytes="4 * layers * W"),
            Term("other gradients", "reduce-scatter", "data", "2 * layers + 2", bytes="4 * (vocab * embed + S)"),
            Term("updates, back to shards", "all-to-all", "data", "7", bytes="4 * layers * W / n"),
            loss(),
        ),
        law="(n - 1) / n * 4 * (2 * P + layers * W + layers * W / n)",
        remark=(
            "Each device runs Newton–Schulz on whole matrices of its own layers; momentum is never sent. Gradients of"
            " all layers are reduced behind the loop, and are whole until then."
        ),
    ),
    Technique(
        name="Muon, layer by layer, with gradients in shards",
        step=MUON,
        mesh=DATA,
        written=(
            '{"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}, "grads/*": {"embed":'
            ' "data"}, "momentum/mu/*": {"layers": "data"}, "@muon": {"layers": "data"}}'
        ),
        sources=MUON_SOURCES,
        there="The same, where parameters and gradients are stored in shards: an exchange in, and one back.",
        here="One rule more, at `grads/*`.",
        terms=(
            *GATHERED,
            SCATTERED,
            Term("gradients, to their layers", "all-to-all", "data", "7", bytes="4 * layers * W / n"),
            Term("updates, back to shards", "all-to-all", "data", "7", bytes="4 * layers * W / n"),
            loss(),
        ),
        law="(n - 1) / n * 4 * (2 * P + layers * W) + 2 * (n - 1) / n**2 * 4 * layers * W",
        remark="Each layer's gradients are reduced into shards as soon as they are made, for one exchange more.",
    ),
)
