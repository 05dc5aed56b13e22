"""The board in JupyterLab, Notebook 7 and marimo, and in the HTML that Jupyter exports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.board import Board
from tests.browser.hosts import Jupyter, Marimo, marimo
from tests.browser.page import DEADLINE
from tests.browser.server import Server

Host = Jupyter | Marimo
MODES = {"JupyterLab": "doc", "Notebook 7": "notebooks"}


@pytest.fixture(scope="module", params=[*MODES, "marimo"])
def host(
    request: pytest.FixtureRequest, chromium: Browser, lab: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    if request.param == "marimo":
        with marimo(chromium, tmp_path_factory.mktemp("marimo")) as opened:
            yield opened
        return
    notebook = Jupyter(chromium, lab, MODES[request.param])
    yield notebook
    notebook.close()


@pytest.fixture
def board(host: Host) -> Board:
    """The board, with the layout of the cell."""
    board = Board(cast(Any, host))
    if board.layout != "batch:data":
        with board.next_revision():
            board.button("reset").click()
    return board


def test_a_drop_changes_the_layout_the_numbers_and_the_view_in_another_cell(host: Host, board: Board) -> None:
    alone = Board(cast(Any, host), 1)
    expect(alone.root.locator("[data-chart-of=moments] .main-svg").first).to_be_attached()
    before, peak = board.total("sends").inner_text(), alone.root.inner_text()
    with board.next_revision(), alone.next_revision():
        board.drag("hidden", "model")
    assert board.layout == "batch:data hidden:model"
    host.expect_layout("batch:data hidden:model")
    expect(board.total("sends")).not_to_have_text(before, use_inner_text=True)
    expect(alone.root).not_to_have_text(peak, use_inner_text=True)
    with board.next_revision(), alone.next_revision():
        board.keyboard.press("Control+z")
    host.expect_layout("batch:data")
    assert host.errors == []


def test_it_is_light_and_dark_as_the_notebook_is(host: Host, board: Board) -> None:
    for theme in ("dark", "light"):
        host.set_theme(theme)
        for number in (0, 1):
            expect(Board(cast(Any, host), number).root).to_have_attribute("data-theme", theme)


# marimo's exported page loads marimo from the network.
@pytest.mark.parametrize("host", list(MODES), indirect=True)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_exported_page_shows_the_board_without_python(
    host: Jupyter, board: Board, chromium: Browser, theme: str
) -> None:
    with board.next_revision():
        board.drag("hidden", "model")
    page = exported(chromium, host.exported(theme))
    picture = page.locator("[data-mlb-picture]")
    expect(picture).to_be_visible()
    expect(picture).to_contain_text("batch:data hidden:model")
    ground = picture.locator("[data-mlb-snapshot]").evaluate("each => getComputedStyle(each).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(27, 31, 38)"}[theme]
    page.context.close()


def exported(browser: Browser, path: Path) -> Page:
    """Opens a file in a browser without a network, on a computer that is dark."""
    context = browser.new_context(viewport={"width": 1272, "height": 1000}, color_scheme="dark")
    context.set_default_timeout(DEADLINE)
    page = context.new_page()
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    return page


@pytest.fixture(scope="module")
def in_marimo(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marimo]:
    with marimo(chromium, tmp_path_factory.mktemp("marimo")) as opened:
        yield opened


def test_a_cell_of_marimo_that_runs_again_has_a_board_that_lives(in_marimo: Marimo) -> None:
    for cell in (1, 2):
        in_marimo.run_again(cell)
    board, alone = Board(cast(Any, in_marimo)), Board(cast(Any, in_marimo), 1)
    with board.next_revision(), alone.next_revision():
        board.drag("hidden", "model")
    in_marimo.expect_layout("batch:data hidden:model")
