"""Pieces of plain HTML and SVG for snapshots: text, headings, bars."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from ...cost.machines.units import bytes_text
from .themed import INK, SOFT


def escaped(value: object) -> str:
    return html.escape(str(value))


def heading(text: str) -> str:
    return f'<div style="margin:14px 0 4px;font-weight:600">{escaped(text)}</div>'


def bars(
    rows: Sequence[tuple[str, Sequence[tuple[str, float]]]],
    text_of: Callable[[float], str] = bytes_text,
) -> str:
    """Draws stacked bars as SVG.

    Args:
        rows: for each the name and its parts, as (colour, number).
        text_of: writes a number; by default as bytes.
    """
    most = max((sum(size for _, size in parts) for _, parts in rows), default=0) or 1
    lines = []
    for index, (name, parts) in enumerate(rows):
        y, x = index * 24, 210.0
        lines.append(f'<text x="0" y="{y + 15}" fill="{INK}">{escaped(name)}</text>')
        for colour, size in parts:
            width = 380 * size / most
            lines.append(f'<rect x="{x:.1f}" y="{y + 3}" width="{max(width, 1):.1f}" height="15" fill="{colour}"/>')
            x += width
        total = sum(size for _, size in parts)
        lines.append(f'<text x="{x + 8:.1f}" y="{y + 15}" fill="{SOFT}">{text_of(total)}</text>')
    height = len(rows) * 24
    size = f'viewBox="0 0 700 {height}" width="700" height="{height}" style="max-width:100%" font-size="13"'
    return f"<svg {size}>{''.join(lines)}</svg>"
