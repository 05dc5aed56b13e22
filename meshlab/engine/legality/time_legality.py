"""Says, before anything is planned, what an axis in time cannot do, and how arguments and outputs are stored beside it.

    batch:micro+data          refused: write batch:data+micro, so that a device's shard is one range
    params/*: embed → micro   refused: nothing is stored split over time
    a maximum over batch      refused: it needs all micro-batches at once
    ml.dispatch, 36 places    refused over micro=ml.serial(8): a block has an eighth of an expert's places

All these are known of dims alone. Whether an iteration needs a sum over all of them is known when the program has been
planned (`plans/iterations.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from ..code.loops import trip_count
from ..code.operations import Block, Operation, Scope, walk
from ..errors import listed
from ..programs.program import Program, analysis
from ..rules.traits import TRAITS
from ..specs.in_time import minus
from ..specs.mesh import Mesh
from ..specs.spec import Axes, AxesByDim
from .refusal import Refusal, named

# What looks for elements by comparing all of them, beside reductions that are no sums.
_COMPARING = frozenset(("argmax", "argmin", "sort", "top_k"))


def time_problems(mesh: Mesh, compute: AxesByDim, stored: Mapping[str, AxesByDim]) -> list[Refusal]:
    """Returns what is wrong with how a layout writes axes in time.

    Args:
        mesh: the mesh.
        compute: the compute rules.
        stored: by place, or glob over places, its storage rules.
    """
    if not mesh.in_time:
        return []
    used = {axis for axes in compute.values() for axis in axes if axis in mesh.in_time}
    return [*_more_than_one(mesh, used), *_not_last(mesh, compute.items()), *_stored_in_time(mesh, stored)]


def whole_problems(
    program: Program, mesh: Mesh, compute: AxesByDim, scopes: Collection[Scope] = (), about: str | None = None
) -> list[tuple[Operation, Refusal]]:
    """Returns the operations that need all of a dim on an axis in time at once, each with its refusal.

    The compute rules hold in `scopes`, or everywhere where there are none. If `about` is a dim, only that is judged.
    """
    several = [axis for axis in mesh.in_time if mesh.axes[axis] > 1]  # one block is all of a dim
    on = {dim: here for dim, axes in compute.items() if (here := [axis for axis in axes if axis in several])}
    on = on if about is None else {dim: here for dim, here in on.items() if dim == about}
    alone = [
        (operation, _needs_all(operation, dim, on[dim][0]))
        for operation, dims in (_wholes(program) if on else ())
        if not scopes or operation.scope in scopes
        for dim in dims
        if dim in on
    ]
    parts = (
        (operation, refusal)
        for operation in (_senders(program) if on else ())
        if not scopes or operation.scope in scopes
        if (refusal := _uneven_places(program, mesh, compute, operation, on)) is not None
    )
    return [*alone, *parts]


@analysis
def _senders(program: Program) -> tuple[Operation, ...]:
    """Returns the operations that decide where tokens are sent."""
    each = (operation for operation in walk(program.code.block) if not operation.blocks)
    return tuple(op for op in each if (to := program.factors[op].routed) is not None and not to.followed)


def _uneven_places(
    program: Program, mesh: Mesh, compute: AxesByDim, operation: Operation, on: Mapping[str, list[str]]
) -> Refusal | None:
    """Refuses blocks of tokens among which the places of an expert cannot be divided; None where they can."""
    routed, limits, how = program.factors[operation].routed, program.factors[operation].limits, operation.params["how"]
    assert routed is not None, "it sends items"
    dims = {factor: program.dim_of(name) for factor, name in program.factor_dims[operation]}
    tokens = [dim for factor in sorted(routed.items) if (dim := dims.get(factor))]
    here = next((dim for dim in tokens if dim in on), None)
    if here is None:
        return None
    homes = {axis for factor in routed.homes for axis in compute.get(dims.get(factor) or "", ())}
    stay = dict.fromkeys(axis for dim in tokens for axis in compute.get(dim, ()) if axis not in homes)
    (room,), parts = (limits[slot] for slot in routed.slots), math.prod(mesh.axes[axis] for axis in stay)
    if room % parts == 0:
        return None
    axis, of = on[here][0], "+".join(stay)
    fits = -(-room // parts) * parts
    where = named(operation)
    text = (
        f"`{here}` cannot be on `{axis}`: {where} has {room:,} places for each expert, which the {parts:,} parts of"
        f" `{of}` do not divide."
    )
    fix = f"Give ml.dispatch the factor {how.factor_of(fits):.15g}, or take `{here}` off `{axis}`."
    return Refusal("in_time", text, fix, operation.source)


def _more_than_one(mesh: Mesh, used: set[str]) -> Iterator[Refusal]:
    if len(used) > 1:
        names = [axis for axis in mesh.in_time if axis in used]
        text = f"The layout uses {len(names)} serial axes, {listed(names)}; at most one is possible."
        first, *others = [axis for axis in mesh.in_time if axis in used]
        size = mesh.axes[first]
        for other in others:
            size *= mesh.axes[other]
        one = mesh.in_time[first].resized(size).source
        yield Refusal("in_time", text, f"Put all serial dims on one axis: {first}={one}, say.")


def _not_last(mesh: Mesh, rules: Iterable[tuple[str, Axes]]) -> Iterator[Refusal]:
    for dim, axes in rules:
        spatial = minus(axes, frozenset(mesh.in_time))
        right = (*spatial, *minus(axes, spatial))
        # What is in zig-zag order compares unequal to the same axes without.
        if tuple(axes) != right:
            noun = mesh.in_time[next(axis for axis in axes if axis in mesh.in_time)].noun
            text = f"`{dim}:{'+'.join(axes)}` has {noun} in front: a device would hold many small pieces of it."
            yield Refusal("in_time", text, f"Write `{dim}:{'+'.join(right)}`.")


def _stored_in_time(mesh: Mesh, stored: Mapping[str, AxesByDim]) -> Iterator[Refusal]:
    seen = set()
    for place, rules in stored.items():
        for dim, axes in rules.items():
            there = [axis for axis in axes if axis in mesh.in_time]
            if there and (dim, axes) not in seen:
                seen.add((dim, axes))
                text = f"At `{place}`: `{dim}` cannot be stored over `{there[0]}`: its blocks run one after the other."
                rest = "+".join(f"`{axis}`" for axis in minus(axes, tuple(there)))
                fix = f"Store it with `{dim}` on {rest}." if rest else f"Leave `{dim}` out of the rules of `{place}`."
                yield Refusal("in_time", text, fix)


def _needs_all(operation: Operation, dim: str, axis: str) -> Refusal:
    where = named(operation)
    if operation.name == "while":
        text = (
            f"`{dim}` cannot be on `{axis}`: the length of the loop {where} depends on data, so that iterations differ."
        )
    else:
        text = (
            f"`{dim}` cannot be on `{axis}`: {where} needs all of `{dim}` at once, and `{axis}` runs it block by block."
        )
    return Refusal("in_time", text, f"Take `{dim}` off `{axis}`, or do this outside the function.", operation.source)


@analysis
def _wholes(program: Program) -> tuple[tuple[Operation, tuple[str, ...]], ...]:
    """Finds the operations that need all of some dims at once, with these dims."""
    found = []
    for operation in walk(program.code.block):
        if operation.name == "while" and trip_count(operation) is None:
            found.append((operation, tuple(_dims_inside(program, operation.blocks))))
        if operation.blocks:
            continue
        along = whole_factors(program, operation)
        dims = (program.dim_of(name) for factor, name in program.factor_dims[operation] if factor in along)
        found.append((operation, tuple(dict.fromkeys(dim for dim in dims if dim))))
    return tuple((operation, dims) for operation, dims in found if dims)


def whole_factors(program: Program, operation: Operation) -> frozenset[int]:
    """Returns the factors of an operation without blocks of which it needs all at once: it takes no sum over them."""
    traits, factors = TRAITS.get(operation.name), program.factors[operation]
    if operation.name in _COMPARING:
        return factors.per_shard | factors.unsharded
    # Each block of tokens has places of its own, as each device has; experts are needed by every block.
    if factors.routed is not None and not factors.routed.followed:
        return factors.routed.places
    return factors.per_shard if traits is not None and traits.joins not in (None, "sum") else frozenset()


def _dims_inside(program: Program, blocks: Iterable[Block]) -> dict[str, None]:
    values = (v for block in blocks for op in walk(block) for v in (*op.reads, *op.outputs))
    return dict.fromkeys(dim for value in values for dim in program.dims_of(value) if dim)


def cut_behind(program: Program, looped: frozenset[str], every: Iterable[AxesByDim]) -> AxesByDim:
    """Returns over which axes of devices blocks are cut: the most that any rule has in front of an axis in time.

    Dims that are renames of each other are cut alike: their elements are the same.

    Args:
        program: the program.
        looped: the axes in time that are used.
        every: the compute rules, and those of scopes.
    """
    fronts: dict[str, Axes] = {}
    for rules in every:
        for dim, axes in rules.items():
            if not looped.isdisjoint(axes):
                fronts[dim] = max(fronts.get(dim, ()), minus(axes, looped), key=len)
    for renames in _renames(program) if fronts else ():
        most = max((fronts[dim] for dim in renames if dim in fronts), key=len, default=None)
        fronts |= dict.fromkeys(renames, most) if most is not None else {}
    return fronts


@analysis
def _renames(program: Program) -> tuple[tuple[str, ...], ...]:
    """Groups the dims that are renames of each other."""
    groups = {dim: {dim} for dim in program.dims}
    for operation in walk(program.code.block):
        if operation.name == "rename":
            for before, after in zip(operation.params["before"], operation.params["after"], strict=True):
                if before in groups and after in groups:
                    groups[before] |= groups[after]
                    groups |= dict.fromkeys(groups[before], groups[before])
    different = {id(group): group for group in groups.values() if len(group) > 1}
    return tuple(tuple(sorted(group)) for group in different.values())


def storage_in_time(
    program: Program, looped: frozenset[str], compute: AxesByDim, own_rules: Mapping[str, AxesByDim]
) -> Mapping[str, AxesByDim]:
    """Returns the storage rules of all places beside axes in time.

    Arguments and outputs are stored as if the axes were not there. A tag with rules of its own is stored in an
    iteration: what its rules say of a dim goes on over the axis in time on which the dim is computed.

    Args:
        program: the program.
        looped: the axes in time that are used.
        compute: the compute rules.
        own_rules: by place, the storage rules of the layout.
    """
    in_time = {dim: axes for dim, axes in compute.items() if not looped.isdisjoint(axes)}
    whole = {dim: minus(axes, looped) for dim, axes in in_time.items()}
    known: dict[int, AxesByDim] = {}
    storage: dict[str, AxesByDim] = {}
    for place in program.places:
        own = own_rules.get(place)
        if place in program.marks:
            if own is not None:
                last = {
                    d: (*minus(own[d], looped), *(a for a in in_time[d] if a in looped)) for d in own if d in in_time
                }
                storage[place] = known.setdefault(-id(own), {**own, **last})
        else:
            storage[place] = known.setdefault(id(own), {**whole, **(own or {})})
    return storage
