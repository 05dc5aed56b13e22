"""The layouts that were tried in a session: on the board, undone or not, as presets, and found by a search.

    tried = Tried.opened(document).with_document(after, "", after)
    [each.name for each in tried]       ["start", "#1"]
    tried.baseline.name                 "start"

A layout is tried once, on whatever machine: its totals are those on the machine that is chosen at present (`under`), so
that they can be compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...engine.errors import closest, listed, shown
from ...engine.specs.layout import Layout
from ..documents.document import UNASKED, Document, ExplorerError

START = "start"
MOST = 40


@dataclasses.dataclass(frozen=True)
class TriedLayout:
    """One layout that was tried.

    Attributes:
        number: how many were tried before it.
        name: its number behind a sign, or the names that it was given.
        document: the document that it was first seen in.
    """

    number: int
    name: str
    document: Document

    def is_of(self, document: Document) -> bool:
        """Whether a document has this layout, on whatever machine."""
        return _identity(self.document) == _identity(document)

    def under(self, present: Document) -> Document:
        """Returns the layout on the machine and under the assumptions of another document, if that has its mesh."""
        if _identity(self.document)[:3] != _identity(present)[:3]:
            return self.document
        return dataclasses.replace(present, layout=self.document.layout, pad=self.document.pad, **UNASKED)


def _identity(document: Document) -> tuple:
    return document.model, frozenset(document.dims), document.mesh, document.layout, document.pad


@dataclasses.dataclass(frozen=True)
class Tried:
    """All layouts that were tried, in the order of their first appearance; of many the latest.

    Attributes:
        all: the layouts.
        compared_with: the document of the baseline, which all others are compared with.
        count: how many there were, with those that were dropped.
    """

    all: tuple[TriedLayout, ...]
    compared_with: Document
    count: int = 1

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

    def documents(self, present: Document) -> list[Document]:
        """Returns a document of each layout, on the machine of the present one."""
        return [each.under(present) for each in self.all]

    def document_of(self, named: Any, present: Document, method: str) -> Document:
        """Returns the document of a layout that was tried, of its name, or of any other layout."""
        if isinstance(named, Document):
            return named
        if isinstance(named, TriedLayout):
            return named.document
        of_name = {each.name: each.document for each in self.all}
        if isinstance(named, str) and named and ":" not in named and named not in of_name:
            raise ExplorerError(
                f"No layout of the name {shown(named)} was tried.{closest(named, of_name)} There are {listed(of_name)};"
                f' or write a layout: explorer.{method}("batch:data").'
            )
        if isinstance(named, str) and named in of_name:
            return of_name[named]
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
            drop = next(each for each in more if not any(each.is_of(one) for one in keep))
            more = tuple(each for each in more if each is not drop)
        return dataclasses.replace(self, all=more, count=self.count + 1)


def _both(known: TriedLayout, name: str) -> str:
    """Joins the names of a layout; a number is none."""
    if not name or name in known.name.split(", "):
        return known.name
    return name if known.name == f"#{known.number}" else f"{known.name}, {name}"
