"""The layouts that practice knows, as a search begins with: each parallelism of `ml.layouts`, and products of two.

For every way to give some axes to data and the others to one parallelism inside the model; where the mesh has an axis
in time, each in micro-batches besides, and where it has stages, in a pipeline. The last one splits nothing, which is
best of what is so small that devices would wait for messages. What does not fit a program or a mesh is left out.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator

from ... import layouts
from ...engine.attention.recognise import around
from ...engine.errors import LayoutError
from ...engine.programs.program import Program
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...engine.specs.spec import Axes
from .space import axes_of

Recipe = Callable[[], Layout]

# USP has one axis for a ring and one for heads.
_USP = 2


def recipes(program: Program, mesh: Mesh) -> Iterator[tuple[str, Layout]]:
    """Yields names with layouts, those that use all axes for data first, and nothing split last; each layout once."""
    seen: set[Layout] = set()
    for name, make in (*_all(program, mesh), *_in_time(program, mesh), ("nothing", Layout)):
        try:
            layout = make()
        except LayoutError:
            continue
        if layout not in seen:
            seen.add(layout)
            yield name, layout


def _in_time(program: Program, mesh: Mesh) -> Iterator[tuple[str, Recipe]]:
    """Each recipe in micro-batches, where the mesh has an axis in time."""
    for way in (layouts.accumulate, layouts.pipeline_parallel) if mesh.in_time else ():
        for name, make in _all(program, mesh):
            yield f"{name} {way.__name__}", lambda make=make, way=way: make() & way(program, mesh)


def _all(program: Program, mesh: Mesh) -> Iterator[tuple[str, Recipe]]:
    axes = tuple(axes_of(mesh))
    for count in range(len(axes), -1, -1):
        for data in itertools.combinations(axes, count):
            rest = tuple(axis for axis in axes if axis not in data)
            for name, beside in _inside(program, mesh, data, rest):
                yield from _beside(program, mesh, data, name, beside)


def _inside(program: Program, mesh: Mesh, data: Axes, rest: Axes) -> Iterable[tuple[str, Recipe]]:
    """The parallelisms inside the model, on the axes that are not for data; experts are on those of data as well."""
    if not rest:
        found = [("", Layout)]
        return [*found, ("expert", functools.partial(layouts.expert_parallel, program, mesh, expert=data))]
    tensor = functools.partial(layouts.tensor_parallel, program, mesh, model=rest)
    return [
        *((name, make) for name, _, make in contexts(program, mesh, rest)),
        ("sequence", functools.partial(layouts.sequence_parallel, program, mesh, model=rest)),
        ("tensor", tensor),
        ("expert", functools.partial(layouts.expert_parallel, program, mesh, expert=rest)),
        *([("", Layout)] if data else []),
    ]


def contexts(program: Program, mesh: Mesh, over: Axes) -> Iterator[tuple[str, Axes, Recipe]]:
    """Yields the ways to have a sequence on some axes: their names, the axes, of USP in either order, and a recipe."""
    each = [("context", "gather", over), ("ulysses", "ulysses", over)]
    if attends := bool(around(program)):
        orders = itertools.permutations(over) if len(over) == _USP else ()
        each += [("ring", "ring", over), *(("usp", "usp", order) for order in orders)]
    for (name, kind, axes), balanced in itertools.product(each, (False, True) if attends else (False,)):
        # Ulysses has whole sequences in attention: there is nothing to balance.
        if not balanced or kind != "ulysses":
            preset = functools.partial(layouts.context_parallel, program, mesh, kind=kind, context=axes)
            yield f"balanced {name}" if balanced else name, axes, functools.partial(preset, balanced=balanced)


def _beside(program: Program, mesh: Mesh, data: Axes, name: str, beside: Recipe) -> Iterator[tuple[str, Recipe]]:
    """The ways to store what is computed in parts of the batch, beside a parallelism inside the model."""
    if not data:
        yield name, beside
        return

    def beside_it(preset: Callable[..., Layout], over: Axes = data, **more: Axes) -> Recipe:
        return lambda: preset(program, mesh, data=over, beside=beside(), **more)

    ways: list[tuple[str, Recipe]] = [("fsdp", beside_it(layouts.fsdp))]
    ways += [
        ("hsdp", beside_it(layouts.hsdp, inner, replica=tuple(a for a in data if a not in inner)))
        for count in range(1, len(data))
        for inner in itertools.combinations(data, count)
    ]
    ways.append(("zero1", beside_it(layouts.zero1)))
    ways.append(("data", beside_it(layouts.data_parallel)))
    yield from ((f"{way} {name}".strip(), make) for way, make in ways)
