"""Receipts: a line that says who solved which puzzle how, and is worked out again from the layout in it.

    meshlab P08 | ada | batch:x heads:y ffn:y | 3,072 B | predicted 2, right | tries 3 | hints 2 | c46151bb

A receipt is no examination: who has the product can make one. The layout in it is planned again, at its reader's sizes,
and what it says of bytes and of the prediction is compared with that; tries and hints are what the reader says.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator

from ...api.stages import Plan
from ...cost.machines.units import number_text
from ...engine.errors import MeshlabError
from ...engine.tables import html_rows, text_rows
from .attempts import Attempts
from .setting import BETWEEN, Setting

_FIRST, _GUESS = "meshlab ", "predicted "
_NOBODY = "nobody"


def receipt(setting: Setting, plan: Plan, predicted: float | None, tries: int, hints: int) -> str:
    """Returns the receipt of a layout that passed."""
    parts = [
        _FIRST + setting.name,
        setting.reader or _NOBODY,
        str(plan.layout) or "nothing split",
        f"{plan.wire_bytes:,.0f} B",
        *_predicted(setting, predicted),
        f"tries {tries}",
        f"hints {hints}",
    ]
    return BETWEEN.join([*parts, mark(parts)])


def _predicted(setting: Setting, predicted: float | None) -> list[str]:
    right = setting.is_right(predicted)
    return [] if right is None else [f"{_GUESS}{number_text(predicted)}, {'right' if right else 'wrong'}"]


def mark(parts: Iterable[str]) -> str:
    """Returns what a receipt ends in, by all that stands before: it shows that a character was changed."""
    return hashlib.sha256(BETWEEN.join(parts).encode()).hexdigest()[:8]


@dataclasses.dataclass(frozen=True)
class Read:
    """A receipt, as it was found to be.

    Attributes:
        line: as it was given.
        name: of the puzzle.
        reader: who solved it.
        holds: whether its layout, planned again, passes and has these bytes, and the prediction is as it says.
        because: why it does not.
        right: whether the prediction was right; None where there was none.
    """

    line: str
    name: str = ""
    reader: str = ""
    holds: bool = False
    because: str = ""
    right: bool | None = None


@dataclasses.dataclass(frozen=True)
class Verified:
    """Receipts, planned again; prints as a table.

    Attributes:
        each: in the order in which they were given.
    """

    each: tuple[Read, ...]

    @property
    def hold(self) -> bool:
        """Whether all hold."""
        return all(read.holds for read in self.each)

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for read in self.each:
            right = {None: "", True: "predicted right", False: "predicted wrong"}[read.right]
            yield "✓" if read.holds else "✗", f"{read.name} {read.reader}".strip() or read.line, right, read.because

    def __repr__(self):
        count = sum(read.holds for read in self.each)
        return f"{count} of {len(self.each)} receipts hold\n{text_rows(list(self._rows()))}".rstrip()

    def _repr_html_(self) -> str:
        return html_rows(self._rows(), ("", "receipt", "prediction", "because"))


def verified(lines: str | Iterable[str], find: Callable[[str], Setting]) -> Verified:
    """Plans the layouts of receipts again.

    Args:
        lines: receipts, or a text with one in each line.
        find: returns the puzzle of a name; raises a `MeshlabError` for one that there is not.
    """
    rows = lines.splitlines() if isinstance(lines, str) else list(lines)
    return Verified(tuple(_read(row.strip(), find) for row in rows if row.strip()))


def _read(line: str, find: Callable[[str], Setting]) -> Read:
    parts = line.split(BETWEEN)
    if not line.startswith(_FIRST) or len(parts) < len(("name", "reader", "layout", "bytes", "tries", "hints", "mark")):
        return Read(line, because="this is not a receipt")
    name, reader, layout, sent, *rest = parts
    name, said = name.removeprefix(_FIRST), next((part for part in rest if part.startswith(_GUESS)), "")
    known = Read(line, name, reader)
    if mark(parts[:-1]) != parts[-1]:
        return dataclasses.replace(known, because="its text was changed")
    try:
        setting = find(name)
        setting = setting if reader == _NOBODY else dataclasses.replace(setting, reader=reader)
        plan = setting.plan("" if layout == "nothing split" else layout)
    except MeshlabError as error:
        return dataclasses.replace(known, because=str(error).splitlines()[0])
    right = setting.is_right(_number(said))
    problems = []
    if not setting.goal_of(setting.program).judge(plan).met:
        problems.append("its layout does not meet the goal")
    if sent != f"{plan.wire_bytes:,.0f} B":
        problems.append(f"its layout sends {plan.wire_bytes:,.0f} B")
    if setting.ask is not None and right is None:
        problems.append("it has no prediction")
    elif said.endswith("right") != bool(right):
        problems.append("its prediction does not match")
    return dataclasses.replace(known, holds=not problems, because="; ".join(problems), right=right)


def _number(said: str) -> float | None:
    """The number in "predicted 3,072, right"; None where there is none."""
    try:
        return float(said.removeprefix(_GUESS).rpartition(", ")[0].replace(",", ""))
    except ValueError:
        return None


def report(rows: Iterable[tuple[Setting, Attempts]]) -> str:
    """Returns a page in Markdown: of each puzzle that was begun the prediction, tries, hints and the receipt."""
    lines = ["| puzzle | predicted | is | tries | hints | solved |", "|---|---|---|---|---|---|"]
    receipts = []
    for setting, done in rows:
        if done.predicted is None and not done.tries:
            continue
        guess = number_text(done.predicted)
        number = number_text(setting.number) if guess else ""
        solved = "✓" if done.receipt else ""
        lines.append(
            f"| {setting.name}. {setting.title} | {guess} | {number} | {done.tries} | {done.hints} | {solved} |"
        )
        receipts += [f"    {done.receipt}"] if done.receipt else []
    return "\n".join([*lines, *(["", *receipts] if receipts else [])])
