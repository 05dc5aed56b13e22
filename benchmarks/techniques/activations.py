"""Parallelism along sequences, in space, of experts, and of tables."""

from __future__ import annotations

import dataclasses

import meshlab as ml

from .data_parallel import DATA
from .model_parallel import MESH_TF
from .steps import IMAGES, KEPT, LONG, ONE_CHOICE, REMATERIALISED, SORTED, TWO_CHOICES, TWO_TOWERS
from .technique import Technique, Term, loss

CONTEXT = ml.mesh(context=8)
GRID = ml.mesh(data=2, model=4)
ULYSSES = (
    "https://arxiv.org/abs/2309.14509",
    "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/sequence/layer.py",
)
ALL_GRADIENTS = Term("gradients", "all-reduce", "context", "11", bytes="4 * P", beside=True)


def exchanged(what: str, passes: str) -> tuple[Term, ...]:
    """The all-to-alls of queries, keys, values and the result around the core of attention.

    Args:
        what: where they are sent.
        passes: how many times 4 in each layer.
    """
    return (
        Term(
            f"queries and result, {what}",
            "all-to-all",
            "context",
            f"{passes} * 2 * layers",
            each="4 * batch * seq * q / n",
        ),
        Term(
            f"keys and values, {what}",
            "all-to-all",
            "context",
            f"{passes} * 2 * layers",
            each="4 * batch * seq * kv / n",
        ),
    )


SEQUENCES = (
    Technique(
        name="DeepSpeed Ulysses",
        step=KEPT,
        mesh=CONTEXT,
        written='ml.layouts.context_parallel(program, mesh, kind="ulysses")',
        sources=ULYSSES,
        there="`DistributedAttention` around the attention of the model, with autograd functions for its all-to-alls.",
        here='Rules of a scope: `{"seq": "context", "@core": {"seq": None, "heads": "context"}}`.',
        terms=(*exchanged("forward and backward", "2"), ALL_GRADIENTS, loss("context")),
        law="2 * layers * (n - 1) / n * (2 * 4 * batch * seq * q / n + 2 * 4 * batch * seq * kv / n)",
        remark="8 all-to-alls a layer, and nothing is gathered.",
    ),
    Technique(
        name="DeepSpeed Ulysses, rematerialised",
        step=REMATERIALISED,
        mesh=CONTEXT,
        written='ml.layouts.context_parallel(program, mesh, kind="ulysses")',
        sources=ULYSSES,
        there="The same, under activation checkpointing.",
        here="The same rules.",
        terms=(*exchanged("forward, again and backward", "3"), ALL_GRADIENTS, loss("context")),
        law="3 * layers * (n - 1) / n * (2 * 4 * batch * seq * q / n + 2 * 4 * batch * seq * kv / n)",
        remark="12 all-to-alls a layer.",
    ),
    Technique(
        name="Gathered context",
        step=KEPT,
        mesh=CONTEXT,
        written='ml.layouts.context_parallel(program, mesh, kind="gather")',
        sources=("https://arxiv.org/abs/2407.21783", "https://github.com/pytorch/torchtitan"),
        there="An attention of its own, which gathers keys and values and scatters their gradients.",
        here="One rule: `seq:context`.",
        terms=(
            Term("keys and values", "all-gather", "context", "2 * layers", each="4 * batch * seq * kv / n"),
            Term("their gradients", "reduce-scatter", "context", "2 * layers", each="4 * batch * seq * kv"),
            ALL_GRADIENTS,
            loss("context"),
        ),
        law="4 * layers * (n - 1) / n * 4 * batch * seq * kv",
    ),
    Technique(
        name="Llama 3's context parallelism, balanced",
        step=LONG,
        mesh=CONTEXT,
        written="ml.layouts.context_parallel(program, mesh, balanced=True)",
        sources=("https://arxiv.org/abs/2407.21783",),
        there="Data are cut into `2 * n` chunks, of which each device gets the i-th and the (2n - 1 - i)-th; masks and"
        " positions follow.",
        here="One rule, `seq:zigzag(context)`; positions, masks and data stay as they are.",
        terms=(
            Term("keys and values", "all-gather", "context", "2 * layers", each="4 * batch * seq * kv / n"),
            Term("their gradients", "reduce-scatter", "context", "2 * layers", each="4 * batch * seq * kv"),
            Term(
                "halves of queries and result, forward and backward, and of their cotangents",
                "collective-permute",
                "context",
                "12 * layers",
                each="4 * batch * seq * q / n / 2",
            ),
            Term(
                "halves of the logarithms of sums, from one scan to the other",
                "collective-permute",
                "context",
                "4 * layers",
                each="4 * batch * seq * heads * group / n / 2",
                beside=True,
            ),
            ALL_GRADIENTS,
            loss("context"),
        ),
        law="4 * layers * (n - 1) / n * 4 * batch * seq * kv + 6 * layers * 4 * batch * seq * q / n",
        remark="Llama 3 has its data in that order from the beginning, so that it exchanges no halves.",
    ),
    Technique(
        name="Ring attention",
        step=LONG,
        mesh=CONTEXT,
        written='ml.layouts.context_parallel(program, mesh, kind="ring")',
        sources=("https://arxiv.org/abs/2310.01889", "https://github.com/haoliuhl/ringattention"),
        there="An attention of its own inside `shard_map`, which permutes keys and values in a loop.",
        here="Two rules: `seq:context kv:context`.",
        terms=(
            Term(
                "keys and values, forward and backward, and their gradients",
                "collective-permute",
                "context",
                "(6 * n - 4) * layers",
                each="4 * batch * seq * kv / n",
            ),
            ALL_GRADIENTS,
            loss("context"),
        ),
        law="layers * (6 * n - 4) * 4 * batch * seq * kv / n",
        remark="2 arrays go around in n - 1 hops, and again in the backward pass; 2 gradients in n, home.",
    ),
    Technique(
        name="USP",
        step=LONG,
        mesh=ml.mesh(ring=4, ulysses=2),
        written='ml.layouts.context_parallel(program, mesh, kind="usp", context=("ring", "ulysses"))',
        sources=("https://arxiv.org/abs/2405.07719", "https://github.com/feifeibear/long-context-attention"),
        there="`LongContextAttention`: process groups of both, all-to-alls around a ring of its own.",
        here="Rules of a scope: `ring+ulysses` for positions, and inside `@core` the ring for positions, `ulysses` for"
        " heads.",
        terms=(
            *(dataclasses.replace(term, axes="ulysses") for term in exchanged("forward and backward", "2")),
            Term(
                "keys and values, forward and backward, and their gradients",
                "collective-permute",
                "ring",
                "(6 * ring - 4) * layers",
                each="4 * batch * seq * kv / n",
            ),
            dataclasses.replace(ALL_GRADIENTS, axes="ring+ulysses"),
            loss("ring+ulysses"),
        ),
        law="2 * layers * (ulysses - 1) / ulysses * (2 * 4 * batch * seq * q / n + 2 * 4 * batch * seq * kv / n)"
        " + layers * (6 * ring - 4) * 4 * batch * seq * kv / n",
        remark="8 all-to-alls a layer over one axis, and a ring over the other.",
    ),
)

SPACE = (
    Technique(
        name="Mesh TensorFlow, spatial",
        step=IMAGES,
        mesh=ml.mesh(row=4, col=2),
        written='"rows:row;cols:col"',
        sources=MESH_TF,
        there="Code in the model: dims cut into blocks, `conv2d_with_blocks`, and a halo exchange of its own.",
        here="Two rules; the model has plain convolutions.",
        terms=(
            Term(
                "rows beside a part, to both neighbours, of both inputs and a gradient",
                "collective-permute",
                "row",
                "6",
                bytes="2 * 4 * batch * halo * cols / col * (channels + filters1 + filters2)",
            ),
            Term(
                "columns, with the corners",
                "collective-permute",
                "col",
                "6",
                bytes="2 * 4 * batch * halo * (rows / row + 2 * halo) * (channels + filters1 + filters2)",
            ),
            Term("gradients of filters", "all-reduce", "row+col", "2", bytes="4 * F", beside=True),
            Term("hidden units", "all-reduce", "row+col", "1", each="4 * batch * hidden1", beside=True),
        ),
        law="2 * 4 * batch * halo * (cols / col + rows / row + 2 * halo) * (channels + filters1 + filters2)",
    ),
)

TOKENS = Term("tokens: out and back, forward and backward", "all-to-all", "data", "4 * layers", each="4 * t / n")
DENSE = Term("gradients of what is dense", "all-reduce", "data", "10", bytes="4 * D", beside=True)

EXPERTS = (
    Technique(
        name="Mesh TensorFlow, experts",
        step=TWO_CHOICES,
        mesh=GRID,
        written='{"batch": "data+model", "groups": "data", "experts": "model"}',
        sources=(*MESH_TF, "https://github.com/tensorflow/mesh/blob/master/mesh_tensorflow/transformer/moe.py"),
        there="A layer of its own, with dims for inner and outer groups, and reshapes that become all-to-alls.",
        here="Three rules: groups stay along `data`, and are exchanged along `model`.",
        terms=(
            Term("tokens: out and back, forward and backward", "all-to-all", "model", "4 * layers", each="4 * t / n"),
            Term("gradients of experts", "all-reduce", "data", "3", bytes="4 * layers * E / model", beside=True),
            Term("gradients of what is dense", "all-reduce", "data+model", "10", bytes="4 * D", beside=True),
            loss("data+model"),
        ),
        law="4 * layers * (model - 1) / model * 4 * t / n",
    ),
    Technique(
        name="GShard",
        step=TWO_CHOICES,
        mesh=DATA,
        written="ml.layouts.data_parallel(program, mesh, beside=ml.layouts.expert_parallel(program, mesh))",
        sources=("https://arxiv.org/abs/2006.16668",),
        there="A layer of its own with annotations of its tensors, in TensorFlow, and a partitioner in XLA.",
        here="Two rules: `batch:data experts:data`.",
        terms=(TOKENS, DENSE, loss()),
        law="4 * layers * (n - 1) / n * 4 * t / n",
    ),
    Technique(
        name="Switch Transformer",
        step=ONE_CHOICE,
        mesh=DATA,
        written="ml.layouts.data_parallel(program, mesh, beside=ml.layouts.expert_parallel(program, mesh))",
        sources=(
            "https://arxiv.org/abs/2101.03961",
            "https://github.com/tensorflow/mesh/blob/master/mesh_tensorflow/transformer/moe.py",
        ),
        there="Mesh TensorFlow's layer, with one expert a token.",
        here="The same two rules.",
        terms=(TOKENS, DENSE, loss()),
        law="4 * layers * (n - 1) / n * 4 * t / n",
    ),
    Technique(
        name="MegaBlocks, dropless",
        step=SORTED,
        mesh=DATA,
        written=(
            "ml.layouts.data_parallel(program, mesh, beside=ml.layouts.expert_parallel(program, mesh,"
            ' transport="dropless"))'
        ),
        sources=("https://arxiv.org/abs/2211.15841", "https://github.com/databricks/megablocks"),
        there="A layer of its own: tokens sorted by expert, all-to-alls of as many rows as there are, grouped matmuls.",
        here="The same two rules; the model has `ml.dispatch`, `ml.ragged_dot` and `ml.combine`.",
        terms=(
            TOKENS,
            Term("numbers of experts", "all-to-all", "data", "layers", each="4 * rows / n"),
            DENSE,
            loss(),
        ),
        law="layers * (n - 1) / n * 4 * (4 * t + rows) / n",
        remark=(
            "Buffers have places for the worst case, eight times the even share, and are sent whole; MegaBlocks sends"
            " the rows that there are, an eighth of that where experts are chosen equally often."
        ),
    ),
)

TABLES = (
    Technique(
        name="Tables sharded by row",
        step=TWO_TOWERS,
        mesh=DATA,
        written=(
            '{"batch": "data", "users": "data", "items": "data",'
            ' "@lookup": {"users": "data", "items": "data", "batch": None}}'
        ),
        sources=("https://arxiv.org/abs/2104.05158", "https://github.com/meta-pytorch/torchrec"),
        there="A planner, sharded modules for embeddings, and an optimizer fused into the backward pass of the tables.",
        here="Rules of a scope; tables and their optimizer state stay where they are, and so do their gradients.",
        terms=(
            Term("ids", "all-gather", "data", "2", each="4 * batch / n"),
            Term("rows", "reduce-scatter", "data", "2", each="4 * batch * embed"),
            Term("gradients of rows", "all-gather", "data", "2", each="4 * batch * embed / n"),
            Term("candidates", "all-gather", "data", "1", each="4 * batch * hidden / n"),
            Term("gradients of candidates", "reduce-scatter", "data", "1", each="4 * batch * hidden"),
            Term("gradients of the towers", "all-reduce", "data", "2", each="4 * embed * hidden", beside=True),
            loss(),
        ),
        law="2 * (n - 1) / n * 4 * batch * (1 + 2 * embed + hidden)",
    ),
)
