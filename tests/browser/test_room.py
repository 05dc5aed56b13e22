"""How the board uses the room of a page: nothing is cut, lines are whole, and long lists scroll, by keyboard too."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.api.trace import trace
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.browser.overflow import COVERED, CUT, OUTSIDE
from tests.browser.test_board import TABS
from tests.browser.test_tray import advised
from tests.engine.plans.test_work import LOST
from tests.widgets import small

Batch, Embed, Hidden, Layers = ml.dims(batch=8, embed=16, hidden=32, layers=1200)

# What is aligned to the right runs out to the left, which no scroll width tells.
INSIDE = """note => {
    const range = document.createRange();
    range.selectNodeContents(note);
    const [text, zone] = [range.getBoundingClientRect(), note.parentElement.getBoundingClientRect()];
    return text.left >= zone.left + 1 && text.right <= zone.right - 1;
}"""
TOPS = """parts => [...new Set(parts.map(each => Math.round(each.getBoundingClientRect().top)))]"""


@pytest.fixture(scope="module")
def program() -> ml.Program:
    return next(model for model in zoo.models() if model.name == "transformer_adamw").trace()


@pytest.mark.parametrize("width", [760, 1280, 1440])
def test_the_line_where_parallelism_is_lost_is_cut_before_any_figure(open_board, width: int) -> None:
    make, devices, *_ = LOST["heads of keys"]
    plan = make(devices)
    shown = explore(plan.program, ml.mesh("v5e", model=devices))
    shown.load(plan.layout)
    shown.view()
    board = open_board(shown, width=width)
    work = board.total("work")
    lost = shown.view()["lost"]
    why = f"Parallelism is lost at {lost}: what follows is replicated."
    expect(work).to_contain_text(f"⚠ lost at {lost}")
    expect(work.locator(".mlb-change")).to_have_text("▼ from 100%")
    expect(work.locator(".mlb-lost")).to_have_attribute("title", why)
    assert board.root.evaluate(OUTSIDE) == []
    # Its file and line are whole, and what follows them stands beside.
    line = work.locator(".mlb-lost").evaluate("lost => lost.getBoundingClientRect().width")
    assert line > 170
    boxes = [work.locator(each).bounding_box() for each in (".mlb-lost", ".mlb-change")]
    assert all(boxes)
    lost_box, change = (box or {} for box in boxes)
    assert lost_box["x"] + lost_box["width"] <= change["x"] or lost_box["y"] + lost_box["height"] <= change["y"] + 1
    board.blank.shot(f"lost-{width}", full=True)
    work.get_by_role("button", name="each device computes").hover()
    expect(board.root.locator(".mlb-hint")).to_contain_text(why)


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), ml.mesh("h100", data=2, model=4), "hidden:model")


def deep(layers: int) -> Explorer:
    """Opens a program with one collective for each of its layers."""

    def forward(parameters_of_all_layers, images_of_the_batch):
        x = images_of_the_batch
        for inward, outward in parameters_of_all_layers:
            x = x + ml.dot(ml.relu(ml.dot(x, inward, Embed)), outward, Hidden)
        return x

    shapes = [(ml.f32[Embed, Hidden], ml.f32[Hidden, Embed])] * layers
    return explore(trace(forward, shapes, ml.f32[Batch, Embed]), ml.mesh("h100", data=2, model=4), "hidden:model")


@pytest.mark.parametrize("layers", [3, 30])
def test_collectives_scroll_by_keyboard_in_their_panel(open_board, layers: int) -> None:
    board = open_board(deep(layers))
    assert len(board.collectives) == layers
    panel = board.panel("traffic")
    expect(panel).to_contain_text(f"{layers} collectives.")
    if layers > 12:
        expect(panel.locator("tr[data-kind]").filter(visible=True)).to_have_count(12)
        panel.get_by_role("button", name=f"Show all {layers}").click()
        expect(panel.locator("tr[data-kind]").nth(12)).to_be_focused()
    last = panel.locator("tr[data-kind]").last
    if layers > 12:
        expect(last).not_to_be_in_viewport()
    # The panel is what scrolls, and no list within it: one wheel and one key do.
    rows = panel.locator(".mlb-table-box")
    assert rows.evaluate("list => list.scrollHeight === list.clientHeight")
    last.scroll_into_view_if_needed()
    expect(last).to_be_in_viewport()
    # What is below them is reached by one key.
    panel.focus()
    board.keyboard.press("End")
    expect(panel.locator(".mlb-matrix")).to_be_in_viewport()
    assert board.blank.view.evaluate("scrollY") == 0


def test_a_footnote_has_no_mark_of_the_timeline(open_board) -> None:
    """Under a panel with footnotes a dark line lay along the lower edge of the stage."""
    panel = open_board(deep(3)).show("traffic")
    marks = "all => all.map(each => getComputedStyle(each, '::after').content)"
    found = panel.locator(".mlb-foot").evaluate_all(marks)
    assert found
    assert set(found) == {"none"}


def test_the_stage_says_what_is_below_its_edge(open_board) -> None:
    board = open_board(deep(30), width=1112, height=600)
    panel = board.show("traffic")
    sign = board.root.locator(".mlb-below")
    expect(sign).to_contain_text("more rows")
    # The rows that it counts are those of the table that are not seen yet.
    below = panel.evaluate("""panel => [...panel.querySelectorAll("tr[data-kind]")].filter(row => row.checkVisibility()
        && row.getBoundingClientRect().top > panel.getBoundingClientRect().bottom - 6).length""")
    assert 0 < below
    expect(sign).to_contain_text(f"{below}")
    # It covers nothing: the panel ends above it, and goes on so when there is nothing more to say.
    edges = "([panel, sign]) => [panel.getBoundingClientRect().bottom, sign.getBoundingClientRect().top]"
    bottom, top = board.blank.view.evaluate(edges, [panel.element_handle(), sign.element_handle()])
    assert bottom <= top
    panel.focus()
    board.keyboard.press("End")
    expect(sign).to_be_hidden()
    assert board.blank.view.evaluate(edges, [panel.element_handle(), sign.element_handle()]) == [bottom, top]
    board.keyboard.press("Home")
    sign.click()
    assert panel.evaluate("panel => panel.scrollTop") > 0
    # What fits needs none.
    board.show("program")
    expect(sign).to_be_hidden()


def test_one_in_a_loop_is_counted_as_often_as_it_runs(open_board) -> None:
    def forward(weights, x):
        def layer(x, pair):
            return x + ml.dot(ml.relu(ml.dot(x, pair[0], Embed)), pair[1], Hidden), None

        return ml.scan(layer, x, weights, Layers)[0]

    stacked = (ml.f32[Layers, Embed, Hidden], ml.f32[Layers, Hidden, Embed])
    shown = explore(trace(forward, stacked, ml.f32[Batch, Embed]), small.mesh(), "hidden:model")
    text = "1 collective, which a step executes 1,200 times."
    expect(open_board(shown).show("traffic")).to_contain_text(text)


# A theme has the same letters.
@pytest.mark.parametrize(
    ("width", "theme"), [(1000, "light"), (1024, "dark"), (1112, "light"), (1280, "dark"), (1440, "light")]
)
def test_nothing_is_cut(open_board, width: int, theme: str) -> None:
    shown = deep(3)
    shown.view()
    board = open_board(shown, width=width, theme=theme)
    for tab in TABS:
        for disclosure in board.show(tab).locator("summary").all():
            disclosure.click()
        board.blank.shot(f"room-{width}-{theme}-{tab}", full=True)
        assert board.blank.view.evaluate(CUT) == []
        assert board.root.evaluate(OUTSIDE) == []
        assert board.blank.view.evaluate(COVERED) == []


@pytest.mark.parametrize(("width", "height"), [(1000, 640), (1440, 800)])
def test_the_workbench_is_one_canvas(open_board, program: ml.Program, width: int, height: int) -> None:
    """It is at most 600 px high, and the page does not scroll: what is longer scrolls in its panel."""
    layout = {"batch": "data", "params/*": {"embed": "data"}, "residual": {"seq": "model"}}
    shown = explore(program, ml.mesh("v5p", pod=2, data=2, model=2), layout)
    shown.view()
    board = open_board(shown, width=width, height=height)
    frame = board.root.locator(".mlb-frame")
    for tab in TABS:
        board.show(tab)
        board.blank.shot(f"canvas-{width}-{height}-{tab}")
        assert frame.evaluate("frame => frame.getBoundingClientRect().height") <= 600
        assert board.blank.view.evaluate(
            "[document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]"
        ) == [0, 0]
        assert board.blank.view.evaluate(COVERED) == []
        assert board.root.evaluate(OUTSIDE) == []
    # Whatever is said does not move the board; advice, which comes when it is found, takes a line of its own.
    advised(board)
    zones = board.root.locator(".mlb-zones")
    before = zones.bounding_box()
    board.press("vocab")
    board.move_to("data")
    expect(board.note("data")).to_have_text("✕")
    board.mouse.up()
    expect(board.status).to_contain_text("Refused")
    assert zones.bounding_box() == before
    assert board.root.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("width", [1000, 1280])
def test_names_at_places_are_whole(open_board, program: ml.Program, width: int) -> None:
    rules = {"embed": "data"}
    layout = {"batch": "data", "heads": "model", "ffn": "model", "params/*": rules, "opt_state/*": rules}
    shown = explore(program, ml.mesh("v5p", data=2, model=4), layout | {"residual": {"seq": "model"}})
    shown.view()
    board = open_board(shown, width=width)
    names = board.root.locator(".mlb-column-name, .mlb-zone[data-zone*='@'] .mlb-chip-name")
    assert names.evaluate_all("all => all.map(each => each.textContent)").count("embed") == 2
    cut = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"
    assert names.evaluate_all(cut) == []
    board.press("vocab")
    for at in ("params/*", "grads/*", "opt_state/*"):
        note = board.note("model", at)
        expect(note).to_have_text(re.compile("[+−±]"))
        assert note.evaluate(INSIDE), note.inner_text()
    board.blank.shot(f"places-{width}")
    board.mouse.up()


# At 1280 px JupyterLab leaves a board 1112 of them, at 1024 px 856.
@pytest.mark.parametrize("width", [1000, 1024, 1128, 1280])
def test_the_totals_stand_in_one_line_and_nothing_moves_when_they_change(open_board, width: int) -> None:
    board: BlankBoard = open_board(width=width)
    main = board.root.locator(".mlb-main")
    before = main.bounding_box()
    with board.next_revision():
        board.carry("batch", "data")
    expect(board.root.locator(".mlb-totals .mlb-change")).to_have_count(4)
    board.blank.shot(f"totals-{width}")
    for part in (".mlb-total", ".mlb-total-value"):
        assert len(board.root.locator(part).filter(visible=True).evaluate_all(TOPS)) == 1
    assert board.blank.view.evaluate(COVERED) == []
    after = main.bounding_box()
    assert before is not None
    assert after is not None
    assert before["y"] == after["y"]


@pytest.mark.parametrize("width", [600, 790, 1128])
def test_nothing_moves_under_the_hand_when_prices_come(open_board, program: ml.Program, width: int) -> None:
    shown = explore(program, ml.mesh("v5p", pod=2, data=2, model=2), "batch:data")
    shown.view()
    board: BlankBoard = open_board(shown, width=width)
    zone = board.zone("model")
    before = zone.bounding_box()
    board.press("ffn")
    board.move_to("model")
    expect(board.total("sends").locator(".mlb-after")).to_be_visible()
    expect(board.total("peak").locator(".mlb-after")).to_be_visible()
    board.blank.shot(f"held-{width}")
    assert zone.bounding_box() == before
    assert board.root.locator(".mlb-score").evaluate("each => each.scrollWidth <= each.clientWidth")
    board.mouse.up()


def test_a_mixture_of_experts_on_four_axes_is_one_canvas_and_more_axes_make_it_higher(open_board) -> None:
    program = next(model for model in zoo.models() if model.name == "moe_switch").trace()
    layout = {"batch": "data", "experts": "expert", "ffn": "model"}
    shown = explore(program, ml.mesh("v5p", data=2, fsdp=2, model=2, expert=2), layout)
    shown.view()
    board = open_board(shown, width=1000, height=640)
    frame = board.root.locator(".mlb-frame")
    assert frame.evaluate("frame => frame.getBoundingClientRect().height") <= 600
    assert board.root.evaluate(OUTSIDE) == []
    for number in range(2):
        with board.next_revision():
            shown.split_axis("fsdp" if number == 0 else "data", 1, f"more{number}")
            board.blank.poll()
    assert board.blank.view.evaluate(COVERED) == []
    assert board.root.evaluate(OUTSIDE) == []
    timeline = board.root.locator(".mlb-step-time").bounding_box()
    tray = board.zone(TRAY).bounding_box()
    assert timeline is not None
    assert tray is not None
    assert tray["y"] + tray["height"] < timeline["y"]


def test_what_to_do_is_read_until_something_was_done(open_board, program: ml.Program) -> None:
    """Costs that come later do not take its place."""
    shown = explore(program, ml.mesh("v5p", pod=2, data=2, model=2))
    board = open_board(shown)
    shown.view()
    board.blank.poll()
    expect(board.total("step")).to_be_visible()
    expect(board.status).to_contain_text("Drag a dim onto a mesh axis")
