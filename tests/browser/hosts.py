"""The notebooks in which a board lives, each a real server with a real page.

with marimo(chromium, folder) as host:
    Board(host)                              # the board in the first cell; Board(host, 1) is a view in another
    host.expect_layout("hidden:model")       # what a cell reads of the Explorer
    host.set_theme("dark")                   # by the notebook's own command
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import nbformat
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, expect

from meshlab import workbooks
from tests.browser.page import DEADLINE, TOURED, NotebookPage, new_context
from tests.browser.server import ROOT, Server, wait_until

MAKE = """
import meshlab as ml
from tests.widgets import small
explorer = ml.explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data")
"""
JUPYTER = f"# %%\n{MAKE}explorer\n# %%\nexplorer.views.memory\n"
_INDENTED = MAKE.strip().replace("\n", "\n    ")
MARIMO = f"""
import marimo

app = marimo.App(width="full")

@app.cell
def _():
    import marimo as mo
    {_INDENTED}
    return explorer, mo

@app.cell
def _(explorer, mo):
    board = mo.ui.anywidget(explorer.session)
    board
    return (board,)

@app.cell
def _(explorer):
    explorer.views.memory
    return

@app.cell
def _(board, mo):
    mo.md(f"In Python: {{board.explorer.layout}}, {{board.explorer.plan.wire_bytes:.0f}} bytes")
    return
"""
THEME = """name => { window.jupyterapp.commands.execute("apputils:change-theme", { theme: `JupyterLab ${name}` }); }"""
SAVE = """() => {
    window.saved = false;
    window.jupyterapp.shell.currentWidget.context.save().then(() => { window.saved = true; });
}"""
# What a page logs of itself: Notebook 7 with any notebook, marimo without a network.
THEIRS = re.compile(
    r"reading 'schema'|Schema not found|Fail(ed)? to load (settings|resource)|not registered|ERR_NAME_NOT_RESOLVED"
)


class Jupyter:
    """JupyterLab or Notebook 7, by the mode of its address: both are pages of one server."""

    def __init__(self, browser: Browser, lab: Server, mode: str):
        source = lab.folder / f"host_{mode}.py"
        source.write_text(JUPYTER)
        self._path = lab.folder / f"host_{mode}.ipynb"
        workbooks.write(source, self._path)
        self._page = NotebookPage(new_context(browser), lab, self._path.name, mode)
        self.view: Page = self._page.view
        self._page.run_all()

    def expect_layout(self, layout: str) -> None:
        """Asserts which layout the Explorer has in Python."""
        assert self._page.python("str(explorer.layout)") == layout

    def set_theme(self, theme: str) -> None:
        """Has the notebook light or dark."""
        self.view.evaluate(THEME, theme.title())

    def exported(self, theme: str) -> Path:
        """Saves the notebook when it has the picture of the board, and converts it as "Export to HTML" does."""
        picture = self.view.locator("[data-mlb-picture]")
        revision = self.view.locator(".mlb[data-rev]").first.get_attribute("data-rev") or ""
        expect(picture).to_have_attribute("data-revision", revision)
        self.view.evaluate(SAVE)
        self.view.wait_for_function("() => window.saved")
        text, _ = HTMLExporter(theme=theme).from_notebook_node(nbformat.read(self._path, as_version=4))
        path = self._path.with_suffix(".html")
        path.write_text(text, encoding="utf-8")
        return path

    @property
    def errors(self) -> list[str]:
        """What the page logged, but for what is the notebook's own."""
        return [each for each in self._page.errors if not THEIRS.search(each)]

    def close(self) -> None:
        self._page.close()


class Marimo:
    """marimo's editor; the cells have run."""

    def __init__(self, browser: Browser, address: str):
        # The computer is dark where marimo is light: a board that follows the computer is wrong.
        context = browser.new_context(
            viewport={"width": 1360, "height": 1700}, color_scheme="dark", reduced_motion="reduce"
        )
        context.set_default_timeout(DEADLINE)
        context.add_init_script(TOURED)
        self._logged: list[str] = []
        self.view: Page = context.new_page()
        self.view.on("pageerror", lambda error: self._logged.append(str(error)))
        self.view.on("console", lambda line: self._logged.append(line.text) if line.type == "error" else None)
        self.view.goto(address)
        expect(self.view.locator(".cm-content").first).to_be_visible()
        self.view.keyboard.press("Control+Shift+R")
        self.expect_layout("batch:data")

    def run_again(self, cell: int) -> None:
        """Runs a cell again, by keyboard, until its board is another one."""
        board = self.view.locator(".mlb").nth(cell - 1)
        board.evaluate("board => board.setAttribute('data-before', '')")
        self.view.locator(".cm-content").nth(cell).click()
        self.view.keyboard.press("Control+Enter")
        expect(self.view.locator(".mlb[data-before]")).to_have_count(0)
        expect(board).to_be_visible()

    def expect_layout(self, layout: str) -> None:
        """Waits until a cell that reads the board has run again and shows this layout."""
        expect(self.view.get_by_text(f"In Python: {layout}, ")).to_be_visible()

    def set_theme(self, theme: str) -> None:
        """Has the notebook light or dark, by marimo's command palette."""
        self.view.locator("#App, body").first.click(position={"x": 5, "y": 5})
        self.view.keyboard.press("Control+K")
        self.view.get_by_role("option", name=f"Set theme: {theme}").click()

    @property
    def errors(self) -> list[str]:
        """What the page logged, but for what is the notebook's own."""
        return [each for each in self._logged if not THEIRS.search(each)]

    def close(self) -> None:
        self.view.context.close()


@contextmanager
def marimo(browser: Browser, folder: Path) -> Iterator[Marimo]:
    """Runs marimo with a notebook while the block runs."""
    path = folder / "host_marimo.py"
    path.write_text(MARIMO)
    port = _free_port()
    options = ["--headless", "--no-token", "--skip-update-check", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "marimo.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "marimo", "-q", "edit", str(path), *options],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            address = f"http://127.0.0.1:{port}/"
            wait_until(process, lambda: urlopen(f"{address}health", timeout=5).close(), folder / "marimo.log")
            host = Marimo(browser, address)
            try:
                yield host
            finally:
                host.close()
        finally:
            process.terminate()
            process.wait(30)


def _environment(folder: Path) -> dict[str, str]:
    """Its settings are in the folder, not those of whoever runs the tests."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    return {**os.environ, **own}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
