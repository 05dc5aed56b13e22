"""Sets tables as text and as HTML: rows of texts, and predicted numbers beside those of a compiled program.

comparison(("", "plan", "XLA"), [("= all-gather over data", 813_056, 813_056)])

                             plan      XLA
  = all-gather over data  813,056  813,056
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest

Key = tuple[str, tuple[str, ...]]
Totals = Mapping[Key, int]
Cell = int | str | None


def text_rows(rows: Sequence[Sequence[str]]) -> str:
    """Sets rows of texts as lines, in columns that are aligned on the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def html_rows(rows: Iterable[Sequence[Cell]], heads: Sequence[str] = (), align: str = "left") -> str:
    """Sets rows as an HTML table.

    Args:
        rows: a name each, then numbers or texts; None leaves a cell empty.
        heads: the columns' heads, that of the names first; none by default.
        align: the side on which numbers and texts are aligned; names are on the left.
    """

    def line(row: Sequence[Cell], tag: str) -> str:
        name, *cells = (html.escape(_text(cell)) for cell in row)
        columns = "".join(f"<{tag} style='text-align:{align}'>{cell}</{tag}>" for cell in cells)
        return f"<tr><th style='text-align:left;white-space:pre'>{name}</th>{columns}</tr>"

    head = [line(heads, "th")] if heads else []
    return f"<table>{''.join([*head, *(line(row, 'td') for row in rows)])}</table>"


def prose(text: object) -> str:
    """Sets a text as HTML, with `names` in backquotes as code."""
    parts = html.escape(str(text)).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def mark(good: bool) -> str:
    return "✓" if good else "✗"


def named(kind: str, axes: Iterable[str] | None) -> str:
    """Names collectives of a kind over mesh axes; `?` stands for axes that are not known."""
    return f"{kind} over {'+'.join(axes or ('?',))}"


def collective_rows(predicted: Totals, compiled: Totals, marked: Callable[[Key], str]) -> list[Sequence[Cell]]:
    """Returns a row for each kind of collective and mesh axes, marked: payload bytes predicted, and compiled."""
    keys = sorted({*predicted, *compiled}, key=str)
    return [(f"{marked(key)} {named(*key)}", predicted.get(key, 0), compiled.get(key, 0)) for key in keys]


def comparison(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> list[str]:
    """Returns the lines of a table in aligned columns.

    Args:
        heads: the columns' heads, that of the names first.
        rows: a name each, then numbers or texts; None leaves a cell empty, and so does a row that ends before it.
    """
    cells = [[_text(cell) for cell in row] for row in (heads, *rows)]
    first, *others = (max(map(len, column)) for column in zip_longest(*cells, fillvalue=""))
    lines = (
        f"  {name:<{first}}" + "".join(f"  {text:>{width}}" for text, width in zip(texts, others, strict=False))
        for name, *texts in cells
    )
    return [line.rstrip() for line in lines]


def note_lines(notes: Iterable[str]) -> list[str]:
    return [f"  · {note}" for note in notes]


def _text(cell: Cell) -> str:
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell
