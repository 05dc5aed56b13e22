"""The board's bundle in a blank page, without JupyterLab and without a kernel, before a real Explorer.

A few lines of JavaScript stand for the notebook's model: what the page sends goes to `protocol.answer`, and what the
Explorer shares comes back, in the order in which a kernel sends it. Half a second per test, real mouse, keyboard and
touch.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import Browser, Page

import meshlab.widgets.notebook.session as session_module
from meshlab.widgets.background.latest import Latest
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.library import QUESTIONS, library_answers
from meshlab.widgets.notebook.protocol import answer, shared_state
from tests.browser.board import Board
from tests.browser.page import ARTIFACTS, DEADLINE, PICTURES, TOURED

MODEL = """
const traits = INITIAL, listeners = {};
const fire = (event, ...args) => { for (const each of [...(listeners[event] ?? [])]) each(...args); };
function share(state) {
    const changed = Object.keys(state).filter(key => JSON.stringify(traits[key]) !== JSON.stringify(state[key]));
    Object.assign(traits, state);
    for (const key of changed) fire(`change:${key}`);
}
window.sent = [];
window.listeners = listeners;
window.model = {
    get: name => traits[name],
    on: (event, listener) => (listeners[event] ??= new Set()).add(listener),
    off: (event, listener) => listeners[event]?.delete(listener),
    send: async content => {
        window.sent.push(content);
        for (const said of [await window.toPython(content)].flat()) window.hear(said);
    },
};
window.hear = ({ state, reply, buffers }) => {
    if (state) share(state);
    if (reply) fire("msg:custom", reply, (buffers ?? []).map(each => {
        const bytes = Uint8Array.from(atob(each), letter => letter.charCodeAt(0));
        return new DataView(bytes.buffer);
    }));
};
window.poll = async () => share((await window.toPython(null)).state);
"""

ADDRESS = "http://board.test/"
RENDER = """async ([source, boards]) => {
    const { default: widget } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    const main = document.body.appendChild(document.createElement("main"));
    const render = () => widget.render({ model: window.model, el: main.appendChild(document.createElement("div")) });
    const closes = Array.from({ length: boards }, render);
    window.close_board = number => closes.forEach((close, at) => (number ?? at) === at && close());
}"""


class BlankPage:
    """A page with one board on it, or with several views of it.

    Args:
        browser: the browser.
        explorer: what the board shows.
        theme: "light" or "dark".
        touch: whether the page has a touch screen.
        width: of the window, in pixels.
        height: of the window, in pixels.
        boards: how many views of the Explorer are on the page.
        panel: the panel that stands there by itself; the whole board where it is empty.
        idle: whether the page ever has nothing else to do, so that it fetches ahead what it may need.
        stored: whether the page has a storage, in which it remembers; it is at an address then.
        first: whether it has not shown the tour yet, where it has a storage.
        carries: what the notebook does with bytes: "all" of them arrive, a "stripped" message arrives without, or it
            is "lost" with them.
    """

    def __init__(
        self,
        browser: Browser,
        explorer: Explorer,
        *,
        theme: Any = "light",
        touch: bool = False,
        width: int = 1280,
        height: int = 800,
        boards: int = 1,
        panel: str = "",
        idle: bool = False,
        stored: bool = False,
        first: bool = False,
        carries: str = "all",
    ):
        self.explorer = explorer
        self.silent, self.carries = False, carries
        self.unread: list[dict | None] = []
        self.errors: list[str] = []
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", has_touch=touch
        )
        context.set_default_timeout(DEADLINE)
        self.view: Page = context.new_page()
        self.view.on("pageerror", lambda error: self.errors.append(str(error)))
        self.view.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.view.expose_function("toPython", self._to_python)
        ground = "#fff" if theme == "light" else "#111"
        head = '<!doctype html><html lang="en"><title>Board</title>'
        body = f'{head}<body style="margin:8px;background:{ground}"></body></html>'
        if not first:
            context.add_init_script(TOURED)
        if stored:
            self.view.route(ADDRESS, lambda route: route.fulfill(body=body, content_type="text/html"))
            self.view.goto(ADDRESS)
        self.view.set_content(body)
        self.view.add_style_tag(content=bundle("session.css"))
        if not idle:
            self.view.evaluate("() => { window.requestIdleCallback = () => 0; }")
        state = shared_state(explorer) | {"notice": {}, "panel": panel}
        self.view.add_script_tag(content=MODEL.replace("INITIAL", json.dumps(state)))
        self.view.evaluate(RENDER, [bundle("session.js"), boards])

    def _to_python(self, content: dict | None) -> dict | list[dict]:
        if self.silent:
            self.unread.append(content)
            return {}
        if content is None:
            return {"state": shared_state(self.explorer)}
        if content.get("kind") in QUESTIONS:
            return [self._carried(*each) for each in library_answers(content) if self.carries != "lost" or not each[1]]
        changes: list[str] = []
        stop = self.explorer.subscribe(changes.append)
        reply = answer(self.explorer, content)
        stop()
        return {"state": shared_state(self.explorer) if changes else None, "reply": reply}

    def _carried(self, reply: Any, buffers: list[bytes]) -> dict:
        kept = [] if self.carries == "stripped" else buffers
        return {"reply": reply, "buffers": [base64.b64encode(each).decode() for each in kept]}

    def poll(self) -> None:
        """Brings what changed without the page: progress of a run, gestures of a script."""
        self.view.evaluate("() => window.poll()")

    def catch_up(self) -> None:
        """Lets Python read what it was sent while it was silent."""
        self.silent, unread, self.unread = False, self.unread, []
        for content in unread:
            self.view.evaluate("answer => window.hear(answer)", self._to_python(content))

    def shot(self, name: str, full: bool = False) -> None:
        """Keeps a picture of the page among the artefacts of the test run, if pictures are asked for."""
        if PICTURES:
            ARTIFACTS.mkdir(exist_ok=True)
            self.view.screenshot(path=str(ARTIFACTS / f"board-{name}.png"), full_page=full)

    def assert_clean(self) -> None:
        """Raises if the page logged an error."""
        assert not self.errors, "the page's console shows errors:\n" + "\n".join(self.errors)

    def close(self) -> None:
        """Closes the page with its profile."""
        self.view.context.close()


class BlankBoard(Board):
    """The board on a blank page; the page itself is `blank`."""

    def __init__(self, blank: BlankPage, number: int = 0):
        super().__init__(cast(Any, blank), number)
        self.blank = blank

    def ended(self, jobs: Latest) -> Any:
        """Waits until the latest job in the background has ended, lets the page know, and returns its result."""
        assert jobs.last is not None
        while not jobs.last.ended.wait(0.05):  # what the page asks meanwhile is answered
            self.blank.poll()
        self.blank.poll()
        return jobs.last.wait()


def bundle(name: str) -> str:
    """Returns a file of the page's code."""
    return (Path(session_module.STATIC) / name).read_text(encoding="utf-8")
