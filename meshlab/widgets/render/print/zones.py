"""The layout as zones: mesh axes as rows, places as columns, in each cell the dims that the axis shards there.

What does not fit side by side stands below one another: the columns of a narrow page are parts of one list.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from ...state.explorer_state import ExplorerState
from ..palette import EDGE, SOFT
from .costs import marked
from .letters import LINE, SMALL, TEXT, UP, width_of
from .page import Page
from .sheet import Fill

# Points around what stands in a cell, and the side of the mark of an axis.
_PAD, _MARK = 3.0, 8.0


@dataclasses.dataclass(frozen=True)
class Zones:
    """A column: its name, and what each mesh axis shards there, line by line."""

    label: str
    cells: tuple[tuple[str, ...], ...]

    @property
    def width(self) -> float:
        """Points that it needs."""
        words = [width_of(self.label, SMALL), *(width_of(line, TEXT) for cell in self.cells for line in cell)]
        return max(words) + 2 * _PAD

    @property
    def is_empty(self) -> bool:
        """Whether no axis shards anything there."""
        return not any(self.cells)


def draw_layout(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the zones, and below them the dims that are not sharded and the rules within columns."""
    page.title("Layout")
    axes = view["mesh"]["axes"]
    zones = [zone for column in view["columns"] if column["open"] and not (zone := zones_of(view, column)).is_empty]
    if not zones:
        page.write("Nothing is sharded: every device holds and computes all of it.")
    elif sum(zone.width + _PAD for zone in zones) <= page.width - _names_width(axes):
        page.line(_heads(page, axes, zones), SMALL, SOFT)
        _draw_grid(page, view, zones)
    else:
        for zone in zones:
            page.write(zone.label, TEXT, SOFT, bold=True)
            _draw_grid(page, view, [zone])
    whole = [f"{chip['name']} {chip['size']:,}" for chip in view["chips"] if not _sharded(view, chip["name"])]
    if whole:
        page.write(f"Sharded nowhere: {', '.join(whole)}.", SMALL, SOFT)
    for text in within_texts(view):
        page.write(text, SMALL, SOFT)


def zones_of(view: dict[str, Any], column: dict[str, Any]) -> Zones:
    """Describes a column of the board."""
    sizes = {axis["name"]: axis["size"] for axis in view["mesh"]["axes"]}
    known = {chip["name"]: chip["size"] for chip in view["chips"]}

    def line(dim: str, axes: Sequence[str], axis: str) -> str:
        notes = [f"{axes.index(axis) + 1} of {len(axes)}"] if len(axes) > 1 else []
        notes += ["zig-zag"] if dim in column.get("zigzag", ()) else []
        order = f" ({', '.join(notes)})" if notes else ""
        if dim not in known or column["at"]:
            return f"{dim}{order}"
        local = -(-known[dim] // math.prod(sizes[each] for each in axes))
        return f"{dim} {known[dim]:,} → {local:,}{order}"

    cells = (tuple(line(dim, axes, axis) for dim, axes in column["rules"].items() if axis in axes) for axis in sizes)
    return Zones(column["label"], tuple(cells))


def within_texts(view: dict[str, Any]) -> list[str]:
    """Says the rules at places inside a column, and the dims that are kept whole there."""
    return [
        f"At {at}: {dim} {'on ' + ' + '.join(axes) if axes else 'whole'}."
        for column in view["columns"]
        for at, rules in (
            (column["at"], {dim: axes for dim, axes in column["rules"].items() if not axes and column["at"]}),
            *((each["at"], each["rules"]) for each in column["within"]),
        )
        for dim, axes in rules.items()
    ]


def _sharded(view: dict[str, Any], dim: str) -> bool:
    rules = [column["rules"] for column in view["columns"]]
    return any(each.get(dim) for each in [*rules, *(w["rules"] for c in view["columns"] for w in c["within"])])


def _name(axis: dict[str, Any]) -> str:
    return f"{axis['name']} × {axis['size']:,}"


def _names_width(axes: Sequence[dict[str, Any]]) -> float:
    return max((width_of(_name(axis), TEXT, bold=True) for axis in axes), default=0) + _MARK + 3 * _PAD


def _columns(page: Page, axes: Sequence[dict[str, Any]], zones: Sequence[Zones]) -> list[tuple[float, float, Zones]]:
    """Returns where each column begins, and how wide it is: the first takes what the others leave."""
    x = _names_width(axes)
    rest = page.width - x - sum(zone.width + _PAD for zone in zones) + _PAD
    columns = []
    for n, zone in enumerate(zones):
        width = zone.width + (0 if n else max(rest, 0.0))
        columns.append((x, width, zone))
        x += width + _PAD
    return columns


def _heads(page: Page, axes: Sequence[dict[str, Any]], zones: Sequence[Zones]) -> list[tuple[float, str]]:
    return [(x + _PAD, zone.label) for x, _, zone in _columns(page, axes, zones)]


def _draw_grid(page: Page, view: dict[str, Any], zones: Sequence[Zones]) -> None:
    """Draws columns side by side, a row for each mesh axis."""
    sheet, axes = page.sheet, view["mesh"]["axes"]
    for row, axis in enumerate(axes):
        lines = max(1, *(len(zone.cells[row]) for zone in zones))
        high = lines * LINE * TEXT + 2 * _PAD
        middle = page.y + high / 2
        sheet.rect(0, middle - _MARK / 2, _MARK, _MARK, marked(view, axis["name"]))
        sheet.text(_MARK + _PAD, middle + 0.36 * TEXT, _name(axis), TEXT, bold=True)
        for x, width, zone in _columns(page, axes, zones):
            edge = SOFT if zone.cells[row] else EDGE
            sheet.rect(x, page.y + 0.5, width, high - 1, Fill("#ffffff"), stroke=edge, round_by=2)
            for n, line in enumerate(zone.cells[row]):
                sheet.text(x + _PAD, page.y + _PAD + n * LINE * TEXT + UP * TEXT, line, TEXT)
        page.y += high + 1
    page.y += 3
