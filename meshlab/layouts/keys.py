"""Splits the keys' positions like the sequence that they are, where attention calls them by a name of their own.

    scores = jnp.einsum("bshd,bthd->bhst", q, k)       [batch, heads, seq, ~seq]
    program = program.rename({"~seq": "kv"})           a made-up name is no dim that a layout can address

In the backward pass the gradients of keys and values leave attention's core with that dim, and meet the sequence
again behind their projections. Left whole there they would be gathered, or all-reduced, and not exchanged, or
reduce-scattered. Where the keys are renamed in the core (`keys.rename(seq="kv")`) no such dim leaves it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..engine.attention.scores import attentions
from ..engine.code.operations import Scope, walk
from ..engine.legality.asked import as_asked
from ..engine.programs.axis_conflicts import conflicts_by_scope
from ..engine.programs.program import Program
from ..engine.programs.scoped import scopes
from ..engine.specs.layout import Layout
from ..engine.specs.scopes import matches, path
from ..engine.specs.spec import Axes
from .request import Request

Rules = Mapping[str, Any]


def with_keys(request: Request, rules: Rules, names: Sequence[str], axes: Axes, core: str) -> Rules:
    """Returns rules that split the keys' positions as well, wherever they leave the core of attention.

    Args:
        request: of the preset.
        rules: those for the sequence.
        names: its dims.
        axes: the mesh axes that it is on.
        core: the scope in which the keys' positions are whole, if the program has it.

    Returns:
        The first of these that is legal: a plain rule, with the core left out; a rule in each scope in which the keys'
        positions do not meet the queries', as in the projections; the rules as they were.
    """
    program = request.program
    there = _gradients(program, core)
    keys = [dim for dim in keys_of(program, names) if any(dim in dims for dims in there.values())]
    if not keys:
        return rules
    plain = {key: rule for key, rule in rules.items() if not key.startswith("@")}
    whole = {core: {**rules.get(core, {}), **dict.fromkeys(keys)}} if _known(program, core) else {}
    projected = {glob: dict.fromkeys(dims, axes) for glob, dims in _projections(program, names, keys, there).items()}
    for candidate in ({**plain, **dict.fromkeys(keys, axes), **whole}, {**plain, **projected, **whole}):
        # Where it would make attention one operation, it is a ring, and another preset.
        if request.fits(candidate) and as_asked(program, request.mesh, Layout.of(candidate)) is program:
            return candidate
    return rules


def keys_of(program: Program, names: Sequence[str]) -> list[str]:
    """Lists the dims of the keys that the queries of a sequence attend to, of its size and under other names."""
    keys, sizes = key_names(program, names), {program.dims[name] for name in names}
    return [dim for dim, size in program.dims.items() if dim in keys and size in sizes]


def key_names(program: Program, names: Sequence[str]) -> set[str]:
    """Returns the names of the keys that the queries of a sequence attend to, made-up ones as well."""
    kinds = [kind for kind in attentions(program) if kind.queries & set(names)]
    return {name for kind in kinds for name in kind.keys if name} - set(names)


def _known(program: Program, glob: str) -> bool:
    return any(matches(glob, scope) for scope in scopes(program))


def _gradients(program: Program, core: str) -> dict[Scope, frozenset[str]]:
    """Returns the dims of gradients that are contracted in each scope outside of the core, where keys are projected."""
    dims: dict[Scope, set[str]] = {}
    for operation in walk(program.unmerged.block):
        contracts = operation.backward and operation.name == "dot_general"
        if contracts and not matches(core, operation.scope):
            values = (*operation.reads, *operation.outputs)
            dims.setdefault(operation.scope, set()).update(d for v in values for d in program.dims_of(v) if d)
    return {scope: frozenset(those) for scope, those in dims.items()}


def _projections(
    program: Program, names: Sequence[str], keys: Sequence[str], there: Mapping[Scope, frozenset[str]]
) -> dict[str, list[str]]:
    """Returns globs over the scopes in which keys' positions do not meet the queries', and which of them each has."""
    pairs, met = {frozenset((name, key)) for name in names for key in keys}, conflicts_by_scope(program)
    apart = frozenset(scope for scope in scopes(program) if pairs.isdisjoint(met.get(scope, ())))
    found: dict[str, list[str]] = {}
    for scope in (scope for scope in there if scope in apart):
        here = [key for key in keys if key in there[scope]]
        if here and (glob := glob_of(scope, apart, scopes(program))):
            found[glob] = sorted({*found.get(glob, ()), *here})
    return dict(sorted(found.items()))


def glob_of(scope: Scope, allowed: Collection[Scope], known: Sequence[Scope]) -> str:
    """Returns the shortest glob that matches a scope, and of those known only ones that are allowed; "" for none."""
    for start in range(len(scope) - 1, -1, -1):
        glob = f"@{path(scope[start:])}"
        if matches(glob, scope) and all(other in allowed for other in known if matches(glob, other)):
            return glob
    return ""
