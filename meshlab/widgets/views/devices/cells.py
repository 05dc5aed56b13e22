"""The cells of a heat map: the blocks of a tensor cut finer, and what the numbers in each cell are.

    grid = grid_of(holdings, blocks)            where the cells begin and end along each axis
    stats = stats_of(grid, pieces, strides)     numpy arrays over cells: sums, extremes, what is no finite number
    cells_view(grid, stats, False, False)       {"statistic": "mean", "values": [[0.1, …], …], "high": 0.4, …}

A cell never crosses a block, so that what it shows is of one slice. Pieces of any other layout may be read: a cell adds
up what it gets of each. Where a cell is one number it shows that. Where it is several it shows their mean; but where
that would lose more than a quarter of the numbers' magnitudes, since in one cell there are both signs, it shows the
mean of the magnitudes: large numbers that cancel would look like zeros. Of complex numbers it shows magnitudes alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NotRequired, TypedDict

import numpy as np

from .arrangement import steps_of
from .device_shards import Piece
from .tensor_blocks import MOST_BLOCKS, BlocksView, CutView, edge

# The most cells of a tensor, and the least side of one, in pixels of the drawing.
MOST_CELLS, LEAST_CELL = 2048, 2.4
# Means must keep this share of the magnitudes, over all cells. Of n numbers of random signs they keep n ** -0.5.
KEPT = 0.75
VALUE: Final = "value"
ABSOLUTE: Final = "magnitude"
MEAN: Final = "mean"
MAGNITUDE: Final = "mean magnitude"


class HeatBlockView(TypedDict):
    """The cells of one block: their edges, as indices, and their numbers row by row, null without any finite one."""

    down: list[int]
    across: list[int]
    facets: list[tuple[int, int]]
    values: list[float | None]
    least: NotRequired[list[float | None]]
    most: NotRequired[list[float | None]]


class HeatCellsView(TypedDict):
    """What the cells show; in `each` the least and the most numbers of one, in `odd` (block, cell, NaN, infinite)."""

    statistic: Literal["value", "magnitude", "mean", "mean magnitude"]
    complex: bool
    diverging: bool
    high: float | None
    least: float | None
    most: float | None
    each: tuple[int, int]
    nan: int
    infinite: int
    odd: list[tuple[int, int, int, int]]
    blocks: list[HeatBlockView]


@dataclasses.dataclass(frozen=True)
class Grid:
    """The cells of a tensor.

    Attributes:
        edges: along each axis where cells begin, and where the last one ends.
        blocks: along each axis, of each block the first of its cells and the one behind the last.
        down: the axis that runs down, -1 for none.
        across: the axis that runs across, -1 for none.
        facets: the axes ahead of them of which each part is a rectangle of its own.
    """

    edges: tuple[np.ndarray, ...]
    blocks: tuple[tuple[tuple[int, int], ...], ...]
    down: int
    across: int
    facets: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells there are along each axis."""
        return tuple(len(each) - 1 for each in self.edges)

    def boxes(self) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yields the cells of each block, as a range along each axis, in the order of `tensor_blocks`."""
        drawn = [axis for axis in (*self.facets, self.down, self.across) if axis >= 0]
        for chosen in itertools.product(*(self.blocks[axis] for axis in drawn)):
            box = [(0, count) for count in self.shape]
            for axis, cells in zip(drawn, chosen, strict=True):
                box[axis] = cells
            yield tuple(box)


@dataclasses.dataclass(frozen=True)
class Stats:
    """What the numbers in each cell are; each an array over cells.

    Attributes:
        count: how many finite numbers there are.
        total: their sum.
        magnitude: the sum of their magnitudes.
        least: the least of them.
        most: the greatest of them.
        nan: how many are NaN.
        infinite: how many are infinite.
    """

    count: np.ndarray
    total: np.ndarray
    magnitude: np.ndarray
    least: np.ndarray
    most: np.ndarray
    nan: np.ndarray
    infinite: np.ndarray


def grid_of(holdings: CutView, blocks: BlocksView) -> Grid:
    """Cuts the blocks of a tensor into cells, as many as can be seen.

    Args:
        holdings: who holds what of the tensor, from `holdings_view`.
        blocks: the drawing of the tensor, from `blocks_view`.
    """
    parts, shape, down, across = holdings["parts"], holdings["shape"], blocks["down"], blocks["across"]
    steps = steps_of(parts, MOST_BLOCKS)
    # How many indices a block has along each axis, and how many cells have room there: one of what is not drawn.
    full = [min(size, part * step) for size, part, step in zip(shape, holdings["step"], steps, strict=True)]
    sides = {down: max(blocks["h"]), across: max(blocks["w"])}
    least, most = LEAST_CELL, max(MOST_CELLS, len(blocks["x"]))
    rooms = _rooms(full, sides, least)
    while len(blocks["x"]) * math.prod(rooms) > most:
        least *= 1.05
        rooms = _rooms(full, sides, least)
    edges, ranges = [], []
    for axis, (parted, step, length, room) in enumerate(zip(parts, steps, full, rooms, strict=True)):
        bounds = [(edge(holdings, axis, i), edge(holdings, axis, i + step)) for i in range(0, parted, step)]
        cuts, cells = _cut(bounds, length, room)
        edges.append(cuts)
        ranges.append(cells)
    return Grid(tuple(edges), tuple(ranges), down, across, tuple(blocks["facets"]))


def _rooms(full: Sequence[int], sides: dict[int, float], least: float) -> list[int]:
    """Returns how many cells a block may have along each axis."""
    return [max(1, min(length, int(sides.get(axis, 0.0) / least))) for axis, length in enumerate(full)]


def _cut(bounds: Sequence[tuple[int, int]], full: int, room: int) -> tuple[np.ndarray, tuple[tuple[int, int], ...]]:
    """Cuts the blocks along an axis into cells: whole ones into up to `room`, those that padding shortens into less."""
    edges, cells = [0], []
    for start, stop in bounds:
        count = min(stop - start, max(1, round(room * (stop - start) / full))) if stop > start else 0
        first = len(edges) - 1
        edges += [start + (number * (stop - start)) // count for number in range(1, count + 1)]
        cells.append((first, first + count))
    return np.array(edges), tuple(cells)


def stats_of(grid: Grid, pieces: Sequence[Piece], strides: Sequence[int]) -> Stats:
    """Works out what the numbers in each cell are.

    Args:
        grid: the cells.
        pieces: which together have each number once.
        strides: n for each axis, of which every n-th number was read.
    """

    def zeros() -> np.ndarray:
        return np.zeros(grid.shape)

    extremes = np.full(grid.shape, math.inf), np.full(grid.shape, -math.inf)
    stats = Stats(zeros(), zeros(), zeros(), *extremes, zeros(), zeros())
    for piece in pieces:
        numbers = as_real(piece.numbers)
        starts, where = [], []
        for (start, stop), stride, edges in zip(piece.ranges, strides, grid.edges, strict=True):
            at = np.arange(-(-start // stride) * stride, stop, stride)
            begins = np.searchsorted(at, edges)
            there = np.flatnonzero(np.diff(begins))
            starts.append(begins[there])
            where.append(there)
        if not all(len(each) for each in where):
            continue
        cells = np.ix_(*where) if where else ()
        for target, ufunc, part in _parts(stats, numbers):
            for axis in reversed(range(part.ndim)):
                part = ufunc.reduceat(part, starts[axis], axis)  # noqa: PLW2901 - reduced axis by axis
            target[cells] = ufunc(target[cells], part)
    return stats


def as_real(numbers: np.ndarray) -> np.ndarray:
    """Returns numbers of any dtype as floats of 64 bits; of complex ones the magnitude."""
    return np.abs(numbers).astype(float) if np.iscomplexobj(numbers) else numbers.astype(float)


def _parts(stats: Stats, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ufunc, np.ndarray]]:
    """Yields what is reduced over the numbers of each cell: into which array, by what, and of what."""
    finite = np.isfinite(numbers)
    clean = numbers if finite.all() else np.where(finite, numbers, 0.0)
    yield stats.count, np.add, finite.astype(float)
    yield stats.total, np.add, clean
    yield stats.magnitude, np.add, np.abs(clean)
    yield stats.least, np.minimum, np.where(finite, numbers, math.inf)
    yield stats.most, np.maximum, np.where(finite, numbers, -math.inf)
    if clean is not numbers:
        yield stats.nan, np.add, np.isnan(numbers).astype(float)
        yield stats.infinite, np.add, np.isinf(numbers).astype(float)


def cells_view(grid: Grid, stats: Stats, sampled: bool, is_complex: bool) -> HeatCellsView:
    """Describes the cells, block by block.

    Args:
        grid: the cells.
        stats: of the numbers in them.
        sampled: whether some numbers were not read.
        is_complex: whether they are magnitudes of complex numbers.

    Returns:
        JSON-like data without NaN: the statistic and its scale (0 is the lightest colour; a diverging scale goes as far
        down as up); of each block its range of each of the `facets`, where its cells begin and end `down` and `across`,
        their `values` row by row (None without any finite number), and where a cell is several numbers the `least` and
        the `most` of them; in `odd` the cells with other numbers, as (block, cell, how many NaN, how many infinite
        ones).
    """
    most = float(stats.most.max(initial=-math.inf))
    least = float(stats.least.min(initial=math.inf))
    each = stats.count + stats.nan + stats.infinite
    single = not sampled and float(each.max(initial=0)) <= 1
    signed = least < 0
    cancels = float(np.abs(stats.total).sum()) < KEPT * float(stats.magnitude.sum())
    if single:
        statistic = ABSOLUTE if is_complex else VALUE
    else:
        statistic = MAGNITUDE if is_complex or (signed and cancels) else MEAN
    with np.errstate(invalid="ignore"):
        values = (stats.magnitude if statistic == MAGNITUDE else stats.total) / stats.count
    high = float(np.nanmax(np.abs(values))) if stats.count.any() else 0.0
    view: HeatCellsView = {
        "statistic": statistic,
        "complex": is_complex,
        "diverging": signed and statistic != MAGNITUDE,
        "high": short(high),
        "least": short(least),
        "most": short(most),
        "each": (int(each.min()), int(each.max())) if each.size else (0, 0),
        "nan": int(stats.nan.sum()),
        "infinite": int(stats.infinite.sum()),
        "odd": [],
        "blocks": [],
    }
    for number, box in enumerate(grid.boxes()):
        chosen = tuple(slice(*cells) for cells in box)
        block: HeatBlockView = {
            "down": _edges(grid, grid.down, box),
            "across": _edges(grid, grid.across, box),
            "facets": [_range(grid, axis, box) for axis in grid.facets],
            "values": _shorts(values[chosen]),
        }
        if not single:
            block["least"] = _shorts(stats.least[chosen])
            block["most"] = _shorts(stats.most[chosen])
        view["blocks"].append(block)
        nan, infinite = stats.nan[chosen].ravel(), stats.infinite[chosen].ravel()
        odd = np.flatnonzero(nan + infinite)
        view["odd"] += [(number, int(cell), int(nan[cell]), int(infinite[cell])) for cell in odd]
    return view


def _edges(grid: Grid, axis: int, box: Sequence[tuple[int, int]]) -> list[int]:
    if axis < 0:
        return [0, 1]
    first, last = box[axis]
    return [int(edge) for edge in grid.edges[axis][first : last + 1]]


def _range(grid: Grid, axis: int, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
    first, last = box[axis]
    return int(grid.edges[axis][first]), int(grid.edges[axis][last])


def _shorts(numbers: np.ndarray) -> list[float | None]:
    return [short(x) for x in numbers.ravel()]


def short(number: float) -> float | None:
    """Returns a number to five digits, more than can be read of a colour; None where it is not finite."""
    return float(f"{number:.5g}") if math.isfinite(number) else None
