"""Carries a layout over to another program: what of it holds there, and what stands in for it.

    within(layout, program)                     without rules of dims, places and scopes that the program has not got
    carried(layout, "fsdp", program, mesh)      yields layouts to try, the most alike first

A preset stays that preset, of the other program. Any other layout stays as far as its dims are there; where nothing of
it is left, or what is left is illegal, data parallelism takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..api.stages import Program
from ..engine.errors import LayoutError
from ..engine.specs.layout import DimRules, Layout
from ..engine.specs.mesh import Mesh
from .by_name import PRESETS

DATA_PARALLEL = "data_parallel"


def carried(layout: Layout, preset: str, program: Program, mesh: Mesh) -> Iterator[Layout]:
    """Yields the layouts of another program that may stand for a layout, the one that is most like it first.

    Args:
        layout: the layout.
        preset: the name of the preset that it is; "" for none.
        program: the other program.
        mesh: the mesh.
    """
    if preset:
        yield from _preset(preset, program, mesh)
    kept = within(layout, program)
    if ruled(kept) or not ruled(layout):
        yield kept
    yield from _preset(DATA_PARALLEL, program, mesh)
    yield Layout.of(None)


def _preset(name: str, program: Program, mesh: Mesh) -> Iterator[Layout]:
    try:
        yield PRESETS[name](program, mesh)
    except LayoutError:
        return


def within(layout: Layout, program: Program) -> Layout:
    """Returns a layout without the rules of dims, places and scopes that a program has not got."""

    def there(rules: DimRules) -> DimRules:
        return tuple((dim, axes) for dim, axes in rules if dim.removesuffix("?") in program.dims)

    places = ((glob, there(rules)) for glob, rules in layout.place_rules if program.matching(glob.removesuffix("?")))
    scopes = ((glob, there(rules)) for glob, rules in layout.scope_rules if program.dims_in(glob.removesuffix("?")))
    return Layout(
        there(layout.dim_rules),
        tuple((glob, rules) for glob, rules in places if rules),
        tuple((glob, rules) for glob, rules in scopes if rules),
        whole=tuple(dim for dim in layout.whole if dim in program.dims),
    )


def ruled(layout: Layout) -> set[tuple[str, str]]:
    """Returns the dims that have rules, each with the glob of where: "" for all that is computed."""
    return {("", dim) for dim, _ in layout.dim_rules} | {
        (glob, dim) for glob, rules in (*layout.place_rules, *layout.scope_rules) for dim, _ in rules
    }
