"""Parallelism of the weights: Mesh TensorFlow, Megatron, T5X and GSPMD."""

from __future__ import annotations

import meshlab as ml

from .steps import KEPT, REMATERIALISED
from .technique import Technique, Term, loss

MODEL = ml.mesh(model=8)
GRID = ml.mesh(data=2, model=4)
MESH_TF = ("https://arxiv.org/abs/1811.02084", "https://github.com/tensorflow/mesh")
MEGATRON = (
    "https://arxiv.org/abs/1909.08053",
    "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/tensor_parallel/layers.py",
)
T5X = ("https://arxiv.org/abs/2203.17189", "https://github.com/google-research/t5x/blob/main/t5x/partitioning.py")
GSPMD = ("https://arxiv.org/abs/2105.04663",)


def reduced(x: str, rows: str) -> tuple[Term, ...]:
    """The sums of activations of tensor parallelism, with a vocabulary that is split as well.

    Args:
        x: the elements of the residual stream on a device.
        rows: its positions.
    """
    return (
        Term("stream: 2 a layer forward, 2 backward", "all-reduce", "model", "4 * layers", each=f"4 * {x}"),
        Term("stream at embedding and logits", "all-reduce", "model", "2", each=f"4 * {x}"),
        Term("maximum and sums of the softmax", "all-reduce", "model", "3", each=f"4 * {rows}", beside=True),
    )


SPLIT_GRADIENTS = Term("gradients", "all-reduce", "data", "11", bytes="4 * ((vocab * embed + layers * W) / model + S)")
ON_GRID = (*reduced("x / data", "batch * seq / data"), SPLIT_GRADIENTS, loss())
LAW_ON_GRID = (
    "(4 * layers + 2) * 2 * (model - 1) / model * 4 * x / data"
    " + 2 * (data - 1) / data * 4 * ((vocab * embed + layers * W) / model + S)"
)
MATRICES = (
    Term(
        "matrices, forward",
        "all-gather",
        "data",
        "7 * layers + 1",
        bytes="4 * (vocab * embed + layers * W) / (data * model)",
    ),
    Term("matrices, backward", "all-gather", "data", "7 * layers", bytes="4 * layers * W / (data * model)"),
)
MATRIX_GRADIENTS = Term(
    "gradients of matrices",
    "reduce-scatter",
    "data",
    "7 * layers + 1",
    bytes="4 * (vocab * embed + layers * W) / model",
)
MATRIX_LAW = "(data - 1) / data * 4 * (2 * (vocab * embed + layers * W) + layers * W) / model"

MESH_TENSORFLOW = (
    Technique(
        name="Mesh TensorFlow, data-parallel",
        step=KEPT,
        mesh=ml.mesh(all=8),
        written='"batch:all"',
        sources=MESH_TF,
        there="The model is written in Mesh TensorFlow's own tensors and operations; then one rule.",
        here="The same rule; the model is JAX.",
        terms=(Term("gradients", "all-reduce", "all", "11", bytes="4 * P"), loss("all")),
        law="2 * (n - 1) / n * 4 * P",
    ),
    Technique(
        name="Mesh TensorFlow, model-parallel",
        step=KEPT,
        mesh=MODEL,
        written='"vocab:model;ffn:model;heads:model"',
        sources=MESH_TF,
        there="The same model, three rules.",
        here="The same three rules.",
        terms=reduced("x", "batch * seq"),
        law="(4 * layers + 2) * 2 * (n - 1) / n * 4 * x",
    ),
    Technique(
        name="Mesh TensorFlow, both",
        step=KEPT,
        mesh=GRID,
        written='"batch:data;vocab:model;ffn:model;heads:model"',
        sources=MESH_TF,
        there="The same model on a mesh of two axes, four rules.",
        here="The same four rules.",
        terms=ON_GRID,
        law=LAW_ON_GRID,
    ),
)

MEGATRON_LM = (
    Technique(
        name="Megatron, tensor-parallel",
        step=KEPT,
        mesh=MODEL,
        written='ml.layouts.tensor_parallel(program, mesh, dims="heads ffn")',
        sources=MEGATRON,
        there="Code in the model: `ColumnParallelLinear`, `RowParallelLinear`, and autograd functions around them.",
        here="Two rules: `heads:model ffn:model`.",
        terms=(Term("stream: 2 a layer forward, 2 backward", "all-reduce", "model", "4 * layers", each="4 * x"),),
        law="4 * layers * 2 * (n - 1) / n * 4 * x",
    ),
    Technique(
        name="Megatron, tensor-parallel, all recomputed",
        step=REMATERIALISED,
        mesh=MODEL,
        written='ml.layouts.tensor_parallel(program, mesh, dims="heads ffn")',
        sources=MEGATRON,
        there="The same modules, under a checkpoint function that knows the random state of each rank.",
        here="The same two rules; the layers are under `ml.checkpoint`.",
        terms=(
            Term("stream: 2 a layer forward, 2 backward, 1 again", "all-reduce", "model", "5 * layers", each="4 * x"),
        ),
        law="(6 * layers - layers) * 2 * (n - 1) / n * 4 * x",
        remark="Of the paper's 6 a layer the last of what is recomputed is saved: nothing reads it.",
    ),
    Technique(
        name="Megatron, tensor- and sequence-parallel",
        step=KEPT,
        mesh=MODEL,
        written='ml.layouts.sequence_parallel(program, mesh, dims="heads ffn")',
        sources=(
            "https://arxiv.org/abs/2205.05198",
            "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/tensor_parallel/mappings.py",
        ),
        there="All-gathers and reduce-scatters by hand in each linear layer, and all-reduces of norms' gradients.",
        here="One rule more, at the tag `residual`.",
        terms=(
            Term(
                "stream: in front of each half, forward and backward",
                "all-gather",
                "model",
                "4 * layers",
                each="4 * x / n",
            ),
            Term("stream: behind each half", "reduce-scatter", "model", "4 * layers", each="4 * x"),
            Term("what each half read, again for its weights", "all-gather", "model", "2 * layers", each="4 * x / n"),
            Term("stream at logits and embedding", "all-gather", "model", "2", each="4 * x / n", beside=True),
            Term("gradients of norms", "all-reduce", "model", "3", bytes="4 * S", beside=True),
        ),
        law="4 * layers * 2 * (n - 1) / n * 4 * x + 2 * layers * (n - 1) / n * 4 * x",
        remark=(
            "As many bytes as tensor parallelism, and what each half reads is stored in parts and gathered once more"
            " (section 4.2.2 of the paper)."
        ),
    ),
)


def _rules(embed: str) -> str:
    """T5X's rules, with those for `embed`."""
    others = '("batch", "data"), ("vocab", "model"), ("ffn", "model"), ("heads", "model")'
    return f"ml.layouts.from_axis_rules([{others}, {embed}], program, mesh)"


T5X_AND_GSPMD = (
    Technique(
        name="T5X, 1-D",
        step=KEPT,
        mesh=GRID,
        written=_rules('("embed", None)'),
        sources=T5X,
        there="Logical names in every layer, `with_sharding_constraint` in the model, and rules from names to axes.",
        here="The same rules, read as they are: four that count.",
        terms=ON_GRID,
        law=LAW_ON_GRID,
    ),
    Technique(
        name="T5X, 2-D parameters",
        step=KEPT,
        mesh=GRID,
        written=_rules('("embed", "data")'),
        sources=T5X,
        there="The same names, `parameter_partitioning_dims=2`.",
        here="The same rules; `embed` is a rule at places.",
        terms=(
            *reduced("x / data", "batch * seq / data"),
            *MATRICES,
            MATRIX_GRADIENTS,
            Term("scales of norms", "all-gather", "data", "2 * layers + 1", bytes="4 * S / data", beside=True),
            Term("their gradients", "reduce-scatter", "data", "2 * layers + 1", bytes="4 * S", beside=True),
            loss(),
        ),
        law=f"(4 * layers + 2) * 2 * (model - 1) / model * 4 * x / data + {MATRIX_LAW}",
    ),
    Technique(
        name="T5X, 2-D parameters and activations; GSPMD, finalized 2-D",
        step=KEPT,
        mesh=GRID,
        written=_rules('("embed", "model"), ("embed", "data")'),
        sources=(*T5X, *GSPMD),
        there=(
            "`activation_partitioning_dims=2`, or GSPMD's annotations of each tensor: the finalized 2-D sharding of a"
            " dense Transformer."
        ),
        here="The same rules; `embed` is a rule at places and at the tag `residual`.",
        terms=(
            Term("stream: in front of each half", "all-gather", "model", "4 * layers", each="4 * x / n"),
            Term("stream: behind each half", "reduce-scatter", "model", "4 * layers", each="4 * x / data"),
            Term("what each half read, again for its weights", "all-gather", "model", "2 * layers", each="4 * x / n"),
            Term("stream at embedding and logits", "all-gather", "model", "2", each="4 * x / n"),
            Term("stream at embedding and logits", "reduce-scatter", "model", "2", each="4 * x / data"),
            *MATRICES,
            MATRIX_GRADIENTS,
            Term(
                "means of squares of norms, forward and backward",
                "all-reduce",
                "model",
                "4 * layers + 2",
                each="4 * batch * seq / data",
                beside=True,
            ),
            Term(
                "maximum and sums of the softmax",
                "all-reduce",
                "model",
                "3",
                each="4 * batch * seq / data",
                beside=True,
            ),
            Term("gradients of norms", "all-reduce", "data", "3", bytes="4 * S / model", beside=True),
            loss(),
        ),
        law=f"(8 * layers + 4 + 2 * layers) * (model - 1) / model * 4 * x / data + {MATRIX_LAW}",
    ),
)
