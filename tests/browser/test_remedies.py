"""Remedies as buttons: priced when they come into sight, applied by click, touch and Enter, each one step of undo."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import TakeRemedy
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.prices import Price, prices_of
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.browser.test_board_prices import signed
from tests.widgets import small

LAYOUT = "batch:data hidden:model"


@pytest.fixture
def explorer() -> Explorer:
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), LAYOUT)
    shown.view()
    return shown


def remedies(within: Locator) -> Locator:
    return within.locator(".mlb-remedy-button")


def of_model(board: BlankBoard) -> Locator:
    """The button of the collective over `model`, in the row that opens below its own."""
    panel = board.show("traffic")
    panel.locator('tr[data-axes="model"]').first.locator("b").click()
    button = remedies(panel).first
    button.scroll_into_view_if_needed()
    return button


def expected(explorer: Explorer) -> list[str]:
    """What the button of the collective over `model` is to say of its price."""
    (remedy,) = next(c for c in explorer.plan.collectives if c.axes == ("model",)).remedies
    (price,) = prices_of(explorer.documents, [TakeRemedy(remedy.changes)], peak=True)
    assert isinstance(price, Price)
    assert price.seconds is not None
    assert price.peak_bytes is not None
    time, peak = price.seconds - explorer.time.estimate, price.peak_bytes - explorer.plan.memory.donated.peak_bytes
    sent = price.wire_bytes - round(explorer.plan.wire_bytes)
    texts = [signed(time, seconds_text(abs(time))), *(signed(n, bytes_text(abs(n))) for n in (peak, sent))]
    return [f"{name} {text}" for name, text in zip(("step", "peak", "sends"), texts, strict=True)]


def test_a_remedy_is_a_button_with_its_price_and_its_sign(open_board, explorer: Explorer) -> None:
    board = open_board()
    button = of_model(board)
    expect(button).to_contain_text("take hidden off model")
    prices = button.locator(".mlb-remedy-price span")
    expect(prices).to_have_text(expected(explorer))
    # What gets worse says so, with its sign, and ahead of all of it stands whether the step gets better.
    assert any("+" in line for line in expected(explorer))
    for line, text in zip(prices.all(), expected(explorer), strict=True):
        expect(line).to_have_class("mlb-less" if "−" in text else "mlb-more")
    signs = {line.split()[0].replace("sends", "traffic"): "−" in line for line in expected(explorer)}
    better, worse = ([name for name, falls in signs.items() if falls is which] for which in (True, False))
    verdict = [f"▼ better in {', '.join(better)},", f"▲ worse in {', '.join(worse)}:"]
    expect(button.locator("b")).to_have_text(verdict)
    expect(button).to_contain_text("estimated")
    board.blank.shot("remedies", full=True)


@pytest.mark.parametrize("by", ["click", "Enter", "touch"])
def test_it_is_one_step_however_it_is_pressed(open_board, explorer: Explorer, by: str) -> None:
    board = open_board(touch=by == "touch")
    button = of_model(board)
    expect(button).to_have_attribute("data-priced", "true")
    with board.next_revision():
        if by == "Enter":
            button.focus()
            board.keyboard.press("Enter")
        else:
            button.tap() if by == "touch" else button.click()
    assert explorer.layout.to_dict() == {"batch": "data"}
    # By its name, unless that takes longer than a drop.
    expect(board.status).to_contain_text(re.compile("; (DP over data|batch:data)"))
    with board.next_revision():
        board.button("undo").click()
    assert str(explorer.layout) == LAYOUT


def test_it_becomes_what_its_price_said(open_board, explorer: Explorer) -> None:
    board = open_board()
    button = of_model(board)
    expect(button).to_have_attribute("data-priced", "true")
    before = round(explorer.plan.wire_bytes)
    text = button.locator(".mlb-remedy-price").inner_text()
    with board.next_revision():
        button.click()
    change = round(explorer.plan.wire_bytes) - before
    assert f"sends {signed(change, bytes_text(abs(change)))}" in text
    expect(board.total("sends")).to_contain_text(bytes_text(round(explorer.plan.wire_bytes)))


def test_only_what_is_in_sight_is_priced_and_nothing_while_a_chip_is_held(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.show("traffic")
    expect(remedies(board.panel("traffic"))).to_have_count(0)
    asked = "sent.filter(each => each.what === 'remedies' || each.intents?.[0].op === 'remedy').length"
    assert board.blank.view.evaluate(asked) == 0
    board.press("hidden")
    board.panel("traffic").locator('tr[data-axes="model"] b').first.evaluate("name => name.click()")
    trying = board.panel("traffic").get_by_text("Trying what would remove it …").filter(visible=True)
    trying.scroll_into_view_if_needed()
    expect(trying).to_be_in_viewport()
    settled = ".mlb-zone:not(.mlb-tray)[data-state='legal']:not(:has(.mlb-zone-note span + span))"
    expect(board.root.locator(settled)).to_have_count(0)
    assert board.blank.view.evaluate(asked) == 0
    board.keyboard.press("Escape")
    board.mouse.up()
    expect(remedies(board.panel("traffic")).first).to_have_attribute("data-priced", "true")
    assert board.blank.view.evaluate(asked) > 1


def test_the_step_over_time_has_the_same_button(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.root.locator('.mlb-lane[data-lane="model"] .mlb-segment').first.click()
    button = remedies(board.root.locator(".mlb-detail"))
    expect(button.locator(".mlb-remedy-price span")).to_have_text(expected(explorer))
    with board.next_revision():
        button.click()
    assert explorer.layout.to_dict() == {"batch": "data"}
    expect(board.root.locator(".mlb-detail")).to_contain_text("Click a segment")


def test_without_a_machine_it_says_what_each_device_computes(open_board) -> None:
    board = open_board(explore(small.program(), small.mesh(), LAYOUT))
    line = of_model(board).locator(".mlb-remedy-price span")
    expect(line.first).to_have_text("computes 50%")
    expect(line).to_have_count(2)
    # What makes both worse does not look like a gain, nor do the words ahead of it.
    expect(line.first).to_have_class("mlb-more")
    expect(board.panel("traffic").locator(".mlb-remedy-button b").first).to_have_text("▲ worse:")
    plain = "tag => getComputedStyle(tag).color === getComputedStyle(tag.closest('.mlb')).color"
    assert board.panel("traffic").locator(".mlb-tag").filter(visible=True).first.evaluate(plain)


def test_what_is_refused_here_is_not_offered(open_board) -> None:
    board = open_board(explore(small.program(), small.mesh(), {"batch": "data", "params/*": {"hidden": "data"}}))
    board.show("traffic").locator('[data-kind="all-gather"] b').first.click()
    row = board.panel("traffic").locator(".mlb-collective-more:not([hidden])")
    expect(row).to_contain_text("store params/w")
    expect(row).not_to_contain_text("compute with hidden split over data as well")
    expect(remedies(row)).to_have_count(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible(open_board, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    board = open_board(theme=theme)
    expect(of_model(board)).to_have_attribute("data-priced", "true")
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
