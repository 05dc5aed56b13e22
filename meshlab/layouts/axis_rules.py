"""Reads logical axis rules, as T5X, MaxText and Flax have them, as a layout of one program.

    rules = [("batch", "data"), ("mlp", "model"), ("vocab", "model"), ("embed", "model"), ("embed", "data")]
    ml.layouts.from_axis_rules(rules, program, ml.mesh(data=4, model=2))
                        batch:data mlp:model vocab:model · params/*: embed:data · params/norm: embed:model · …

There a rule is for whatever array is annotated with the name, and is skipped where the array has its mesh axis already:
one name is on different axes in different arrays (`engine/specs/flax_rules.py`). Here plain rules hold for all that is
computed, and rules at places for what is stored. So the table is gone through twice:

- for the program as one array, in which no two dims that meet in an operation or a value share an axis, but those of a
  ring: plain rules;
- for each argument and each tag by itself: what is stored there, as a rule at the place wherever that is different.

Arguments get exactly the `PartitionSpec`s that Flax's `logical_to_mesh_axes` gives their names. Outputs have the rules
of the argument that they are the next value of, and are otherwise stored as they are computed. A tag whose values
disagree about a dim is left as it is computed.

As there, a table may name what a model or a mesh has not got, for it is written for all models: a rule for another name
counts nothing, and a mesh axis that is not there is one of size 1. (MaxText says so of mesh axes; Flax alone does not
know the mesh.) Of misspelt names those are refused that leave a mesh axis without any rule, or no rule at all for the
program. The dim of a scan is stored as its rule says, and never computed on axes: pipelines are no layouts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ..engine.attention.recognise import around
from ..engine.errors import closest, listed, shown
from ..engine.programs.axis_conflicts import conflicting_dims, scanned_dims
from ..engine.programs.program import Program
from ..engine.programs.trained import trained
from ..engine.specs.flax_rules import AxisRules, assigned, axis_rules, chosen
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from ..engine.tensors.dims import Dim
from .given_globs import agreed, layout_of
from .request import WITHOUT_TIME, Request

Names = Mapping[Any, Any]
Called = Callable[[str], str | None]


def from_axis_rules(rules: Any, program: Program, mesh: Mesh, *, names: Names | None = None) -> Layout:
    """Returns the layout that logical axis rules give a program, as Flax, T5X and MaxText mean them.

    Args:
        rules: (logical name, mesh axis | tuple of axes | None) pairs; the first that matches and is free counts.
        program: the program.
        mesh: its mesh; axes of the rules that it does not have count as axes of size 1.
        names: what the rules call the program's dims, where that is something else, in the form of a layout: `{"batch":
            "activation_batch", "embed": "activation_embed"}` for what is computed and for data, and by place,
            `{"params/*": {"heads": "q_heads"}}`. None means no name. Parameters and optimizer state go by the dims' own
            names, except for the latter. Where the program takes no gradient, an argument is data if its first dim has
            a rule by the name given here, and none by its own.

    Raises:
        LayoutError: the rules or names cannot be read, or no legal layout comes of them.
    """
    request = Request("from_axis_rules", program, mesh, first="rules, ")
    table = axis_rules(rules)
    called = _Names(request, table, names or {})
    _refuse_misspelt(request, table, called)
    _refuse_shared_names(request, called)
    computed = _computed(request, table, called)
    wanted = {a.place: _stored(request, table, called.at(a.place), a.value) for a in program.arguments}
    for tag, operations in program.tags.items():
        values = [_stored(request, table, called.at(tag), op.outputs[0]) for op in operations]
        if (shared := agreed(values)) is not None:
            wanted[tag] = shared
    return request.layout(None if request.problems else layout_of(program, wanted, computed))


class _Names:
    """Knows what the rules call the dims, computed and at each place.

    Attributes:
        plain: logical names by dim, of what is computed.
        places: the same by glob.
    """

    def __init__(self, request: Request, table: AxisRules, given: Any):
        self._program, self._known = request.program, frozenset(name for name, _ in table)
        self.plain: dict[str, str | None] = {}
        self.places: dict[str, dict[str, str | None]] = {}
        if not isinstance(given, Mapping):
            text = f"names={shown(given)} is not a dict."
            request.refuse("unknown_dim", text, 'Write names={"batch": "activation_batch"}.')
            return
        for key, value in given.items():
            if isinstance(value, Mapping):
                if not isinstance(key, str) or not self._program.matching(key):
                    near = closest(key, self._program.places).strip() or "Its places are program.places."
                    request.refuse("unknown_place", f"names: {shown(key)} matches no place of this program.", near)
                self.places[key] = self._read(request, value)
            else:
                self.plain |= self._read(request, {key: value})

    def _read(self, request: Request, given: Mapping[Any, Any]) -> dict[str, str | None]:
        read: dict[str, str | None] = {}
        for key, name in given.items():
            dim = key.name if isinstance(key, Dim) else key
            if dim not in self._program.dims:
                near = closest(dim, self._program.dims).strip() or f"Its dims are {listed(self._program.dims)}."
                request.refuse("unknown_dim", f"names: {shown(dim)} is not a dim of this program.", near)
            if not isinstance(name, str | None):
                fix = "Write its name in the rules, or None for no name."
                request.refuse("unknown_dim", f"names: {shown(dim)} is called {shown(name)}.", fix)
            else:
                read[dim] = name
        return read

    def computed(self, dim: str) -> str | None:
        """Returns what the rules call a dim where it is computed."""
        return self.plain.get(dim, dim)

    def at(self, place: str) -> Called:
        """Returns the function that says what the rules call a dim at a place."""
        own: Mapping[str, str | None] = {}
        for glob, names in self.places.items():  # the last match counts
            own = names if place in self._program.matching(glob) else own
        usual: Mapping[str, str | None] = {} if place in self._weights else self.plain
        return lambda dim: own[dim] if dim in own else usual.get(dim, dim)

    @functools.cached_property
    def _weights(self) -> frozenset[str]:
        """The arguments whose dims go by their own names."""
        program, trains = self._program, trained(self._program)
        if trains.parameters:
            positions = trains.parameters | trains.state
            return frozenset(a.place for i, a in enumerate(program.arguments) if i in positions)
        return frozenset(a.place for a in program.arguments if not self._is_data(program.dims_of(a.value)))

    def _is_data(self, dims: tuple[str | None, ...]) -> bool:
        """Says whether the first dim of an array, which is the batch where it is data, has no rule by its own name."""
        return bool(dims) and dims[0] not in self._known and self.plain.get(dims[0] or "") in self._known


def _refuse_misspelt(request: Request, table: AxisRules, called: _Names):
    """Refuses rules of which none counts, and mesh axes that no rule has, but for a misspelt one."""
    program, sizes = request.program, request.mesh.axes
    known = {axis for _, axes in table for axis in axes}
    idle = [axis for axis, size in sizes.items() if size > 1 and axis not in known]
    for axis in (axis for axis in sorted(known) if axis in request.mesh.in_time):
        request.refuse("unknown_axis", f"The rules name `{axis}`, which is a serial axis.", WITHOUT_TIME)
    for axis in sorted(known - set(sizes)):
        if near := closest(axis, idle).strip():
            request.refuse("unknown_axis", f"The rules name `{axis}`, which is not an axis of the mesh.", near)
    if known and not known & set(sizes) and idle and not request.problems:
        text = f"The rules name {listed(sorted(known))}, and none of the mesh's axes."
        request.refuse("unknown_axis", text, f"Its axes are {listed(sizes)}: use these names in the rules.")
    names = {name for name, axes in table if axes}
    given = {name for dim in program.dims for name in (dim, called.computed(dim))}
    given |= {name for names_there in called.places.values() for name in names_there.values()}
    if names and not names & given:
        dim = next(iter(program.dims), "batch")
        text = f"The rules are for {listed(sorted(names))}, and none for a dim of this program."
        fix = f'Its dims are {listed(program.dims)}; map them to names in the rules: names={{"{dim}": "{min(names)}"}}.'
        request.refuse("unknown_dim", text, fix)


def _refuse_shared_names(request: Request, called: _Names):
    """Refuses two dims of one argument that the rules call the same: they would not know which is meant."""
    for argument in request.program.arguments:
        name_of, seen = called.at(argument.place), dict[str, str]()
        for dim in filter(None, dict.fromkeys(request.program.dims_of(argument.value))):
            name = name_of(dim)
            other = seen.setdefault(name, dim) if name else dim
            if other != dim:
                text = f"At `{argument.place}`: `{other}` and `{dim}` are both called `{name}`."
                request.refuse("conflict", text, "In an array, a rule's name must mean one dim: rename one of them.")


def _computed(request: Request, table: AxisRules, called: _Names) -> dict[str, Axes]:
    """Returns the plain rules: those of the table for all that is computed, as if the program were one array."""
    program, scans = request.program, scanned_dims(request.program)
    beside, rings = conflicting_dims(program), frozenset(map(frozenset, around(program)))
    dims_of: dict[str | None, list[str]] = {}
    for dim in program.dims:
        if dim not in scans:
            dims_of.setdefault(called.computed(dim), []).append(dim)
    axes_of = chosen(
        table,
        lambda name: dims_of.get(name, ()),
        lambda dim: [each for each in beside[dim] if {dim, each} not in rings],
    )
    return {dim: _split(request, axes) for dim, axes in axes_of.items()}


def _stored(request: Request, table: AxisRules, name_of: Called, value: int) -> dict[str, Axes]:
    """Returns the axes that the rules give the dims of one array."""
    dims = [dim for dim in request.program.dims_of(value) if dim]
    axes_of = assigned([name_of(dim) for dim in dims], table)
    return {dim: _split(request, axes_of.get(name_of(dim) or "", ())) for dim in dims}


def _split(request: Request, axes: Axes) -> Axes:
    """Returns those of some axes that split anything on this mesh."""
    return tuple(axis for axis in axes if request.mesh.axes.get(axis, 1) > 1)
