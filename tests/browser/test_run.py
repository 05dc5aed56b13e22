"""Run: losses with axes, sameness with the unsplit run in words, seconds measured beside those predicted."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_moments import chart_of
from tests.browser.test_room import CUT
from tests.widgets import small
from tests.widgets.views.test_sameness import without_all_reduce


@pytest.fixture
def explorer() -> Explorer:
    """An Explorer with an unsplit run, one of a layout, and one of a plan that lacks an all-reduce."""
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), run=small.training(steps=40))
    shown.view()
    shown.run().wait(60)
    for layout in ("batch:data", "batch:data hidden:model"):
        shown.load(layout)
        shown.view()
        if layout != "batch:data":
            shown.documents.plans.put(shown.document, without_all_reduce(shown.plan, 1))
        shown.run().wait(60)
    return shown


@pytest.mark.parametrize(("width", "theme"), [(600, "light"), (1000, "dark"), (1128, "light")])
def test_a_layout_with_other_losses_is_flagged(open_board, width: int, theme: str) -> None:
    board: BlankBoard = open_board(width=width, theme=theme)
    panel = board.show("run")
    board.blank.shot(f"run-{width}-{theme}", full=True)
    verdicts = panel.locator("[data-run] .mlb-same")
    expect(verdicts).to_have_count(3)
    expect(verdicts.nth(0)).to_contain_text("✕ differs from run 1 from step 2 on: 2.32 against 2.31")
    expect(verdicts.nth(1)).to_contain_text("✓ same losses as run 1, to 1e-")
    expect(verdicts.nth(2)).to_have_text("the others are compared with it")
    expect(panel.locator(".mlb-verdict")).to_contain_text("✕ differs from run 1")
    expect(panel).to_contain_text("Compared with run 1, which shards nothing: the original function.")
    assert board.blank.view.evaluate(CUT) == []


def test_measured_and_predicted_stand_apart(open_board) -> None:
    panel = open_board().show("run")
    expect(panel.get_by_role("columnheader")).to_have_text(["run", "layout", "steps", "last loss", "a step"])
    for kind in ("measured", "predicted"):
        expect(panel.locator(f'[data-seconds="{kind}"]')).to_have_count(3)
        for text in panel.locator(f'[data-seconds="{kind}"]').all_inner_texts():
            assert re.fullmatch(rf"[\d.,]+ (ns|µs|ms|s) {kind}", text)
    expect(panel.locator(".mlb-run-seconds")).to_have_text(
        "Measured: the median of a run's steps but the first, simulated on this CPU: not a measure of the machine."
        " Predicted: the estimate for v5e:2x4."
    )
    assert "faster" not in panel.inner_text()


def test_the_curve_has_axes_and_a_mark_for_each_run(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    panel = board.show("run")
    plot = chart_of(board, "losses")
    ticks = plot.locator(".xtick text").all_text_contents()
    assert ticks == sorted(ticks, key=int)
    assert plot.locator(".ytick text").count() >= 2
    drawn = plot.evaluate("plot => plot.data.map(line => [line.marker.symbol, line.line.dash, line.y])")
    assert [losses for *_, losses in drawn] == [pytest.approx(run.losses) for run in explorer.runs]
    assert len({symbol for symbol, *_ in drawn}) == len({dash for _, dash, _ in drawn}) == 3
    assert "run 1: nothing sharded" in plot.locator(".legendtext").all_text_contents()
    expect(panel.locator(".mlb-run-key")).to_have_count(3)
    label = plot.get_attribute("aria-label") or ""
    assert label.startswith("loss by step. run 1: from 2.45 to ")
