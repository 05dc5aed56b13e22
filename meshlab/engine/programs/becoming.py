"""Says which dims an operation turns into which: by a rename, or as the major part of a reshape.

    becoming(program, operation)        [("batch", "groups"), ("seq", "seq")] of the rename for a mixture of experts

Who splits one of them splits the other as well, or the operation needs it whole.
"""

from __future__ import annotations

from ..code.operations import Operation
from .program import Program

Pair = tuple[str | None, str | None]


def becoming(program: Program, operation: Operation) -> list[Pair]:
    """Returns the names, before and after an operation, of axes that are split alike."""
    if operation.name == "rename":
        return list(zip(operation.params["before"], operation.params["after"], strict=True))
    if operation.blocks:
        return []
    factors = program.factors[operation]
    sides = zip(operation.inputs, factors.operands, strict=True), zip(operation.outputs, factors.results, strict=True)
    before, after = (
        [(f, name) for v, axes in side if isinstance(v, int) for f, name in zip(axes, program.names[v], strict=True)]
        for side in sides
    )
    return [(old, new) for factor, old in before for other, new in after if factor == other >= 0]


def changed(operation: Operation) -> str:
    """Says which dims a rename turns into which: "`seq` becomes `kv`"; "" if it only drops or adds names."""
    pairs = zip(operation.params["before"], operation.params["after"], strict=True)
    return " and ".join(f"`{old}` becomes `{new}`" for old, new in pairs if old and new and old != new)


def across(program: Program, operation: Operation, dim: str) -> tuple[str, ...]:
    """Returns the new dims on the other side of a rename that has a dim on one side; none for other operations.

    Of `experts`, where `groups` becomes `batch` and `experts` becomes `routes`: `batch` and `routes`.
    """
    if operation.name != "rename":
        return ()
    pairs = becoming(program, operation)
    here = next((side for side in (0, 1) if any(pair[side] == dim for pair in pairs)), None)
    if here is None:
        return ()
    others = [pair[1 - here] for pair in pairs if pair[0] != pair[1]]
    beside = {pair[here] for pair in pairs}
    return tuple(name for name in others if name is not None and name not in beside)
