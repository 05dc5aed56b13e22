"""One notebook on one page, with a kernel: opened, run, asked, photographed.

    page.run_all()                               # fails with the traceback of the cell that raised
    page.python("layout.to_dict()")              # the truth, from the notebook's own kernel
    page.view.locator("[data-axis=model]")       # Playwright's own page

Every wait is on something that the page says of itself, never on time that passes, and has a deadline: commands given
before the session is ready would leave a dialog open for good, and `evaluate` on a promise could wait for ever.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.browser import chrome
from tests.browser.server import Server

# Milliseconds after which what is waited for is taken never to come: long, for a machine may have other work.
DEADLINE = 60_000
ARTIFACTS = Path(__file__).parent / "artifacts"
# Pictures are for people: each takes a moment, and is taken where somebody wants to look.
PICTURES = bool(os.environ.get("MESHLAB_PICTURES"))

READY = """() => {
    const panel = window.jupyterapp?.shell?.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    return Boolean(panel?.context?.isReady && panel.sessionContext.isReady
        && kernel?.connectionStatus === "connected" && kernel.status === "idle");
}"""

# The promise's outcome is stored and polled for: `evaluate` has no deadline of its own.
START_RUN = """() => {
    window.__run = {};
    window.jupyterapp.commands.execute("notebook:run-all-cells").then(
        ok => { window.__run = {done: true, ok}; },
        error => { window.__run = {done: true, error: String(error)}; });
}"""

OUTPUTS = """() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells
    .flatMap((cell, number) => (cell.outputs ?? []).map(output => ({number, ...output})))"""

# The notebook, whatever else was opened beside it meanwhile.
PANEL = '[...window.jupyterapp.shell.widgets("main")].find(each => each.sessionContext)'

ASK = f"""([expression, key]) => {{
    const kernel = {PANEL}.sessionContext.session.kernel;
    const future = kernel.requestExecute(
        {{code: "", silent: true, store_history: false, user_expressions: {{answer: expression}}}});
    window[key] = null;
    future.done.then(reply => {{ window[key] = reply.content.user_expressions?.answer ?? reply.content; }});
}}"""

SHUT_DOWN = f"() => {{ {PANEL}.sessionContext.shutdown(); }}"

GONE = f"() => !{PANEL}.sessionContext.session?.kernel"

# A browser that has shown the tour, which would lie on a board that is tested.
TOURED = "try { localStorage.setItem('meshlab:tour', 'seen'); } catch {}"

# Chromium and JupyterLab say these of themselves, with or without meshlab.
HARMLESS = (re.compile(r"^Failed to load resource.*favicon"), re.compile(r"^Refused to get unsafe header"))


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Runs a browser, headless, while the block runs."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chrome.find(), args=chrome.flags(), headless=True)
        yield browser
        browser.close()


def new_context(browser: Browser) -> BrowserContext:
    """Returns a fresh profile in which pictures come out the same on every machine."""
    context = browser.new_context(
        viewport={"width": 1360, "height": 1700}, reduced_motion="reduce", locale="en-GB", timezone_id="UTC"
    )
    context.set_default_timeout(DEADLINE)
    context.add_init_script(TOURED)
    return context


class NotebookPage:
    """A notebook that is open in the browser, its kernel ready."""

    def __init__(self, context: BrowserContext, server: Server, notebook: str, mode: str = "doc"):
        self.server = server
        self.name = Path(notebook).stem
        self.errors: list[str] = []
        self.blocked: list[str] = []
        self._questions = 0
        context.route("**/*", self._gate)
        self.view: Page = context.new_page()
        self.view.on("console", self._console)
        self.view.on("pageerror", lambda error: self.errors.append(str(error)))
        self.view.goto(server.url(notebook, mode), wait_until="domcontentloaded")
        self.wait_ready()

    def _gate(self, route: Any, request: Request) -> None:
        if request.url.startswith((self.server.base, "data:", "blob:")):
            route.continue_()
        else:
            self.blocked.append(request.url)
            route.abort()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(known.search(message.text) for known in HARMLESS):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def wait_ready(self, seconds: float = 180) -> None:
        """Waits until the notebook is loaded and its kernel is connected and idle."""
        self.view.wait_for_function(READY, timeout=seconds * 1000)

    def run_all(self, seconds: float = 600) -> None:
        """Runs every cell; raises with the traceback if one of them raised."""
        self.view.evaluate(START_RUN)
        self.view.wait_for_function("() => window.__run.done", timeout=seconds * 1000)
        outcome = self.view.evaluate("() => window.__run")
        failures = [f"cell {output['number']}:\n{_traceback(output)}" for output in self.outputs("error")]
        assert not failures, "\n".join(failures)
        assert outcome.get("ok") is True, f"running all cells ended with {outcome}"
        self.wait_ready()

    def outputs(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Returns the outputs of all cells, each with the `number` of its cell.

        Args:
            kind: only those of this `output_type` ("stream", "execute_result", "display_data", "error").
        """
        outputs = self.view.evaluate(OUTPUTS)
        return [output for output in outputs if kind in (None, output["output_type"])]

    def python(self, expression: str, seconds: float = 120) -> Any:
        """Returns the value of an expression in the notebook's kernel; it must be a Python literal."""
        self._questions += 1
        key = f"__answer{self._questions}"
        self.view.evaluate(ASK, [expression, key])
        self.view.wait_for_function(f"() => window.{key} !== null", timeout=seconds * 1000)
        answer = self.view.evaluate(f"() => window.{key}")
        assert answer.get("status") == "ok", f"the kernel, asked for `{expression}`, answered:\n{_traceback(answer)}"
        return ast.literal_eval(answer["data"]["text/plain"])

    def shot(self, name: str, locator: Any = None) -> None:
        """Keeps a picture of the page, or of one part of it, among the artefacts, if pictures are asked for."""
        if PICTURES:
            self.picture(name, locator)

    def picture(self, name: str, locator: Any = None) -> Path:
        """Takes a picture of the page, or of one part of it, in any case."""
        path = ARTIFACTS / f"{self.name}-{name}.png"
        (locator or self.view).screenshot(path=str(path))
        return path

    def assert_clean(self) -> None:
        """Raises if the page logged an error, or asked for anything outside this machine."""
        assert not self.blocked, f"the page asked for {self.blocked}"
        assert not self.errors, "the page's console shows errors:\n" + "\n".join(self.errors)

    def close(self) -> None:
        """Ends the kernel, which would keep its memory, and closes the page with its profile."""
        try:
            self.view.evaluate(SHUT_DOWN)
            self.view.wait_for_function(GONE)
        finally:
            self.view.context.close()


def _traceback(output: dict[str, Any]) -> str:
    """Returns a kernel's traceback without its colours."""
    text = "\n".join(output.get("traceback") or [f"{output.get('ename')}: {output.get('evalue')}"])
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
