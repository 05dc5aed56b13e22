"""An Explorer of its own that opens one layout after the other: each is shown as if it had begun there.

    twin = Twin(explorer)
    twin.open(twin.after(Place("hidden", ("model",))))
    layout_part(twin)

The Explorer that is shared stays as it is: nothing of its history moves, and no page of it is told anything. What the
twin shows is a function of the layout alone, and of the search that its Explorer has made, if it has ended.
"""

from __future__ import annotations

import dataclasses

from ...engine.errors import LayoutError
from ..documents.document import Document
from ..documents.documents import settled
from ..documents.history import History
from ..documents.intents import Intent, Refused, refused
from ..state.apply_intent import CHANGES
from ..state.explorer_state import ExplorerState
from ..state.searches import FOUND
from ..state.selection import Selection, places_of
from ..state.tried import Tried
from ..views.goal import verdict_of


class Twin(ExplorerState):
    """An Explorer on the program, the mesh and the machine of another, at any of its layouts.

    Args:
        explorer: the other one, which is left alone.
    """

    def __init__(self, explorer: ExplorerState):
        documents = explorer.documents
        models = dataclasses.replace(documents.programs.models, opened=explorer.document.model)
        program = documents.programs.traced(explorer.document)
        super().__init__(program, explorer.mesh, explorer.document, models=models)
        self.documents.slow = False  # nobody waits here
        self.height, self.source = explorer.height, explorer.source
        self.wanted, self.task = explorer.wanted, explorer.task
        if explorer.searches.last is not None and explorer.searches.last.phase == FOUND:
            self.searches, self.regrets, self.reasons = explorer.searches, explorer.regrets, explorer.reasons

    def begin(self, document: Document) -> None:
        """Begins at a document; nothing of it is planned yet."""
        with self.lock:
            self.documents.opened, self.documents.history = document, History(document)
            self.tried = Tried.opened(document)
            self.selection = Selection(next(iter(places_of(self.program)), None))

    def open(self, document: Document) -> Refused | None:
        """Shows a document as if the Explorer had been opened with it, its costs worked out; or says why it cannot."""
        try:
            self.plan_at(document)
        except LayoutError as error:
            return refused(error)
        self.begin(document)
        if document.machine:
            self.costs.of(document)
        self.totals.of(document)
        self.documents.name_of(document)
        verdict_of(self, wait=True)
        return None

    def after(self, intent: Intent) -> Document | Refused:
        """Returns the document after an intent that changes the layout alone, or why it is refused.

        What is legal is not planned, which takes longest: of a mesh with axes in time `open` may refuse it still.
        """
        change = CHANGES[type(intent)]
        try:
            asked = change.after(self.documents, intent)
            assert isinstance(asked, Document)
            document = settled(dataclasses.replace(self.document, layout=asked.layout), self.program)
            if self.documents.legal(document.layout) is not None:
                self.plan_at(document)  # whose refusal says all that is wrong
            return document
        except LayoutError as error:
            return change.refuse(self.documents, intent, error)
