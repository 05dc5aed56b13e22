"""Finds attention in programs that are written without `ml.attention`, and makes it that operation.

    scores = dot(q, k); weights = softmax(scores); out = dot(weights, v)        →   attention(q, k, v)
    dv = dot(weights, dout); dq = dot(of_scores, k); dk = dot(of_scores, q)     →   attention_grad(q, k, v, out, dout)

Written with arrays, scores have a dim of the queries and one of the keys, and no mesh axis may split both. So a program
is planned as it stands, until a layout puts both on one axis: only then is there something that the operation alone can
do, and every layout that was legal before plans as before. What reads scores otherwise (a learned bias, dropout) stays
as it is, and legality refuses the layout there, with its line.

The backward pass computes the result again, from the operands: where the forward pass is in the same block both are
equal operations, and one of them goes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from ..passes.normalize import drop_dead, normalize
from ..programs.axis_conflicts import axis_conflicts, conflicts_by_scope, exchangeable_dims
from ..programs.program import Program, analysis
from ..specs.mesh import Mesh
from ..specs.scopes import rules_in
from ..specs.spec import AxesByDim
from .emit import Emitter
from .scores import attentions
from .softmaxes import Softmaxes
from .stacks import without_stacks
from .uses import Uses, found

Traced = TypeVar("Traced", bound=Program)


def under(program: Traced, mesh: Mesh, compute: AxesByDim, scoped: Sequence[tuple[str, AxesByDim]]) -> Traced:
    """Returns the program as rules need it, everywhere and by scope: with operations, where a ring is asked for."""
    devices = {axis for axis, size in mesh.devices.axes.items() if size > 1}
    for query, key in positions(program):
        for scope, conflicts in conflicts_by_scope(program).items():
            if frozenset((query, key)) in conflicts:
                rules = rules_in(scope, compute, scoped)
                if devices.intersection(rules.get(query, ())).intersection(rules.get(key, ())):
                    return recognised(program, query, key)
    return program


@analysis
def positions(program: Program) -> tuple[tuple[str, str], ...]:
    """Returns the dims of positions, of queries and of keys, of scores that are arrays; with names of the user's."""
    pairs = {}
    for kind in sorted(attentions(program), key=lambda kind: sorted(map(str, (*kind.queries, *kind.keys)))):
        if len(kind.keys) == 1:
            (key,) = kind.keys
            pairs.update({(query, key): None for query in sorted(map(str, kind.queries))})
    return tuple((q, k) for q, k in pairs if q in program.dims and k in program.dims)


def around(program: Program) -> tuple[tuple[str, str], ...]:
    """Returns the dims of positions, of queries and of keys, that a layout may put on one axis: a ring."""
    known = [pair for pair in positions(program) if frozenset(pair) not in axis_conflicts(recognised(program, *pair))]
    return tuple(dict.fromkeys((*exchangeable_dims(program), *known)))


@analysis
def unnamed_keys(program: Program) -> tuple[str, ...]:
    """Returns the made-up names of the positions of keys, which `program.rename` makes dims."""
    keys = {name: None for kind in attentions(program) for name in sorted(map(str, kind.keys)) if len(kind.keys) == 1}
    return tuple(name for name in sorted(keys) if name.startswith("~"))


@analysis
def _recognised(_program: Program) -> dict[tuple[str, str], Program]:
    """Returns the memo of the programs in which attention is an operation, by the dims of the positions."""
    return {}


def recognised(program: Traced, query: str, key: str) -> Traced:
    """Returns the program with all attention between these positions as operations; itself where none is recognised."""
    known = _recognised(program)
    if (query, key) not in known:
        softmaxes = Softmaxes(program, query, key)
        uses = found(softmaxes)
        known[query, key] = _with(program, Emitter(softmaxes), uses) if uses else program
    return known[query, key]  # pyright: ignore[reportReturnType]: replaced, a program is of the same class


def _with(program: Program, emitter: Emitter, uses: list[Uses]) -> Program:
    """Returns a program in which some uses of scores are operations."""
    for use in uses:
        emitter.emit(use)
    code = emitter.replaced()
    block = drop_dead(code.block)
    # A loop that reads stacks of scores no longer does, and then another no longer stacks them.
    for _ in range(2):
        block = drop_dead(without_stacks(block))
    code = dataclasses.replace(code, block=block)
    new = dataclasses.replace(program, unmerged=code, names=(*program.names, *emitter.names))
    return dataclasses.replace(new, code=normalize(code, new.merge_names, new.scope_class))
