"""A table in words: as lines for a terminal, as Markdown, and as LaTeX.

    lines([{"mesh_axes": "data", "wire_bytes": 420}], most=10)

    mesh_axes  wire_bytes
    data              420

Numbers stand on the right, names on the left. Whole numbers are written in full, with commas; others to six digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...engine.tables import Cell

# So many letters of a text are shown in a line; a text may begin with a path, and end with what matters.
_LETTERS = 36
# What LaTeX reads as its own, and what its fonts do not have.
_LATEX = {
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"×": r"$\times$", "→": r"$\to$", "−": "$-$", "≤": r"$\leq$", "≥": r"$\geq$", "·": r"$\cdot$", "µ": r"$\mu$"},
    **{"…": r"\dots{}", "–": "--", "✓": "yes", "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}"},
}
Rows = Sequence[Mapping[str, Any]]


def cell(value: Any) -> Cell:
    """Returns a value as it is shown: a whole number as it is, another number to six digits."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == round(value) else f"{value:.6g}"
    return value if value is None or isinstance(value, int) else str(value)


def text(value: Any) -> str:
    """Returns a value in words; of None nothing."""
    shown = cell(value)
    return "" if shown is None else f"{shown:,}" if isinstance(shown, int) else shown


def lines(rows: Rows, columns: Sequence[str], most: int) -> list[str]:
    """Returns the names of the columns, and at most so many rows, below one another."""
    columns = list(columns)
    cells = [columns, *([_short(text(row.get(column))) for column in columns] for row in rows[:most])]
    widths = [max(map(len, each)) for each in zip(*cells, strict=True)]
    right = [_is_number(rows, column) for column in columns]
    return [
        "  ".join(
            each.rjust(width) if number else each.ljust(width)
            for each, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]


def markdown(rows: Rows, columns: Sequence[str]) -> str:
    """Returns a table of GitHub's Markdown."""
    bars = ["---:" if _is_number(rows, column) else "---" for column in columns]
    cells = [columns, bars, *([_in_markdown(text(row.get(column))) for column in columns] for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def latex(rows: Rows, columns: Sequence[str], said: str) -> str:
    """Returns a tabular with the rules of booktabs.

    Args:
        rows: its rows.
        columns: the names of its columns.
        said: what the table is about, in a comment.
    """
    sides = "".join("r" if _is_number(rows, column) else "l" for column in columns)
    head, *body = (
        " & ".join(map(_in_latex, row)) + r" \\"
        for row in (columns, *([text(row.get(column)) for column in columns] for row in rows))
    )
    comment = [f"% {' '.join(said.split())}", r"% \usepackage{booktabs}"]
    inside = [r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
    return "\n".join([*comment, rf"\begin{{tabular}}{{{sides}}}", *inside, r"\end{tabular}", ""])


def _is_number(rows: Rows, column: str) -> bool:
    """Whether a column has numbers alone."""
    values = [row[column] for row in rows if row.get(column) is not None]
    return bool(values) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)


def _short(words: str) -> str:
    """Shortens a text in the middle."""
    words = " ".join(words.split())
    half = _LETTERS // 2
    return words if len(words) <= _LETTERS else f"{words[:half].rstrip()}…{words[1 - half :].lstrip()}"


def _in_markdown(words: str) -> str:
    """Returns a text in which nothing is read as a mark."""
    return "".join(f"\\{each}" if each in "\\`*_|<>[]" else each for each in " ".join(words.split()))


def _in_latex(words: str) -> str:
    return "".join(_LATEX.get(each, each) for each in " ".join(words.split()))
