"""In real JupyterLab a layout goes into a cell of its own, which runs; and what Export says of that is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.forms.forms import FORMS
from tests.browser.page import PANEL
from tests.widgets import small

NOTEBOOK = """# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %%
import jax
jax.config.update("jax_num_cpu_devices", 4)
import meshlab as ml
from tests.widgets import small
explorer = ml.explore(small.program(), ml.mesh(data=2, model=2), {"hidden": "model", "params/*": {"classes": "data"}})
# %%
explorer.next_cell("jit")
# %%
explorer
"""
SOURCES = f"() => {PANEL}.content.model.toJSON().cells.map(each => each.source)"
RUN_NEXT = f"""([number]) => {{
    const {{ content }} = {PANEL};
    content.activeCellIndex = number;
    window.jupyterapp.commands.execute("notebook:run-cell");
}}"""


def test_in_jupyterlab_it_is_written_below_the_cell_and_runs(notebook_page, tmp_path: Path) -> None:
    path = tmp_path / "next.py"
    path.write_text(NOTEBOOK)
    page = notebook_page(path)
    page.run_all()
    page.view.wait_for_function(f"() => ({SOURCES})().length === 4")
    sources = page.view.evaluate(SOURCES)
    written = page.python('explorer.form("jit").cell')
    assert "functools.partial(jax.jit, in_shardings=inputs, out_shardings=outputs)" in written
    assert sources[2] == written
    assert sources[3] == "explorer"
    page.view.evaluate(RUN_NEXT, [2])
    page.view.wait_for_function(f"() => {PANEL}.content.model.cells.get(2).executionCount > 0")
    page.wait_ready()
    assert not page.outputs("error")
    assert page.python("inputs[0]['w2'].spec == P('model', 'data')")
    page.shot("next-cell")
    page.assert_clean()


@pytest.fixture
def explorer() -> Explorer:
    layout = {"hidden": "model", "params/*": {"classes": "data"}}
    return explore(small.program(), ml.mesh("v5e", data=2, model=4), layout)


def test_export_has_all_forms_and_says_how_to_write_a_cell(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.button("export").click()
    forms = board.root.locator(".mlb-forms label")
    expect(forms.first).to_be_visible()
    assert forms.all_inner_texts() == list(FORMS)
    for name in FORMS:
        forms.get_by_text(name, exact=True).click()
        shown = board.root.locator(".mlb-copy")
        expect(shown).to_contain_text(f'explorer.next_cell("{name}")')
        assert board.root.locator(".mlb-form-text").input_value() == explorer.form(name)
    board.blank.shot("export-forms")
