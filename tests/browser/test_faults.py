"""What goes wrong in a notebook: whatever it is, the layout is there, and the board says a clear word.

Kernels that are restarted, killed and busy, a server that is gone, a page that is reloaded, two Explorers at once, and
notebooks without a kernel at all.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from meshlab import workbooks
from tests.browser.board import TRAY, Board
from tests.browser.page import NotebookPage, new_context
from tests.browser.server import serve

OPEN = """# %%
import meshlab as ml
from tests.widgets import small
explorer = ml.explore(small.program(), small.mesh(), run=small.training(steps=1_000_000))
explorer
"""
EXECUTE = """code => {
    window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code });
}"""
# A kernel's status says nothing of its main thread: messages of widgets have a thread of their own, and end as idle.
BEGUN = """code => new Promise(begun => {
    const future = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code });
    future.onIOPub = ({ header }) => header.msg_type === "execute_input" && begun();
})"""
TWO = """# %%
other = ml.explore(small.program(), small.mesh(), "batch:data", run=small.training())
other
"""
SAVE = "() => window.jupyterapp.shell.currentWidget.context.save()"
RESTART = "() => { window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); }"
RESTARTED = "The kernel was restarted: run the cell again for a live board, which opens with this layout."
SILENT = "Python does not answer: its kernel is busy with a cell, stopped or not connected."


def opened(notebook_page, folder: Path, name: str, *cells: str) -> NotebookPage:
    source = folder / f"{name}.py"
    source.write_text("".join([OPEN, *cells]))
    return notebook_page(source)


def shard_and_run(page: NotebookPage) -> Board:
    """Shards a dim and starts a run that goes on for ever."""
    board = Board(page)
    with board.next_revision():
        board.drag("hidden", "model")
    board.show("run")
    board.button("run").click()
    expect(board.root.locator(".mlb-run-text")).to_contain_text("running: step")
    return board


def assert_read_only(board: Board, word: str) -> None:
    """The board says a word and shows its layout, nothing goes on, and nothing of it can be asked for."""
    banner = board.root.locator(".mlb-banner")
    expect(banner).to_contain_text(word)
    assert board.layout == "hidden:model"
    expect(board.zone("model").locator('[data-dim="hidden"]')).to_be_visible()
    expect(board.root.locator(".mlb-run-text")).to_contain_text("when Python was last heard")
    for button in ("run", "cancel"):
        expect(board.button(button)).to_be_disabled()
    dead = board.root.locator(
        ":is(button:not([role=tab], .mlb-segment, .mlb-term, .mlb-badge), select, input)"
        ":not(.mlb-banner *, .mlb-plot-tools *)"
    )
    assert dead.evaluate_all("all => all.filter(each => !each.inert).map(each => each.outerHTML)") == []


def test_a_kernel_that_is_restarted_with_a_chip_in_hand(notebook_page, tmp_path: Path) -> None:
    page = opened(notebook_page, tmp_path, "restarted")
    page.run_all()
    board = shard_and_run(page)
    board.press("batch")
    page.view.evaluate(RESTART)
    assert_read_only(board, RESTARTED)
    board.mouse.up()
    expect(board.zone(TRAY).locator('[data-dim="batch"]')).to_be_visible()
    page.shot("restarted", board.root)
    page.wait_ready()
    page.run_all()
    board = Board(page)
    expect(board.root.locator(".mlb-layout-text")).to_have_text("hidden:model")
    assert page.python("explorer.layout.to_dict()") == {"hidden": "model"}


def test_a_kernel_that_is_killed_in_mid_run(notebook_page, tmp_path: Path) -> None:
    page = opened(notebook_page, tmp_path, "killed")
    page.run_all()
    board = shard_and_run(page)
    os.kill(page.python("__import__('os').getpid()"), signal.SIGKILL)
    assert_read_only(board, RESTARTED)  # which JupyterLab does by itself
    page.view.locator(".jp-Dialog button.jp-mod-accept").click()
    page.shot("killed", board.root)
    page.wait_ready()
    page.run_all()
    board = Board(page)
    expect(board.root.locator(".mlb-layout-text")).to_have_text("hidden:model")
    expect(board.root.locator(".mlb-banner")).to_be_hidden()


def test_a_drop_while_a_cell_runs_is_done_at_once_or_never(notebook_page, tmp_path: Path) -> None:
    """JupyterLab may give widgets a thread of their own in the kernel; where it has not, the board says "busy"."""
    page = opened(notebook_page, tmp_path, "busy")
    page.run_all()
    board = Board(page)
    flag = tmp_path / "go on"
    busy = f"import pathlib, time\nwhile not pathlib.Path({str(flag)!r}).exists(): time.sleep(0.01)"
    page.view.evaluate(BEGUN, busy)
    board.drag("hidden", "model")
    banner = board.root.locator(".mlb-banner")
    expect(page.view.locator(".mlb[data-readonly], .mlb[data-rev='1']")).to_be_visible()
    silent = banner.is_visible()
    if silent:
        expect(banner).to_contain_text(SILENT)
    flag.touch()
    page.wait_ready()
    expect(banner).to_be_hidden()
    assert page.python("explorer.layout.to_dict()") == ({} if silent else {"hidden": "model"})
    assert board.layout == ("nothing sharded" if silent else "hidden:model")
    page.assert_clean()


def test_a_drop_before_a_python_that_does_not_answer_is_put_back_for_good(notebook_page, tmp_path: Path) -> None:
    page = opened(notebook_page, tmp_path, "stopped")
    page.run_all()
    board = Board(page)
    with board.next_revision():
        board.drag("hidden", "model")
    kernel = page.python("__import__('os').getpid()")
    os.kill(kernel, signal.SIGSTOP)
    board.drag("batch", "data")
    banner = board.root.locator(".mlb-banner")
    expect(banner).to_contain_text(SILENT)
    expect(board.zone(TRAY).locator('[data-dim="batch"]')).to_be_visible()
    board.chip("batch").focus()
    board.keyboard.press("Control+Z")
    expect(board.root.get_by_label("machine", exact=True)).to_have_attribute("inert", "")
    page.shot("stopped", board.root)
    os.kill(kernel, signal.SIGCONT)
    expect(banner).to_be_hidden()
    page.wait_ready()
    assert page.python("explorer.layout.to_dict()") == {"hidden": "model"}
    assert board.layout == "hidden:model"
    with board.next_revision():
        board.drag("batch", "data")
    page.assert_clean()


def test_a_server_that_is_gone(chromium, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    source = tmp_path / "gone.py"
    source.write_text(OPEN)
    workbooks.write(source, tmp_path / "work" / "gone.ipynb")
    with serve(tmp_path / "work", tmp_path / "home") as server:
        page = NotebookPage(new_context(chromium), server, "gone.ipynb")
        page.run_all()
        board = shard_and_run(page)
    assert_read_only(board, SILENT)
    page.shot("server-gone", board.root)
    page.view.context.close()


def test_a_page_that_is_reloaded_finds_its_board_and_its_run(notebook_page, tmp_path: Path) -> None:
    page = opened(notebook_page, tmp_path, "reloaded")
    page.run_all()
    shard_and_run(page)
    page.view.evaluate(SAVE)
    page.view.reload(wait_until="domcontentloaded")
    page.wait_ready()
    board = Board(page)
    assert board.layout == "hidden:model"
    board.show("run")
    expect(board.root.locator(".mlb-run-text")).to_contain_text("running: step")
    board.button("cancel").click()
    expect(board.root.locator("[data-run='1']")).to_contain_text("cancelled")
    with board.next_revision():
        board.drag("batch", "data")
    assert page.python("explorer.layout.to_dict()") == {"batch": "data", "hidden": "model"}


def test_two_explorers_in_a_notebook_are_two(notebook_page, tmp_path: Path) -> None:
    page = opened(notebook_page, tmp_path, "two", TWO)
    page.run_all()
    first, second = Board(page), Board(page, 1)
    expect(page.view.locator(".mlb[data-rev]")).to_have_count(2)
    names = page.view.locator(".mlb").evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
    assert len(set(names)) == 2
    ids = page.view.evaluate("[...document.querySelectorAll('.mlb [id]')].map(each => each.id)")
    assert len(ids) == len(set(ids)) > 0
    with first.next_revision():
        first.drag("hidden", "model")
    assert (first.layout, second.layout, second.revision) == ("hidden:model", "batch:data", 0)
    with second.next_revision():
        second.drag("batch", TRAY)
    assert (first.layout, second.layout, first.revision) == ("hidden:model", "nothing sharded", 1)
    second.show("run")
    second.button("run").click()
    expect(second.root.locator("[data-run='1']")).to_contain_text("done")
    assert page.python("(len(explorer.runs), len(other.runs))") == (0, 1)
    page.assert_clean()


def test_nbconvert_shows_the_picture_of_the_last_revision(chromium, lab, notebook_page, tmp_path: Path) -> None:
    page = opened(notebook_page, tmp_path, "converted")
    page.run_all()
    board = Board(page)
    with board.next_revision():
        board.drag("hidden", "model")
    expect(page.view.locator("[data-mlb-picture][data-revision='1']")).to_have_count(1)
    page.view.evaluate(SAVE)
    path = lab.folder / "converted.ipynb"
    assert "hidden:model" in json.dumps(json.loads(path.read_text()))
    text, _ = HTMLExporter().from_notebook_node(nbformat.read(path, as_version=4))
    plain = page.view.context.new_page()
    plain.set_content(text)
    expect(plain.locator("[data-mlb-picture]")).to_be_visible()
    expect(plain.locator("[data-mlb-picture]")).to_contain_text("hidden:model")
    said = plain.locator("body").inner_text()
    assert "Error displaying widget" not in said
    assert "revision=0" not in said
    page.shot("nbconvert", plain)
    plain.close()
