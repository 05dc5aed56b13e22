"""A table of raw numbers, with their units in the names of its columns.

    table = explorer.table("communication")
    table[0]                        {"mesh_axes": "data", "wire_bytes": 420, "payload_bytes": 280}
    table.csv(), table.json()       for a spreadsheet, for a program; pandas.DataFrame(table) takes it as it is
    table.about["program"]          "llama3-8b": also a column of the CSV, `about_program`, and a key of the JSON
    table.latex(), table.markdown() for a paper, for a page
    table.save("sent.csv")          or .json, .tex, .md
    print(table)                    its first rows

A number is as exact as the plan has it, in CSV and JSON. What is not known is None, elsewhere nothing.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...engine.errors import listed, shown
from ...engine.tables import html_rows
from ..documents.document import ExplorerError, write
from .written import cell, latex, lines, markdown

# So many rows are shown in a cell, and printed.
MOST_SHOWN, MOST_PRINTED = 40, 10


@dataclasses.dataclass(frozen=True, repr=False)
class Table(Sequence[Mapping[str, Any]]):
    """The rows of a table.

    Attributes:
        name: which table it is.
        about: the program, sizes, mesh, machine, layout and version, by name.
        rows: for each row the values by column.
    """

    name: str
    about: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(dict.fromkeys(column for row in self.rows for column in row))

    def only(self, numbers: Sequence[int]) -> Table:
        """Returns some of the rows, by their numbers."""
        return dataclasses.replace(self, rows=tuple(self.rows[n] for n in numbers if 0 <= n < len(self.rows)))

    def csv(self) -> str:
        """Returns the table as comma-separated values, the names of the columns first; of no rows nothing.

        What the table is about stands in each row, in columns `about_…` at the end: lines above the names would be read
        as the names by most programs, and rows of two files that are joined stay apart.
        """
        if not self.rows:
            return ""
        columns, text = self.columns, io.StringIO()
        writer = csv.writer(text)
        writer.writerow([*columns, *(f"about_{what}" for what in self.about)])
        writer.writerows([*(_cell(row.get(column)) for column in columns), *self.about.values()] for row in self.rows)
        return text.getvalue()

    def json(self) -> str:
        """Returns the table as JSON: its rows, and what they are about."""
        rows = [{column: _finite(value) for column, value in row.items()} for row in self.rows]
        return json.dumps({"table": self.name, **self.about, "rows": rows}, indent=1)

    def markdown(self) -> str:
        """Returns the table as Markdown; of no rows nothing."""
        return markdown(self.rows, self.columns) if self.rows else ""

    def latex(self) -> str:
        """Returns the table as LaTeX, a `tabular` with the rules of booktabs; of no rows nothing."""
        said = ", ".join(f"{what} {of}" for what, of in self.about.items() if of)
        return latex(self.rows, self.columns, f"{self.name}: {said}") if self.rows else ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table as its name ends: .csv, .json, .tex or .md.

        Args:
            path: the file, which is replaced whole.

        Raises:
            ExplorerError: the name ends otherwise, or the file cannot be written.
        """
        kind = next((each for each in KINDS if str(path).lower().endswith(each)), "")
        if not kind:
            raise ExplorerError(f"save() was given {shown(path)} for its file; the name must end in {listed(KINDS)}.")
        write(path, KINDS[kind](self))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        return self.rows[at]

    def __repr__(self) -> str:
        count = len(self.rows)
        head = f"Table {self.name}: {count:,} row{'s' * (count != 1)}"
        more = [f"and {count - MOST_PRINTED:,} more rows"] if count > MOST_PRINTED else []
        return "\n".join([head, *lines(self.rows, self.columns, MOST_PRINTED), *more]) if count else head

    def _repr_html_(self) -> str:
        if not self.rows:
            return "<p>no rows</p>"
        columns = self.columns
        rows = ([cell(row.get(column)) for column in columns] for row in self.rows[:MOST_SHOWN])
        more = len(self.rows) - MOST_SHOWN
        return html_rows(rows, columns) + (f"<p>and {more:,} more rows</p>" if more > 0 else "")


def _cell(value: Any) -> Any:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


KINDS: Mapping[str, Callable[[Table], str]] = {
    ".csv": Table.csv,
    ".json": Table.json,
    ".tex": Table.latex,
    ".md": Table.markdown,
}
