"""How a mesh lies on its machine, as a drawing: plain shapes, which the board and the snapshot paint alike.

    picture_of(mesh)      {"width": 420, "height": 260, "shapes": [{"is": "rect", "as": "chip", …}, …], "left_out": ""}

A slice of a torus is a grid of chips, in layers where it has three axes; a link has the mark of the mesh axis whose
neighbours it joins, and where an axis wraps around, a hook at either end says so. Behind switches nodes are boxes of
devices. Not more than 256 devices are drawn; what is left out is told.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from ...cost.machines.hardware import Switch
from ...cost.machines.placement import CHIP, Leg, Placement
from ...engine.specs.mesh import Mesh

# Links are drawn in one path for each mesh axis; (mesh axis, stretch) for the axis of a slice, shortest stride first.
Along = Sequence[tuple[str, Leg]]
Point = tuple[float, float]


@dataclasses.dataclass
class Sheet:
    """Shapes as they are drawn, the paths of links by look and mesh axis, and how far all this reaches."""

    shapes: list[dict] = dataclasses.field(default_factory=list)
    links: dict[tuple[str, str], list[str]] = dataclasses.field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0

    def rect(self, style: str, at: Point, size: Point, title: str = ""):
        """Draws a box from its upper left corner."""
        (x, y), (wide, high) = at, size
        self.reach(x + wide, y + high)
        box = {"is": "rect", "as": style, "x": round(x, 1), "y": round(y, 1), "w": round(wide, 1), "h": round(high, 1)}
        self.shapes.append(box | ({"title": title} if title else {}))

    def text(self, style: str, at: Point, text: str, turn: int = 0):
        """Writes a line whose baseline begins at a point, turned by so many degrees: 0 or 90."""
        (x, y), long = at, 6.6 * len(text)
        self.reach(x + 4 if turn else x + long, y + long if turn else y + 4)
        word = {"is": "text", "as": style, "x": round(x, 1), "y": round(y, 1), "text": text}
        self.shapes.append(word | ({"turn": turn} if turn else {}))

    def link(self, axis: str, *points: Point, style: str = "link"):
        """Joins neighbours along a mesh axis."""
        for point in points:
            self.reach(*point)
        drawn = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.links.setdefault((style, axis), []).append(f"M{drawn}")

    def hook(self, axis: str, x: float, y: float, dx: int, dy: int):
        """Draws the end of a link that goes around: out of the grid, and back."""
        turn = f"M{x:g} {y:g}l{7 * dx} {7 * dy}"
        bend = f"a4 4 0 0 1 {-8 * dy} {8 * dx}" if dx + dy > 0 else f"a4 4 0 0 0 {8 * dy} {-8 * dx}"
        self.links.setdefault(("hook", axis), []).append(f"{turn}{bend}")
        self.reach(x + 12 * dx, y + 12 * dy)

    def reach(self, x: float, y: float):
        """Makes the drawing as large as it has to be."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def done(self, left_out: str = "") -> dict:
        """Returns the drawing: networks below boxes, links on these, chips on links."""
        paths = [{"is": "path", "as": style, "key": key, "d": "".join(d)} for (style, key), d in self.links.items()]
        boxes = [shape for shape in self.shapes if shape["as"] in ("slice", "node")]
        others = [shape for shape in self.shapes if shape["as"] not in ("slice", "node")]
        nets, above = ([path for path in paths if path["as"] == style] for style in ("net", "within"))
        links = [path for path in paths if path["as"] not in ("net", "within")]
        size = {"width": math.ceil(self.width) + 4, "height": math.ceil(self.height) + 4}
        return size | {"shapes": [*nets, *boxes, *links, *others, *above], "left_out": left_out}


def picture_of(mesh: Mesh) -> dict:
    """Draws a mesh on its machine.

    Args:
        mesh: a mesh that lies on a machine.

    Returns:
        Plain data: `width` and `height` in pixels, `shapes`, and what is `left_out`, in words.
    """
    from .mesh_drawing_nodes import nodes_picture  # noqa: PLC0415  they draw on this module's sheet
    from .mesh_drawing_torus import torus_picture  # noqa: PLC0415

    placement: Placement = mesh.on
    if isinstance(placement.hardware.network, Switch):
        return nodes_picture(placement, mesh)
    return torus_picture(placement)


def joins(along: Along, position: int) -> str | None:
    """Returns the mesh axis along which the device at a position of a slice's axis and the next are neighbours."""
    for name, leg in along:
        if (position + 1) // leg.stride % leg.size:
            return name
    return None


def stretches(placement: Placement, axis: int) -> Along:
    """Returns the stretches along an axis of the slice, those of neighbours first."""
    found = [(name, leg) for name, legs in placement.legs.items() for leg in legs if leg.along == axis and leg.size > 1]
    return sorted(found, key=lambda each: each[1].stride)


def coordinates(placement: Placement, chip: Sequence[int]) -> Iterator[str]:
    """Tells where a chip stands along each mesh axis, as far as its slice says it."""
    for name, legs in placement.legs.items():
        index, cores = 0, 1
        for leg in legs:
            if leg.along == CHIP:
                cores *= leg.size
            else:
                index = index * leg.size + chip[leg.along] // leg.stride % leg.size
        if any(leg.size > 1 for leg in legs):
            yield f"{name} {index}" if cores == 1 else f"{name} {index * cores} to {index * cores + cores - 1}"
