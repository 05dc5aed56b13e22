"""Which arrays have places for rows of experts, and with which dims these grow.

    rows[experts rows embed]        places are `factor` times the choices of all tokens: with `batch`, `seq` and `k`

Places are a size that the function computes. At other sizes of the tokens there are more of them, and what is sent and
stored for a row grows with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...engine.code.operations import walk
from ...engine.planning.step_keys import Key
from ...engine.planning.steps import Compute
from ...engine.programs.program import Program, analysis


class Places(NamedTuple):
    """What a dim of places grows with, and how many of it are for one choice.

    Attributes:
        tokens: names of the axes that choices have.
        experts: the name of the experts' axis, over which places are divided.
        factor: how many places there are for each choice.
    """

    tokens: tuple[str, ...]
    experts: str
    factor: float


@analysis
def places(program: Program) -> Mapping[str, Places]:
    """Returns what each dim of places grows with, by its name."""
    found: dict[str, Places] = {}
    for operation in (each for each in walk(program.code.block) if not each.blocks):
        routed = program.factors[operation].routed
        if routed is None or routed.followed:
            continue
        how, (choice, ids, _) = operation.params["how"], operation.outputs
        experts, rows = program.names[ids][how.stacked :]
        tokens = tuple(name for name in program.names[choice][how.stacked :] if name)
        if rows is not None:
            found[rows] = Places(tokens, experts or "", how.factor)
    return found


def grown(program: Program, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sizes of dims of places that follow from other sizes than the program's own."""

    def ratio(name: str) -> Any:
        more: Any = 1
        for part in name.split("*"):
            if part in sizes and program.dims.get(part):
                more = more * (sizes[part] / program.dims[part])
        return more

    made = {}
    for rows, (tokens, experts, _) in places(program).items():
        parts = {part for name in (*tokens, experts) for part in name.split("*")}
        if rows in program.dims and rows not in sizes and parts & set(sizes):
            more: Any = program.dims[rows]
            for name in tokens:
                more = more * ratio(name)
            made[rows] = more / (ratio(experts) or 1) if experts in sizes else more
    return made


def array_of_places(step: Compute, program: Program) -> Key | None:
    """Returns the array of rows that a step sends, makes or reads, its value and spec; None of one that sends none."""
    factors, operation = program.factors[step.operation], step.operation
    if factors.routed is None or not factors.routed.items:
        return None
    every = (
        *zip(operation.inputs, step.operands, factors.operands, strict=True),
        *zip(operation.outputs, step.results, factors.results, strict=True),
    )
    rows = [
        (value, spec)
        for value, spec, axes in every
        if isinstance(value, int) and spec is not None and factors.routed.slots & set(axes)
    ]
    return max(rows, key=lambda key: len(program.code.shapes[key[0]]), default=None)
