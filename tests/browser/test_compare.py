"""The tab Compare: every layout tried is a row and a dot that load it, and one of them the baseline of all numbers."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE
from tests.widgets import small
from tests.widgets.gates import Gate, Gates
from tests.widgets.printed import of_digits


@pytest.fixture
def explorer() -> Explorer:
    explorer = explore(small.program(), small.mesh(), "batch:data")
    explorer.on("v5e")
    return explorer


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    return Gates(monkeypatch)


def compared(board: BlankBoard) -> Locator:
    """Shows the tab."""
    board.root.locator('[data-tab="compare"]').click()
    return board.root.locator('[data-panel="compare"]')


def names(panel: Locator) -> list[str]:
    return panel.locator("tr[data-card] b").all_inner_texts()


def total(board: BlankBoard, key: str) -> Locator:
    return board.root.locator(f'.mlb-totals [data-total="{key}"]')


def test_a_row_and_a_dot_load_their_layout_as_one_change(open_board, explorer: Explorer) -> None:
    explorer.load("hidden:model", "tensor parallel")
    explorer.load("batch:data hidden:model")
    board = open_board()
    panel = compared(board)
    assert names(panel) == ["DP & TP", "tensor parallel", "start"]
    expect(panel.locator("[aria-current]")).to_contain_text("DP & TP on the board")
    with board.next_revision():
        panel.locator('[data-load="1"]').click()
    assert board.layout == "hidden:model"
    expect(panel.locator("[aria-current]")).to_contain_text("tensor parallel on the board")
    expect(panel.locator('[data-load="1"]')).to_be_focused()
    with board.next_revision():
        panel.locator('[data-dot="0"]').click()
    assert board.layout == "batch:data"
    with board.next_revision():
        panel.locator('[data-load="2"]').focus()
        board.keyboard.press("Enter")
    assert board.layout == "batch:data hidden:model"
    with board.next_revision():
        board.button("undo").click()
    assert board.layout == "batch:data"
    assert names(panel) == ["DP & TP", "tensor parallel", "start"]


def test_all_numbers_are_told_against_the_baseline(open_board, explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    explorer.view()
    board = open_board()
    panel = compared(board)
    start, first = (explorer.totals.known(each) for each in explorer.tried.documents(explorer.document))
    assert start is not None
    assert first is not None
    assert start.seconds is not None
    assert first.seconds is not None
    more = seconds_text(first.seconds - start.seconds)
    expect(total(board, "step").locator(".mlb-change")).to_have_text(f"▲ +{more}")
    choice = board.root.get_by_label("compared with")
    expect(choice.locator("option:checked")).to_have_text("start")
    with board.next_revision():
        panel.get_by_label("compare with DP & TP").check()
    expect(board.root.locator(".mlb-total .mlb-change")).to_have_count(0)
    expect(choice.locator("option:checked")).to_have_text("DP & TP")
    row = panel.locator('tr[data-card="1"]')
    expect(row.locator('[data-total="step"]')).to_contain_text("baseline")
    with board.next_revision():
        panel.locator('[data-load="0"]').click()
    expect(total(board, "step").locator(".mlb-change")).to_have_text(f"▼ −{more}")
    with board.next_revision():
        board.button("undo").click()
    assert explorer.tried.baseline.name == "#1"
    explorer.on(None)
    explorer.load("batch:data")
    explorer.view()
    board.blank.poll()
    by = (
        explorer.plan_at(explorer.tried.all[0].document).wire_bytes
        - explorer.plan_at(explorer.tried.all[1].document).wire_bytes
    )
    expect(total(board, "sends").locator(".mlb-change")).to_have_text(f"▲ +{bytes_text(by)}")


def test_one_layout_has_one_peak_and_one_step(open_board, explorer: Explorer) -> None:
    """The score line, the panel of memory and the comparison are of one estimate."""
    explorer.load("batch:data hidden:model")
    explorer.auto("memory")
    explorer.view()
    board = open_board()
    peak, step = (
        bytes_text(explorer.plan.memory.donated.peak_bytes),
        total(board, "step").locator(".mlb-total-value").inner_text(),
    )
    now = compared(board).locator(".mlb-card-now")
    expect(now.locator('[data-total="peak"]')).to_contain_text(peak)
    expect(now.locator('[data-total="step"]')).to_contain_text(step)
    expect(total(board, "peak").locator(".mlb-total-value")).to_have_text(peak)


def test_what_auto_found_stays_beside_mine(open_board, explorer: Explorer, gates: Gates) -> None:
    board = open_board()
    panel = compared(board)
    traffic = panel.locator('[data-auto="traffic"]')
    expect(traffic).to_have_attribute("data-hint", "Fewest bytes sent per step, within 1% of the least work.")
    traffic.click()
    expect(panel.get_by_role("progressbar")).to_be_visible()
    gates.end("traffic")
    board.blank.poll()
    assert names(panel) == ["Auto (traffic)", "start"]
    with board.next_revision():
        panel.locator('[data-load="1"]').click()
    assert board.layout == "hidden:model"
    assert names(panel) == ["Auto (traffic)", "start"]


def test_a_card_whose_costs_are_not_known_follows(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, explorer.costs)
    board = open_board()
    panel = compared(board)
    with board.next_revision():
        board.drag("hidden", "model")
    step = panel.locator('tr[data-card="1"] [data-total="step"]')
    expect(step).to_have_text("…")
    gate.open.set()
    explorer.view()
    board.blank.poll()
    expect(step).to_contain_text("s")
    expect(panel.locator("[data-dot]")).to_have_count(2)


@pytest.mark.parametrize(("width", "theme"), [(600, "light"), (1112, "dark")])
def test_it_reads_well_and_is_accessible(open_board, explorer: Explorer, theme: str, width: int) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    for layout in ("hidden:model", "batch:data hidden:model", "", "hidden:data"):
        explorer.load(layout)
    explorer.auto("traffic")
    explorer.view()
    board = open_board(theme=theme, width=width)
    panel = compared(board)
    assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth")
    cut = panel.locator("td, thead th").evaluate_all(
        "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.innerText)"
    )
    assert cut == []
    board.blank.view.add_script_tag(path=str(AXE))
    problems = panel.evaluate("async panel => (await axe.run(panel)).violations")
    assert [(each["id"], node["html"]) for each in problems for node in each["nodes"]] == []
    board.blank.shot(f"compare-{theme}-{width}", full=True)


# Boxes of the names beside dots, and those of what they must not cover.
NAMED_DOTS = """svg => {
    const box = each => { const b = each.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
    const names = [...svg.querySelectorAll("text")].filter(each => each.getAttribute("text-anchor") === "start")
        .map(each => [each.textContent, box(each)]).filter(([text]) => !text.startsWith("device memory"));
    const marks = [...svg.querySelectorAll("[data-met] path, [data-dot] path, [data-dot] circle")].map(box);
    const meet = (a, b) => a[0] < b[2] - 1 && b[0] < a[2] - 1 && a[1] < b[3] - 1.5 && b[1] < a[3] - 1.5;
    const covered = names.filter(([, a]) => marks.some(b => meet(a, b))).map(([text]) => text);
    const pairs = names.flatMap(([, a], i) => names.slice(i + 1).filter(([, b]) => meet(a, b)));
    const halo = getComputedStyle(svg.querySelector("text")).stroke;
    return { names: names.map(([text]) => text), covered, pairs: pairs.length, halo };
}"""


def test_names_beside_dots_cover_no_dot_no_cross_and_no_other_name(open_board) -> None:
    explorer = of_digits()
    explorer.table("comparison")  # works out all that is drawn
    board: BlankBoard = open_board(explorer, width=1000)
    panel = board.show("compare")
    expect(panel.locator(".mlb-scatter-box [data-met]").first).to_be_visible()
    seen = panel.locator(".mlb-scatter-box svg").evaluate(NAMED_DOTS)
    assert len(seen["names"]) >= 3
    assert "start" in seen["names"]
    assert [name for name in seen["names"] if name.isdigit()] == []
    assert (seen["covered"], seen["pairs"], seen["halo"]) == ([], 0, "none")
    board.blank.shot("pareto-names")
