"""Fixtures of the browser tests: `chromium`, `lab`; `open_board` opens a board by itself, `notebook_page` a notebook.

Without a browser these tests fail, with what to do: a skipped test is soon a broken one. Only MESHLAB_NO_BROWSER=1,
which somebody has to say, skips them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from meshlab import workbooks
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard, BlankPage
from tests.browser.page import DEADLINE, NotebookPage, new_context, open_browser
from tests.browser.server import Server, serve

HERE = Path(__file__).parent
FAILED = pytest.StashKey[bool]()
# What a page is expected to show comes by an event; the deadline is for what never comes, on however busy a machine.
expect.set_options(timeout=DEADLINE)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist, which reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is in this folder, for two processes: two JupyterLabs would slow each other, and so would pages."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            needs_lab = "lab" in getattr(item, "fixturenames", ())
            group = "JupyterLab" if needs_lab else "blank pages"
            item.add_marker(pytest.mark.xdist_group(group))
            item.add_marker(pytest.mark.share(18, of=group))
            if os.environ.get("MESHLAB_NO_BROWSER"):
                item.add_marker(pytest.mark.skip(reason="MESHLAB_NO_BROWSER is set"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A browser, headless."""
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A JupyterLab that serves the project's notebooks, converted as `meshlab lab` does it."""
    folder = tmp_path_factory.mktemp("notebooks")
    workbooks.refresh(folder)
    with serve(folder, tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def open_board(chromium: Browser, explorer: Explorer) -> Iterator[Callable[..., BlankBoard]]:
    """Opens a board by itself, of the file's `explorer` or another. No page may have logged an error in the end."""
    pages: list[BlankPage] = []

    def opened(shown: Explorer = explorer, **options: object) -> BlankBoard:
        pages.append(BlankPage(chromium, shown, **options))  # type: ignore[arg-type]
        return BlankBoard(pages[-1])

    yield opened
    for page in pages:
        page.assert_clean()
        page.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """Tells the fixtures whether the test failed, so that they can keep a picture of the moment."""
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def notebook_page(
    chromium: Browser, lab: Server, request: pytest.FixtureRequest
) -> Iterator[Callable[..., NotebookPage]]:
    """Opens a notebook: one of the project's by name, or a text source by path. Its kernel ends with the test."""
    pages: list[NotebookPage] = []

    def open_page(notebook: str | Path, mode: str = "doc") -> NotebookPage:
        if isinstance(notebook, Path):
            workbooks.write(notebook, lab.folder / f"{notebook.stem}.ipynb")
        page = NotebookPage(new_context(chromium), lab, f"{Path(notebook).stem}.ipynb", mode)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        if request.node.stash.get(FAILED, False):
            page.picture(f"failed-{request.node.name}")
        page.close()
