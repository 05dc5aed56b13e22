"""Prices in the zones while a chip is held: of all of them, the best marked, never those of another layout."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import Place, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.prices import Price, prices_of
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY, name
from tests.widgets import small

Batch, Embed, Hidden, Classes = ml.dims(batch=32768, embed=4096, hidden=16384, classes=10)
ZONES = [(axis, at) for at in ("", "params/*") for axis in ("data", "model")]


def loss(params, x):
    hidden = ml.relu(ml.dot(x, params["inward"], Embed))
    return ml.dot(hidden, params["outward"], Hidden).astype(np.float32).mean()


def step(params, x):
    return jax.tree.map(lambda weight, grad: weight - 0.1 * grad, params, jax.grad(loss)(params, x))


@pytest.fixture(scope="module")
def program() -> ml.Program:
    shapes = {"inward": ml.bf16[Embed, Hidden], "outward": ml.bf16[Hidden, Classes]}
    return ml.trace(step, shapes, ml.bf16[Batch, Embed])


@pytest.fixture
def explorer(program: ml.Program) -> Explorer:
    shown = explore(program, ml.mesh("v5e", data=2, model=4))
    shown.view()
    return shown


def settled(board: BlankBoard) -> None:
    """Waits until each zone says two prices, of time and of memory, or refuses, or has the chip."""
    waiting = ".mlb-zone:not(.mlb-tray)[data-state='legal']:not(:has(.mlb-zone-note span + span))"
    expect(board.root.locator(waiting)).to_have_count(0)
    expect(board.root.locator(".mlb-zone[data-state='idle']")).to_have_count(0)


def signed(change: float, text: str) -> str:
    """Returns a difference as the page writes it, from the text of its amount."""
    return "±0" if change == 0 else f"{'−' if change < 0 else '+'}{text}"


def lines(explorer: Explorer, price: Price | Refused) -> list[str]:
    """Returns what a zone is expected to say."""
    if isinstance(price, Refused):
        return ["✕"]
    assert price.seconds is not None
    assert price.peak_bytes is not None
    time, memory = price.seconds - explorer.time.estimate, price.peak_bytes - explorer.plan.memory.donated.peak_bytes
    return [signed(time, seconds_text(abs(time))), signed(memory, bytes_text(abs(memory)))]


LINES = "span:not(.mlb-note-star, .mlb-zone-note span span)"


@pytest.mark.parametrize("dim", ["batch", "hidden", "classes"])
def test_every_zone_says_its_price_and_the_best_has_a_star(open_board, explorer: Explorer, dim: str) -> None:
    asked = [Place(dim, (axis,), at or None) for axis, at in ZONES]
    prices = dict(zip(ZONES, prices_of(explorer.documents, asked, peak=True), strict=True))
    board = open_board()
    board.press(dim)
    settled(board)
    board.blank.shot(f"prices-{dim}", full=True)
    for zone, price in prices.items():
        assert board.note(*zone).locator(LINES).all_inner_texts() == lines(explorer, price)
        expect(board.zone(*zone)).to_have_attribute("data-state", "refused" if isinstance(price, Refused) else "legal")
    now = explorer.time.estimate * (1 - 1e-3)
    steps = {name(*zone): price.seconds for zone, price in prices.items() if isinstance(price, Price)}
    best = min(steps, key=lambda zone: steps[zone] or 0)
    stars = board.root.locator(".mlb-zone[data-best]")
    expect(stars).to_have_count(int(steps[best] < now))
    if dim != "classes":
        expect(stars).to_have_attribute("data-zone", best)
        expect(stars.locator(".mlb-zone-note")).to_contain_text("★−")
        expect(stars.locator(LINES).first).to_have_class("mlb-less")
    board.mouse.up()
    expect(board.root.locator(".mlb-zone-note span")).to_have_count(0)
    expect(board.root.locator(".mlb-zone[data-best]")).to_have_count(0)
    assert explorer.revision == 0


def test_a_price_of_an_older_layout_is_forgotten(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.press("hidden")
    settled(board)
    before = board.note("model").inner_text()
    explorer.load("batch:data")
    explorer.view()
    board.blank.poll()
    (price,) = prices_of(explorer.documents, [Place("hidden", ("model",))], peak=True)
    expect(board.note("model").locator(LINES).first).to_contain_text(lines(explorer, price)[0])
    assert board.note("model").inner_text() != before
    expect(board.note("data")).to_have_text("✕")
    board.mouse.up()


def test_a_refusal_that_comes_after_the_aim_is_said(open_board, explorer: Explorer) -> None:
    """Whether a place takes a dim only Python knows."""
    board = open_board()
    board.blank.silent = True
    board.press("classes")
    board.move_to("model", "params/*")
    expect(board.status).to_contain_text("model, for params: classes 3 of 10 on each device")
    board.blank.catch_up()
    expect(board.status).to_contain_text("classes has size 10, which 4 (model) does not divide.")
    expect(board.status).to_have_attribute("data-mood", "refused")
    board.mouse.up()
    expect(board.status).to_contain_text("Refused: At params/")
    assert explorer.revision == 0


def test_a_chip_over_which_the_pointer_rests_is_priced_before_it_is_lifted(open_board, explorer: Explorer) -> None:
    board = open_board()
    with board.blank.view.expect_event("console", lambda line: line.text == "priced"):
        board.blank.view.evaluate("""() => {
            const { hear } = window;
            window.hear = answer => {
                hear(answer);
                if (answer.reply?.prices?.some(price => price.peak)) console.log("priced");
            };
        }""")
        board.chip("batch").hover()
    board.press("batch")
    assert board.note("data").locator("span").count() >= 1
    board.mouse.up()
    assert board.zone(TRAY).locator('[data-dim="batch"]').count() == 1


def test_without_a_machine_zones_say_what_work_a_drop_saves(open_board) -> None:
    """Bytes alone only rise: by them nothing would be worth sharding."""
    shown = explore(small.program(), small.mesh())
    board = open_board(shown)
    board.press("hidden")
    (price,) = prices_of(shown.documents, [Place("hidden", ("model",))])
    assert isinstance(price, Price)
    assert price.work == 1 / 4
    expect(board.note("model").locator("span")).to_have_text(["★", "→ 25%", "+480 B"])
    # What is sent for less work is its price, and no fault.
    expect(board.note("model").locator("span").last).to_have_class("mlb-cost")
    board.move_to("model")
    expect(board.root.locator('[data-total="work"]')).to_contain_text("→ 25%")
    board.mouse.up()
    expect(board.root.locator('[data-total="work"]')).to_contain_text("25%")
