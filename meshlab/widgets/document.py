"""What the Explorer remembers: one frozen document per state, and the history as a list of them.

A document says which program (by its dims), which mesh and which layout; everything else that is shown is computed
from it. Undo is therefore no inverse operation, only the document before. As JSON it can be kept in a notebook:

    >>> print(explorer.to_json())
    {"dims": {"batch": 100, "hidden": 1024}, "layout": {"batch": "data"}, "mesh": [["data", 4]], "schema": 1}

Equal documents give equal text. A schema that this version does not know is refused rather than
guessed at.
"""

from __future__ import annotations

import dataclasses
import json

from ..engine.errors import MeshlabError
from ..engine.layout import Layout

SCHEMA = 1


class ExplorerError(MeshlabError):
    """A document, or a training, that the Explorer cannot use."""


@dataclasses.dataclass(frozen=True)
class Document:
    """One state of the Explorer.

    Args:
        dims: name and size of each dim of the program.
        mesh: name and size of each mesh axis, in order.
        layout: the layout.
    """

    dims: tuple[tuple[str, int], ...]
    mesh: tuple[tuple[str, int], ...]
    layout: Layout

    def to_dict(self) -> dict:
        """Returns the document as plain data, with its schema version; the order of mesh axes and of places counts."""
        return {
            "dims": dict(sorted(self.dims)),
            "layout": self.layout.to_dict(),
            "mesh": [list(axis) for axis in self.mesh],
            "schema": SCHEMA,
        }

    def to_json(self) -> str:
        """Returns the document as JSON; equal documents give equal text."""
        return json.dumps(self.to_dict())


def read_document(text: str) -> Document:
    """Reads a document that `Document.to_json` wrote.

    Args:
        text: the JSON.

    Returns:
        The document.

    Raises:
        ExplorerError: the text is not such a document, or its schema is not known here.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ExplorerError(f"This is not an Explorer's document: it is not JSON ({error}).") from None
    if not isinstance(data, dict) or "schema" not in data:
        raise ExplorerError(
            "This is not an Explorer's document: it has no `schema`. Use what `explorer.to_json()` gave."
        )
    if data["schema"] != SCHEMA:
        raise ExplorerError(
            f"This document has schema {data['schema']!r}; this version of meshlab reads schema {SCHEMA}. "
            "Open it with the version that wrote it, or load its layout alone with `explorer.load(layout)`."
        )
    missing = sorted({"dims", "mesh", "layout"} - data.keys())
    if missing:
        raise ExplorerError(f"This document of the Explorer lacks {', '.join(missing)}; was it cut short?")
    try:
        dims = tuple((str(name), int(size)) for name, size in data["dims"].items())
        mesh = tuple((str(name), int(size)) for name, size in data["mesh"])
    except (AttributeError, TypeError, ValueError) as error:
        raise ExplorerError(f"The dims or the mesh of this document cannot be read ({error}).") from None
    return Document(dims, mesh, Layout.of(data["layout"]))


@dataclasses.dataclass(frozen=True)
class History:
    """The documents before and after the present one.

    Args:
        present: the document that is shown.
        past: earlier ones, oldest first.
        future: those that undo left, next first.
    """

    present: Document
    past: tuple[Document, ...] = ()
    future: tuple[Document, ...] = ()

    def commit(self, document: Document) -> History:
        """Returns the history after a change; what had been undone is forgotten."""
        return History(document, (*self.past, self.present))

    def undo(self) -> History:
        """Returns the history one step back; itself where there is no step."""
        if not self.past:
            return self
        return History(self.past[-1], self.past[:-1], (self.present, *self.future))

    def redo(self) -> History:
        """Returns the history one step forward; itself where there is no step."""
        if not self.future:
            return self
        return History(self.future[0], (*self.past, self.present), self.future[1:])
