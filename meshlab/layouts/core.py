"""Checks the scope that is given for attention's core: what relates positions, and no projections.

    with jax.named_scope("core"):                      scores, softmax, their product with the values: heads are split
    nn.MultiHeadDotProductAttention(name="attention")  the same, and in scopes inside of it the four projections

A projection contracts the sequence with a parameter. Split by heads it needs whole sequences, and all-gathers them in
the place of an all-to-all. Of a module that holds both, the projections are taken out again by rules of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.code.loops import LOOPS, carried
from ..engine.code.operations import Operation, Scope, walk
from ..engine.errors import DimError, closest, first_of, listed, shown
from ..engine.programs.program import Program, analysis
from ..engine.programs.rename import renamed
from ..engine.programs.scoped import scopes
from ..engine.programs.trained import trained
from ..engine.specs.layout import Layout
from ..engine.specs.scopes import matches, path
from ..engine.specs.spec import Axes
from .keys import glob_of, key_names, keys_of
from .request import Request

_OPEN = 'with jax.named_scope("core"): …'


def is_scope(request: Request, core: Any) -> bool:
    """Says whether some operation is in the scope that is given; notes a problem where there is none."""
    known = scopes(request.program)
    names = listed(dict.fromkeys(f"@{name}" for scope in known for name in scope))
    if not isinstance(core, str) or not core.startswith("@"):
        text = f"core={shown(core)} is not a scope: a scope begins with `@`."
        there = isinstance(core, str) and any(matches(core, scope) for scope in known)
        fix = f'Write core="@{core}".' if there else f'Write core="@…"; the program\'s scopes are {names}.'
        request.refuse("unknown_scope", text, fix)
        return False
    if not any(matches(core, scope) for scope in known):
        text = f"No operation is in a scope `{core}`; the program's scopes are {names}."
        near = closest(core, {f"@{name}" for scope in known for name in scope})
        fix = f"Open one around the scores, the softmax and the second matmul, {_OPEN}; or name an existing one:"
        request.refuse("unknown_scope", text, f'{fix} core="@…".{near}')
        return False
    return True


def refuse_projections(request: Request, names: Sequence[str], heads: Sequence[str], axes: Axes, core: str):
    """Refuses a core in which parameters are contracted with the sequence: says what would do instead.

    Args:
        request: of the preset.
        names: the dims of the sequence.
        heads: the dims that are split in its stead.
        axes: the mesh axes.
        core: the scope.
    """
    inside = _projections(request.program, names, core)
    if not inside:
        return
    places = [f"`{op.name}` at {op.source} in `@{path(op.scope)}`" for op in _first_of_each_scope(inside)]
    text = f"`{core}` holds projections, which contract the sequence with parameters: {first_of(places, 4)}."
    why = "There they would have to gather whole sequences."
    relating = _relating(request.program, names, core)
    instead = _without(relating, {operation.scope for operation in inside})
    fix = f'Take core="{instead}".' if instead else _by_hand(request, names, heads, axes, core) if relating else ""
    fix = fix or f"Open a scope around only the scores, the softmax and the second matmul, {_OPEN}."
    request.refuse("unknown_scope", f"{text} {why}", fix)


def _first_of_each_scope(operations: Sequence[Operation]) -> list[Operation]:
    return list({operation.scope: operation for operation in reversed(operations)}.values())[::-1]


def _projections(program: Program, names: Sequence[str], core: str) -> list[Operation]:
    """Lists the contractions of one position of a sequence with parameters in a scope, those of the forward pass."""
    keys, found = key_names(program, names), []
    for operation in walk(program.code.block):
        if operation.name == "dot_general" and not operation.backward and matches(core, operation.scope):
            weights = [is_weight(program, value, {*names, *keys}) for value in operation.reads]
            dims = [set(program.names[v]) for v, weight in zip(operation.reads, weights, strict=True) if not weight]
            # What has positions of both relates them, as a bias by their distance does.
            if len(weights) == 2 and len(dims) == 1 and bool(dims[0] & set(names)) != bool(dims[0] & keys):
                found.append(operation)
    return found


def is_weight(program: Program, value: int, positions: set[str]) -> bool:
    """Says whether a value is made of parameters alone; where a program does not tell them, of no positions."""
    parameters = {program.arguments[position].value for position in trained(program).parameters}
    waiting, seen, ends = [value], set[int](), set[int]()
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        if positions & set(program.names[number]) or number in _changing(program):
            return False
        outside = program.outermost(number)
        maker = program.makers.get(number)
        ends |= set() if maker or outside != number else {number}
        waiting += maker.reads if maker else (outside,)
    arguments = ends & {argument.value for argument in program.arguments}
    return bool(arguments) and (not parameters or arguments <= parameters)


@analysis
def _changing(program: Program) -> frozenset[int]:
    """Returns the values that loops carry from iteration to iteration and change, as they are inside."""
    return frozenset(
        before
        for operation in walk(program.code.block)
        if operation.name in LOOPS and operation.body
        for before, after in list(zip(operation.body.inputs, operation.body.outputs, strict=False))[
            : carried(operation)
        ]
        if before != after
    )


def _relating(program: Program, names: Sequence[str], core: str) -> list[Scope]:
    """Lists the scopes in a core in which operations of the forward pass have two positions: a query's and a key's."""
    keys, there = key_names(program, names), dict[Scope, None]()
    for operation in walk(program.code.block):
        if matches(core, operation.scope) and not operation.backward:
            values = [set(program.names[value]) for value in (*operation.reads, *operation.outputs)]
            if any(dims & keys and dims & set(names) for dims in values):
                there[operation.scope] = None
    return list(there)


def _without(relating: Sequence[Scope], projecting: set[Scope]) -> str:
    """Returns the shortest glob over all scopes that relate positions, and none of those with projections."""
    first = next(iter(relating), ())
    runs = (first[start:end] for start in range(len(first)) for end in range(start + 1, len(first) + 1))
    for run in sorted(runs, key=len):
        glob = f"@{path(run)}"
        if all(matches(glob, scope) for scope in relating) and not any(matches(glob, scope) for scope in projecting):
            return glob
    return ""


def _by_hand(request: Request, names: Sequence[str], heads: Sequence[str], axes: Axes, core: str) -> str:
    """Writes the layout that splits heads in the core and the sequence in its projections; "" where none is legal."""
    program, first = request.program, ""
    unnamed = sorted(name for name in key_names(program, names) if name.startswith("~"))
    if unnamed and "kv" not in program.dims:
        try:
            program = renamed(program, dict.fromkeys(unnamed, "kv"), {})
            write = ", ".join(f'"{name}": "kv"' for name in unnamed)
            first = f"First program = program.rename({{{write}}}). "
        except DimError:  # then the layout without it is legal as well
            program = request.program
    keys = keys_of(program, names)
    rules: dict[str, Any] = dict.fromkeys(names, axes)
    rules[core] = dict.fromkeys((*names, *keys)) | dict.fromkeys(heads, axes)
    alone = {op.scope for op in _projections(program, names, core)}
    for scope in [scope for scope in scopes(program) if scope in alone]:
        glob = glob_of(scope, alone, scopes(program))
        there = program.dims_by_scope.get(scope, frozenset())
        own = dict.fromkeys((*names, *keys), axes) | dict.fromkeys(heads)
        rules[glob] = {dim: where for dim, where in own.items() if dim in there}
    own_request = Request("context_parallel", program, request.mesh)
    if "" in rules or not own_request.fits(rules):
        return ""
    return f"{first}Write it by hand: {Layout.of(rules).to_dict()}."
