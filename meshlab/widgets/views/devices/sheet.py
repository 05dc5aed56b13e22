"""The sheet that a mesh is drawn on: plain shapes, which the board and the snapshot paint alike.

    sheet = Sheet()
    sheet.rect("chip", (0, 0), (20, 20), "chip 0 0")
    sheet.link("model", (20, 10), (40, 10))
    sheet.done()      {"width": 44, "height": 24, "shapes": [{"is": "path", …}, {"is": "rect", …}], "left_out": ""}

Links are drawn in one path for each look and mesh axis, so that a slice of many chips stays a short list of shapes.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NotRequired, TypedDict

Point = tuple[float, float]

# Written as calls, for two of their names are Python's own words.
RectShapeView = TypedDict(
    "RectShapeView",
    {"is": Literal["rect"], "as": str, "x": float, "y": float, "w": float, "h": float, "title": NotRequired[str]},
)
PathShapeView = TypedDict("PathShapeView", {"is": Literal["path"], "as": str, "key": str, "d": str})
TextShapeView = TypedDict(
    "TextShapeView",
    {"is": Literal["text"], "as": str, "x": float, "y": float, "text": str, "turn": NotRequired[int]},
)
ShapeView = RectShapeView | PathShapeView | TextShapeView


class SheetView(TypedDict):
    """A drawing, in pixels."""

    width: int
    height: int
    shapes: list[ShapeView]
    left_out: str


@dataclasses.dataclass
class Sheet:
    """A sheet: its shapes, the paths of links by look and mesh axis, and its size."""

    shapes: list[RectShapeView | TextShapeView] = dataclasses.field(default_factory=list)
    links: dict[tuple[str, str], list[str]] = dataclasses.field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0

    def rect(self, style: str, at: Point, size: Point, title: str = ""):
        """Draws a box from its upper left corner."""
        (x, y), (wide, high) = at, size
        self.reach(x + wide, y + high)
        box: RectShapeView = {
            "is": "rect",
            "as": style,
            "x": round(x, 1),
            "y": round(y, 1),
            "w": round(wide, 1),
            "h": round(high, 1),
        }
        if title:
            box["title"] = title
        self.shapes.append(box)

    def text(self, style: str, at: Point, text: str, turn: int = 0):
        """Writes a line whose baseline begins at a point, turned by 0 or 90 degrees."""
        (x, y), long = at, 6.6 * len(text)
        self.reach(x + 4 if turn else x + long, y + long if turn else y + 4)
        word: TextShapeView = {"is": "text", "as": style, "x": round(x, 1), "y": round(y, 1), "text": text}
        if turn:
            word["turn"] = turn
        self.shapes.append(word)

    def link(self, axis: str, *points: Point, style: str = "link"):
        """Joins neighbours along a mesh axis."""
        for point in points:
            self.reach(*point)
        drawn = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.links.setdefault((style, axis), []).append(f"M{drawn}")

    def hook(self, axis: str, x: float, y: float, dx: int, dy: int):
        """Draws the end of a link that wraps around: out of the grid, and back."""
        stub = f"M{x:g} {y:g}l{7 * dx} {7 * dy}"
        bend = f"a4 4 0 0 1 {-8 * dy} {8 * dx}" if dx + dy > 0 else f"a4 4 0 0 0 {8 * dy} {-8 * dx}"
        self.links.setdefault(("hook", axis), []).append(f"{stub}{bend}")
        self.reach(x + 12 * dx, y + 12 * dy)

    def reach(self, x: float, y: float):
        """Enlarges the sheet so that a point is on it."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def done(self, left_out: str = "") -> SheetView:
        """Returns the drawing: networks below boxes, links on these, chips on links."""
        paths: list[PathShapeView] = [
            {"is": "path", "as": style, "key": key, "d": "".join(d)} for (style, key), d in self.links.items()
        ]
        boxes = [shape for shape in self.shapes if shape["as"] in ("slice", "node")]
        others = [shape for shape in self.shapes if shape["as"] not in ("slice", "node")]
        nets, above = ([path for path in paths if path["as"] == style] for style in ("net", "within"))
        links = [path for path in paths if path["as"] not in ("net", "within")]
        return {
            "width": math.ceil(self.width) + 4,
            "height": math.ceil(self.height) + 4,
            "shapes": [*nets, *boxes, *links, *others, *above],
            "left_out": left_out,
        }
