"""The picture of all devices on their machine, as plain shapes: cells, links, frames and names.

    picture = devices_picture(mesh)
    picture["cells"]        {"x": […], "y": […], "devices": […], …}: one for each device, or for a block of many
    picture["shapes"]       links in the marks of the mesh axes whose neighbours they join, frames, names

What a cell holds of a tensor is no part of it (`holdings`): the picture changes with mesh and machine alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TypedDict

import numpy as np

from ....engine.specs.mesh import Mesh
from .arrangement import GAP, Arrangement, Tier, Window, arrange
from .sheet import Sheet, SheetView
from .sites import Sites, sites_of

# Pixels: what the picture may take, a line of text, and the most and the least from one cell to the next.
WIDE, TALL, LINE, MOST_PITCH, LEAST_PITCH = 300.0, 210.0, 14.0, 76.0, 6.0
# Between blocks there is room for the caption of the next, and for the ends of links that wrap around.
APART = 20.0
# The share of the pitch that a cell takes: where links are drawn they need room.
CELL, LINKED = 0.9, 0.68
# From this pitch on the ends of links that wrap around are drawn; below it names say it alone.
HOOKED = 30.0
# Frames and captions are drawn of at most so many blocks.
MOST_FRAMES = 64
# From this side on a cell has room for the number of its device (devices.ts); below it lines say where they begin and
# end. Pixels of a digit, and of a line of digits.
NUMBERED, DIGIT, DIGITS = 30.0, 4.6, 8.0


class PictureCellsView(TypedDict):
    """Corners and sizes in pixels, and the device of each cell; no devices where a cell is several."""

    x: list[float]
    y: list[float]
    w: float
    h: float
    devices: list[int]


class PictureLevelView(TypedDict):
    """A level of positions in the window: `count` cells along it, of which each covers `step` positions."""

    name: str
    size: int
    low: int
    high: int
    step: int
    count: int


class PictureView(SheetView):
    """The devices of a mesh, of which a cell is `each` and the window has `shown`."""

    cells: PictureCellsView
    levels: list[PictureLevelView]
    each: int
    shown: int
    devices: int


def devices_picture(mesh: Mesh, window: Window | None = None) -> PictureView:
    """Draws the devices of a mesh.

    Args:
        mesh: the mesh, on a machine or on none.
        window: the positions along each level (`sites`) that are shown; all of them where it is None.

    Returns:
        `width` and `height` in pixels, `shapes`, `cells` by column, and the `levels` of the window.
    """
    sites = sites_of(mesh)
    drawing = _Drawing(sites, arrange(sites, window))
    drawing = _Drawing(sites, arrange(sites, window, max(GAP, APART / drawing.pitch)))
    arranged = drawing.arranged
    drawing.draw()
    return {
        **drawing.sheet.done(),
        "cells": drawing.cells(),
        "levels": [
            {"name": t.level.name, "size": t.level.size, "low": t.low, "high": t.high, "step": t.step, "count": t.count}
            for t in arranged.tiers
        ],
        "each": math.prod(tier.step for tier in arranged.tiers),
        "shown": math.prod(tier.high - tier.low for tier in arranged.tiers),
        "devices": mesh.size,
    }


class _Drawing:
    """One picture while it is drawn."""

    def __init__(self, sites: Sites, arranged: Arrangement):
        self.sites, self.arranged, self.sheet = sites, arranged, Sheet()
        self.linked = any(tier.level.place == "torus" for tier in arranged.tiers)
        rings = any(tier.level.ring for tier in arranged.tiers)
        self.top = LINE * len(_across(arranged)) + 5 + (LINE + 4 if self.captioned else 0)
        self.left = (LINE + 3) * len(_down(arranged)) + 5
        wide, tall = arranged.size
        self.hooked = rings and min((WIDE - self.left) / wide, (TALL - self.top) / tall) >= HOOKED
        self.top, self.left = self.top + 12 * self.hooked, self.left + 12 * self.hooked
        self.side = self.pitch * (LINKED if self.linked else CELL)
        # Beside small cells there is room for the numbers of the devices with which a line begins and ends.
        self.digits = DIGIT * len(str(len(sites.positions) - 1)) + 3
        self.numbered = self.side < NUMBERED and all(tier.step == 1 for tier in arranged.tiers)
        if self.numbered:
            self.left += self.digits
            self.side = self.pitch * (LINKED if self.linked else CELL)

    @property
    def pitch(self) -> float:
        """From one cell to the next, in pixels."""
        wide, tall = self.arranged.size
        return max(LEAST_PITCH, min((WIDE - self.left) / wide, (TALL - self.top) / tall, MOST_PITCH))

    @property
    def blocks(self) -> tuple[Tier, ...]:
        """The tiers that are drawn as blocks of cells, outermost first."""
        return tuple(tier for tier in self.arranged.tiers if not tier.straight and tier.gap)

    @property
    def captioned(self) -> bool:
        """Whether blocks have room for their names."""
        return 1 < math.prod(tier.count for tier in self.blocks) <= MOST_FRAMES

    def at(self, numbers: tuple[int, ...]) -> tuple[float, float]:
        """Returns the upper left corner of a cell or block, in pixels."""
        x, y = self.arranged.at(numbers)
        return self.left + x * self.pitch, self.top + y * self.pitch

    def draw(self) -> None:
        """Draws all but the cells."""
        self._names()
        self._frames()
        if self.linked:
            self._links()
        if self.numbered:
            self._numbers()
        wide, tall = self.arranged.size
        self.sheet.reach(self.left + wide * self.pitch, self.top + tall * self.pitch)

    def cells(self) -> PictureCellsView:
        """Returns the cells by column: corners and sizes in pixels; which device each is, where it is one."""
        tiers = self.arranged.tiers
        inner = tiers[-1] if tiers[-1].level.place == "chip" else None
        wide = self.side * (inner.wide if inner else 1)
        corners = [self.at(numbers) for numbers in self.arranged.numbers()]
        shift = (self.pitch - self.side) / 2
        if inner:  # the devices of a chip share its square
            corners = [
                (self.at((*numbers[:-1], 0))[0] + numbers[-1] * wide, y)
                for numbers, (_, y) in zip(self.arranged.numbers(), corners, strict=True)
            ]
        return {
            "x": [round(x + shift, 1) for x, _ in corners],
            "y": [round(y + shift, 1) for _, y in corners],
            "w": round(wide, 1),
            "h": round(self.side, 1),
            "devices": [int(device) for device in devices_at(self.sites, self.arranged)],
        }

    def _names(self) -> None:
        """Names the mesh axes that run to the right above the cells, and those that run down beside them."""
        for line, (name, words) in enumerate(_across(self.arranged)):
            x, y = self.left, 11.0 + line * LINE
            self.sheet.link(name, (x, y - 4), (x + 22, y - 4), style="sample")
            self.sheet.text("label", (x + 28, y), words)
        for line, (name, words) in enumerate(_down(self.arranged)):
            x, y = 8.0 + line * (LINE + 3), self.top
            self.sheet.link(name, (x, y), (x, y + 22), style="sample")
            self.sheet.text("label", (x - 4, y + 28), words, turn=90)

    def _frames(self) -> None:
        """Frames blocks of a machine, and says of all blocks which they are."""
        if not self.captioned:
            return
        outer = len(self.blocks)
        inner = self.arranged.tiers[outer:]
        wide, tall = (side * self.pitch for side in (inner[0].size if inner else (1.0, 1.0)))
        framed = any(tier.level.place in ("slice", "nodes") for tier in self.blocks)
        columns = sorted({self.at(numbers)[0] for numbers in itertools.product(*(range(t.count) for t in self.blocks))})
        # A name may reach over the gap to the next block.
        room = min((right - left - 4 for left, right in itertools.pairwise(columns)), default=wide)
        for numbers in itertools.product(*(range(tier.count) for tier in self.blocks)):
            x, y = self.at(numbers)
            words = ", ".join(_caption(tier, number) for tier, number in zip(self.blocks, numbers, strict=True))
            if framed:
                self.sheet.rect("node", (x - 3, y - 3), (wide + 6, tall + 6), words)
            short = ", ".join(word.split(" ")[-1] for word in words.split(", "))
            fits = [each for each in (words, short) if room > 5.5 * len(each)]
            if fits:
                self.sheet.text("note", (x, y - 5), fits[0])

    def _numbers(self) -> None:
        """Says with which device a line of small cells begins, and where there is room with which it ends."""
        cells = self.cells()
        wide, high = cells["w"], cells["h"]
        for y, row in _rows(cells, 1.2 * self.pitch):
            for (first, last), following in itertools.zip_longest(row, row[1:]):
                base = y + high / 2 + 3
                begins, ends = (str(cells["devices"][cell]) for cell in (first, last))
                self.sheet.text("number", (cells["x"][first] - 2 - DIGIT * len(begins), base), begins)
                gap = cells["x"][following[0]] - cells["x"][last] - wide if following else math.inf
                if first != last and gap > 4 * self.digits:
                    self.sheet.text("number", (cells["x"][last] + wide + 2, base), ends)

    def _links(self) -> None:
        """Joins neighbours in the rows and columns of a torus, and hooks the ends of those that wrap around."""
        tiers = self.arranged.tiers
        for index, tier in enumerate(tiers):
            if tier.level.place != "torus" or not tier.straight or tier.step > 1:
                continue
            whole = tier.high - tier.low == tier.level.size
            others = [range(t.count) if i != index and t.level.place != "chip" else (0,) for i, t in enumerate(tiers)]
            for numbers in itertools.product(*others):
                ends = [self._middle((*numbers[:index], n, *numbers[index + 1 :])) for n in range(tier.count)]
                names = [tier.level.joins(tier.low + n) for n in range(tier.count - 1)]
                start = 0
                for name, run in itertools.groupby(names):
                    stop = start + len(list(run))
                    if name:
                        self.sheet.link(name, ends[start], ends[stop])
                    start = stop
                if whole and tier.level.ring and self.hooked:
                    self._hooks(tier, ends)

    def _hooks(self, tier: Tier, ends: list[tuple[float, float]]) -> None:
        (x0, y0), (x1, y1), half = ends[0], ends[-1], self.side / 2
        dx, dy = (1, 0) if tier.columns > 1 else (0, 1)
        self.sheet.hook(tier.level.ring, x0 - dx * half, y0 - dy * half, -dx, -dy)
        self.sheet.hook(tier.level.ring, x1 + dx * half, y1 + dy * half, dx, dy)

    def _middle(self, numbers: tuple[int, ...]) -> tuple[float, float]:
        x, y = self.at(numbers)
        return x + self.pitch / 2, y + self.pitch / 2


def devices_at(sites: Sites, arranged: Arrangement) -> np.ndarray:
    """Returns the device of each cell; nothing where a cell covers several."""
    if any(tier.step > 1 for tier in arranged.tiers):
        return np.zeros(0, int)
    shape = tuple(level.size for level in sites.levels)
    device = np.empty(shape, int)
    device[tuple(sites.positions.T)] = np.arange(len(sites.positions))
    return device[tuple(slice(tier.low, tier.high) for tier in arranged.tiers)].ravel()


def _rows(cells: PictureCellsView, apart: float) -> Iterator[tuple[float, list[tuple[int, int]]]]:
    """Yields the height of each line of cells that has room for digits, with the first and last cell of its runs."""
    lines: dict[float, list[int]] = {}
    for cell in sorted(range(len(cells["x"])), key=lambda cell: cells["x"][cell]):
        lines.setdefault(cells["y"][cell], []).append(cell)
    below = -math.inf
    for y, line in sorted(lines.items()):
        if y < below:
            continue
        below = y + DIGITS
        breaks = [i + 1 for i, (one, other) in enumerate(itertools.pairwise(line)) if _gap(cells, one, other) > apart]
        yield y, [(line[i], line[j - 1]) for i, j in itertools.pairwise([0, *breaks, len(line)])]


def _gap(cells: PictureCellsView, one: int, other: int) -> float:
    return cells["x"][other] - cells["x"][one]


def _across(arranged: Arrangement) -> list[tuple[str, str]]:
    """Returns the mesh axes that run to the right, as text, with their sizes there."""
    return list(_along(arranged, right=True))


def _down(arranged: Arrangement) -> list[tuple[str, str]]:
    """Returns the mesh axes that run down, with their sizes there."""
    return list(_along(arranged, right=False))


def _along(arranged: Arrangement, right: bool) -> Iterator[tuple[str, str]]:
    straight = [tier for tier in arranged.tiers if tier.straight and tier.level.place != "chip"]
    for position, tier in enumerate(reversed(straight)):
        if (position == 0) is right:
            ring = tier.level.ring
            yield from (
                (name, f"{name} {size:,} →{' ring' * (name == ring)}") for name, size, _ in tier.level.axes[::-1]
            )
    blocks = [tier for tier in arranged.tiers if tier.gap and tier.level.place == "torus"]
    for tier in blocks if right else ():
        ring = ", ring" * bool(tier.level.ring)
        yield from ((name, f"{name} {size:,} from block to block{ring}") for name, size, _ in reversed(tier.level.axes))
    lines = [tier for tier in arranged.tiers if not tier.straight and not tier.gap]
    yield from ((tier.level.name, f"{tier.level.name} {tier.level.size:,} → in lines") for tier in lines if right)


def _caption(tier: Tier, number: int) -> str:
    low = tier.low + number * tier.step
    high = min(tier.high, low + tier.step) - 1
    level = tier.level
    low, high = low * level.each, high * level.each + level.each - 1
    alone = level.place == "torus" and len(level.axes) == 1 and level.axes[0][1:] == (level.size, 1)
    name = level.axes[0][0] if alone else "plane" if level.place == "torus" else level.name
    return f"{name} {low:,}" + (f"–{high:,}" if high > low else "")
