"""Boards in files: the document on the board with all layouts that were tried, their labels and notes.

    board_text(document, tried)         {"dims": {…}, "layout": {…}, …, "schema": 4, "tried": {"baseline": 0, …}}
    read_board(text, documents)         the same again, or all that is wrong with it, in a list

Such a file is a document (`document.py`) with one key more, and the document alone where nothing else was tried. What
was tried on the mesh of the document is its layout; what was tried on another is a document of its own.
"""

from __future__ import annotations

import collections
import dataclasses
import json
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ...engine.errors import LayoutError, MeshlabError, numbered, shown
from ...engine.legality.examine import resolve
from ...engine.specs.layout import Layout
from ..documents.document import Document, ExplorerError
from ..documents.documents import Documents
from ..documents.intents import refused
from .marks_of_layouts import label_problem, note_problem
from .tried import Tried, TriedLayout


class _Entry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A layout that was tried, as a file has it."""

    number: Annotated[int, Meta(ge=0)]
    name: str
    label: str = ""
    note: str = ""
    layout: Any = UNSET
    pad: bool = False
    document: dict[str, Any] | UnsetType = UNSET


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    baseline: Annotated[int, Meta(ge=0)]
    count: Annotated[int, Meta(ge=0)]
    layouts: list[Any]


@dataclasses.dataclass(frozen=True)
class SavedBoard:
    """What a file has.

    Attributes:
        document: of the board.
        tried: the layouts, with those labels and notes.
        baseline: the number of the one that the others were compared with.
        count: how many had been tried.
    """

    document: Document
    tried: tuple[TriedLayout, ...] = ()
    baseline: int = 0
    count: int = 0

    def opened(self) -> Tried:
        """Returns what is tried where an Explorer is opened with this board."""
        if not self.tried:
            return Tried.opened(self.document)
        base = next((each for each in self.tried if each.number == self.baseline), self.tried[0])
        count = max(self.count, *(each.number + 1 for each in self.tried))
        return Tried(self.tried, base.document, count).with_document(self.document, "", self.document)


@dataclasses.dataclass(frozen=True)
class Offer:
    """A board that was saved and is offered.

    Attributes:
        text: of it.
        said: what its layout is called.
    """

    text: str
    said: str


def board_text(document: Document, tried: Tried) -> str:
    """Returns a board as JSON; equal boards give equal text."""
    if len(tried) == 1 and not tried.all[0].is_marked and tried.all[0].is_of(document):
        return document.to_json()
    layouts = [msgspec.to_builtins(_entry(each, document)) for each in tried]
    table = {"baseline": tried.baseline.number, "count": tried.count, "layouts": layouts}
    return json.dumps({**document.to_dict(plain=False), "tried": table})


def _entry(tried: TriedLayout, document: Document) -> _Entry:
    marks: dict[str, Any] = {"label": tried.label, "note": tried.note}
    here = tried.under(document)
    if here is tried.document:  # which is that of another mesh
        return _Entry(tried.number, tried.name, **marks, document=here.to_dict())
    return _Entry(tried.number, tried.name, **marks, layout=here.layout.to_dict(), pad=here.pad)


def read_board(text: Any, documents: Documents) -> SavedBoard:
    """Reads a board that `board_text` wrote.

    Args:
        text: the JSON.
        documents: of the Explorer that opens it, whose program it must be of.

    Raises:
        ExplorerError: the document, or a layout that was tried, is invalid; all is listed that is.
    """
    problems, document = list[str](), None
    try:
        document = documents.programs.read(text)
    except MeshlabError as error:
        problems.append(str(error))
    table = _table_in(text, problems) or _Table(0, 0, [])
    read = [_read(each, at, document, documents, problems) for at, each in enumerate(table.layouts, 1)]
    tried = tuple(each for each in read if each is not None)
    problems += _clashes(tried)
    if document is None or problems:
        raise ExplorerError(
            problems[0] if len(problems) == 1 else f"The file is not a valid board:\n{numbered(problems)}"
        )
    return SavedBoard(document, tried, table.baseline, table.count)


def _table_in(text: Any, problems: list[str]) -> _Table | None:
    try:
        data = json.loads(text)
        found = data.get("tried") if isinstance(data, dict) else None
        return None if found is None else msgspec.convert(found, _Table)
    except msgspec.ValidationError as error:
        problems.append(f"`tried` is invalid: {error}.")
    except (ValueError, TypeError, RecursionError):
        pass  # which the document has said
    return None


def _read(
    data: Any, at: int, document: Document | None, documents: Documents, problems: list[str]
) -> TriedLayout | None:
    """Reads a layout that was tried; where it is invalid, says so among the problems.

    Where the board's own document is invalid, nobody knows its mesh, and only how a layout is written can be judged.
    """
    try:
        entry = msgspec.convert(data, _Entry)
        if document is None:
            of_it = documents.present
        elif entry.document is not UNSET:
            of_it = documents.programs.read(json.dumps(entry.document))
        else:
            of_it = dataclasses.replace(document, layout=Layout.of(entry.layout), pad=entry.pad)
        _check_legal(of_it, documents)
    except (msgspec.ValidationError, MeshlabError, TypeError) as error:
        why = refused(error).reason if isinstance(error, LayoutError) else str(error)
        named = data.get("label") or data.get("name") if isinstance(data, dict) else None
        problems.append(f"Layout {at} that was tried{f', {shown(named)}' if named else ''}: {why.rstrip('.')}.")
        return None
    return TriedLayout(entry.number, entry.name, of_it, entry.label, entry.note)


def _check_legal(document: Document, documents: Documents) -> None:
    """Raises where a layout does not fit its mesh; nothing is planned, and nothing traced."""
    if documents.programs.known(document):
        resolve(documents.programs.at(document), documents.plans.mesh(document), document.layout, document.pad or None)


def _clashes(tried: tuple[TriedLayout, ...]) -> list[str]:
    """Says which labels and notes cannot be, and which numbers are there twice."""
    counts = collections.Counter(each.number for each in tried)
    twice = [f"Two layouts have the number {number}." for number, count in counts.items() if count > 1]
    labels = [label_problem(each.label, tried[:i]) for i, each in enumerate(tried)]
    return [*twice, *filter(None, labels), *filter(None, (note_problem(each.note) for each in tried))]
