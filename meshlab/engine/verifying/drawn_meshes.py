"""The meshes that random layouts are drawn on: plain, in time, of stages, and such as divide few dims."""

from __future__ import annotations

from collections.abc import Sequence

from ..axes.serial import serial
from ..axes.stages import stages
from ..specs.mesh import Mesh

# Meshes to draw from, with whether plans on them pad.
Turn = tuple[Sequence[Mesh], bool]

MESHES = tuple(
    Mesh(shape)
    for shape in (
        (("x", 2),),
        (("x", 4),),
        (("x", 8),),
        (("x", 2), ("y", 2)),
        (("x", 2), ("y", 4)),
        (("x", 4), ("y", 2)),
        (("x", 2), ("y", 2), ("z", 2)),
    )
)
# The same with micro-batches, in all ways to reduce and to gather.
_WAYS = ((None, None), ("once", None), ("each", None), ("once", "each"), ("each", "once"))
MESHES_IN_TIME = tuple(
    Mesh((*shape, ("t", serial(count, reduce, gather))))
    for shape in ((), (("x", 2),), (("x", 4),), (("x", 2), ("y", 2)), (("x", 2), ("y", 4)))
    for count in (2, 4)
    for reduce, gather in _WAYS
)
# Of sizes that divide few dims, for plans that pad; with an axis in time and without.
_ODD_SHAPES = (
    *((("x", size),) for size in (3, 5, 6, 7)),
    *((("x", one), ("y", other)) for one, other in ((3, 2), (2, 3), (2, 4))),
)
ODD_MESHES = tuple(map(Mesh, _ODD_SHAPES))
ODD_MESHES_IN_TIME = tuple(Mesh((*shape, ("t", serial(n)))) for shape in _ODD_SHAPES for n in (2, 3, 4))
# The meshes that are drawn in turn, with whether their plans pad.
TURNS = ((MESHES, False), (MESHES_IN_TIME, False), (ODD_MESHES, True), (ODD_MESHES_IN_TIME, True))

# The schedules that plans run.
SCHEDULES = ("paired", "gpipe", "1f1b", "interleaved")
# With stages in front of what is beside them, or behind.
STAGED = tuple(
    Mesh((*before, ("pipe", stages(count, schedule)), *behind, ("t", serial(micro, reduce, gather))))
    for schedule in SCHEDULES
    for count, before, behind in (
        (2, (), ()),
        (4, (), ()),
        (2, (("x", 2),), ()),
        (2, (), (("x", 2),)),
        (2, (("x", 4),), ()),
        (4, (("x", 2),), ()),
        (2, (("x", 2), ("y", 2)), ()),
        (2, (("x", 2),), (("y", 2),)),
    )
    for micro in (2, 4)
    for reduce, gather in _WAYS
    if schedule != "interleaved" or micro % count == 0
)
ODD_STAGED = tuple(
    Mesh((("x", 3), ("pipe", stages(2, schedule)), ("t", serial(micro)))) for schedule in SCHEDULES for micro in (2, 4)
)
