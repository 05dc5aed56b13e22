"""How high a figure for print is at most, and what is said of what is left out for that."""

from __future__ import annotations

import re

import pytest

from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.render.print.figure import PrintFigure
from meshlab.widgets.render.print.program import drawn_nodes
from meshlab.widgets.views.program.steps import steps_view
from tests.widgets.printed import of_llama, of_mixtral


def test_no_figure_is_higher_than_a_page() -> None:
    for explorer in (of_llama(), of_mixtral()):
        for name in ("program", "board"):
            assert explorer.figure(name, width_mm=85).height_mm <= 230
            assert explorer.figure(name, width_mm=85, height_mm=100, caption=False).height_mm <= 100


def test_of_a_long_program_it_is_said_how_many_rows_are_left_out() -> None:
    explorer = of_mixtral()
    whole = explorer.figure("program", width_mm=85, height_mm=1000)
    rows = len(drawn_nodes(steps_view(explorer.plan))[0])
    assert "rows" not in whole.caption
    short = explorer.figure("program", width_mm=85, height_mm=100)
    found = re.search(r"and the last (\d+) of (\d+) rows\. ", short.caption)
    assert found
    assert int(found[2]) == rows
    # What is drawn is the beginning of it.
    count = len(written(short)) - len([each for each in short.written if each.box.top > short.height - 80])
    assert written(short)[:count] == written(whole)[:count]
    assert count > 20
    assert 90 < short.height_mm <= 100
    assert int(found[1]) < rows


def test_of_a_high_board_it_is_said_which_parts_are_left_out() -> None:
    explorer = of_llama()
    figure = explorer.figure("board", width_mm=85, height_mm=150)
    left_out = re.search(r"Left out, for its height: (.*?)\.", figure.caption)
    assert left_out
    assert {"memory", "devices"} <= {*left_out[1].split(", ")} <= {"time", "communication", "memory", "devices"}
    assert "Who holds what" not in " ".join(written(figure))
    assert "Left out" not in explorer.figure("board", width_mm=85, height_mm=1000).caption


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(ExplorerError, match=r"`timeline` would be \d+ mm high at a width of 85 mm, and"):
        of_llama().figure("timeline", width_mm=85, height_mm=40)
    with pytest.raises(ExplorerError, match=r"given height_mm='A4'; it must be a number from 20 to 5000"):
        of_llama().figure("timeline", width_mm=85, height_mm="A4")  # type: ignore[arg-type]


def written(figure: PrintFigure) -> list[str]:
    return [each.text for each in figure.written]
