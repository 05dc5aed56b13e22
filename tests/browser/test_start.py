"""The start notebook as its reader meets it: opened, run, a chip dragged by mouse and another by keyboard, trained.

It is run once. What is refused changes nothing, and the last section has a board of its own.
"""

import pytest
from playwright.sync_api import expect

from tests.browser.board import TRAY, Board
from tests.browser.page import NotebookPage, new_context


@pytest.fixture(scope="module")
def page(chromium, lab):
    page = NotebookPage(new_context(chromium), lab, "00_start.ipynb")
    page.run_all()
    yield page
    page.close()


@pytest.fixture
def board(page):
    return Board(page)


def layout(page):
    return page.python("explorer.layout.to_dict()")


def test_an_illegal_drop_is_refused_before_it_happens(board, page):
    before = board.revision
    board.press("classes")
    board.move_to("data")
    expect(board.zone("data")).to_have_attribute("data-state", "refused")
    expect(board.note("data")).to_have_text("✕")
    expect(board.status).to_contain_text("10")
    page.shot("refused", board.root)
    board.mouse.up()
    assert layout(page) == {}
    assert board.revision == before
    assert board.zone(TRAY).locator('[data-dim="classes"]').count() == 1
    page.assert_clean()


def test_dragging_replans_and_running_trains(board, page):
    assert layout(page) == {}
    assert board.collectives == []
    board.root.scroll_into_view_if_needed()
    page.shot("1-opened", board.root)

    with board.next_revision():
        board.drag("hidden", "model")
    assert layout(page) == {"hidden": "model"}
    assert board.layout == "hidden:model"
    assert {axes for _, axes in board.collectives} == {"model"}
    by_mouse = board.chart
    assert set(by_mouse) == {"model"}
    page.shot("2-hidden-dragged", board.root)

    with board.next_revision():
        board.carry("batch", "data")
    assert layout(page) == {"batch": "data", "hidden": "model"}
    assert {axes for _, axes in board.collectives} == {"model", "data"}
    assert set(board.chart) == {"model", "data"}
    assert len(board.collectives) == page.python("len(explorer.plan.collectives)")
    page.shot("3-batch-by-keyboard", board.root)

    board.show("run")
    board.button("run").click()
    loss = board.root.locator("[data-run='1'] .mlb-loss")
    expect(board.root.locator("[data-run='1']")).to_contain_text("done")
    shown = float(loss.inner_text())
    assert shown == pytest.approx(page.python("losses['both'][-1]"), rel=1e-3)
    assert page.python("losses['no layout'][-1]") == pytest.approx(page.python("losses['both'][-1]"), rel=1e-4)
    # plotly.js has come through the real kernel, out of the installed wheel.
    expect(board.panel("run").locator(".js-plotly-plot .scatterlayer")).to_be_visible()
    page.shot("4-trained", board.root)

    board.show("compare").locator('[data-auto="traffic"]').click()
    take = board.panel("compare").locator("tr[data-card]", has_text="Auto (traffic)").locator("[data-load]")
    expect(take).to_be_visible()
    page.shot("5-auto-beside-manual", board.root)
    with board.next_revision():
        take.click()
    assert layout(page) == page.python("choice.layout.to_dict()") == {"hidden": ["data", "model"]}

    for _ in range(2):
        with board.next_revision():
            board.button("undo").click()
    assert layout(page) == {"hidden": "model"}
    assert board.chart == by_mouse
    page.assert_clean()


def test_gradients_are_accumulated_by_one_drag(page):
    board = Board(page, number=1)
    board.root.scroll_into_view_if_needed()
    expect(board.root.locator("[data-axis-row='micro']")).to_contain_text("×4 in time")
    sent = page.python("in_time.plan.wire_bytes")
    with board.next_revision():
        board.drag("batch", "micro", zone="data")
    assert page.python("in_time.layout.to_dict()") == {"batch": ["data", "micro"], "hidden": "model"}
    assert page.python("in_time.plan.wire_bytes") == sent
    assert page.python("in_time.plan.check().ok")
    page.shot("6-accumulating", board.root)
    page.assert_clean()
