"""The drawing of a mesh behind switches: nodes as boxes of devices, and the network between them.

Neighbours along a mesh axis are drawn side by side; an axis that is longer than a row goes on in the next row, back the
way it came, so that neighbours stay neighbours.
"""

from __future__ import annotations

import dataclasses
import math

from ...cost.machines.placement import ACROSS, INSIDE, Placement
from ...engine.specs.mesh import Mesh
from .sheet import Sheet

# Pixels: from device to device, how large one is, a line of text, the gap between nodes, and how wide a drawing may be.
PITCH, DEVICE, LINE, GAP, WIDE = 28, 20, 17, 18, 600
MOST_ROWS, MOST_COLUMNS = 4, 12
# A mesh axis with how many devices, or nodes, it counts there.
Part = tuple[str, int]


@dataclasses.dataclass(frozen=True)
class Rows:
    """Devices, or nodes, in rows, numbered along mesh axes.

    Attributes:
        parts: the mesh axes, major first.
        wide: how many are in a row: a divisor of the last axis's size.
    """

    parts: tuple[Part, ...]
    wide: int

    @classmethod
    def of(cls, parts: list[Part], most: int) -> Rows:
        """Returns rows of at most `most` devices or nodes."""
        last = parts[-1][1] if parts else 1
        return cls(tuple(parts), max(count for count in range(1, max(1, most) + 1) if last % count == 0))

    @property
    def count(self) -> int:
        """The number of devices or nodes."""
        return math.prod(size for _, size in self.parts)

    def where(self, number: int) -> tuple[int, int]:
        """Returns the row and the column of a device or node; the last axis goes to and fro."""
        row, column = divmod(number, self.wide)
        rows = (self.parts[-1][1] if self.parts else 1) // self.wide  # that the last axis takes
        return row, (self.wide - 1 - column) if row % rows % 2 else column

    def neighbours(self, number: int) -> list[tuple[str, int]]:
        """Returns the neighbours of a device or node: the next along each mesh axis, if it is drawn beside or below."""
        neighbours, step = [], 1
        for name, size in reversed(self.parts):
            if number // step % size < size - 1:
                (r0, c0), (r1, c1) = self.where(number), self.where(number + step)
                if abs(r0 - r1) + abs(c0 - c1) == 1:
                    neighbours.append((name, number + step))
            step *= size
        return neighbours

    def coordinates(self, number: int) -> str:
        """Returns the coordinates of a device or node as text."""
        coordinates = []
        for name, size in reversed(self.parts):
            number, index = divmod(number, size)
            coordinates.append(f"{name} {index}")
        return ", ".join(reversed(coordinates))


def nodes_picture(placement: Placement, mesh: Mesh) -> dict:
    """Draws a mesh on nodes of devices behind switches."""
    sheet = Sheet()
    inside, over = _parts(placement, mesh)
    devices = Rows.of(inside, MOST_COLUMNS)
    box = (devices.wide * PITCH + 12.0, devices.count // devices.wide * PITCH + 42.0)
    nodes = Rows.of(over, int((WIDE + GAP) // (box[0] + GAP)))
    top = LINE * (bool(inside) + bool(over)) + 8.0
    drawn = min(nodes.count, nodes.wide * max(1, min(MOST_ROWS, 256 // (nodes.wide * devices.count))))

    def corner(node: int) -> tuple[float, float]:
        row, column = nodes.where(node)
        return 6 + column * (box[0] + GAP), top + row * (box[1] + GAP)

    for node in range(drawn):
        _node(sheet, corner(node), devices, f"node {node:,}" + (f": {nodes.coordinates(node)}" if over else ""), node)
        middle = (corner(node)[0] + box[0] / 2, corner(node)[1] + box[1] / 2)
        for name, other in nodes.neighbours(node):
            if other < drawn:
                sheet.link(name, middle, (corner(other)[0] + box[0] / 2, corner(other)[1] + box[1] / 2), style="net")
    _labels(sheet, inside, over)
    left_out = "" if drawn == placement.shape[0] else f"The first {drawn:,} of {placement.shape[0]:,} nodes."
    return sheet.done(left_out)


def _parts(placement: Placement, mesh: Mesh) -> tuple[list[Part], list[Part]]:
    """Returns the parts of mesh axes inside a node and over nodes, major first, in the order that fills nodes."""
    rank = {INSIDE: 0, None: 1, ACROSS: 2}
    filled = sorted(reversed(mesh.shape), key=lambda axis: rank[placement.requested.get(axis[0])])  # type: ignore[index]
    order = [name for name, _ in reversed(filled)]
    inside = [(name, placement.nodes[name].inside) for name in order if placement.nodes[name].inside > 1]
    over = [(name, placement.nodes[name].nodes) for name in order if placement.nodes[name].nodes > 1]
    return inside, over


def _node(sheet: Sheet, at: tuple[float, float], devices: Rows, title: str, number: int):
    (x, y), wide, tall = at, devices.wide * PITCH, devices.count // devices.wide * PITCH

    def middle(device: int) -> tuple[float, float]:
        row, column = devices.where(device)
        return x + 6 + column * PITCH + PITCH / 2, y + 20 + row * PITCH + PITCH / 2

    sheet.rect("node", at, (wide + 12, tall + 42), title)
    sheet.text("note", (x + 8, y + 15), f"node {number:,}" if wide > PITCH else f"{number:,}")
    for device in range(devices.count):
        px, py = middle(device)
        for name, other in devices.neighbours(device):
            sheet.link(name, (px, py), middle(other))
        coordinates = devices.coordinates(device)
        about = f"device {device} of node {number:,}" + (f": {coordinates}" if coordinates else "")
        sheet.rect("chip", (px - DEVICE / 2, py - DEVICE / 2), (DEVICE, DEVICE), about)
    if devices.count > 1:
        sheet.rect("switch", (x + 8, y + tall + 27), (wide - 4, 7), "the switch between the devices of the node")


def _labels(sheet: Sheet, inside: list[Part], over: list[Part]):
    """Names the mesh axes inside a node, and those that go over nodes, each after a piece of its link."""
    lines = [(words, parts) for words, parts in (("inside a node", inside), ("over nodes", over)) if parts]
    for line, (words, parts) in enumerate(lines):
        x, y = 6.0, 12.0 + line * LINE
        sheet.text("note", (x, y), words)
        x += 96
        for name, size in reversed(parts):
            sheet.link(name, (x, y - 4), (x + 22, y - 4), style="sample")
            sheet.text("label", (x + 28, y), f"{name} {size:,}")
            x += 50 + 7.2 * len(f"{name} {size:,}")
