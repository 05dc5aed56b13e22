"""Figures and snapshots show the numbers of the view, in the colours of the board."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import meshlab as ml
from meshlab.cost.machines.units import seconds_text
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.render import palette, themed
from meshlab.widgets.render.snapshot import Snapshot
from meshlab.widgets.state.marks import MARKS
from meshlab.widgets.views.board import board_view
from tests.engine.plans.test_work import LOST
from tests.widgets import grown
from tests.widgets.gates import Gate
from tests.widgets.printed import of_llama
from tests.widgets.small import titled
from tests.widgets.state.test_machines import own

COLOURS = Path(palette.__file__).parents[1] / "js" / "src" / "colours.css"


def test_figures_show_the_bytes_of_the_plan(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    for name in ("communication", "lines"):
        drawn = explorer.figure(name)
        assert sum(sum(bar.x) for bar in drawn.data) == explorer.plan.wire_bytes
        assert {bar.name for bar in drawn.data} == {"data", "model"}
    parts = explorer.plan.stored.parts
    assert list(explorer.figure("memory").data[0].x) == list(parts.values())


def test_a_snapshot_does_not_wait_for_costs(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer.on("v5e")
    gate = Gate(monkeypatch, explorer.costs)
    explorer.load("hidden:model")
    drawn = Snapshot(board_view(explorer)).html
    gate.open.set()
    assert "It was still being computed." in drawn
    assert "On Google TPU v5e" in drawn


def test_the_figures_of_a_machine(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    with pytest.raises(ExplorerError, match=r"No machine is chosen, so there are no times; call explorer.on"):
        explorer.figure("time")
    explorer.on("v5e")
    time, drawn = explorer.time, explorer.figure("time")
    seconds = {bar.y[0]: bar.x[0] for bar in drawn.data}
    assert seconds["step"] == time.estimate
    assert (seconds["compute-bound"], seconds["memory-bound"]) == (time.compute_bound, time.memory_bound)
    assert seconds["communication over model"] == time.communication["model"]
    reach = drawn.data[-1].error_x
    assert time.estimate + reach.array[0] == pytest.approx(time.upper)
    assert time.estimate - reach.arrayminus[0] == pytest.approx(time.lower)
    assert [bar.name for bar in drawn.data if "recalled, not verified" in bar.name]
    assert "Communication-bound over model" in drawn.layout.title.text
    memory = explorer.figure("memory")
    assert memory.layout.shapes[0].x0 == 16e9
    parts = dict(zip(memory.data[0].y, memory.data[0].x, strict=True))
    assert parts.pop("all") == sum(parts.values()) == explorer.plan.memory.donated.peak_bytes
    assert explorer.view()["peak_memory"]["text"] in titled(memory)


def test_a_figure_without_figures_says_why(explorer: Explorer) -> None:
    explorer.on(dataclasses.replace(own(), flops={"int8": ml.Figure(1e14)}))
    with pytest.raises(ExplorerError, match="has no figure for matmuls in float32"):
        explorer.figure("time")
    html = explorer.snapshot().html
    assert "has no figure for matmuls in float32" in html
    assert "it has int8" in re.sub("<[^>]*>", "", html)
    assert "`" not in html


def test_a_snapshot_shows_the_machine(explorer: Explorer) -> None:
    explorer.load("hidden:model")
    without = explorer.snapshot().html
    assert "Predicted time" not in without
    explorer.on("v5e")
    text, view = explorer.snapshot().html, explorer.view()
    assert "On Google TPU v5e, 2x4" in text
    assert f"<b>{view['time']['texts']['estimate']}</b>" in text
    assert "recalled, not verified: kernel launch latency 0 s; collectives reach 100% of link bandwidth" in text
    assert "Error: v5e: published steps took" in text
    assert "(More on a page of the project: docs/accuracy.md#published-steps-of-training.)" in re.sub(
        "</?code[^>]*>", "", text
    )
    assert text.count("<rect ") > without.count("<rect ")
    assert "<title>device 5: B</title>" in text
    assert f'stroke="{themed.SOLID[1]}"' in text
    explorer.on(dataclasses.replace(own(), memory=ml.Figure(100.0)))
    assert '<div style="color:var(--mlb-s-bad, #a4262c);font-weight:600">Does not fit: ' in explorer.snapshot().html


def test_the_loss_of_every_run(explorer: Explorer) -> None:
    with pytest.raises(ExplorerError, match="There is no run with a loss yet"):
        explorer.figure("loss")
    explorer.run(3).wait(60)
    explorer.place("hidden", "model")
    explorer.run(3).wait(60)
    drawn = explorer.figure("loss")
    assert [line.name for line in drawn.data] == ["run 1: nothing sharded", "run 2: hidden:model"]
    assert list(drawn.data[0].x) == [1, 2, 3]


def test_figures_that_there_are_not(explorer: Explorer) -> None:
    with pytest.raises(ExplorerError, match=r"There is no chart 'memry'; .* Did you mean `memory`"):
        explorer.figure("memry")
    with pytest.raises(ExplorerError, match="There is no layout to compare with yet"):
        explorer.figure("comparison")
    with pytest.raises(ExplorerError, match=r'not found the fastest layout .*; call explorer.auto\("time"\)'):
        explorer.figure("waterfall")


def test_what_auto_met_are_crosses_and_the_way_to_its_layout_is_a_waterfall() -> None:
    explorer = grown.opened()
    choice = explorer.auto("time")
    *tried, met = explorer.figure("comparison").data
    assert [dot.text[0] for dot in tried] == ["start", "Auto (time)"]
    assert sorted(met.x) == sorted(price.seconds for price in choice.alternatives)
    assert met.marker.symbol not in {dot.marker.symbol for dot in tried}
    (bars,) = explorer.figure("waterfall").data
    steps = choice.waterfall(explorer.layout).steps
    assert list(bars.x) == [*(step.change for step in steps), "Auto's"]
    assert sum(bars.y) == pytest.approx(choice.proof.value)
    assert bars.text[-1] == seconds_text(choice.proof.value)


def test_a_layout_that_only_padding_makes_legal_has_no_waterfall(explorer: Explorer) -> None:
    explorer.on("v5e")
    explorer.pad(True)
    explorer.load("classes:model")
    explorer.auto("time")
    with pytest.raises(ExplorerError, match="(?s)cannot plan the layout on the board: .*`classes` has size 10"):
        explorer.figure("waterfall")


def test_a_snapshot_is_plain_and_complete(explorer: Explorer, tmp_path: Path) -> None:
    explorer.load("batch:data hidden:model")
    snapshot = explorer.snapshot()
    text = str(snapshot)
    assert "<script" not in text
    assert "<style" not in text
    assert "batch:data hidden:model" in text
    assert text.count("<b>all-reduce</b>") == len(explorer.plan.collectives)
    assert "small.py:" in text
    assert "Each computes <b>12.5%</b> of the FLOPs" in text
    assert snapshot._repr_html_() == text
    snapshot.save(tmp_path / "board.html")
    assert (tmp_path / "board.html").read_text(encoding="utf-8").endswith(f"{text}</body></html>")


def test_a_snapshot_names_the_line_where_parallelism_is_lost() -> None:
    make, devices, *_ = LOST["heads of keys"]
    plan = make(devices)
    lost = explore(plan.program, plan.mesh, plan.layout)
    line = lost.view()["lost"]
    assert line.startswith("test_work.py:")
    assert f"of the FLOPs (⚠ unsharded from {line} on), sends" in lost.snapshot().html


def test_a_snapshot_has_the_columns_of_the_board_and_their_rules(explorer: Explorer) -> None:
    rules = {"batch": "data", "params/*": {"cols": "data", "hidden": None}, "params/w2": {"hidden": "model"}}
    assert explorer.load(rules)
    text = re.sub(r"<[^>]*>", "|", explorer.snapshot().html)
    cells = [cell for cell in re.split(r"\|+", text.split("Layout")[1].split("Communication")[0]) if cell.strip()]
    columns = [column["label"] for column in explorer.view()["columns"]]
    assert cells[: len(columns)] == columns
    data = cells[cells.index("data × 2") + 1 : cells.index("model × 4")]
    assert [cell for cell in data if cell != "&nbsp;"] == ["batch 8 → 4", "cols"]
    assert "Rules within: |params/*|: hidden whole; |params/w2|: hidden on model" in re.sub(r"\|+", "|", text)
    assert "rows 4" in cells  # it has no rule


def test_a_snapshot_of_nothing_sent(explorer: Explorer) -> None:
    assert "Nothing is sent under this layout." in explorer.snapshot().html


def test_the_colours_are_those_of_the_board() -> None:
    light = COLOURS.read_text(encoding="utf-8").split('[data-theme="dark"]')[0]
    assert tuple(re.findall(r"--solid-\d: (#\w+)", light)) == palette.SOLID[:MARKS]
    assert tuple(re.findall(r"--tint-\d: (#\w+)", light)) == palette.TINT[:MARKS]


def test_a_snapshot_of_a_named_model_has_a_cell_for_each_open_column_and_no_more() -> None:
    text = of_llama().snapshot().html.split("Layout</div>")[1].split("</table>")[0]
    head, *rows = [re.findall(r"<t[hd]", row) for row in text.split("<tr>")[1:]]
    columns = [column for column in of_llama().view()["columns"] if column["open"]]
    assert len(columns) < len(of_llama().view()["columns"])
    assert [len(row) for row in (head, *rows)] == [1 + len(columns)] * 4


def test_a_snapshot_is_dark_beside_the_style_sheet_of_a_saved_notebook(explorer: Explorer) -> None:
    dark = COLOURS.read_text(encoding="utf-8").split('[data-theme="dark"]')[1]
    for name, colour in themed.DARK.items():
        assert f"--{name}: {colour};" in dark
        assert f"--mlb-s-{name}: {colour};" in themed.DARK_STYLE
    explorer.load("batch:data hidden:model")
    text = explorer.snapshot().html
    assert {*re.findall(r"var\(--mlb-s-([\w-]+)", text)} <= themed.DARK.keys()
    assert "background:#fff" not in text
    assert "<code>" not in text.replace('<code style="background:none;color:inherit">', "")
