"""Every notebook, executed from its first cell to its last; and what each promises its reader, asserted."""

from pathlib import Path

import jupytext
import pytest

from tests import notebooks

FOLDER = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted(FOLDER.glob("*.py"))
MOST_CODE_LINES = 12


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_is_prose_first_in_short_cells(source):
    cells = jupytext.read(source).cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    for cell in cells:
        code = [line for line in cell.source.splitlines() if line.strip()] if cell.cell_type == "code" else []
        assert len(code) <= MOST_CODE_LINES, cell.source


@pytest.mark.notebook
@pytest.mark.parametrize("source", [path for path in SOURCES if path.stem != "00_start"], ids=lambda path: path.stem)
def test_runs_from_top_to_bottom(source):
    with notebooks.run(source):
        pass


@pytest.mark.notebook
def test_start_keeps_its_promises():
    with notebooks.run(FOLDER / "00_start.py") as done:
        losses = done.value("losses")
        text = done.text()
        read_right = done.value("float((guesses == test_labels).mean())")
        in_turn = done.value("[explorer.layout.to_dict(), explorer.run().wait().phase, explorer.runs[-1].losses[-1]]")
        memory = done.value("[choice.plan.memory.argument_bytes, plan.memory.argument_bytes, str(choice.proof)]")

    assert set(losses) == {"no layout", "data-parallel", "model-parallel", "both"}
    for each in losses.values():
        assert each == pytest.approx(losses["no layout"], rel=1e-5)
        assert each[0] == pytest.approx(2.3, abs=0.2)
        assert each[-1] < 0.3
    assert read_right > 0.9
    assert "✓ checked against the compiled program" in text
    for problem in ("Did you mean `hidden`?", "Did you mean `data`?", "`classes` has size 10"):
        assert problem in text
    assert in_turn == [{}, "done", pytest.approx(losses["no layout"][-1], rel=1e-5)]
    assert memory[0] <= memory[1]
