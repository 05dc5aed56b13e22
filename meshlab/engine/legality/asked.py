"""Returns a program as a layout needs it: with operations for what is written by hand, if only they do what it asks.

    "seq:a ~seq:a"              attention is one operation, whose scores are no array        attention/recognise
    "batch:a experts:a"         tokens are sent to their experts, and back                   dropless/recognise

Any other layout has the program as it was traced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ..attention import recognise as attention
from ..dropless import recognise as experts
from ..programs.program import Program
from ..specs.layout import Layout
from ..specs.mesh import Mesh
from ..specs.spec import Axes, AxesByDim

Traced = TypeVar("Traced", bound=Program)


def as_asked(program: Traced, mesh: Mesh, layout: Layout) -> Traced:
    """Returns the program as a layout needs it."""

    def named(rules: Iterable[tuple[str, Axes]]) -> dict[str, Axes]:
        return {dim.removesuffix("?"): axes for dim, axes in rules}

    return under(program, mesh, named(layout.dim_rules), [(glob, named(own)) for glob, own in layout.scope_rules])


def under(program: Traced, mesh: Mesh, compute: AxesByDim, scoped: Sequence[tuple[str, AxesByDim]]) -> Traced:
    """Does the same for the rules of a layout: those everywhere, and those by scope."""
    devices = {axis for axis, size in mesh.devices.axes.items() if size > 1}
    every = (compute, *(own for _, own in scoped))
    used = [axis for rules in every for axes in rules.values() for axis in axes if axis in devices]
    if len(used) == len(set(used)):
        return program
    return experts.under(attention.under(program, mesh, compute, scoped), mesh, compute, scoped)
