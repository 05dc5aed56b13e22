"""The board as plain HTML and SVG, without scripts, for saved notebooks, GitHub and reports.

    >>> explorer.snapshot().save("board.html")

A live widget needs its kernel, and a reopened notebook has none; a snapshot needs nothing. All styles stand in the
elements, since sites that show notebooks take style sheets out, and the colours are a light set on its own background,
legible wherever it is put; beside a style sheet they follow the page (`themed.py`).
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterator

from ...cost.machines.units import bytes_text, number_text, share_text
from ...engine.tables import prose
from .html import bars, escaped, heading
from .palette import mark
from .snapshot_devices import devices_html
from .snapshot_machine import machine_html, peak_memory_html
from .themed import EDGE, GROUND, INK, NEUTRAL, QUIET, SNAPSHOT, SOFT, SOLID, TINT

MOST_ROWS = 12
# By how far a condition of the goal is met.
_MARKS = {"met": "✓", "missed": "✗", "pending": "…"}
# Notebooks have styles of their own for tables, and for code a ground of their own, which is black where they are dark.
_CODE = '<code style="background:none;color:inherit">'
_CELL = f"padding:3px 6px;border-radius:5px;font:inherit;color:{INK};text-align:left;background:{GROUND}"


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A still picture of the board.

    Args:
        view: the board's data, from `board_view`.
    """

    view: dict = dataclasses.field(repr=False)

    @property
    def html(self) -> str:
        """The snapshot as a piece of HTML."""
        view = self.view
        body = "".join(_parts(view)).replace("<code>", _CODE)
        look = f"color:{INK};background:{GROUND};border:1px solid {EDGE};border-radius:10px"
        style = f"font:14px/1.45 system-ui,sans-serif;{look};padding:14px 16px;max-width:960px;text-align:left"
        return f'<div {SNAPSHOT} style="{style}">{body}</div>'

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the snapshot as a page of its own."""
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>meshlab</title>'
        pathlib.Path(path).write_text(f"{head}<body>{self.html}</body></html>", encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.html

    def __str__(self) -> str:
        return self.html


def _parts(view: dict) -> Iterator[str]:
    """Yields what is drawn; while a number is to be predicted, no figure."""
    task = view["task"]
    if task is not None:
        yield _task(task)
    if task is not None and task["locked"]:
        yield _zones(view)
        return
    sent = (_communication(view), _collectives(view))
    yield from (_head(view), _goal(view), _zones(view), machine_html(view), devices_html(view), *sent, _memory(view))


def _task(task: dict) -> str:
    """What is to be done, and the number that is asked for, with the prediction once there is one."""
    given = f'<div style="color:{SOFT}">{prose(task["given"])}</div>' if task["locked"] and task["given"] else ""
    question = ""
    if task["question"]:
        found, guess = number_text(task["number"]), number_text(task["predicted"])
        mark_of = {True: "✓ ", False: "✗ ", None: ""}[task["right"]]
        said = "Predict first." if task["locked"] else f"{mark_of}{found}; predicted: {guess}"
        question = f"<div>{prose(task['question'])}? <b>{said}</b></div>"
    head = f'<div style="font-weight:600;font-size:17px">{prose(task["heading"])}</div>'
    return f"{head}<div>{prose(task['text'])}</div>{given}{question}"


def _head(view: dict) -> str:
    mesh = ", ".join(f"{axis['name']} × {axis['size']:,}" for axis in view["mesh"]["axes"]) or "no axes"
    sent, stored = bytes_text(view["communication"]["total"]), bytes_text(view["memory"]["arguments"])
    layout = escaped(view["layout"]["text"] or "nothing sharded")
    lost = f" (⚠ unsharded from {escaped(view['lost'])} on)" if view["lost"] else ""
    return (
        f'<div style="font-weight:600;font-size:17px"><code>{layout}</code></div>'
        f'<div style="color:{SOFT}">{view["mesh"]["size"]:,} devices: {escaped(mesh)}. '
        f"Each computes <b>{share_text(view['work'])}</b> of the FLOPs{lost}, sends <b>{sent}</b> per step in "
        f"{view['collectives']['count']:,} collectives, and holds <b>{stored}</b> of the arguments.</div>"
    )


def _goal(view: dict) -> str:
    """Lists the conditions of the goal with their marks; empty where the board has none."""
    goal = view["goal"]
    if goal is None:
        return ""
    lines = "".join(
        f"<div>{_MARKS[each['state']]} {prose(each['text'])}"
        f' <span style="color:{SOFT}">{prose(each["value"])}</span></div>'
        for each in goal["conditions"]
    )
    return heading(goal["heading"].capitalize()) + lines


def _zones(view: dict) -> str:
    """Draws mesh axes as rows and places as columns, as the board does, and below them the dims without a rule."""
    sizes = {axis["name"]: axis["size"] for axis in view["mesh"]["axes"]}
    columns = [column for column in view["columns"] if column["open"]]
    head = "".join(f'<th style="{_CELL};color:{SOFT}">{escaped(column["label"])}</th>' for column in columns)
    rows = "".join(_row(view, sizes, axis) for axis in sizes)
    style = "border-collapse:separate;border-spacing:4px;margin-left:-4px;font:inherit"
    grid = f'<table style="{style}"><tr><th style="{_CELL}"></th>{head}</tr>{rows}</table>'
    free = [
        _chip(EDGE, GROUND, f"{c['name']} {c['size']:,}")
        for c in view["chips"]
        if not columns[0]["rules"].get(c["name"])
    ]
    tray = (
        f'<div style="padding:6px 8px;border:1px solid {EDGE};border-radius:6px">{"".join(free)}</div>' if free else ""
    )
    return heading("Layout") + grid + tray + _within(columns) + _kept(view)


def _kept(view: dict) -> str:
    """Lists what searches keep to; empty where they may do anything."""
    rules = [prose(rule["text"]) for rule in view["kept"]["rules"]]
    return f'<div style="color:{SOFT}">Searches keep to: {", ".join(rules)}.</div>' if rules else ""


def _row(view: dict, sizes: dict[str, int], axis: str) -> str:
    number = mark(view, axis)
    cells = "".join(
        f'<td style="{_CELL};border:1px solid {EDGE};background:{QUIET}">{_chips(view, sizes, column, axis)}</td>'
        for column in view["columns"]
        if column["open"]
    )
    name = f'<th style="{_CELL};border-left:4px solid {SOLID[number]}">{escaped(axis)} × {sizes[axis]:,}</th>'
    return f"<tr>{name}{cells}</tr>"


def _chips(view: dict, sizes: dict[str, int], column: dict, axis: str) -> str:
    """Draws the dims that an axis shards in a column; of several axes of a dim, which this one is."""
    number, drawn = mark(view, axis), []
    known = {chip["name"]: chip for chip in view["chips"]}
    for dim, axes in column["rules"].items():
        if axis not in axes:
            continue
        size = known[dim]["size"] if dim in known and not column["at"] else None
        local = "" if size is None else f" {size:,} → {-(-size // math.prod(sizes[each] for each in axes)):,}"
        order = f" ({axes.index(axis) + 1} of {len(axes)})" if len(axes) > 1 else ""
        drawn.append(_chip(SOLID[number], TINT[number], f"{dim}{local}{order}"))
    return "".join(drawn) or "&nbsp;"


def _chip(edge: str, ground: str, text: str) -> str:
    style = f"display:inline-block;margin:1px 6px 1px 0;padding:0 9px;border:1px solid {edge};border-radius:12px"
    return f'<span style="{style};background:{ground};white-space:nowrap">{escaped(text)}</span>'


def _within(columns: list[dict]) -> str:
    """Lists rules that stand within a column's places, which the board unfolds at its head, and dims kept whole."""
    lines = [
        f"<code>{escaped(at)}</code>: {escaped(dim)} {'on ' + escaped(' + '.join(axes)) if axes else 'whole'}"
        for column in columns
        for at, rules in ((column["at"], _whole(column)), *((each["at"], each["rules"]) for each in column["within"]))
        for dim, axes in rules.items()
    ]
    return f'<div style="color:{SOFT};margin-top:4px">Rules within: {"; ".join(lines)}</div>' if lines else ""


def _whole(column: dict) -> dict:
    return {dim: axes for dim, axes in column["rules"].items() if not axes} if column["at"] else {}


def _communication(view: dict) -> str:
    sums = view["communication"]
    if not sums["by_axis"]:
        return heading("Communication") + "<div>Nothing is sent under this layout.</div>"

    def coloured(parts: list[dict]) -> list[tuple[str, int]]:
        return [(SOLID[mark(view, part["key"])], part["bytes"]) for part in parts]

    axes = [(part["key"], coloured([part])) for part in sums["by_axis"]]
    lines = [(line["line"], coloured(line["parts"])) for line in sums["by_line"][:MOST_ROWS]]
    return (
        heading("Communication: bytes that each device sends per step, by mesh axis")
        + bars(axes)
        + heading("… and by source line")
        + bars(lines)
    )


def _collectives(view: dict) -> str:
    rows = view["collectives"]["rows"]
    items = []
    for row in rows[:MOST_ROWS]:
        often = f" × {row['times']:,}" if row["times"] > 1 else ""
        head = f"<b>{escaped(row['kind'])}</b> over {escaped(' + '.join(row['axes']))}: {escaped(row['value'])}"
        colour = SOLID[mark(view, row["key"])]
        items.append(
            f'<div style="margin:6px 0;padding-left:10px;border-left:3px solid {colour}">{head}, '
            f"<b>{bytes_text(row['wire'])}</b>{often} <code>{escaped(row['source'])}</code><br>"
            f"{prose(row['because'])}</div>"
        )
    more = len(rows) + view["collectives"]["left_out"] - len(items)
    rest = f'<div style="color:{SOFT}">and {more:,} smaller ones</div>' if more > 0 else ""
    return (heading("Collectives, and why") + "".join(items) + rest) if items else ""


def _memory(view: dict) -> str:
    rows = [(part["name"], [(NEUTRAL, part["bytes"])]) for part in view["memory"]["parts"][:MOST_ROWS]]
    return peak_memory_html(view) + heading("Memory per device: arguments and outputs") + bars(rows)
