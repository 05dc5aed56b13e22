"""Auto in real JupyterLab: a search goes on beside drops, and what is worked out comes by itself."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.board import Board

NOTEBOOK = """# %%
import meshlab as ml
from tests.widgets import grown
explorer = grown.opened()
explorer
"""


def test_in_jupyterlab_a_search_goes_on_beside_drops_and_its_reasons_follow(notebook_page, tmp_path: Path) -> None:
    """A live kernel: what is worked out in the background comes by itself."""
    source = tmp_path / "auto.py"
    source.write_text(NOTEBOOK)
    page = notebook_page(source)
    page.run_all()
    board = Board(page)
    board.root.locator(".mlb-auto").click()
    with board.next_revision():
        board.drag("embed", "b")
    panel = board.panel("compare")
    expect(panel).to_contain_text("✓ The fastest that fits:")
    expect(panel.locator(".mlb-scatter-box [data-met]").first).to_be_visible()
    panel.locator('[data-reason="way"]').click()
    rows = panel.locator(".mlb-way tbody tr")
    expect(rows.first).to_contain_text("yours")
    change = rows.nth(1).locator(".mlb-way-name").inner_text()
    assert change == page.python("explorer.choice.waterfall(explorer.layout).steps[1].change")
    with board.next_revision():
        rows.last.get_by_role("button").click()
    expect(rows.last).to_contain_text("✓ on the board")
    assert page.python("explorer.layout == explorer.choice.layout")
    panel.locator('[data-reason="regrets"]').click()
    board.button("exact_regrets").click()
    expect(panel).to_contain_text("Each was searched for, with all else optimised again.")
    assert page.python("len(explorer.regrets.last.regrets)") == panel.locator("[data-regret]").count()
    page.shot("auto-in-lab")
