"""Techniques together: presets combined by `&`."""

from __future__ import annotations

import meshlab as ml

from .activations import ULYSSES, exchanged
from .model_parallel import MATRICES, MATRIX_GRADIENTS, MATRIX_LAW, reduced
from .steps import KEPT
from .technique import Technique, Term, loss

LLAMA = ("https://arxiv.org/abs/2407.21783", "https://github.com/pytorch/torchtitan")
STORED = "4 * (vocab * embed + layers * W) / (data * model)"

ROWS = (
    Technique(
        name="FSDP with tensor parallelism",
        step=KEPT,
        mesh=ml.mesh(data=2, model=4),
        written="ml.layouts.fsdp(program, mesh) & ml.layouts.tensor_parallel(program, mesh)",
        sources=LLAMA,
        there="A plan of parallel styles for each module of the model, `parallelize_module`, and FSDP around them.",
        here="Two presets and `&`.",
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
        name="HSDP with tensor and sequence parallelism",
        step=KEPT,
        mesh=ml.mesh(replica=2, data=2, model=2),
        written="ml.layouts.hsdp(program, mesh) & ml.layouts.sequence_parallel(program, mesh)",
        sources=LLAMA,
        there="The same plans of parallel styles, over a mesh of three dims.",
        here="Two presets and `&`.",
        terms=(
            Term("stream: in front of each half", "all-gather", "model", "4 * layers", each="4 * x / n"),
            Term("what each half read, again for its weights", "all-gather", "model", "2 * layers", each="4 * x / n"),
            Term("stream at embedding and logits", "all-gather", "model", "2", each="4 * x / n"),
            Term(
                "stream: behind each half, and embedding and logits",
                "reduce-scatter",
                "model",
                "4 * layers + 2",
                each="4 * x / (replica * data)",
            ),
            *MATRICES,
            MATRIX_GRADIENTS,
            Term("shards of their gradients", "all-reduce", "replica", "7 * layers + 1", bytes=STORED),
            Term("scales of norms", "all-gather", "data", "2 * layers + 1", bytes="4 * S / data", beside=True),
            Term("their gradients", "reduce-scatter", "data", "2 * layers + 1", bytes="4 * S", beside=True),
            Term("and shards", "all-reduce", "replica+model", "2 * layers + 1", bytes="4 * S / data", beside=True),
            Term(
                "maximum and sums of the softmax",
                "all-reduce",
                "model",
                "3",
                each="4 * batch * seq / (replica * data)",
                beside=True,
            ),
            loss("replica+data"),
        ),
        law=(
            f"(10 * layers + 4) * (model - 1) / model * 4 * x / (replica * data) + {MATRIX_LAW}"
            f" + 2 * (replica - 1) / replica * {STORED}"
        ),
    ),
    Technique(
        name="DeepSpeed Ulysses with ZeRO-3",
        step=KEPT,
        mesh=ml.mesh(data=2, context=4),
        written=(
            'ml.layouts.context_parallel(program, mesh, kind="ulysses") & {"batch": "data", "params/*": {"embed":'
            ' "data+context"}, "opt_state/*": {"embed": "data+context"}}'
        ),
        sources=ULYSSES,
        there="ZeRO-3 over the devices of both axes, beside `DistributedAttention`.",
        here="A preset, and what is stored over both axes.",
        terms=(
            *exchanged("forward and backward", "2"),
            Term("parameters, forward", "all-gather", "data+context", "9 * layers + 2", bytes="4 * P / n"),
            Term("matrices, backward", "all-gather", "data+context", "7 * layers", bytes="4 * layers * W / n"),
            Term("gradients", "reduce-scatter", "data+context", "9 * layers + 2", bytes="4 * P"),
            loss("data+context"),
        ),
        law=(
            "2 * layers * (context - 1) / context * (2 * 4 * batch * seq * q / n + 2 * 4 * batch * seq * kv / n)"
            " + (n - 1) / n * 4 * (2 * P + layers * W)"
        ),
    ),
)
