"""The drawing of a mesh on a slice of a torus: layers of rows of chips, and the links between them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from ...cost.machines.placement import CHIP, Leg, Placement
from .sheet import Sheet

# Pixels: the height of a line of text, the room for hooks, and the largest width of a drawing.
LINE, MARGIN, WIDE = 17, 26, 600
# Of a larger slice with three axes one cube is drawn, the block of which such machines are built.
MOST_IN_LAYERS, CUBE = 128, 4
MOST_FRAMES = 3
# (mesh axis, stretch) for the stretches along an axis of the slice, shortest stride first.
Along = Sequence[tuple[str, Leg]]


@dataclasses.dataclass(frozen=True)
class Plot:
    """The positions of chips and labels on the sheet.

    Attributes:
        placement: the placement that is drawn.
        drawn: layers, rows and columns of chips.
        beside: how many layers are beside each other.
        pitch: from chip to chip.
        left: of the first chip of a row; the labels of rows are ahead of it.
        top: of the first row; the labels of columns are above it.
    """

    placement: Placement
    drawn: tuple[int, int, int]
    beside: int
    pitch: int
    left: float
    top: float

    @property
    def chip(self) -> int:
        """The size of a chip."""
        return round(self.pitch * 0.6)

    def axis(self, direction: int) -> int:
        """Returns the axis of the slice along layers (0), rows (1) or columns (2); -1 where there is none."""
        return direction + len(self.placement.shape) - 3

    def along(self, direction: int) -> list[tuple[str, Leg]]:
        """Returns the stretches along a direction, those of neighbours first."""
        return list(stretches(self.placement, self.axis(direction))) if self.axis(direction) >= 0 else []

    def ring(self, direction: int) -> str | None:
        """Returns the mesh axis that wraps around along a direction, if all of it is drawn."""
        complete = self.axis(direction) >= 0 and self.drawn[direction] == self.placement.shape[self.axis(direction)]
        return next((name for name, leg in self.along(direction) if leg.ring), None) if complete else None

    def corner(self, layer: int) -> tuple[float, float]:
        """Returns the upper left corner of a layer's chips."""
        wide, high = self.drawn[2] * self.pitch + MARGIN, self.drawn[1] * self.pitch + MARGIN + LINE
        return self.left + layer % self.beside * wide, self.top + layer // self.beside * high

    def middle(self, layer: int, row: int, column: int) -> tuple[float, float]:
        """Returns the middle of a chip."""
        x, y = self.corner(layer)
        return x + column * self.pitch + self.chip / 2, y + row * self.pitch + self.chip / 2


def torus_picture(placement: Placement) -> dict:
    """Draws a mesh on slices of a torus."""
    sheet, plot = Sheet(), _plot(placement)
    for layer in range(plot.drawn[0]):
        _links(sheet, plot, layer)
        for row, column in itertools.product(range(plot.drawn[1]), range(plot.drawn[2])):
            _chip(sheet, plot, (layer, row, column))
    _labels(sheet, plot)
    if plot.drawn[0] > 1:
        _layers(sheet, plot)
    _below(sheet, plot)
    return sheet.done(_left_out(placement, plot.drawn))


def _plot(placement: Placement) -> Plot:
    shape = placement.shape
    layers, rows, columns = (1,) * (3 - len(shape)) + shape
    if len(shape) == 3 and math.prod(shape) > MOST_IN_LAYERS:
        layers, rows, columns = (min(CUBE, size) for size in shape)
    flat = layers == 1
    pitch = (40 if columns <= 4 else 32 if columns <= 8 else 24) if flat else (28 if columns <= 4 else 24)
    plot = Plot(placement, (layers, rows, columns), 1, pitch, 0, 0)
    left = MARGIN + LINE * max(1, len(plot.along(1)))
    top = MARGIN + LINE * (max(1, len(plot.along(2))) + (not flat))
    fitting = max(1, min(layers, int((WIDE - left) // (columns * pitch + MARGIN))))
    beside = max(count for count in range(1, fitting + 1) if layers % count == 0)
    return dataclasses.replace(plot, beside=beside, left=left, top=top)


def _links(sheet: Sheet, plot: Plot, layer: int):
    """Joins neighbours in the rows and columns of a layer, and hooks the ends of those that wrap around."""
    _, rows, columns = plot.drawn
    for direction, lines, length in ((2, rows, columns), (1, columns, rows)):
        along, ring = plot.along(direction), plot.ring(direction)
        dx, dy = (1, 0) if direction == 2 else (0, 1)
        for line in range(lines):
            ends = [plot.middle(layer, *((line, i) if direction == 2 else (i, line))) for i in range(length)]
            for position in range(length - 1):
                name = joins(along, position)
                if name:
                    sheet.link(name, ends[position], ends[position + 1])
            if ring:
                (x0, y0), (x1, y1), half = ends[0], ends[-1], plot.chip / 2
                sheet.hook(ring, x0 - dx * half, y0 - dy * half, -dx, -dy)
                sheet.hook(ring, x1 + dx * half, y1 + dy * half, dx, dy)


def _chip(sheet: Sheet, plot: Plot, where: tuple[int, int, int]):
    placement, size = plot.placement, plot.chip
    x, y = (middle - size / 2 for middle in plot.middle(*where))
    chip = where[-len(placement.shape) :]
    position = ", ".join(coordinates(placement, chip))
    sheet.rect("chip", (x, y), (size, size), f"chip {' '.join(map(str, chip))}" + (f": {position}" if position else ""))
    cores = placement.hardware.devices_per_chip
    if cores == 1:
        return
    wide = (size - 4) / cores - 2
    for core in range(cores):
        sheet.rect("device", (x + 3 + core * (wide + 2), y + size * 0.3), (wide, size * 0.4))
    for name in _on_chips(placement)[:1]:
        sheet.link(name, (x + 3, y + size / 2), (x + size - 3, y + size / 2), style="within")


def _on_chips(placement: Placement) -> list[str]:
    """Returns the mesh axes along the devices of a chip."""
    return [name for name, legs in placement.legs.items() if any(leg.along == CHIP and leg.size > 1 for leg in legs)]


def _labels(sheet: Sheet, plot: Plot):
    """Names the mesh axes along the columns and the rows, each after a piece of its link."""
    for line, (name, leg) in enumerate(reversed(plot.along(2))):
        x, y = plot.left, plot.top - MARGIN + 10 - line * LINE - (LINE if plot.drawn[0] > 1 else 0)
        sheet.link(name, (x, y - 4), (x + 22, y - 4), style="sample")
        sheet.text("label", (x + 28, y), f"{name} {leg.size} →")
    for line, (name, leg) in enumerate(reversed(plot.along(1))):
        x, y = plot.left - MARGIN + 4 - line * LINE, plot.top
        sheet.link(name, (x - 4, y), (x - 4, y + 22), style="sample")
        sheet.text("label", (x - 8, y + 28), f"{name} {leg.size} →", turn=90)


def _layers(sheet: Sheet, plot: Plot):
    """Joins the captions of layers: each chip of a layer is linked with the one at its place in the next."""
    along, layers, ring = plot.along(0), plot.drawn[0], plot.ring(0)
    for layer in range(layers):
        x, y = plot.corner(layer)
        base = y - MARGIN + 10
        sheet.text("note", (x, base), f"layer {layer}")
        name = joins(along, layer) if layer + 1 < layers else None
        if name:
            last = (layer + 1) % plot.beside == 0
            end = x + plot.drawn[2] * plot.pitch + (-4 if last else MARGIN - 4)
            sheet.link(name, (x + 50, base - 4), (end, base - 4))
        if ring and layer == layers - 1:
            sheet.hook(ring, x + 50, base - 4, 1, 0)
        if ring and layer == 0:
            sheet.hook(ring, x - 3, base - 4, -1, 0)


def _below(sheet: Sheet, plot: Plot):
    """Names the mesh axes along layers, the devices of a chip, and several slices."""
    placement, y = plot.placement, sheet.height + 4
    lines = [(f"{name} {leg.size}, from layer to layer", name) for name, leg in plot.along(0)]
    for name in _on_chips(placement):
        parts = math.prod(leg.size for leg in placement.legs[name] if leg.along == CHIP)
        lines.append((f"{name} {parts}, the devices of a chip", name))
    for line, (text, name) in enumerate(lines):
        at = y + 12 + line * LINE
        sheet.link(name, (plot.left, at - 4), (plot.left + 22, at - 4), style="sample")
        sheet.text("label", (plot.left + 28, at), text)
    if placement.count == 1:
        return
    wide, high = sheet.width + 8, sheet.height + 6
    for behind in range(min(placement.count, MOST_FRAMES) - 1, -1, -1):
        sheet.rect("slice", (1 + 7 * behind, 1 + 7 * behind), (wide, high))
    at = sheet.height + 18
    sheet.text("label", (4, at), f"× {placement.count} slices, over the data-centre network:")
    for line, name in enumerate(name for name, parts in placement.slices.items() if parts > 1):
        below = at + LINE * (line + 1)
        sheet.link(name, (4, below - 4), (26, below - 4), style="sample")
        sheet.text("label", (32, below), f"{name} {placement.slices[name]}")


def _left_out(placement: Placement, drawn: tuple[int, int, int]) -> str:
    shape = placement.shape
    if math.prod(drawn) == math.prod(shape):
        return ""
    block = "x".join(map(str, drawn))
    return f"One block of {block} chips, of {'x'.join(map(str, shape))} ({math.prod(shape):,} chips)."


def joins(along: Along, position: int) -> str | None:
    """Returns the mesh axis along which the device at a position of a slice's axis and the next are neighbours."""
    for name, leg in along:
        if (position + 1) // leg.stride % leg.size:
            return name
    return None


def stretches(placement: Placement, axis: int) -> Along:
    """Returns the stretches along an axis of the slice, those of neighbours first."""
    pairs = ((name, leg) for name, legs in placement.legs.items() for leg in legs)
    along = [(name, leg) for name, leg in pairs if leg.along == axis and leg.size > 1]
    return sorted(along, key=lambda pair: pair[1].stride)


def coordinates(placement: Placement, chip: Sequence[int]) -> Iterator[str]:
    """Yields the coordinates of a chip along each mesh axis as text, as far as its slice decides them."""
    for name, legs in placement.legs.items():
        index, cores = 0, 1
        for leg in legs:
            if leg.along == CHIP:
                cores *= leg.size
            else:
                index = index * leg.size + chip[leg.along] // leg.stride % leg.size
        if any(leg.size > 1 for leg in legs):
            yield f"{name} {index}" if cores == 1 else f"{name} {index * cores} to {index * cores + cores - 1}"
