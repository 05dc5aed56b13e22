"""The Explorer in a notebook: one anywidget, whose page code is the bundle in `static/`.

The session shares the protocol's state as synced traits, which only Python writes, and hands each message of the page
to `protocol.answer`. Displayed twice, an Explorer has one session and two views of it. In marimo it is an element that
other cells read:

    board = mo.ui.anywidget(explorer.session)        # in a cell
    board.explorer.plan.time                         # in another, which runs again after each drop
"""

from __future__ import annotations

import pathlib
import threading
import uuid
from typing import Any

import anywidget
import traitlets

from ..background.quiet import QUIET
from ..state.gestures import Gestures
from ..views.board import PARTS
from .library import QUESTIONS, library_answers
from .protocol import answer, shared_state
from .requests import Requests

STATIC = pathlib.Path(__file__).parents[1] / "static"


# A trait of each part of the board, which only Python writes.
Parts: Any = type("Parts", (anywidget.AnyWidget,), {name: traitlets.Dict().tag(sync=True) for name in PARTS})


class Session(Parts):
    """The widget of one Explorer: the whole workbench, or one of its views (`panel`)."""

    _esm = STATIC / "session.js"
    _css = STATIC / "session.css"

    rev = traitlets.Int(0).tag(sync=True)
    # The one trait that a page writes, in marimo: the revision that it has seen (js/src/seen.ts).
    seen = traitlets.Int(0).tag(sync=True)
    notice = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(600).tag(sync=True)
    saved = traitlets.Unicode().tag(sync=True)
    panel = traitlets.Unicode().tag(sync=True)

    def __init__(self, explorer: Gestures, panel: str = ""):
        shown = {"height": explorer.height, "saved": uuid.uuid4().hex, "panel": panel}
        super().__init__(**shared_state(explorer), **shown)
        self.explorer = explorer
        self._sending = threading.Lock()
        self._requests = Requests()
        self._leave = explorer.subscribe(self._share)
        self.on_msg(self._receive)

    @property
    def is_open(self) -> bool:
        """Whether a page can hear it: marimo closes a widget for ever when the cell that made it runs again."""
        marimo = getattr(self.comm, "comm_manager", None)
        return marimo is None or self.comm.comm_id in marimo.comms

    def _share(self, what: str) -> None:
        if not self.is_open:
            self._leave()
            return
        try:
            state = shared_state(self.explorer, what)
        except Exception as error:
            state = {"notice": {"reason": f"The board could not be drawn: {type(error).__name__}: {error}"}}
        self._requests.send(lambda: self._set(state))

    def _set(self, state: dict) -> None:
        with self._sending, self.hold_sync():
            for name, value in state.items():
                self.set_trait(name, value)

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict:
        """Returns the shared traits; asked for all of them, by a page that opens, it greets the page as well."""
        if key is None and self.comm is not None:
            self._requests.reopen(lambda: self.send({"kind": "reopened"}))
        return super().get_state(key, drop_defaults)

    def _receive(self, widget: Any, content: dict, buffers: list) -> None:
        self._requests.note()
        if content.get("kind") in QUESTIONS:
            fetch = threading.Thread(target=self._send_library, args=(content,), name="meshlab-library", daemon=True)
            fetch.start()
            return
        with QUIET.disturbed():
            self.send(answer(self.explorer, content))

    def _send_library(self, content: dict) -> None:
        answers = library_answers(content)

        def send() -> None:
            for reply, buffers in answers:
                self.send(reply, buffers)

        self._requests.send(send)
