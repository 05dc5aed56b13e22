"""Judges sizes: mesh axes must divide the dim that they split or, where it is only stored, the axis.

    [embed, (heads=25 head=64)] stored with `heads` over 32 devices: 1,600 / 32 = 50 of `heads*head` on each

To compute with a merged axis the parts must be whole heads. What is only stored may be cut anywhere: it is gathered
before it is taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..errors import some
from ..programs.program import Program, analysis
from ..specs.mesh import Mesh
from ..specs.spec import Axes, AxesByDim
from .refusal import Refusal
from .uneven import in_parts, layers_instead, uneven

# The dim whose sharding an axis bears, what the axis is called, and its size where it is more than the dim's: else 0.
StoredAxis = tuple[str, str, int]


def size_problems(program: Program, mesh: Mesh, rules: AxesByDim, where: str, pad: bool | None = None) -> list[Refusal]:
    """Returns the problems of dims that their axes do not divide, but for those that padding mends.

    Padding is no remedy for layers on stages, whose own numbers of layers `stage_legality` judges.
    """

    def offered(axes: Axes) -> bool | None:
        return None if not pad and any(axis in mesh.stages for axis in axes) else pad

    # Stages have a number of layers for each, and these are as many in all: of two stacks only if they are alike.
    sizes = {axes: {program.dims[dim] for dim, on in rules.items() if on == axes} for axes in rules.values()}
    found = (
        _size_problem(
            program, mesh, dim, axes, called=f"{where}`{dim}`", pad=offered(axes), is_alone=len(sizes[axes]) == 1
        )
        for dim, axes in rules.items()
    )
    return [problem for problem in found if problem]


def _size_problem(
    program: Program,
    mesh: Mesh,
    dim: str,
    axes: Axes,
    *,
    called: str,
    pad: bool | None,
    merged: int = 0,
    is_alone: bool = True,
) -> Refusal | None:
    """Returns the problem of a dim, or of an axis in which it is the major part, of the size `merged`.

    Where dims of other sizes are on the same axes, it is not alone.
    """
    size, count = merged or program.dims[dim], math.prod(mesh.axes[a] for a in axes)
    if size == 0 and count > 1:
        return Refusal("not_divisible", f"{called} has size 0: there is nothing to shard.", "Leave it replicated.")
    if not size % count or pad or any(axis in mesh.stages and mesh.stages[axis].layers for axis in axes):
        return None
    instead = "" if pad is None else "; or plan with pad=True"
    if not merged and len(axes) == 1 and is_alone:
        instead += layers_instead(mesh.stages.get(axes[0]), axes[0], size)
    return uneven(called, size, axes, mesh, instead + ("" if merged else in_parts(program, dim, axes, mesh)))


def stored_problems(
    program: Program, mesh: Mesh, matched: Mapping[str, AxesByDim], pad: bool | None
) -> Iterable[Refusal]:
    """Yields the problems of the sizes of what is stored: one for all places that store an axis alike."""
    places: dict[tuple[str, str, int, Axes], list[str]] = {}
    for place, rules in matched.items():
        for dim, name, merged in stored_axes(program, place):
            if dim in rules:
                places.setdefault((dim, name, merged, rules[dim]), []).append(place)
    for (dim, name, merged, axes), there in places.items():
        problem = _size_problem(
            program, mesh, dim, axes, called=f"At {some(there, 2)}: `{name}`", pad=pad, merged=merged
        )
        if problem:
            yield problem


def stored_axes(program: Program, place: str) -> tuple[StoredAxis, ...]:
    """Returns the axes of what is stored at a place, each once."""
    return _stored_axes(program).get(place, ())


@analysis
def merged_sizes(program: Program) -> Mapping[str, int]:
    """Returns the sizes of merged axes that are stored somewhere, by their names."""
    return {name: size for axes in _stored_axes(program).values() for _, name, size in axes if size}


def stored_by_dim(program: Program, mesh: Mesh, place: str, rules: Mapping[str, Axes]) -> dict[str, Axes]:
    """Returns those rules of a place that split a dim there, not a merged axis that the axes divide."""

    def divides(dim: str) -> bool:
        own = [size for other, _, size in stored_axes(program, place) if other == dim]
        count = math.prod(mesh.axes[axis] for axis in rules[dim])
        return all(size and size % count == 0 for size in own)

    return {dim: axes for dim, axes in rules.items() if not divides(dim)}


@analysis
def _stored_axes(program: Program) -> Mapping[str, tuple[StoredAxis, ...]]:
    values = {place: [value] for place, value in program.places_values.items()}
    values |= {tag: [operation.outputs[0] for operation in made] for tag, made in program.marks.items()}
    return {place: tuple(dict.fromkeys(_axes(program, those))) for place, those in values.items()}


def _axes(program: Program, values: list[int]) -> list[StoredAxis]:
    found = []
    for value in values:
        for name, size in zip(program.names[value], program.code.shapes[value], strict=True):
            dim = program.dim_of(name)
            if name and dim:
                merged = size if size > program.dims[dim] else 0
                found.append((dim, name if merged else dim, merged))
    return found
