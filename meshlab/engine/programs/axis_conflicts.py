"""Finds the dims of a program that no mesh axis may share, and those that a scan steps through, for legality.

Two dims of one operation, or of one stored value, cannot be on one mesh axis; the dim of a scan is stepped through, and
so is not split where it is computed with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..code.loops import carried
from ..code.operations import Operation, walk
from .data import Program, analysis

# Operations whose operands and results are judged apart, for their specs may differ.
_RESHARDS = ("rename", "reshape", "tag")


@analysis
def scanned_dims(program: Program) -> dict[str, Operation]:
    """Finds the dims that scans step through, with the scan."""
    scans: dict[str, Operation] = {}
    for operation in walk(program.code.block):
        if operation.name == "scan":
            count = carried(operation)
            for value in (*operation.inputs[count:], *operation.outputs[count:]):
                name = program.dims_of(value)[0] if isinstance(value, int) else None
                if name:
                    scans.setdefault(name, operation)
    return scans


@analysis
def axis_conflicts(program: Program) -> dict[frozenset[str], Operation | str]:
    """Finds the pairs of dims that are in one operation or one stored value, with the first such."""
    firsts: dict[frozenset[str], Operation | str] = {}
    # Most operations are over the same names as some before them.
    seen: set[tuple[tuple[str | None, int], ...]] = set()

    def note(axes: Iterable[tuple[str | None, int]], where: Operation | str):
        """Notes the pairs of dims among (name, factor) pairs: those of one factor are sharded alike."""
        together = tuple(axes)
        if together in seen:
            return
        seen.add(together)
        known = list(dict.fromkeys((d, factor) for n, factor in together if (d := program.dim_of(n))))
        for i, (a, factor) in enumerate(known):
            for b, other in known[i + 1 :]:
                if a != b and factor != other:
                    firsts.setdefault(frozenset((a, b)), where)

    def numbered(names: Sequence[str | None]) -> Iterable[tuple[str | None, int]]:
        return zip(names, range(len(names)), strict=True)

    for operation, factors in program.factors.items():
        inputs = [program.names[v] if isinstance(v, int) else () for v in operation.inputs]
        results = [program.names[v] for v in operation.outputs]
        for names in (*inputs, *results):
            note(numbered(names), operation)
        if operation.name not in _RESHARDS and factors.known:
            pairs = (*zip(inputs, factors.operands, strict=True), *zip(results, factors.results, strict=True))
            named = (zip(names, axes, strict=True) for names, axes in pairs)
            note([(n, f) for pair in named for n, f in pair if f not in factors.unsharded], operation)
    for argument in program.arguments:
        note(numbered(program.names[argument.value]), argument.place)
    return firsts


@analysis
def conflicting_dims(program: Program) -> dict[str, frozenset[str]]:
    """Finds for each dim the dims that can share no mesh axis with it."""
    beside: dict[str, set[str]] = {dim: set() for dim in program.dims}
    for one, other in map(tuple, axis_conflicts(program)):
        beside[one].add(other)
        beside[other].add(one)
    return {dim: frozenset(others) for dim, others in beside.items()}
