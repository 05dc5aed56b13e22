"""A view is opened by its address: on a live board by Python, on a shared one by its link, which follows the reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.board import Board
from tests.browser.test_accessible import AXE, violations
from tests.browser.test_shared import SharedPage
from tests.widgets import small

LAYOUT = "batch:data hidden:model"


@pytest.fixture(scope="module")
def shared() -> Explorer:
    return explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data")


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data")


@pytest.fixture(scope="module")
def file(shared: Explorer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shared") / "board.html"
    shared.share(path, dims=["batch", "hidden"])
    return path


@pytest.fixture
def opened(chromium: Browser, file: Path) -> Iterator[Callable[..., Board]]:
    pages: list[SharedPage] = []

    def board(address: str = "", theme: str = "light") -> Board:
        pages.append(SharedPage(chromium, file, theme, address))
        return Board(cast(Any, pages[-1]))

    yield board
    for page in pages:
        assert page.errors == []
        page.view.context.close()


def tab(board: Board) -> str:
    shown = board.root.locator('[role="tab"][aria-selected="true"]')
    return shown.get_attribute("data-tab") or ""


def selected(board: Board) -> Locator:
    return board.root.locator(".mlb-collective[aria-current]")


def hash_of(board: Board) -> str:
    return board.root.page.evaluate("() => decodeURIComponent(location.hash.slice(1))")


def test_python_sends_every_board_to_a_tab(open_board, explorer: Explorer) -> None:
    board = open_board()
    assert tab(board) == "devices"
    (row, *_) = explorer.view()["collectives"]["rows"]
    name = f"{row['kind']} over {row['key']} of {row['value']}"
    assert explorer.go(f"traffic?layout=batch:data&collective={name}")
    board.blank.poll()
    expect(board.root.locator('[data-tab="traffic"]')).to_have_attribute("aria-selected", "true")
    expect(selected(board)).to_have_count(1)
    board.show("memory")
    assert explorer.go("traffic")  # again, though it is where Python sent it last
    board.blank.poll()
    expect(board.root.locator('[data-tab="traffic"]')).to_have_attribute("aria-selected", "true")
    expect(selected(board)).to_have_count(0)


def test_a_board_is_opened_at_an_address(open_board) -> None:
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4), address=f"memory?layout={LAYOUT}&dim=hidden")
    board = open_board(explorer)
    assert (tab(board), board.layout) == ("memory", LAYOUT)
    expect(board.chip("hidden", "model")).to_have_attribute("aria-current", "true")


def test_a_view_of_its_own_stays_where_it_is(open_board, explorer: Explorer) -> None:
    board = open_board(panel="memory")
    explorer.go("traffic")
    board.blank.poll()
    expect(board.root.locator('[data-panel="memory"]')).to_be_visible()
    expect(board.root.locator('[data-panel="traffic"]')).to_be_hidden()


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_export_copies_the_code_that_opens_the_view(open_board, explorer: Explorer, theme: str) -> None:
    board = open_board(theme=theme, stored=True)
    board.blank.view.context.grant_permissions(["clipboard-read", "clipboard-write"])
    board.show("time")
    board.button("export").click()
    link = board.root.get_by_label("link to this view")
    expect(link).to_have_value('explorer.go("time?layout=batch:data")')
    expect(board.root.locator(".mlb-forms")).to_be_visible()
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
    board.blank.shot(f"export-link-{theme}")
    board.button("link").click()
    expect(board.status).to_contain_text("Copied the link to this view")
    # What was copied opens it.
    eval(link.input_value(), {"explorer": explorer})
    assert explorer.tab == ("time", 1)


def test_a_link_opens_a_shared_board_and_follows_the_reader(opened: Callable[..., Board]) -> None:
    board = opened(f"traffic?layout={LAYOUT}&collective=all-reduce over model of logits")
    expect(board.root.locator('[data-tab="traffic"]')).to_have_attribute("aria-selected", "true")
    expect(board.root).to_have_attribute("data-rev", "1")
    assert board.layout == LAYOUT
    expect(selected(board)).to_contain_text("all-reduce")
    board.show("memory")
    assert hash_of(board) == f"memory?layout={LAYOUT}&collective=all-reduce over model of logits"
    with board.next_revision():
        board.button("undo").click()
    assert (board.layout, hash_of(board)) == ("batch:data", "memory?layout=batch:data")
    board.show("devices")
    assert hash_of(board) == "devices?layout=batch:data&tensor=params/w1"
    # The dims in another order, as somebody may write them; the page is told by the hash alone.
    with board.next_revision():
        board.root.page.evaluate("() => { location.hash = 'time?layout=hidden:model batch:data&device=3'; }")
    expect(board.root.locator('[data-tab="time"]')).to_have_attribute("aria-selected", "true")
    assert (board.layout, hash_of(board)) == (LAYOUT, f"time?layout={LAYOUT}&device=3")


def test_the_link_that_is_copied_opens_what_was_shown(opened: Callable[..., Board]) -> None:
    board = opened()
    assert hash_of(board) == ""
    with board.next_revision():
        board.drag("hidden", "model")
    board.show("time")
    board.button("export").click()
    expect(board.root.get_by_label("link to this view")).to_have_value(re.compile("#time"))
    link = board.root.get_by_label("link to this view").input_value()
    assert link == board.root.page.url
    other = opened(link.partition("#")[2])
    expect(other.root.locator('[data-tab="time"]')).to_have_attribute("aria-selected", "true")
    assert other.layout == LAYOUT


BAD = "trafic?layout=rows:data&layout=x&tensor=w&dim=d&device=9&collective=c&foo=1"


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_link_that_cannot_be_opened_says_all_that_is_wrong_and_changes_nothing(
    opened: Callable[..., Board], theme: str
) -> None:
    board = opened(BAD, theme)
    for wrong in (
        "There is no view “trafic”. There are devices, program, traffic, memory, time, compare.",
        "The layout “rows:data” is not recorded in this file.",
        "“layout=x” is invalid: write KEY=VALUE",
        "“foo=1” is invalid: write KEY=VALUE",
        "There is no tensor “w”.",
        "There is no dim “d”.",
        "There is no device 9 of 8.",
        "There is no collective “c”.",
    ):
        expect(board.status).to_contain_text(wrong)
    expect(board.status).to_have_attribute("data-mood", "refused")
    assert (board.layout, tab(board), board.revision) == ("batch:data", "devices", 0)
    board.root.page.add_script_tag(path=str(AXE))
    assert violations(board.root.page) == []


def test_letters_of_names_that_stand_for_something_are_escaped(chromium: Browser, tmp_path: Path) -> None:
    Odd = ml.dims(odd=8)
    step: Callable[..., Any] = lambda tree: {key: value * 2 for key, value in tree.items()}  # noqa: E731
    program = ml.trace(step, {"a & b%#": ml.f32[Odd], "c": ml.f32[Odd]})
    explorer = explore(program, ml.mesh(data=2))
    explorer.share(tmp_path / "odd.html")
    page = SharedPage(chromium, tmp_path / "odd.html", "light", "devices?tensor=tree/c")
    board = Board(cast(Any, page))
    assert explorer.select("tree/a & b%#")
    address = explorer.address()
    assert address == "devices?layout=&tensor=tree/a %26 b%25%23"
    page.view.evaluate("address => { location.hash = address; }", "devices?tensor=tree/a %26 b%25%23")
    expect(board.root.locator(".mlb-tensors")).to_have_value("tree/a & b%#")
    assert not page.errors
    page.view.context.close()
