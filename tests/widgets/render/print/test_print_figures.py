"""Figures for print: no texts meet, none is cut or smaller than 6 points, and what is said is the plan's."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import meshlab as ml
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.opening.open_explorer import explore
from meshlab.version import __version__
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.render.palette import SOLID
from meshlab.widgets.render.print.comparison import compared, pareto
from meshlab.widgets.render.print.figure import PrintFigure
from meshlab.widgets.render.print.figures import FIGURES
from meshlab.widgets.render.print.letters import without_middle
from meshlab.widgets.render.print.numbers import heat_colour
from meshlab.widgets.views.program.steps import steps_view
from tests.widgets import small
from tests.widgets.printed import BOARDS, of_digits, of_llama, of_mixtral

pytestmark = pytest.mark.share(4, of="file")

SVG = "{http://www.w3.org/2000/svg}"
WIDTHS = (60, 85, 175)
# What has nothing to draw where no search has ended and nothing was run, or no second layout was tried.
WITHOUT = {"digits": (), "llama": ("numbers", "waterfall", "loss"), "mixtral": ("numbers", "waterfall", "loss")}
DRAWN = [(board, name) for board in BOARDS for name in FIGURES if name not in WITHOUT[board]]
DRAWN.remove(("mixtral", "comparison"))


def texts(figure: PrintFigure) -> list[str]:
    return [each.text for each in figure.written]


def said(figure: PrintFigure) -> str:
    return " ".join(texts(figure))


def problems(figure: PrintFigure) -> list[Any]:
    """Texts that meet, are off the page, or are too small."""
    slack = 0.01
    outside = [
        each
        for each in figure.written
        if min(each.box.left, each.box.top) < -slack
        or each.box.right > figure.width + slack
        or each.box.bottom > figure.height + slack
    ]
    meet = [(a.text, b.text) for a, b in itertools.combinations(figure.written, 2) if a.box.meets(b.box)]
    return [*outside, *meet, *(each for each in figure.written if each.size < 6)]


@pytest.mark.parametrize(("board", "name"), DRAWN)
def test_no_texts_meet_and_none_is_cut_or_small(board: str, name: str) -> None:
    explorer = BOARDS[board]()
    for width in WIDTHS:
        figure = explorer.figure(name, width_mm=width)
        assert figure.written
        assert problems(figure) == [], width
        root = ElementTree.fromstring(figure.svg)
        assert (root.tag, root.attrib["width"]) == (f"{SVG}svg", f"{width}mm")
        assert figure.width_mm == pytest.approx(width)
        # What is written is what stands in the file, as text.
        assert ["".join(each.itertext()) for each in root.iter(f"{SVG}text")] == texts(figure)
        assert min(float(each.attrib["font-size"]) for each in root.iter(f"{SVG}text")) >= 6
        assert not re.search(r"foreignObject|<script|var\(|onclick", figure.svg)


def test_a_text_over_another_is_found() -> None:
    """What is tested above can fail."""
    explorer = of_digits()
    figure = explorer.figure("time", width_mm=85)
    twice = PrintFigure("time", "", "", "", figure.width, figure.height, "", (*figure.written, figure.written[0]))
    assert problems(twice)


@pytest.mark.parametrize("board", BOARDS)
def test_the_caption_says_program_mesh_machine_layout_and_version(board: str) -> None:
    explorer = BOARDS[board]()
    figure = explorer.figure("communication", width_mm=85)
    mesh = " × ".join(f"{name} {size}" for name, size in explorer.mesh.axes.items())
    title = explorer.view()["machine"]["title"]
    program = {
        "digits": "_step, hidden 256 · ",
        "llama": "llama3-8b, batch 64 · ",
        "mixtral": "mixtral-8x7b, batch 64 · ",
    }
    for words in (
        f"Program: {program[board]}",
        f"Mesh: {mesh} on {title}, {explorer.view()['machine']['slice']}.",
        f"meshlab {__version__}.",
    ):
        assert words in figure.caption
        assert words in figure.svg
    # The name alone, where there is one; the whole layout is in the file, for who asks for it.
    named = explorer.view()["named"]
    assert named is None or f"Layout: {named['text']}. meshlab" in figure.caption
    root = ElementTree.fromstring(figure.svg)
    assert (root.findtext(f"{SVG}title"), root.findtext(f"{SVG}desc")) == (figure.title, figure.described)
    assert str(explorer.layout) in figure.described
    for dim in (each for each in explorer.program.dims if not each.startswith("~")):
        assert f"{dim} {explorer.program.dims[dim]:,}" in figure.described
        assert f"{dim} {explorer.program.dims[dim]:,}" in figure.caption
    assert " ".join(figure.caption.split()) in said(figure)
    # A paper may set its captions itself.
    alone = explorer.figure("communication", width_mm=85, caption=False)
    assert "Mesh:" not in said(alone)
    assert alone.caption == figure.caption
    # Its title stays.
    assert alone.title == "Bytes that a device sends, by mesh axis"
    assert alone.title in said(alone)
    assert alone.height < figure.height


def test_of_many_sizes_the_first_are_in_the_caption_and_all_in_the_file() -> None:
    def wide(x: ml.Tensor) -> ml.Tensor:
        return ml.relu(x)

    dims = ml.dims(**{f"dim_of_the_input_{n:02}": 2 for n in range(20)})
    program = ml.trace(wide, ml.f32[dims])
    figure = explore(program, ml.mesh("v5e", data=2, model=4), {}).figure("communication", width_mm=85)
    assert re.search(r"Program: wide, dim_of_the_input_00 2 · .* · and \d+ more\. Mesh: ", figure.caption)
    assert len(figure.caption) < 420
    assert "dim_of_the_input_19 2. Mesh" in figure.described
    assert problems(figure) == []


def test_a_layout_is_called_by_its_name() -> None:
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data")
    figure = explorer.figure("communication", width_mm=85)
    assert "Layout: DP over data. " in figure.caption
    assert "Layout: DP over data (batch:data). " in figure.described


def test_a_long_layout_without_a_name_is_shortened_in_the_middle() -> None:
    mesh = ml.mesh("v5e", copies_of_the_whole_model=2, parts_of_every_tensor_of_it=4)
    copies, parts = mesh.axes
    stored = {"params/*": {"hidden": None}, "params/w1": {"cols": copies}, "params/w2": {"hidden": parts}}
    explorer = explore(small.program(), mesh, {"batch": copies, "hidden": parts, **stored})
    assert explorer.view()["named"] is None
    figure, text = explorer.figure("communication", width_mm=85), str(explorer.layout)
    shown = re.search(r"Layout: (.*)\. meshlab", figure.caption)
    assert shown
    begin, end = shown[1].split(" … ")
    assert len(shown[1]) <= 160 < len(text)
    assert (text.startswith(begin), text.endswith(end)) == (True, True)
    assert text in figure.described
    assert without_middle(text, len(text)) == text
    assert without_middle("x" * 50, 20) == "x" * 19 + "…"


def test_bars_say_what_the_plan_sends_and_holds() -> None:
    for explorer in (of_llama(), of_mixtral()):
        view, plan = explorer.view(), explorer.plan
        sent = texts(explorer.figure("communication", width_mm=85))
        for part in view["communication"]["by_axis"]:
            assert part["key"].replace("+", " + ") in " ".join(sent)
            assert bytes_text(part["bytes"]) in sent
        total = sum(part["bytes"] for part in view["communication"]["by_axis"])
        assert total == pytest.approx(plan.wire_bytes, abs=len(sent))
        held = texts(explorer.figure("memory", width_mm=85))
        memory = plan.memory.donated
        assert {bytes_text(size) for size in memory.parts.values()} <= set(held)
        assert bytes_text(memory.peak_bytes) in held
        assert f"device memory {bytes_text(memory.limit_bytes)}" in held or memory.limit_bytes > 2.5 * memory.peak_bytes


@pytest.mark.parametrize("board", BOARDS)
def test_the_timeline_has_every_lane_with_its_seconds(board: str) -> None:
    explorer = BOARDS[board]()
    figure, time = explorer.figure("timeline", width_mm=85), explorer.time
    assert time is not None
    lanes = {axes: seconds for axes, seconds in time.communication.items() if seconds}
    assert len(lanes) >= {"digits": 2, "llama": 4, "mixtral": 4}[board]
    for axes, seconds in lanes.items():
        assert seconds_text(float(seconds)) in texts(figure), axes
        assert axes.split("+")[-1] in said(figure)
    assert seconds_text(float(time.compute)) in texts(figure)
    assert {"forward", "backward", "update", "memory", "kernels", "busy"} <= set(texts(figure))
    # The limit of the memory is drawn, or said where it is far above.
    memory = explorer.plan.memory.donated
    limit = bytes_text(memory.limit_bytes)
    if memory.limit_bytes <= 5 * memory.peak_bytes:
        assert {"limit", limit} <= set(texts(figure))
        assert 'stroke-dasharray="4 2"' in figure.svg
    else:
        assert f"A device has {limit} of memory." in figure.caption
    marks = [lane for lane in explorer.view()["timeline"]["lanes"]]
    rects = ElementTree.fromstring(figure.svg).findall(f".//{SVG}rect")
    assert len(rects) > sum(len(lane["segments"]) for lane in marks)


def test_the_borders_of_phases_go_through_no_name() -> None:
    for explorer in (of_llama(), of_mixtral()):
        figure = explorer.figure("timeline", width_mm=85)
        borders = [float(x) for x in re.findall(r'<path d="M([\d.]+) [^"]*" [^>]*stroke-dasharray="2 2"', figure.svg)]
        assert len(borders) == 2
        for each in figure.written:
            assert each.text not in ("forward", "backward", "update") or not [
                x for x in borders if each.box.left + 0.1 < x < each.box.right - 0.1
            ]


def test_a_figure_has_a_margin() -> None:
    figure = of_llama().figure("timeline", width_mm=85)
    root = ElementTree.fromstring(figure.svg)
    x, y, wide, high = map(float, root.attrib["viewBox"].split())
    assert max(each.box.right for each in figure.written) <= x + wide - 3 + 0.01
    assert max(each.box.bottom for each in figure.written) <= y + high - 3 + 0.01
    assert min(each.box.left for each in figure.written) - x >= 3 - 0.01
    assert (wide, high) == pytest.approx((figure.width, figure.height), abs=0.01)


@pytest.mark.parametrize("name", ["roofline", "comparison"])
def test_lines_to_names_strike_through_none(name: str) -> None:
    struck, leaders = [], 0
    for explorer in (of_llama(), of_digits()):
        figure = explorer.figure(name, width_mm=85)
        lines = re.findall(
            r'<path d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)" fill="none" stroke="#\w+" stroke-width="0.4"/>', figure.svg
        )
        for x0, y0, x1, y1 in (map(float, each) for each in lines):
            leaders += 1
            ways = [(x0 + (x1 - x0) * n / 50, y0 + (y1 - y0) * n / 50) for n in range(50)]
            struck += [
                each.text
                for each in figure.written
                if any(
                    each.box.left + 0.1 < x < each.box.right - 0.1 and each.box.top + 0.1 < y < each.box.bottom - 0.1
                    for x, y in ways
                )
            ]
    assert leaders or name == "comparison"
    assert struck == []


def test_values_along_a_roofline_are_written_alike() -> None:
    words = texts(of_llama().figure("roofline", width_mm=85))
    assert {"1 k", "10 k", "100 k"} <= set(words)
    assert "10,000" not in words


def test_the_figures_of_recalled_figures_say_so() -> None:
    explorer = of_digits()
    assert "Depends on figures that are recalled, not verified: " in explorer.figure("time", width_mm=85).caption


def test_marks_differ_by_pattern_as_well_as_by_colour() -> None:
    svg = of_mixtral().figure("layout", width_mm=85).svg
    fills = re.findall(r'width="8" height="8" fill="(?:url\(#mlb-print-)?#?(\w+)(?:-(\d))?', svg)
    assert [f"#{colour}" for colour, _ in fills] == list(SOLID[:5])
    assert [pattern for _, pattern in fills] == ["", "1", "2", "3", "4"]


def test_the_layout_has_every_rule_and_every_dim() -> None:
    explorer = of_llama()
    words = said(explorer.figure("layout", width_mm=85))
    for rule in ("batch 64 → 4 (1 of 2)", "ffn 14,336 → 3,584", "heads 8 → 2", "vocab 128,256 → 32,064", "params"):
        assert rule in words
    assert all(dim in words for dim in explorer.program.dims if not dim.startswith("~"))
    free = explore(small.program(), small.mesh())
    assert "Nothing is sharded" in said(free.figure("layout", width_mm=85))
    free.load({"batch": "data", "params/*": {"cols": "data", "hidden": None}, "params/w2": {"hidden": "model"}})
    assert "At params/*: hidden whole. At params/w2: hidden on model." in said(free.figure("layout", width_mm=85))


def test_devices_have_the_letters_of_their_slices() -> None:
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4), "hidden:model")
    explorer.select("params/w1")
    letters = Counter(each for each in texts(explorer.figure("devices", width_mm=85)) if each in "ABCD")
    # On two devices each, in the tensor, and in the list of slices.
    assert letters == {"A": 4, "B": 4, "C": 4, "D": 4}
    assert "hidden 4–7" in texts(explorer.figure("devices", width_mm=85))


def of_picture(explorer: Explorer) -> tuple[PrintFigure, str]:
    figure = explorer.figure("devices", width_mm=85)
    return figure, said(figure)


def test_letters_are_listed_where_they_are_drawn_alone() -> None:
    llama = of_llama()
    figure, words = of_picture(llama)
    # On two devices each, and in the tensor; A, B and the last are listed besides.
    letters = Counter(each for each in texts(figure) if re.fullmatch("[A-Z]{1,2}", each))
    assert (len(letters), letters["C"], letters["A"], letters["AF"]) == (32, 3, 4, 4)
    explorer = explore("llama3-8b", ml.mesh("v5p:8x8x4", data=64, model=4), {"vocab": "model", "embed": "data"})
    explorer.select("params/embedding")
    figure, words = of_picture(explorer)
    assert not [each for each in texts(figure) if re.fullmatch("[A-Z]{1,2}", each)]
    assert "Each shade is one of 256 slices, each on one device." in words
    assert figure.height_mm < 125


def test_a_mesh_axis_has_a_line_where_one_is_drawn_alone() -> None:
    explorer = of_llama()
    figure, words = of_picture(explorer)
    picture = explorer.view()["picture"]
    drawn = {shape["key"] for shape in picture["shapes"] if shape["is"] == "path" and shape["as"] != "sample"}
    assert drawn == {"replica", "data"}
    assert "model 4 from block to block, ring" in words
    lines = [each for each in ElementTree.fromstring(figure.svg).iter(f"{SVG}path") if "stroke-width" in each.attrib]
    colours = [each.attrib["stroke"] for each in lines if each.attrib["stroke"] in SOLID]
    # One for the links of an axis, and one in the legend for each way that it runs.
    assert Counter(colours) == {SOLID[0]: 2, SOLID[1]: 3}


def test_the_program_has_every_collective() -> None:
    for explorer in (of_digits(), of_mixtral()):
        figure = explorer.figure("program", width_mm=175)
        sent = steps_view(explorer.plan)["collectives"]
        amounts = [bytes_text(each["wire"]) + (f" × {each['times']:,}" if each["times"] > 1 else "") for each in sent]
        assert not Counter(amounts) - Counter(texts(figure))
    assert "Left out: lines at which nothing is sent." in figure.caption


def test_the_comparison_names_what_was_tried_and_lists_it() -> None:
    explorer = of_digits()
    figure = explorer.figure("comparison", width_mm=85)
    cards = explorer.view()["comparison"]["cards"]
    for card in cards:
        assert Counter(texts(figure))[card["name"]] >= 2, card["name"]  # beside its dot, and in the list
        assert seconds_text(card["totals"]["seconds"]) in said(figure)
    layouts = compared(explorer, explorer.view(), True)
    front = pareto(layouts)
    for one in front:
        assert not [
            each for each in layouts if each.x <= one.x and each.y <= one.y and (each.x, each.y) != (one.x, one.y)
        ]


def test_a_waterfall_goes_from_the_board_to_auto() -> None:
    explorer = of_digits()
    assert explorer.choice is not None
    steps = explorer.choice.waterfall(explorer.layout).steps
    found = texts(explorer.figure("waterfall", width_mm=175))
    assert {step.change.replace("`", "") for step in steps} <= {each.replace("`", "") for each in found}
    assert {seconds_text(steps[0].seconds), seconds_text(steps[-1].seconds)} <= set(found)


def test_numbers_have_the_colours_of_the_board() -> None:
    source = (Path(ml.__file__).parent / "widgets" / "js" / "src" / "heat_scale.ts").read_text()
    for arm, sign in (("ABOVE", 1), ("BELOW", -1)):
        found = re.search(rf"const {arm} = \[(.*?)\]", source)
        assert found
        colours = re.findall("#[0-9a-f]{6}", found[1])
        assert [heat_colour(sign * n / 5, 1.0, True) for n in range(6)] == colours
    figure = of_digits().figure("numbers", width_mm=85)
    assert "after step 6 of run 2" in figure.caption or "after step 6 of run 2" in said(figure)
    assert "Each cell is " in figure.caption


@pytest.mark.parametrize(
    ("name", "width", "reason"),
    [
        ("device", 85, r"There is no figure 'device'; there are .*timeline.*\. Did you mean `devices`"),
        ("devices", 20, r"figure\(\) was given width_mm=20; it must be a number from 60 to 1000\."),
        ("devices", "85", r"figure\(\) was given width_mm='85'"),
        ("devices", True, r"figure\(\) was given width_mm=True"),
        ("time", 85, "No machine is chosen, so there are no times"),
        ("timeline", 85, "No machine is chosen, so there are no times"),
        ("moments", 85, "No machine is chosen, so no peak is predicted"),
        ("roofline", 85, "No machine is chosen, so there are no times"),
        ("comparison", 85, "There is no layout to compare with yet"),
        ("waterfall", 85, "Auto has not found the fastest layout"),
        ("loss", 85, "There is no run with a loss yet"),
        ("numbers", 85, "There are no numbers before a run"),
    ],
)
def test_what_cannot_be_drawn_says_why(explorer: Explorer, name: str, width: Any, reason: str) -> None:
    with pytest.raises(ExplorerError, match=reason):
        explorer.figure(name, width_mm=width)


def test_figures_for_print_alone_say_so(explorer: Explorer) -> None:
    with pytest.raises(
        ExplorerError, match=r'`timeline` is a figure for print: explorer.figure\("timeline", width_mm=85\)'
    ):
        explorer.figure("timeline")
