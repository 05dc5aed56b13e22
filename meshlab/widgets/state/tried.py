"""The layouts that were tried in a session: on the board, undone or not, as presets, and found by a search.

    tried = Tried.opened(document).with_document(after, "", after)
    [each.name for each in tried]       ["start", "#1"]
    tried.baseline.name                 "start"

A layout is tried once, on whatever machine: its totals are those on the machine that is chosen at present (`under`), so
that they can be compared. People give it a label and a note, and delete it; a `Change` is for undo.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...engine.errors import closest, listed, shown
from ...engine.specs.layout import Layout
from ..documents.document import UNASKED, Document, ExplorerError
from ..documents.history import History

START = "start"
MOST = 40
# So many changes of labels, notes and of what is deleted can be undone.
UNDONE = 20


@dataclasses.dataclass(frozen=True)
class TriedLayout:
    """One layout that was tried.

    Attributes:
        number: how many were tried before it.
        name: its number behind a sign, or the names that it was given.
        document: the document that it was first seen in.
        label: what a person calls it; "" for none.
        note: what a person has written of it; "" for nothing.
    """

    number: int
    name: str
    document: Document
    label: str = ""
    note: str = ""

    @property
    def sign(self) -> str:
        """What it can always be asked for by: "#4"."""
        return f"#{self.number}"

    @property
    def is_marked(self) -> bool:
        """Whether a person has said something of it."""
        return bool(self.label or self.note)

    def is_of(self, document: Document) -> bool:
        """Whether a document has this layout, on whatever machine."""
        return _identity(self.document) == _identity(document)

    def is_here(self, present: Document) -> bool:
        """Whether a document has the same program and mesh."""
        return _identity(self.document)[:3] == _identity(present)[:3]

    def beside(self, others: Iterable[TriedLayout]) -> TriedLayout:
        """Returns the layout as it comes to others: without a label that is one of theirs."""
        return dataclasses.replace(self, label="") if self.label in {each.label for each in others} else self

    def under(self, present: Document) -> Document:
        """Returns the layout on the machine and under the assumptions of another document, if that has its mesh."""
        if not self.is_here(present):
            return self.document
        return dataclasses.replace(present, layout=self.document.layout, pad=self.document.pad, **UNASKED)


def _identity(document: Document) -> tuple:
    return document.model, frozenset(document.dims), document.mesh, document.layout, document.pad


def titles_of(tried: Iterable[TriedLayout], own: Callable[[TriedLayout], Iterable[str]]) -> dict[int, str]:
    """Returns what each layout is called on the board, by its number; no two alike.

    Args:
        tried: the layouts.
        own: says what one is called by its plan, the shortest first: "FSDP & TP", "FSDP over data + TP over model".
    """
    titles, taken = dict[int, str](), set[str]()
    for each in sorted(tried, key=lambda each: (not each.label, each.number)):
        given = [] if each.name == each.sign else [each.name]
        names = [each.label] if each.label else given or [*own(each), each.sign]
        title = next((name for name in names if name not in taken), f"{names[0]} {each.sign}")
        titles[each.number] = title
        taken.add(title)
    return dict(sorted(titles.items()))


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of labels and notes, or a deletion, which undo takes back.

    Attributes:
        was: the layouts that it touched, as they were.
        steps: how many changes of the document there were before it.
        present: the document that was on the board.
    """

    was: tuple[TriedLayout, ...]
    steps: int
    present: Document

    def is_at(self, history: History) -> bool:
        """Whether it was the last that was done at this point of the history."""
        return (self.steps, self.present) == (len(history.past), history.present)


@dataclasses.dataclass(frozen=True)
class Tried:
    """All layouts that were tried, in the order of their first appearance; of many the latest.

    Attributes:
        all: the layouts.
        compared_with: the document of the baseline, which all others are compared with.
        count: how many there were, with those that were dropped.
        changes: of labels, notes and what there is, the latest last.
    """

    all: tuple[TriedLayout, ...]
    compared_with: Document
    count: int = 1
    changes: tuple[Change, ...] = ()

    @classmethod
    def opened(cls, document: Document) -> Tried:
        """Returns what is tried when an Explorer is opened."""
        return cls((TriedLayout(0, START, document),), document)

    def __iter__(self) -> Iterator[TriedLayout]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def baseline(self) -> TriedLayout:
        """The layout that all others are compared with."""
        return next(each for each in self.all if each.is_of(self.compared_with))

    def known(self, document: Document) -> TriedLayout | None:
        """Returns the layout of a document if it was tried."""
        return next((each for each in self.all if each.is_of(document)), None)

    def before(self, history: History) -> TriedLayout | None:
        """Returns the layout that was on the board before the present one, on its mesh; None where none was."""
        present = _identity(history.present)
        last = next((document for document in reversed(history.past) if _identity(document) != present), None)
        known = None if last is None else self.known(last)
        return known if known is not None and known.is_here(history.present) else None

    def documents(self, present: Document) -> list[Document]:
        """Returns a document of each layout, on the machine of the present one."""
        return [each.under(present) for each in self.all]

    def by_name(self, titles: Mapping[int, str]) -> dict[str, TriedLayout]:
        """Returns the layouts by all that each can be asked for by: its title, its name, its number.

        Args:
            titles: what they are called on the board, by number.
        """
        signs = {each.sign: each for each in self.all}
        return signs | {each.name: each for each in self.all} | {titles[each.number]: each for each in self.all} | signs

    def document_of(self, named: Any, present: Document, method: str, titles: Mapping[int, str]) -> Document:
        """Returns the document of a layout that was tried, of its name, or of any other layout."""
        if isinstance(named, Document):
            return named
        if isinstance(named, TriedLayout):
            return named.document
        of_name = self.by_name(titles)
        if isinstance(named, str) and named and ":" not in named and named not in of_name:
            raise ExplorerError(
                f"No layout named {shown(named)} was tried.{closest(named, of_name)}"
                f' There are {listed(titles.values())}; or write a layout: explorer.{method}("batch:data").'
            )
        if isinstance(named, str) and named in of_name:
            return of_name[named].document
        return dataclasses.replace(present, layout=Layout.of(named))

    def with_baseline(self, document: Document, present: Document) -> Tried:
        """Returns what was tried with another baseline."""
        return dataclasses.replace(self.with_document(document, "", present), compared_with=document)

    def with_document(self, document: Document, name: str, present: Document) -> Tried:
        """Returns what was tried after a document.

        Args:
            document: the document.
            name: a name for its layout; empty for its number.
            present: the document on the board, whose layout is not dropped, nor that of the baseline.
        """
        known = self.known(document)
        if known is not None:
            renamed = dataclasses.replace(known, name=_both(known, name))
            return dataclasses.replace(self, all=tuple(renamed if each is known else each for each in self.all))
        more = (*self.all, TriedLayout(self.count, name or f"#{self.count}", document))
        if len(more) > MOST:
            keep = (present, self.compared_with, document)
            free = [each for each in more if not any(each.is_of(one) for one in keep)]
            drop = min(free, key=lambda each: each.is_marked)  # the oldest of which nobody has said anything
            more = tuple(each for each in more if each is not drop)
        return dataclasses.replace(self, all=more, count=self.count + 1)

    def with_marks(self, marked: TriedLayout, history: History) -> Tried:
        """Returns what was tried with another label or note of a layout."""
        old = next(each for each in self.all if each.number == marked.number)
        return self._changed(tuple(marked if each is old else each for each in self.all), (old,), history)

    def without(self, gone: Iterable[TriedLayout], history: History) -> Tried:
        """Returns what was tried without some layouts."""
        was = tuple(gone)
        return self._changed(tuple(each for each in self.all if each not in was), was, history)

    def _changed(self, layouts: tuple[TriedLayout, ...], was: tuple[TriedLayout, ...], history: History) -> Tried:
        change = Change(was, len(history.past), history.present)
        return dataclasses.replace(self, all=layouts, changes=(*self.changes, change)[-UNDONE:])

    def undoable(self, history: History) -> int:
        """Returns how many changes undo takes back before it goes back in the history."""
        return sum(change.is_at(history) for change in self.changes)

    def undone(self, history: History) -> tuple[Tried, Change] | None:
        """Returns what was tried before the last change at a point of the history, and that; None for none."""
        last = next((change for change in reversed(self.changes) if change.is_at(history)), None)
        if last is None:
            return None
        # What was tried again meanwhile is there once.
        others = [each for each in self.all if not any(each.is_of(one.document) for one in last.was)]
        back = [each.beside(others) for each in last.was]
        layouts = tuple(sorted((*others, *back), key=lambda each: each.number))
        changes = tuple(change for change in self.changes if change is not last)
        return dataclasses.replace(self, all=layouts, changes=changes), last


def _both(known: TriedLayout, name: str) -> str:
    """Joins the names of a layout; a number is none."""
    if not name or name in known.name.split(", "):
        return known.name
    return name if known.name == f"#{known.number}" else f"{known.name}, {name}"
