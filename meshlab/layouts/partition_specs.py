"""Reads `PartitionSpec`s, as people have them for `jax.jit(in_shardings=...)`, as a layout of one program.

    specs = {"w1": P(None, "model"), "w2": P("model")}, P("data")          of the arguments: params, x
    ml.layouts.from_partition_specs(specs, program, mesh)                  batch:data hidden:model

    inputs, outputs = plan.partition_specs
    ml.layouts.from_partition_specs(inputs, program, mesh, outputs=outputs)

The layout gives exactly these specs back in `plan.partition_specs`, or there is an error that lists why none does. The
specs say how arguments are stored, and leave what is computed to XLA, which spreads them; a layout says that too. So a
dim gets a plain rule where the specs agree: the mesh axes with which all parameters and data begin that store it
sharded, as far as no dim that it meets in an operation has them. Data come first, so that fully sharded parameters are
stored over the batch's axis and gathered; the optimizer's state is not asked. Whatever is stored otherwise is a rule at
places (`given_globs.py`). A plain rule changes only where work is done and what is sent, never what is stored, nor a
result.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from ..engine.errors import closest, listed, shown, some
from ..engine.legality.uneven import uneven
from ..engine.programs.axis_conflicts import conflicting_dims, scanned_dims
from ..engine.programs.program import Program
from ..engine.programs.rename import made_up
from ..engine.programs.trained import trained
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes, fitting
from ..engine.tensors.trees import placed_leaves
from .given_globs import layout_of, source
from .request import WITHOUT_TIME, Request

Stored = Mapping[str, Axes]


def from_partition_specs(specs: Any, program: Program, mesh: Mesh, *, outputs: Any = None) -> Layout:
    """Returns the layout under which a program's arguments are stored as `PartitionSpec`s say.

    Args:
        specs: a tuple with a tree of specs for each argument, as `jax.jit` takes in `in_shardings`; or a dict of specs
            by place. One spec stands for all below it; None leaves an argument stored as it is computed.
            `NamedSharding`s will do.
        program: the program.
        mesh: its mesh.
        outputs: the same for the outputs: a tree like theirs, or a dict by place. Those that are not said are stored as
            the arguments that they are the next values of, or as they are computed.

    Raises:
        LayoutError: no layout gives these specs.
    """
    request = Request("from_partition_specs", program, mesh, first="specs, ")
    given = _matched(request, _of_arguments(request, specs), [a.place for a in program.arguments], "argument")
    given |= _matched(request, _of_outputs(outputs), program.outputs, "output")
    stored = {place: _stored(request, place, spec) for place, spec in given.items() if spec is not None}
    computed = _computed(request, stored)
    return request.layout(None if request.problems else layout_of(program, stored, computed))


# What is given for each place


def _placed(name: str, tree: Any) -> list[tuple[str, Any]]:
    """Returns the specs in a tree, each with its place."""
    return placed_leaves(name, tree, is_leaf=lambda node: node is None or isinstance(node, PartitionSpec))


def _of_arguments(request: Request, specs: Any) -> list[tuple[str, Any]]:
    """Returns the specs of the arguments, each with a place that it is for, or that is above those."""
    names = request.program.parameters
    if isinstance(specs, Mapping):
        return [(place.removeprefix("/"), spec) for place, spec in _placed("", specs)]
    if not isinstance(specs, tuple | list):
        return [(name, specs) for name in names]
    if len(specs) != len(names):
        text = f"{len(specs)} trees of specs were given for {len(names)} arguments."
        request.refuse("unknown_place", text, f"Give one for each of {listed(names)}.")
    return [leaf for name, tree in zip(names, specs, strict=False) for leaf in _placed(name, tree)]


def _of_outputs(outputs: Any) -> list[tuple[str, Any]]:
    """Returns the specs of the outputs, each with its place, which the keys of a dict may be already."""
    by_place = isinstance(outputs, Mapping) and all(str(key).split("/")[0] == "out" for key in outputs)
    return [(place.removeprefix("out/") if by_place else place, spec) for place, spec in _placed("out", outputs)]


def _matched(request: Request, given: Iterable[tuple[str, Any]], places: Iterable[str], what: str) -> dict[str, Any]:
    """Returns the spec of each place; of outputs, if any is given, and None where it is left open."""
    given, places = list(given), list(places)
    if what == "output" and all(spec is None for _, spec in given):
        return {}
    matched: dict[str, Any] = {}
    for above, spec in given:
        below = [place for place in places if place == above or place.startswith(f"{above}/")]
        nothing = spec is None or above in request.program.parameters  # trees of arrays have None, and may be empty
        if not below and not nothing:
            near = closest(above, (*places, *map(os.path.dirname, places))).strip()
            request.refuse("unknown_place", f"`{above}` is not an {what} of this program.", near or _there(places))
        for place in below:
            if place in matched:
                text = f"`{place}` is given two specs: {shown(matched[place])} and {shown(spec)}."
                request.refuse("conflict", text, "Leave one of them out.")
            matched[place] = spec
    for place in (place for place in places if place not in matched):
        request.refuse("unknown_place", f"`{place}` is given no spec.", "Give it one, P() if it is replicated.")
    return matched


def _there(places: list[str]) -> str:
    return f"There are {some(places, 12)}."


# What a spec says of the dims


def _stored(request: Request, place: str, spec: Any) -> Stored:
    """Returns the mesh axes that a spec gives each dim of a value; notes a problem for what cannot be said."""
    program, number = request.program, request.program.places_values.get(place)
    names = program.names[number] if number is not None else ()
    shape = program.code.shapes[number] if number is not None else ()
    where = f"At `{place}`: "
    entries = _entries(request, where, spec, len(names))
    axes = [_axes(request, where, entry) for entry in entries]
    twice = [axis for axis in request.mesh.axes if sum(own.count(axis) for own in axes) > 1]
    if twice:
        text = f"{where}{shown(spec)} has {listed(twice)} twice."
        request.refuse("repeated_axis", text, "A mesh axis shards one axis of a value.")
    stored: dict[str, Axes] = {}
    axes += [()] * (len(names) - len(axes))
    for axis, (name, own) in enumerate(zip(names, axes, strict=True)):
        dim = program.dim_of(name)
        if name and dim and dim not in stored:
            stored |= _by_parts(program, name, dim, own, request.mesh.axes)
            if own and shape[axis] % request.count(own):
                request.problems.append(uneven(f"{where}`{name}`", shape[axis], own, request.mesh))
        elif own and shape[axis] == 1:
            called = _given(program, place, axis) or f"axis {axis}"
            request.problems.append(uneven(f"{where}`{called}`", 1, own, request.mesh))
        elif own:
            text = f"{where}axis {axis} (of size {shape[axis]:,}) is on `{'+'.join(own)}`, and"
            request.refuse("unknown_dim", *_nameless(request, text, name))
    return stored


def _by_parts(program: Program, name: str, dim: str, axes: Axes, sizes: Mapping[str, int]) -> Stored:
    """Returns the mesh axes of each dim of a merged axis, if each but the last is used up; else of the first dim all.

    The axis `kv*group` on `y+z` is `kv` on `y` and `group` on `z`, where `y` has as many devices as there are `kv`.
    """
    left, split = axes, dict[str, Axes]()
    for part in program.made_of.get(name, ()):
        if not left or program.dims.get(part.dim) != part.size:
            break
        split[part.dim] = fitting(left, part.size, sizes)
        left = left[len(split[part.dim]) :]
        if math.prod(sizes[axis] for axis in split[part.dim]) != part.size:
            break
    return {dim: axes} if left or not split else split


def _given(program: Program, place: str, axis: int) -> str:
    """Returns the name that the user gave to an axis of an argument; those of size 1 keep none in the program."""
    named = (named for a, named in zip(program.arguments, program.named, strict=True) if a.place == place)
    names = next(named, None) or ()
    name = names[axis] if axis < len(names) else None
    return program.renames.get(name, name) if isinstance(name, str) else ""


def _nameless(request: Request, text: str, name: str | None) -> tuple[str, str]:
    """Returns why no rule can shard an axis, and what to do."""
    if name in made_up(request.program):
        return f"{text} its name `{name}` is made up.", f'Rename it: program.rename({{"{name}": "kv"}}).'
    if not name or name.startswith("~"):
        return f"{text} has no dim name.", "Give it one, by ml.named or as in ml.f32[Batch, Embed]."
    return f"{text} `{name}` is a part of a dim that is sharded through another axis.", "Shard that axis, or none."


def _entries(request: Request, where: str, spec: Any, rank: int) -> list[Any]:
    """Returns what a spec says of each axis, for at most `rank` axes."""
    if isinstance(spec, NamedSharding):
        sizes = {axis: size for axis, size in spec.mesh.shape.items() if size > 1}
        if sizes != {axis: size for axis, size in request.mesh.devices.axes.items() if size > 1}:
            text = f"The specs are for a mesh {Mesh(tuple(sizes.items()))}."
            request.refuse("unknown_axis", text, "Give ml.mesh the same axes.")
        spec = spec.spec
    if not isinstance(spec, PartitionSpec):
        request.refuse("no_spec", f"{where}{shown(spec)} is not a PartitionSpec.", 'Write P("data", None), or None.')
        return []
    if spec.unreduced or spec.reduced:
        request.refuse(
            "no_spec",
            f"{where}{shown(spec)} has an unreduced axis.",
            "Stored values are never partial sums: leave it out.",
        )
        return []
    if len(spec) > rank:
        request.refuse("no_spec", f"{where}{shown(spec)} is for {len(spec)} axes, and there are {rank}.", "")
    return list(spec)[:rank]


def _axes(request: Request, where: str, entry: Any) -> Axes:
    """Returns the mesh axes of one entry that split anything."""
    sizes = request.mesh.axes
    if entry is PartitionSpec.UNCONSTRAINED:
        fix = "A layout has no open axes: say which mesh axes shard it, or None; or give None for the whole spec."
        request.refuse("no_spec", f"{where}an axis is UNCONSTRAINED.", fix)
        return ()
    axes = () if entry is None else (entry,) if not isinstance(entry, tuple | list) else tuple(entry)
    if wrong := [axis for axis in axes if not isinstance(axis, str)]:
        request.refuse(
            "unknown_axis", f"{where}{shown(wrong[0])} is not a name of a mesh axis.", 'Write P("data", None).'
        )
        return ()
    for axis in (axis for axis in axes if axis in request.mesh.in_time):
        text = f"{where}`{axis}` is a serial axis: nothing is stored sharded over it."
        request.refuse("unknown_axis", text, WITHOUT_TIME)
    for axis in (axis for axis in axes if axis not in sizes):
        near = closest(axis, sizes).strip() or f"Its axes are {listed(sizes)}."
        request.refuse("unknown_axis", f"{where}the mesh has no axis `{axis}`.", near)
    return tuple(axis for axis in axes if sizes.get(axis, 1) > 1)


# What is computed


def _computed(request: Request, stored: Mapping[str, Stored]) -> dict[str, Axes]:
    """Returns the plain rules: the axes with which all begin that store a dim sharded, unless a dim beside has them."""
    agreed: dict[str, Axes] = {}
    for place in _by_weight(request.program):
        for dim, axes in stored.get(place, {}).items():
            if axes:
                pairs = zip(agreed.get(dim, axes), axes, strict=False)
                agreed[dim] = tuple(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    scans, beside = scanned_dims(request.program), conflicting_dims(request.program)
    computed: dict[str, Axes] = {}
    for dim, axes in agreed.items():
        taken = {axis for other in beside[dim] for axis in computed.get(other, ())}
        free = tuple(itertools.takewhile(lambda axis, taken=taken: axis not in taken, axes))
        free = fitting(free, request.program.dims[dim], request.mesh.axes)
        computed |= {dim: free} if free and dim not in scans else {}
    return computed


def _by_weight(program: Program) -> list[str]:
    """Returns the places that say how dims are computed: data, then parameters, then outputs that are not carried.

    Where the program takes no gradient the last arguments come first: functions are written `forward(params, x)`.
    """
    trains = trained(program)
    order = list(enumerate(program.arguments))
    if trains.parameters:
        order = [each for each in order if each[0] not in trains.state]
        order.sort(key=lambda each: each[0] in trains.parameters)
    else:
        order.reverse()
    results = [place for place in program.outputs if not source(program, place)]
    return [*(argument.place for _, argument in order), *results]
