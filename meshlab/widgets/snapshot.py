"""The board as plain HTML and SVG, without scripts: what stays in a saved notebook, on GitHub, in a report.

    >>> explorer.snapshot().save("board.html")

A live widget needs its kernel, and a reopened notebook has none; a snapshot needs nothing. All styles stand in the
elements, since sites that show notebooks take style sheets out, and the colours are a light set on its own background,
legible wherever it is put.
"""

from __future__ import annotations

import dataclasses
import html
import pathlib

from .palette import EDGE, INK, NEUTRAL, QUIET, SOFT, SOLID, TINT, count_bytes, mark, percent

MOST_ROWS = 12


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A picture of the board as it was.

    Args:
        view: what `board_view` gave.
    """

    view: dict = dataclasses.field(repr=False)

    @property
    def html(self) -> str:
        """The snapshot as a piece of HTML."""
        view = self.view
        parts = (_head(view), _zones(view), _communication(view), _collectives(view), _memory(view), _shards(view))
        style = (
            f"font:14px/1.45 system-ui,sans-serif;color:{INK};background:#fff;border:1px solid {EDGE};padding:14px 16px"
        )
        return f'<div style="{style};border-radius:10px;max-width:960px;text-align:left">{"".join(parts)}</div>'

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the snapshot as a page of its own."""
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>meshlab</title>'
        pathlib.Path(path).write_text(f"{head}<body>{self.html}</body></html>", encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.html

    def __str__(self) -> str:
        return self.html


def _text(value: object) -> str:
    return html.escape(str(value))


def _prose(text: str) -> str:
    """Sets `names` in backquotes as code."""
    parts = _text(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _title(text: str) -> str:
    return f'<div style="margin:14px 0 4px;font-weight:600">{_text(text)}</div>'


def _head(view: dict) -> str:
    mesh = ", ".join(f"{axis['name']} × {axis['size']}" for axis in view["mesh"]["axes"]) or "no axes"
    total, held = count_bytes(view["communication"]["total"]), count_bytes(view["memory"]["arguments"])
    layout = _text(view["layout"]["text"] or "no layout")
    return (
        f'<div style="font-weight:600;font-size:17px"><code>{layout}</code></div>'
        f'<div style="color:{SOFT}">{view["mesh"]["size"]:,} devices: {_text(mesh)}. '
        f"Each computes <b>{percent(view['work'])}</b> of the products, sends <b>{total}</b> per step in "
        f"{view['collectives']['count']} collectives, and holds <b>{held}</b> of the arguments.</div>"
    )


def _zones(view: dict) -> str:
    rows = [(axis["name"], f"× {axis['size']}") for axis in view["mesh"]["axes"]]
    zones = [_zone(view, name, size, [c for c in view["chips"] if name in c["axes"]]) for name, size in rows]
    whole = _zone(view, "", "unsplit", [c for c in view["chips"] if not c["axes"]])
    return _title("Layout") + "".join(zones) + whole


def _zone(view: dict, name: str, size: str, chips: list[dict]) -> str:
    number = mark(view, name)
    solid, tint = (SOLID[number], TINT[number]) if name else (EDGE, QUIET)
    shown = [f"{c['name']} {c['size']:,}" + (f" → {c['local']:,}" if name else "") for c in chips]
    style = f"display:inline-block;margin:0 6px 4px 0;padding:1px 9px;border:1px solid {solid};border-radius:12px"
    drawn = "".join(f'<span style="{style};background:{tint}">{_text(text)}</span>' for text in shown)
    label = f"<b>{_text(name)}</b> {_text(size)}" if name else f"<b>{_text(size)}</b>"
    return f'<div style="padding:4px 10px;margin:4px 0;border-left:4px solid {solid}">{label} &nbsp; {drawn}</div>'


def _bars(view: dict, rows: list[tuple[str, list[tuple[str, int]]]]) -> str:
    """Draws stacked bars as SVG: for each row its parts, as (colour, bytes)."""
    most = max((sum(size for _, size in parts) for _, parts in rows), default=0) or 1
    lines = []
    for index, (name, parts) in enumerate(rows):
        y, x = index * 24, 210.0
        lines.append(f'<text x="0" y="{y + 15}" fill="{INK}">{_text(name)}</text>')
        for colour, size in parts:
            width = 380 * size / most
            lines.append(f'<rect x="{x:.1f}" y="{y + 3}" width="{max(width, 1):.1f}" height="15" fill="{colour}"/>')
            x += width
        total = count_bytes(sum(size for _, size in parts))
        lines.append(f'<text x="{x + 8:.1f}" y="{y + 15}" fill="{SOFT}">{total}</text>')
    height = len(rows) * 24
    size = f'viewBox="0 0 700 {height}" width="700" height="{height}" style="max-width:100%" font-size="13"'
    return f"<svg {size}>{''.join(lines)}</svg>"


def _communication(view: dict) -> str:
    sums = view["communication"]
    if not sums["by_axis"]:
        return _title("Communication") + "<div>Nothing is sent under this layout.</div>"

    def coloured(parts: list[dict]) -> list[tuple[str, int]]:
        return [(SOLID[mark(view, part["key"])], part["bytes"]) for part in parts]

    axes = [(part["key"], coloured([part])) for part in sums["by_axis"]]
    lines = [(line["line"], coloured(line["parts"])) for line in sums["by_line"][:MOST_ROWS]]
    return (
        _title("Communication: bytes that each device sends per step, by mesh axis")
        + _bars(view, axes)
        + _title("… and by source line")
        + _bars(view, lines)
    )


def _collectives(view: dict) -> str:
    rows = view["collectives"]["rows"]
    items = []
    for row in rows[:MOST_ROWS]:
        often = f" × {row['times']}" if row["times"] > 1 else ""
        head = f"<b>{_text(row['kind'])}</b> over {_text(' + '.join(row['axes']))}: {_text(row['value'])}"
        colour = SOLID[mark(view, row["key"])]
        items.append(
            f'<div style="margin:6px 0;padding-left:10px;border-left:3px solid {colour}">{head}, '
            f"<b>{count_bytes(row['wire'])}</b>{often} <code>{_text(row['source'])}</code><br>{_prose(row['because'])} "
            f'<span style="color:{SOFT}">To remove it: {_prose(row["remedy"])}</span></div>'
        )
    more = len(rows) + view["collectives"]["left_out"] - len(items)
    rest = f'<div style="color:{SOFT}">and {more} smaller ones</div>' if more > 0 else ""
    return (_title("Collectives, and why") + "".join(items) + rest) if items else ""


def _memory(view: dict) -> str:
    rows = [(part["name"], [(NEUTRAL, part["bytes"])]) for part in view["memory"]["parts"][:MOST_ROWS]]
    return _title("Memory per device: arguments and outputs") + _bars(view, rows)


def _shards(view: dict) -> str:
    shards = view["shards"]
    if not shards:
        return ""
    title = _title(f"Who holds what of {shards['place']}")
    if shards["slices"] == 1:
        return f"{title}<div>every device: all of it</div>"
    rows = []
    for tile in shards["tiles"][:MOST_ROWS]:
        cut = [index for index, axes in enumerate(shards["splits"]) if axes]
        ranges = [f"{shards['dims'][i]} {tile['ranges'][i][0]}–{tile['ranges'][i][1] - 1}" for i in cut]
        rows.append(f"device {tile['device']}: {_text(', '.join(ranges) or 'all of it')}")
    more = view["mesh"]["size"] - len(rows)
    rest = f"; and {more:,} more devices" if more else ""
    return f"{title}<div>{'; '.join(rows)}{rest}</div>"
