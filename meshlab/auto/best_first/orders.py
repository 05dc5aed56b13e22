"""Other orders of the axes of a layout: a search compares layouts in the mesh's order, and of the best one all others.

    >>> [str(other) for other in reordered(Layout.of("batch:data+model"), ("data", "model"))]
    ['batch:model+data']

The order decides which device has which block. So it changes nothing of what is computed and little of what is sent:
the chains of a reshard, and which axis of the machine the larger part goes along.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from ...engine.specs.layout import DimRules, Layout
from ...engine.specs.spec import Axes
from ...engine.specs.zigzag import ordered_as


def reordered(layout: Layout, axes: Sequence[str]) -> Iterator[Layout]:
    """Yields a layout with the axes of all its dims in each other order of the mesh's.

    Args:
        layout: the layout.
        axes: the mesh axes of devices; others come last in a dim's axes, as they are.
    """
    known = {layout}
    for order in itertools.permutations(axes):
        other = _in_order(layout, order)
        if other not in known:
            known.add(other)
            yield other


def _in_order(layout: Layout, order: Axes) -> Layout:
    """The layout with its axes in an order: first those that a dim is computed on, then those that store it besides."""
    computed = layout.rules

    def rules(own: DimRules) -> DimRules:
        return tuple(
            (dim, ordered_as(axes, tuple(sorted(axes, key=lambda axis: place(dim, axis))))) for dim, axes in own
        )

    def place(dim: str, axis: str) -> tuple[bool, bool, int]:
        if axis not in order:
            return True, True, 0
        return False, axis not in computed.get(dim, ()), order.index(axis)

    return dataclasses.replace(
        layout,
        dim_rules=rules(layout.dim_rules),
        place_rules=tuple((glob, rules(own)) for glob, own in layout.place_rules),
        scope_rules=tuple((glob, rules(own)) for glob, own in layout.scope_rules),
    )
