"""The charts as data: what is drawn adds up to what the plan and the runs say, and Plotly takes all of it."""

from __future__ import annotations

import json
import math
import types
from typing import Any, cast

import pytest

import meshlab as ml
from meshlab.cost.peak_memory.alive import Moment
from meshlab.cost.peak_memory.memory import Memory
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.render.palette import SOLID, TINT, VARIABLES
from meshlab.widgets.views.charts.kernels import decades, kernels_chart
from meshlab.widgets.views.charts.losses import Losses, drawn_runs, drawn_steps, losses_chart
from meshlab.widgets.views.charts.moments import NARROW, StepsPhaseView, highest, moments_chart
from meshlab.widgets.views.peak_memory import moments_view, phases_view
from meshlab.widgets.views.roofline import roofline_view
from meshlab.widgets.views.runs import job_view
from tests.widgets.small import titled


def run(number: int, losses: list[float], is_reference: bool = False) -> Losses:
    return Losses(number, "", losses, is_reference)


def chart_of(view: Any) -> Any:
    return view["chart"]


def test_the_curve_is_the_memory_of_the_plan_and_names_its_phases(explorer: Explorer) -> None:
    assert moments_view(explorer) == {"chart": None}
    explorer.load("batch:data hidden:model")
    explorer.on("v5e")
    memory = explorer.plan.memory.donated
    chart = chart_of(moments_view(explorer))
    curve, moment = chart["data"]
    assert curve["x"] == list(range(len(memory.timeline)))
    assert curve["y"] == [int(point.bytes) for point in memory.timeline]
    assert moment["y"][1] == max(curve["y"]) == curve["y"][moment["x"][0]]
    named = [each["text"] for each in chart["layout"]["annotations"]]
    assert named == [phase["name"] for phase in phases_view(memory)]
    assert {words[2] for words in curve["customdata"]} == set(named)
    drawn = explorer.figure("moments")
    assert list(drawn.data[0].y) == curve["y"]
    assert explorer.view()["peak_memory"]["text"] in titled(drawn)


def test_a_limit_that_is_near_is_a_line_with_its_name(explorer: Explorer) -> None:
    explorer.on("v5e")
    memory = explorer.plan.memory
    far = moments_chart(memory, phases_view(memory))["layout"]
    assert memory.limit_bytes > far["yaxis"]["range"][1]
    assert not [each for each in far["annotations"] if "device memory" in each["text"]]
    limit = int(1.2 * max(point.bytes for point in memory.timeline))
    smaller = types.SimpleNamespace(timeline=memory.timeline, limit_bytes=limit)
    near = moments_chart(cast(Memory, smaller), [])["layout"]
    assert near["shapes"][-1]["y0"] < near["yaxis"]["range"][1]
    assert near["annotations"][-1]["text"].startswith("device memory ")


def test_names_of_narrow_phases_beside_each_other_stand_on_two_lines(explorer: Explorer) -> None:
    explorer.on("v5e")
    memory = explorer.plan.memory
    steps = len(memory.timeline)
    edges = (0, steps - 2, steps - 1, steps)
    names = ("forward", "backward", "update")
    phases: list[StepsPhaseView] = [
        {"name": n, "begin": a, "end": b} for n, a, b in zip(names, edges, edges[1:], strict=False)
    ]
    assert 1 / steps < NARROW
    shifts = {each["text"]: each["yshift"] for each in moments_chart(memory, phases)["layout"]["annotations"]}
    assert (shifts["forward"], shifts["backward"] > 0, shifts["update"]) == (0, True, 0)


def test_of_many_steps_the_peak_is_drawn() -> None:
    points = [Moment("add", None, size) for size in range(1000)]
    shown = highest(points, 100)
    assert len(shown) == 100
    assert shown[-1] == 999


def test_seconds_of_dots_and_of_what_is_not_drawn_add_up(explorer: Explorer) -> None:
    explorer.load("batch:data")
    explorer.on("v5e")
    view: Any = roofline_view(explorer)
    dots = [trace for trace in view["chart"]["data"] if "marker" in trace]
    drawn = sum(seconds for trace in dots for _, seconds in trace["customdata"])
    assert drawn > 0
    assert drawn + view["undrawn"] == pytest.approx(float(explorer.time.compute), rel=1e-9)
    sizes = [size for trace in dots for size in trace["marker"]["size"]]
    assert sum(sizes) == pytest.approx(drawn)
    for trace in dots:
        assert (trace["marker"]["color"] == "rgba(0,0,0,0)") == (trace["name"] != "compute-bound")
    assert len(explorer.figure("roofline").data) == len(view["chart"]["data"])
    assert view["said"] in titled(explorer.figure("roofline"))


def test_what_a_kernel_waits_for_is_its_shape_and_the_longest_are_named() -> None:
    def dot(bound: str, intensity: float, seconds: float) -> Any:
        name = {"name": f"dot of {bound}", "dims": ["batch"], "source": f"{bound}.py:1", "count": 2}
        return name | {"seconds": seconds, "intensity": intensity, "rate": intensity * 1e9, "bound": bound}

    dots = [dot("memory", 1.0, 4e-3), dot("compute", 900.0, 2e-3), dot("launch", 1.01, 1e-3)]
    chart = kernels_chart(dots, [{"dtype": "float32", "peak": 1e12}], 2e9)
    assert chart is not None
    traces = {trace["name"]: trace for trace in chart["data"]}
    looks = {(trace["marker"]["symbol"], trace["marker"]["color"]) for trace in chart["data"] if "marker" in trace}
    assert len(looks) == 3
    assert traces["memory-bound"]["text"] == ["memory.py:1"]
    assert traces["compute-bound"]["text"] == ["compute.py:1"]
    # It would lie on the name of a longer one.
    assert traces["launch-bound"]["text"] == [""]
    roof = traces["1 TFLOP/s in float32"]
    assert all(y <= 1e12 and y <= x * 2e9 * (1 + 1e-9) for x, y in zip(roof["x"], roof["y"], strict=True))
    assert kernels_chart([dot("memory", 1.0, 1.0) | {"intensity": None}], [], 2e9) is None
    # The slope has its name to the left of its middle where that is on the chart, and below it elsewhere.
    assert roof["textposition"][1] == "top left"
    steep = kernels_chart([dot("compute", 9000.0, 2e-3)], [{"dtype": "float32", "peak": 1e12}], 2e9)
    assert steep is not None
    assert steep["data"][0]["textposition"][1] == "bottom right"


@pytest.mark.parametrize("values", [[1.6, 240], [1e11, 1.97e14], [5]])
def test_an_axis_of_powers_has_all_values_inside(values: list[float]) -> None:
    low, high = decades(values)
    assert all(10**low < value < 10**high for value in values)


def test_the_reference_is_drawn_however_many_runs_there_are() -> None:
    runs = [run(number, [2, 1]) for number in (9, 8, 7, 6, 5, 4)]
    drawn = drawn_runs([*runs, run(1, [2, 1], is_reference=True), run(0, []), run(3, [float("nan")])])
    assert [each.number for each in drawn] == [1, 6, 7, 8, 9]
    assert losses_chart([run(0, [])]) is None


def test_losses_stand_at_their_steps_and_runs_that_lie_on_each_other_are_told_apart() -> None:
    long = [3 - step / 500 for step in range(1000)]
    chart = losses_chart([run(1, long), run(2, long), run(3, [2.0, float("nan"), float("inf"), 1.0])])
    assert chart is not None
    first, second, third = chart["data"]
    assert len(first["x"]) <= 120
    assert first["y"] == [long[step - 1] for step in first["x"]]
    assert third["y"] == [2.0, None, None, 1.0]
    for what in (lambda line: line["marker"]["symbol"], lambda line: line["line"]["dash"]):
        assert len({what(line) for line in chart["data"]}) == 3
    marked = [{i for i, size in enumerate(line["marker"]["size"]) if size} for line in (first, second)]
    assert not marked[0] & marked[1]
    assert first["line"]["width"] > second["line"]["width"]


def test_of_a_long_run_the_last_loss_is_drawn_and_a_loss_between_drawn_steps_makes_no_chart() -> None:
    chart = losses_chart([run(1, [float(step) for step in range(122)])])
    assert chart is not None
    assert (chart["data"][0]["x"][-1], chart["data"][0]["y"][-1]) == (122, 121.0)
    assert len(chart["data"][0]["x"]) <= 120
    diverged = [math.nan, 2.0, *[math.nan] * 200]
    assert 1 not in drawn_steps(len(diverged))
    assert losses_chart([run(1, diverged)]) is None
    assert drawn_runs([run(1, diverged), run(2, [2.0])]) == [run(2, [2.0])]


def test_a_chart_is_json_in_the_board_s_variables_and_stays_zoomed_while_its_data_are_the_same(
    explorer: Explorer,
) -> None:
    explorer.load("batch:data")
    explorer.on("v5e")
    explorer.run(3).wait(60)
    charts = [chart_of(moments_view(explorer)), chart_of(roofline_view(explorer)), chart_of(job_view(explorer))]
    for chart in charts:
        text = json.dumps(chart, allow_nan=False)
        assert not [colour for colour in (*SOLID, *TINT) if colour in text]
        names = {part.split(")")[0] for part in text.split("var(--")[1:]}
        assert names <= set(VARIABLES)
        assert not chart["layout"]["paper_bgcolor"].startswith("#")
    assert [chart["layout"]["uirevision"] for chart in charts[:2]] == [
        chart_of(moments_view(explorer))["layout"]["uirevision"],
        chart_of(roofline_view(explorer))["layout"]["uirevision"],
    ]
    explorer.load("batch:data hidden:model")
    assert chart_of(moments_view(explorer))["layout"]["uirevision"] != charts[0]["layout"]["uirevision"]


def test_without_a_machine_there_is_no_such_figure(explorer: Explorer) -> None:
    with pytest.raises(ExplorerError, match=r"No machine is chosen, so no peak is predicted; call explorer.on"):
        explorer.figure("moments")
    with pytest.raises(ExplorerError, match=r"No machine is chosen, so there are no times; call explorer.on"):
        explorer.figure("roofline")


def test_a_program_without_matmuls_has_no_dots_and_says_so() -> None:
    width = ml.Dim("width", 64)
    program = ml.trace(lambda x: ml.tanh(x) + 1, ml.f32[width])
    shown = ml.explore(program, ml.mesh("v5e", data=8))
    shown.view()
    view: Any = roofline_view(shown)
    assert view["chart"] is None
    assert view["said"].startswith("No kernel has matmuls: all ")
    with pytest.raises(ExplorerError, match="No kernel has matmuls: all "):
        shown.figure("roofline")


def test_a_program_without_kernels_says_that_none_takes_time() -> None:
    shown = ml.explore(ml.trace(lambda x: x, ml.f32[ml.Dim("width", 64)]), ml.mesh("v5e", data=8))
    with pytest.raises(ExplorerError, match=r"No kernel takes any time\."):
        shown.figure("roofline")
    view: Any = roofline_view(shown)
    assert view["dots"] == []
