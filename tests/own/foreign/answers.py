"""What an engineer says of each program's largest collectives.

They were written from the compiled text, read by hand, before `ml.explain` was asked. Two things were changed since:
those of "wrong constraint" had the lines that make what is gathered, and the constraint's own line says more; and
`value` is left empty where a report calls a value after a primitive (`normed` is `mul` there).
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Answer:
    """So many collectives of one kind, over which axes, of so many bytes: where they are, of what, and why."""

    kind: str
    axes: str
    payload: int  # of its operand on one device
    line: str  # a part of the user's line
    value: str  # a part of what is sent; "" of what has no name in the program, as gradients
    dims: str
    cause: tuple[str, ...]
    count: int = 1


AG, AR, CP = "all-gather", "all-reduce", "collective-permute"
SUMMED, MOVED = ("summed",), ("made", "otherwise", "constrained", "stored")

ANSWERS = {
    # The constraint wants another split; XLA has no direct way, and gathers `total` over one axis and then the other.
    "resharded": (
        Answer(AG, "y", 8192, "with_sharding_constraint(total, after)", "total", "a.0", MOVED),
        Answer(AG, "x", 2048, "with_sharding_constraint(total, after)", "total", "a.2", MOVED),
    ),
    # Since gathers and sorts know their batch axes, nothing is sent.
    "shuffled": (),
    # Nothing of the program asks for it: XLA's partitioner does not split a grouped convolution by the batch.
    "grouped convolution": (Answer(AG, "data", 8192, "features = ", "images", "images.0", ("whole",)),),
    "largest logits": (Answer(AG, "data", 1024, "top_k(logits", "logits", "logits.1", ("along",)),),
    "sequence parallel": (
        Answer(AR, "tensor", 4096, "(normed @ params[name])", "", "params/q.1", SUMMED),
        Answer(AR, "tensor", 4096, "(normed @ params[name])", "", "params/k.1", SUMMED),
        Answer(AR, "tensor", 4096, "(normed @ params[name])", "", "params/v.1", SUMMED),
        Answer(AR, "tensor", 4096, 'out = mixed @ params["o"]', "out", "params/o.0", SUMMED),
        # Once in the forward pass, and once where the backward pass computes it again.
        Answer(AG, "tensor", 1024, "with_sharding_constraint(normed, gathered)", "", "x.1", MOVED, 2),
        # What comes back to `out` is split along the sequence, for its constraint is.
        Answer(AG, "tensor", 1024, 'out = mixed @ params["o"]', "", "x.1", MOVED),
    ),
    "fused projection": (
        Answer(AR, "tensor", 8192, "@ out_weight", "", "out_weight.0", SUMMED),
        # A third of the columns lies on other devices than a third of the heads.
        Answer(CP, "tensor", 3072, "jnp.split(fused", "fused", "qkv_weight.1", ("along",)),
        Answer(CP, "tensor", 2048, "jnp.split(fused", "fused", "qkv_weight.1", ("along",), 5),
        Answer(CP, "tensor", 1024, "jnp.split(fused", "fused", "qkv_weight.1", ("along",), 3),
    ),
    "muon": (
        # The gradient of `down`, summed over the batch, and whole because XLA for CPUs has no reduce-scatter.
        Answer(AR, "fsdp", 16384, '(hidden @ params["down"] - y)', "", "x.0", SUMMED),
        # Newton-Schulz multiplies `up` by its transpose in each of five turns: its split rows are gathered each time.
        Answer(AG, "fsdp", 2048, "optimizer.update(grads, state, params)", "", "params/up.0", MOVED, 10),
        Answer(AG, "fsdp", 2048, '(x @ params["up"])', "params/up", "params/up.0", MOVED),
        Answer(AG, "fsdp", 2048, '(hidden @ params["down"] - y)', "params/down", "params/down.0", MOVED),
        # `down` is turned first: its split rows are summed over.
        Answer(AR, "fsdp", 4096, "optimizer.update(grads, state, params)", "", "params/down.0", SUMMED, 5),
    ),
    "split optimizer": (
        # XLA splits the hidden values too, as the optimizer has it, and needs them whole in the next layer.
        Answer(AG, "y", 2048, "self.second(jax.nn.relu(self.first(x)))", "", "state/0/first/kernel/value.1", MOVED),
        # The model comes out whole, and its update is made split.
        Answer(AG, "x", 2048, "optimizer.update(model, grads)", "kernel", "state/0/second/kernel/value.0", MOVED),
        Answer(AG, "x", 1024, "optimizer.update(model, grads)", "kernel", "state/0/first/kernel/value.0", MOVED),
        Answer(AG, "y", 512, "optimizer.update(model, grads)", "kernel", "state/0/second/kernel/value.1", MOVED),
        Answer(AG, "y", 512, "self.second(jax.nn.relu(self.first(x)))", "", "state/0/second/kernel/value.1", MOVED),
    ),
    "sharded twice": (
        Answer(AR, "data", 4096, "jax.vmap(model)(x)", "", "x.0", SUMMED),
        Answer(AR, "data", 2048, "jax.vmap(model)(x)", "", "x.0", SUMMED),
        Answer(AR, "data", 1024, "jax.vmap(model)(x)", "", "x.0", SUMMED),
    ),
    "wrong constraint": (
        # The gradient of `hidden` has to be whole too, over both axes.
        Answer(AG, "data", 8192, "with_logical_constraint", "", "x.0", MOVED),
        Answer(AG, "data", 4096, "with_logical_constraint", "normed", "x.0", MOVED),
        Answer(
            AG, "tensor", 4096, "with_logical_constraint", "Dense_0/kernel", "variables/params/Dense_0/kernel.1", MOVED
        ),
        Answer(AG, "tensor", 4096, "with_logical_constraint", "", "variables/params/Dense_0/kernel.1", MOVED),
        Answer(AR, "tensor", 4096, "return nn.Dense(32", "", "variables/params/Dense_1/kernel.0", SUMMED),
        Answer(AR, "data", 4096, "return nn.Dense(32", "", "x.0", SUMMED),
    ),
    "batch norm": (
        # The gradients, as in any data parallel step; then the statistics, which are of the whole batch.
        Answer(AR, "data", 1728, "nn.Conv(16", "", "images.0", SUMMED),
        Answer(AR, "data", 640, "nn.Dense(10", "", "images.0", SUMMED),
        Answer(AR, "data", 64, "nn.BatchNorm(", "", "images.0", SUMMED, 5),
    ),
}
