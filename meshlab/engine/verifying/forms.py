"""What several rules of a layout only make together, for random layouts to begin with: a table of forms.

    ring             seq:a kv:a                     zig-zag    seq:zigzag(a) kv:zigzag(a)
    USP              seq:a+b kv:a+b · @core: seq:a kv:a heads:b
    dropless         batch:a experts:a              gathered   batch:a experts:a · @experts: batch:whole
    pipeline 1f1b    batch:a+t layers:pipe

Rules that are drawn one by one hardly ever meet like this. What a form needs is found in the program by what its
operations do, and no name matters but that of the batch. `shown` says of a plan which forms it has, however it came to
them, so that who draws can count what was seen.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..attention.recognise import around, positions, recognised
from ..code.loops import is_reversed
from ..code.operations import Operation, Scope, walk
from ..programs.axis_conflicts import exchangeable_dims, scanned_dims
from ..programs.program import Program, analysis
from ..programs.zigzagged import position_pairs
from ..specs.mesh import Mesh
from ..specs.spec import Axes
from ..specs.zigzag import Zigzag, ordered_as
from .drawn_meshes import ODD_STAGED, SCHEDULES, STAGED, Turn

# By dim its axes, by place or scope a dict of such.
Rules = dict[str, Any]
# What is split into micro-batches.
BATCH = ("batch", "groups")


@dataclasses.dataclass(frozen=True)
class Form:
    """What a layout may begin with.

    Attributes:
        name: what it is called.
        places: where a program may have it; nothing where it never has.
        rules: those that make it, on axes that are drawn; none where the mesh has too few.
        shown: whether a plan of a program has it.
        turns: the meshes that it is for, with whether plans pad; None: any.
    """

    name: str
    places: Callable[[Program], Sequence[Any]]
    rules: Callable[[Program, Mesh, random.Random], Rules]
    shown: Callable[[Program, Any], bool]
    turns: Sequence[Turn] | None = None


def forms_of(program: Program) -> list[Form]:
    """Returns the forms that layouts of a program may have."""
    return [form for form in FORMS.values() if form.places(program)]


def shown(program: Program, plan: Any) -> list[str]:
    """Returns the names of the forms that a plan of a program has."""
    return [form.name for form in FORMS.values() if form.places(program) and form.shown(program, plan)]


def drawn_axes(mesh: Mesh, chance: random.Random, least: int = 1) -> tuple[str, ...]:
    """Draws one axis of devices, or more; none where the mesh has too few. Stages are for layers alone."""
    names = [name for name in mesh.devices.axes if name not in mesh.stages]
    chance.shuffle(names)
    several = len(names) > 1 and chance.random() < 0.2
    return tuple(names[: max(least, 2 if several else 1)]) if len(names) >= least else ()


def _alone(program: Program) -> Iterator[Operation]:
    """Yields the operations that have none inside."""
    return (operation for operation in walk(program.code.block) if not operation.blocks)


# --- attention --------------------------------------------------------------------------------------------------------


class _Attention(NamedTuple):
    """An attention of a program: its scope, the dims of its positions, and those of queries and keys alike."""

    scope: Scope
    query: str
    key: str
    beside: tuple[str, ...]


@analysis
def _attentions(program: Program) -> tuple[_Attention, ...]:
    """Finds attention that is one operation, or is recognised."""
    found = {}
    for each in (program, *(recognised(program, *pair) for pair in positions(program))):
        for operation in _alone(each):
            factors = each.factors[operation]
            dims = {factor: dim for factor, dim in each.factor_dims[operation] if dim}
            for pair in factors.exchangeable:
                query, key = (dims.get(factor) for factor in sorted(pair))
                alike = (*(f for f in factors.operands[0] if f in factors.operands[1] and f not in factors.unsharded),)
                beside = (*(dims[factor] for factor in alike if factor in dims),)
                if query and key:
                    found[_Attention(operation.scope, query, key, beside)] = None
    return (*(each for each in found if each[1:3] in around(program)),)


@analysis
def _scoped(program: Program) -> tuple[_Attention, ...]:
    return (*(each for each in _attentions(program) if each.scope and each.beside),)


@analysis
def _causal(program: Program) -> tuple[tuple[str, str], ...]:
    """Returns the positions that may be in zig-zag order."""
    every = (program, *(recognised(program, *pair) for pair in positions(program)))
    return (*dict.fromkeys(pair[1:] for each in every for pair in position_pairs(each) if pair[1:] in around(program)),)


def _ring(program: Program, mesh: Mesh, chance: random.Random) -> Rules:
    return dict.fromkeys(chance.choice(around(program)), drawn_axes(mesh, chance))


def _zigzag(program: Program, mesh: Mesh, chance: random.Random) -> Rules:
    """Both positions in order, or where attention is one operation one of them."""
    query, key = chance.choice(_causal(program))
    whole = (query, key) in exchangeable_dims(program)
    dims = chance.choice([(query, key), (query, key), (query,), (key,)]) if whole else (query, key)
    return dict.fromkeys(dims, Zigzag(drawn_axes(mesh, chance)))


def _flash_decoding(program: Program, mesh: Mesh, chance: random.Random) -> Rules:
    return {chance.choice(exchangeable_dims(program))[1]: drawn_axes(mesh, chance)}


def _usp(program: Program, mesh: Mesh, chance: random.Random) -> Rules:
    """Positions on two axes, and inside on one of them, beside other dims on the other; zig-zag at times."""
    at, axes = chance.choice(_scoped(program)), drawn_axes(mesh, chance, 2)[:2]
    if not axes:
        return {}
    ordered = at[1:3] in _causal(program) and chance.random() < 0.4
    ring = dict.fromkeys(at[1:3], Zigzag(axes[:1]) if ordered else axes[:1])
    outside = dict.fromkeys(at[1:3], axes if chance.random() < 0.5 else axes[::-1])
    return {**outside, f"@{at.scope[-1]}": {**ring, chance.choice(at.beside): axes[1:]}}


def _ulysses(program: Program, mesh: Mesh, chance: random.Random) -> Rules:
    at, axes = chance.choice(_scoped(program)), drawn_axes(mesh, chance)
    return {at.query: axes, f"@{at.scope[-1]}": {at.query: None, at.key: None, chance.choice(at.beside): axes}}


class _Split(NamedTuple):
    """How an attention is split: its queries, keys and what is beside them; and the queries outside of its scope."""

    queries: Axes
    keys: Axes
    beside: Axes
    outside: Axes


def _splits(program: Program, plan: Any) -> Iterator[_Split]:
    for at in _attentions(program):
        rules = plan.rules.within(at.scope)
        beside = (*(axis for dim in at.beside for axis in rules.get(dim, ())),)
        outside = plan.rules.compute.get(at.query, ())
        yield _Split(rules.get(at.query, ()), rules.get(at.key, ()), beside, outside)


def _is_ring(program: Program, plan: Any) -> bool:
    return any(split.queries and split.queries == split.keys for split in _splits(program, plan))


def _is_flash_decoding(program: Program, plan: Any) -> bool:
    return any(split.keys and not {*split.keys} & {*split.queries} for split in _splits(program, plan))


def _leaves(inside: bool, program: Program, plan: Any) -> bool:
    """Whether queries leave an axis to what is beside them: all their axes, or all but those of a ring."""
    return any(
        ({*split.outside} - {*split.queries}) & {*split.beside}
        and bool(split.queries) == inside
        and (not inside or split.queries == split.keys)
        for split in _splits(program, plan)
    )


# --- experts ----------------------------------------------------------------------------------------------------------


class _Dispatch(NamedTuple):
    """What sends tokens to experts: the dims of both, and the scope."""

    scope: Scope
    tokens: str
    experts: str


@analysis
def _dispatches(program: Program) -> tuple[_Dispatch, ...]:
    """Finds `ml.dispatch`: no operation but the one that decides how rows are split follows no other."""
    found = {}
    for operation in _alone(program):
        routed = program.factors[operation].routed
        if routed is not None and routed.items and not routed.followed:
            dims = {factor: dim for factor, dim in program.factor_dims[operation] if dim}
            for tokens in (dims[factor] for factor in sorted(routed.items) if factor in dims):
                for experts in (dims[factor] for factor in routed.homes if factor in dims):
                    found[_Dispatch(operation.scope, tokens, experts)] = None
    return (*found,)


@analysis
def _scoped_dispatches(program: Program) -> tuple[_Dispatch, ...]:
    return (*(each for each in _dispatches(program) if each.scope),)


@analysis
def _renamed(program: Program) -> tuple[_Dispatch, ...]:
    """Finds dims that one rename takes from places of one kind to such of another: tokens with room at experts."""
    found = {}
    for operation in walk(program.code.block):
        if operation.name == "rename":
            before, after = program.dims_of(operation.reads[0]), program.dims_of(operation.outputs[0])
            changed = [place for place, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
            for one in changed:
                for other in changed:
                    tokens, experts = before[one], after[other]
                    if one != other and tokens in program.dims and experts in program.dims and tokens and experts:
                        found[_Dispatch(operation.scope, tokens, experts)] = None
    return (*found,)


def _on_both(places: Callable[[Program], Sequence[_Dispatch]]) -> Callable[[Program, Mesh, random.Random], Rules]:
    def rules(program: Program, mesh: Mesh, chance: random.Random) -> Rules:
        at = chance.choice(places(program))
        return dict.fromkeys((at.tokens, at.experts), drawn_axes(mesh, chance))

    return rules


def _gathered(program: Program, mesh: Mesh, chance: random.Random) -> Rules:
    at, axes = chance.choice(_scoped_dispatches(program)), drawn_axes(mesh, chance)
    return {at.tokens: axes, at.experts: axes, f"@{at.scope[-1]}": {at.tokens: None}}


def _meet(places: Callable[[Program], Sequence[_Dispatch]], inside: bool, program: Program, plan: Any) -> bool:
    """Whether tokens and experts are on one axis, in the scope of what sends them or around it alone."""
    for at in places(program):
        rules = plan.rules.within(at.scope)
        homes = {*rules.get(at.experts, ())}
        there, around_it = homes & {*rules.get(at.tokens, ())}, homes & {*plan.rules.compute.get(at.tokens, ())}
        if there if inside else around_it and not there:
            return True
    return False


# --- pipelines --------------------------------------------------------------------------------------------------------


@analysis
def _layers(program: Program) -> tuple[str, ...]:
    """Returns the dims that scans step through forward and back, and weights have."""
    if not any(dim in program.dims for dim in BATCH):
        return ()
    weights = {dim for argument in program.arguments for dim in program.dims_of(argument.value)}
    scans = [each for each in program.code.block.operations if each.name == "scan" and is_reversed(each)]
    firsts = {program.dims_of(value)[:1] for scan in scans for value in (*scan.reads, *scan.outputs)}
    return (*(dim for dim in scanned_dims(program) if dim in weights and (dim,) in firsts),)


def _pipeline(program: Program, mesh: Mesh, chance: random.Random) -> Rules:
    """Layers on stages and the batch in time; every second one with another form beside."""
    (pipe,), (micro,) = mesh.stages, mesh.in_time
    others = [form for form in forms_of(program) if form.turns is None]
    beside = chance.choice(others).rules(program, mesh, chance) if others and chance.random() < 0.5 else {}
    axes = drawn_axes(mesh, chance) if chance.random() < 0.7 else ()
    beside = beside if all(beside.values()) else {}
    rules = dict(beside)
    for dim in (dim for dim in BATCH if dim in program.dims):
        now = rules.get(dim, () if beside else axes)
        rules[dim] = ordered_as(now, (*now, micro))
    return rules | {chance.choice(_layers(program)): (pipe,)}


def _runs(schedule: str, _program: Program, plan: Any) -> bool:
    return plan.schedule is not None and plan.schedule.name == schedule


def _staged(schedule: str) -> Form:
    def places(program: Program) -> Sequence[str]:
        """The dims that the fewest stages divide."""
        chunks = min(axis.size * axis.chunk_count for mesh in of(STAGED) for axis in mesh.stages.values())
        return [dim for dim in _layers(program) if program.dims[dim] % chunks == 0]

    def of(meshes: Sequence[Mesh]) -> list[Mesh]:
        return [mesh for mesh in meshes for stages in mesh.stages.values() if stages.schedule == schedule]

    turns = ((of(STAGED), False), (of(ODD_STAGED), True))
    return Form(f"pipeline {schedule}", places, _pipeline, functools.partial(_runs, schedule), turns)


_EVERY = (
    Form("ring", around, _ring, _is_ring),
    Form("zig-zag", _causal, _zigzag, lambda _program, plan: bool(plan.program.zigzags)),
    Form("flash decoding", exchangeable_dims, _flash_decoding, _is_flash_decoding),
    Form("USP", _scoped, _usp, functools.partial(_leaves, True)),
    Form("Ulysses", _scoped, _ulysses, functools.partial(_leaves, False)),
    Form("capacity", _renamed, _on_both(_renamed), functools.partial(_meet, _renamed, True)),
    Form("dropless", _dispatches, _on_both(_dispatches), functools.partial(_meet, _dispatches, True)),
    Form("gathered", _scoped_dispatches, _gathered, functools.partial(_meet, _scoped_dispatches, False)),
    *map(_staged, SCHEDULES),
)
FORMS = {form.name: form for form in _EVERY}
