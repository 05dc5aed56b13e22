"""Says which mesh axes split what is no dim itself: a product of dims, or a factor of one.

    kv:x group:y    the merged axis kv*group: by x and, where x cuts kv into single heads, by y too
    heads:x+y       taken apart to [kv, group]: kv by x and, where x cuts it into single heads, group by y

So an axis may be merged and taken apart and nothing moves. Axes in time split the first factor alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..programs.program import Program
from ..programs.spread_names import Part, Parts
from ..specs.mesh import Mesh
from ..specs.spec import Axes, AxesByDim, fitting


def part_rules(
    program: Program, mesh: Mesh, rules: AxesByDim, beside: AxesByDim, most: Mapping[str, int]
) -> dict[str, Axes]:
    """Returns the mesh axes of all that is made of some dims.

    Args:
        program: the program.
        mesh: the mesh.
        rules: the axes of the dims.
        beside: those of dims that have none in `rules`.
        most: for merged axes that are only stored, their size: they may be cut anywhere.
    """
    every = {**beside, **rules}
    return {
        name: _axes(parts, every, mesh, most.get(name, 0))
        for name, parts in program.made_of.items()
        if any(part.dim in rules for part in parts)
    }


def _axes(parts: Parts, rules: AxesByDim, mesh: Mesh, most: int) -> Axes:
    """Returns the axes of an axis that is made of some parts, `most` its size where it may be cut anywhere."""
    axes: Axes = ()
    for part in parts:
        own = fitting(_left(part, rules.get(part.dim, ()), mesh), most or part.size, mesh.axes)
        if axes and not mesh.in_time.keys().isdisjoint(own):
            break
        if not set(axes).isdisjoint(own):
            break
        axes += own
        if math.prod(mesh.axes[axis] for axis in own) != part.size:
            break
        most = 0
    return axes


def _left(part: Part, axes: Axes, mesh: Mesh) -> Axes:
    """Returns the axes of a dim that the factors before a part leave to it: none unless these are used up."""
    if part.before == 1:
        return axes
    first = fitting(axes, part.before, mesh.axes)
    used_up = math.prod(mesh.axes[axis] for axis in first) == part.before
    return axes[len(first) :] if used_up and mesh.in_time.keys().isdisjoint(axes) else ()
