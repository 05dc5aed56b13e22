"""Finds the dims of a program that no mesh axis may share, and those that a scan steps through, for legality.

Two dims of one operation, or of one stored value, cannot be on one mesh axis; the dim of a scan is stepped through, and
so is not split where it is computed with. Where rules differ from scope to scope, each scope is judged by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..code.loops import carried
from ..code.operations import Operation, Scope, walk
from .program import Program, analysis

Pairs = frozenset[frozenset[int]]
# The pairs of dims that are in one operation or one stored value, with the first such.
Conflicts = dict[frozenset[str], Operation | str]
# The dims that scans step through, with the first such scan.
Scans = dict[str, Operation]

# Operations whose operands and results are judged apart, for their specs may differ.
_RESHARDS = ("rename", "reshape", "tag")


@analysis
def scanned_dims(program: Program) -> Scans:
    return {dim: scan for scans in reversed(scans_by_scope(program).values()) for dim, scan in scans.items()}


@analysis
def scans_by_scope(program: Program) -> dict[Scope, Scans]:
    scopes: dict[Scope, Scans] = {}
    for operation in walk(program.code.block):
        if operation.name == "scan":
            count = carried(operation)
            for value in (*operation.inputs[count:], *operation.outputs[count:]):
                name = program.dims_of(value)[0] if isinstance(value, int) else None
                if name:
                    scopes.setdefault(operation.scope, {}).setdefault(name, operation)
    return scopes


@analysis
def axis_conflicts(program: Program) -> Conflicts:
    return _conflicts(program, apart=False).get((), {})


@analysis
def conflicts_by_scope(program: Program) -> dict[Scope, Conflicts]:
    """Finds for each scope the pairs of dims that are in one operation of it; what is stored is in none, `()`."""
    return _conflicts(program, apart=True)


def _conflicts(program: Program, apart: bool) -> dict[Scope, Conflicts]:
    """Finds the pairs of dims that meet: for each scope, if `apart`, or all of them under `()`."""
    scopes: dict[Scope, Conflicts] = {}
    # Most operations are over the same axes as some before them.
    seen: set[tuple[Scope, int, bool]] = set()

    def note(axes: Iterable[tuple[str | None, int]], where: Operation | str, shareable: Pairs = frozenset()):
        """Notes the pairs of dims among (dim, factor) pairs: those of one factor are sharded alike."""
        known = list(dict.fromkeys((dim, factor) for dim, factor in axes if dim))
        firsts = scopes.setdefault(where.scope if apart and isinstance(where, Operation) else (), {})
        for i, (a, factor) in enumerate(known):
            for b, other in known[i + 1 :]:
                if a != b and factor != other and frozenset((factor, other)) not in shareable:
                    firsts.setdefault(frozenset((a, b)), where)

    def numbered(dims: Sequence[str | None]) -> Iterable[tuple[str | None, int]]:
        return zip(dims, range(len(dims)), strict=True)

    for operation, number in program.signatures.items():
        if apart and operation.name == "add_any":  # a sum of cotangents has no rules of its own
            continue
        factors = program.factors[operation]
        joined = operation.name not in _RESHARDS and factors.known
        together = operation.scope if apart else (), number, joined
        if together in seen:
            continue
        seen.add(together)
        inputs = [program.dims_of(v) if isinstance(v, int) else () for v in operation.inputs]
        results = [program.dims_of(v) for v in operation.outputs]
        for dims in (*inputs, *results):
            note(numbered(dims), operation)
        if joined:
            pairs = (*zip(inputs, factors.operands, strict=True), *zip(results, factors.results, strict=True))
            named = (zip(dims, axes, strict=True) for dims, axes in pairs)
            split = [(d, f) for pair in named for d, f in pair if f not in factors.unsharded]
            note(split, operation, factors.shareable)
    for argument in program.arguments:
        note(numbered(program.dims_of(argument.value)), argument.place)
    return scopes


@analysis
def exchangeable_dims(program: Program) -> tuple[tuple[str, str], ...]:
    """Returns the pairs of dims that one mesh axis may split both in an operation: queries and keys of attention."""
    pairs: dict[tuple[str, str], None] = {}
    for operation in program.signatures:
        for pair in program.factors[operation].exchangeable:
            dims = dict(program.factor_dims[operation])
            query, key = (dims.get(factor) for factor in sorted(pair))
            if query and key:
                pairs[query, key] = None
    return (*pairs,)


def key_dims(program: Program, operation: Operation) -> frozenset[str | None]:
    """Returns the later dim of each such pair of one operation: keys, which go around where queries stay."""
    dims = dict(program.factor_dims[operation])
    return frozenset(dims.get(max(pair)) for pair in program.factors[operation].exchangeable)


@analysis
def conflicting_dims(program: Program) -> dict[str, frozenset[str]]:
    """Finds for each dim the dims that can share no mesh axis with it."""
    beside: dict[str, set[str]] = {dim: set() for dim in program.dims}
    for one, other in map(tuple, axis_conflicts(program)):
        beside[one].add(other)
        beside[other].add(one)
    return {dim: frozenset(others) for dim, others in beside.items()}
