"""What people call mesh axes, by purpose: `fsdp` is for shards of parameters, `tp` for tensor parallelism.

    called(("batch", "fsdp"), "shards")      "fsdp"
    called(("batch", "fsdp"), "data")        "batch"
    unclaimed(("x", "tp"))                   ("x",): no other preset takes it by its name

The names are those of T5X, MaxText, EasyLM, big_vision, Levanter, Megatron-LM, PyTorch and DeepSpeed. An axis of
pipeline stages has a name too, so that no preset takes it for something else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

_DATA = ("data", "dp", "batch", "data_parallel")
_SHARDS = ("fsdp", "shard", "zero")
_MODEL = ("model", "tp", "tensor", "mp", "model_parallel", "tensor_parallel")
_CONTEXT = ("context", "cp", "sp", "seq", "sequence", "context_parallel", "sequence_parallel")
_FAR = ("replica", "replicas", "pod", "slice", "node", "dcn", "ddp")

# By purpose the names of its axis, those that are taken first in front. Copies are along whatever is left for data.
NAMES = {
    "data": (*_DATA, *_SHARDS),
    "shards": (*_SHARDS, *_DATA),
    "copies": (*_FAR, *_DATA),
    "model": _MODEL,
    "expert": ("expert", "experts", "ep", "expert_parallel", *_DATA, *_SHARDS),
    "context": (*_CONTEXT, "ring", "ulysses", *_MODEL),
    # The two of USP.
    "ring": ("ring", *_CONTEXT),
    "ulysses": ("ulysses", "heads"),
}
_STAGES = ("stage", "stages", "pipe", "pipeline", "pp", "layers")
_CLAIMED = frozenset((*_STAGES, *(name for names in NAMES.values() for name in names)))


def called(axes: Sequence[str], purpose: str, taken: Collection[str] = ()) -> str | None:
    """Returns the axis that a purpose has by its name, upper and lower case alike; None where there is none.

    Args:
        axes: of the mesh.
        purpose: a key of `NAMES`.
        taken: axes that are for something else already.
    """
    known = {axis.lower(): axis for axis in reversed(axes) if axis not in taken}
    return next((known[name] for name in NAMES[purpose] if name in known), None)


def unclaimed(axes: Sequence[str], taken: Collection[str] = ()) -> tuple[str, ...]:
    """Returns the axes whose names say no purpose."""
    return tuple(axis for axis in axes if axis not in taken and axis.lower() not in _CLAIMED)
