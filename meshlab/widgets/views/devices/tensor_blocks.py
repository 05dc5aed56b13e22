"""A tensor as blocks, one for each of its slices: a rectangle over two of its axes, the others as rectangles beside it.

    blocks_view(holdings)       {"width": 200, "height": 120, "x": […], "y": […], "w": […], "h": […], "slices": […], …}

Axes that are cut come first: the last two of them, or one and the longest of the others, are drawn down and across; cut
axes ahead of them give one rectangle for each part; what is left is whole in every slice, and said in words.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypedDict

from .arrangement import steps_of

# Pixels: what the drawing may take, the gap between rectangles, and the least side of one.
WIDE, TALL, GAP, LEAST = 120.0, 150.0, 6.0, 26.0
# A block that is so long and wide has room for its letter.
LETTER = 7.5
# Sides are at most so different, however long the axes are.
STRETCH = 3.0
MOST_BLOCKS = 1024


class CutView(TypedDict):
    """How a tensor is cut: along each of its axes how many parts there are, and how many indices the longest has.

    `edges` are where parts begin and end; none along an axis with very many.
    """

    shape: list[int]
    parts: list[int]
    step: list[int]
    edges: list[list[int]]


class BlocksView(TypedDict):
    """The blocks of a tensor in pixels, each with its slice, or the first of `each`; an axis is -1 for none."""

    down: int
    across: int
    facets: list[int]
    whole: list[int]
    each: int
    width: float
    height: float
    x: list[float]
    y: list[float]
    w: list[float]
    h: list[float]
    slices: list[int]


def blocks_view(holdings: CutView) -> BlocksView:
    """Draws the tensor of `holdings_view`.

    Returns:
        The size in pixels; `x`, `y`, `w`, `h` and the slice of each block, or the first of `each` slices where there
        are very many; which axis of the tensor runs `down` and `across` (-1 for none), which give `facets`, and which
        are `whole`.
    """
    parts, shape = holdings["parts"], holdings["shape"]
    down, across, facets = _axes(parts, shape)
    steps = steps_of(parts, MOST_BLOCKS)
    counts = [-(-count // step) for count, step in zip(parts, steps, strict=True)]
    columns, rows = _grid(math.prod(counts[axis] for axis in facets))
    room = (WIDE - (columns - 1) * GAP) / columns, (TALL - (rows - 1) * GAP) / rows
    wide, tall = _sides(shape, down, across, room)
    wide = max(wide, min(room[0], LETTER * _count(counts, across)))
    tall = max(tall, min(room[1], LETTER * _count(counts, down)))
    boxes: list[tuple[float, float, float, float]] = []
    slices: list[int] = []
    for number, outer in enumerate(itertools.product(*(range(counts[axis]) for axis in facets))):
        row, column = divmod(number, columns)
        left, top = column * (wide + GAP), row * (tall + GAP)
        for i, j in itertools.product(range(_count(counts, down)), range(_count(counts, across))):
            (y0, y1), (x0, x1) = _span(holdings, steps, down, i), _span(holdings, steps, across, j)
            chosen = dict(zip(facets, outer, strict=True)) | {down: i, across: j}
            first = {axis: index * steps[axis] for axis, index in chosen.items() if axis >= 0}
            x, y, w, h = left + x0 * wide, top + y0 * tall, (x1 - x0) * wide, (y1 - y0) * tall
            boxes.append((round(x, 1), round(y, 1), round(w, 1), round(h, 1)))
            slices.append(_number(parts, first))
    return {
        "down": down,
        "across": across,
        "facets": facets,
        "whole": [axis for axis in range(len(shape)) if axis not in (down, across, *facets)],
        "each": math.prod(steps),
        "width": round(columns * wide + (columns - 1) * GAP, 1),
        "height": round(rows * tall + (rows - 1) * GAP, 1),
        "x": [x for x, *_ in boxes],
        "y": [y for _, y, *_ in boxes],
        "w": [w for _, _, w, _ in boxes],
        "h": [h for *_, h in boxes],
        "slices": slices,
    }


def _axes(parts: Sequence[int], shape: Sequence[int]) -> tuple[int, int, list[int]]:
    """Returns the axis that runs down, the one across, and those that give facets; -1 where there is none."""
    cut = [axis for axis, count in enumerate(parts) if count > 1]
    others = sorted((axis for axis in range(len(shape)) if axis not in cut), key=lambda axis: (-shape[axis], -axis))
    drawn = sorted((cut[-2:] + others)[:2])
    if not drawn:
        return -1, -1, []
    down, across = drawn if len(drawn) == 2 else (-1, drawn[0])
    return down, across, [axis for axis in cut if axis not in drawn]


def _grid(count: int) -> tuple[int, int]:
    """Returns columns and rows of the facets, as square as possible."""
    columns = min((c for c in range(1, count + 1) if count % c == 0), key=lambda c: abs(c - math.sqrt(count)))
    return columns, count // columns


def _sides(shape: Sequence[int], down: int, across: int, room: tuple[float, float]) -> tuple[float, float]:
    """Returns the width and the height of a rectangle, in the tensor's proportions as far as those can be drawn."""
    if across < 0:
        return LEAST, LEAST
    if down < 0:
        return room[0], min(room[1], LEAST)
    ratio = min(STRETCH, max(1 / STRETCH, math.sqrt(max(1, shape[across]) / max(1, shape[down]))))
    wide = min(room[0], room[1] * ratio)
    return wide, wide / ratio


def _count(parts: Sequence[int], axis: int) -> int:
    return parts[axis] if axis >= 0 else 1


def _span(holdings: CutView, steps: Sequence[int], axis: int, number: int) -> tuple[float, float]:
    """Returns where a block begins and ends along an axis, as shares of the axis."""
    size = holdings["shape"][axis] if axis >= 0 else 0
    if not size:
        return 0.0, 1.0
    first, after = number * steps[axis], (number + 1) * steps[axis]
    return edge(holdings, axis, first) / size, edge(holdings, axis, after) / size


def edge(holdings: CutView, axis: int, number: int) -> int:
    """Returns where a part of an axis begins: the size of the axis behind the last one."""
    size, edges = holdings["shape"][axis], holdings["edges"][axis]
    return edges[min(number, len(edges) - 1)] if edges else min(number * holdings["step"][axis], size)


def _number(parts: Sequence[int], chosen: dict[int, int]) -> int:
    number = 0
    for axis, count in enumerate(parts):
        number = number * count + chosen.get(axis, 0)
    return number
