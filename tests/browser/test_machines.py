"""Machines on the board: chosen with mouse and keyboard, the time that follows, what does not fit, and undo."""

from __future__ import annotations

import dataclasses

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, TABS, violations
from tests.widgets import small
from tests.widgets.gates import Gate, costs_of
from tests.widgets.state.test_machines import own


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), "hidden:model")


def choice(board: BlankBoard, label: str) -> Locator:
    return board.root.get_by_label(label, exact=True)


def test_a_machine_is_chosen_and_its_time_is_shown(open_board, explorer: Explorer) -> None:
    board = open_board()
    links = board.panel("devices").locator("svg .mlb-draw-link")
    time = board.show("time")
    expect(time).to_have_text(
        "Choose a machine: a step's time is then predicted, and its peak memory is compared with a device's capacity."
    )
    expect(board.total("step")).to_have_count(0)
    with board.next_revision():
        choice(board, "machine").select_option(label="Google TPU v5e · 2x4")
    assert explorer.document.to_dict()["machine"] == "v5e:2x4"
    estimate = seconds_text(explorer.time.estimate)
    expect(time).to_contain_text(estimate)
    expect(board.total("step").locator(".mlb-total-value")).to_have_text(estimate)
    expect(time.locator("[data-limit]")).to_have_text(explorer.view()["time"]["limit"]["text"])
    expect(time.locator(".mlb-because")).to_have_text(explorer.plan.time.because.replace("`", ""))
    use = explorer.view()["time"]["use"]
    assert "Expected: " in use
    expect(time.locator("[data-note='use']")).to_have_text(use)
    assert (board.total("step").get_by_role("button").get_attribute("data-hint") or "").endswith(f" {use}")
    expect(time.locator("[data-part='model'] .mlb-badge")).to_have_text("recalled")
    expect(board.status).to_contain_text(f"{estimate} a step")
    board.show("devices")
    expect(links).to_have_count(2)  # a path for each mesh axis of the torus
    board.show("time")
    with board.next_revision():
        choice(board, "machine").select_option(label="NVIDIA H100 80 GB SXM · 1x8")
    assert seconds_text(explorer.time.estimate) != estimate
    expect(time).to_contain_text(seconds_text(explorer.time.estimate))
    # Changes are told between layouts on the board's machine, and this is one layout.
    expect(board.total("step").locator(".mlb-change")).to_have_count(0)
    for _ in range(2):
        with board.next_revision():
            board.button("undo").click()
    expect(time).to_contain_text("Choose a machine")
    expect(board.total("step")).to_have_count(0)
    board.show("devices")
    expect(links).to_have_count(0)
    assert board.layout == "hidden:model"


def test_what_a_drop_would_take_is_told_before_it(open_board, explorer: Explorer) -> None:
    explorer.on("cpu")
    board = open_board()
    board.press("batch")
    board.move_to("data")
    expect(board.status).to_contain_text(", a step of ")
    expect(board.status).to_contain_text(", a peak of ")
    said = board.status.inner_text()
    after = {key: board.total(key).locator(".mlb-after").inner_text() for key in ("step", "peak", "sends")}
    with board.next_revision():
        board.mouse.up()
    step, peak = seconds_text(explorer.time.estimate), bytes_text(explorer.plan.memory.donated.peak_bytes)
    assert f", a step of {step} (" in said
    assert f", a peak of {peak} (" in said
    assert after == {"step": f"→ {step}", "peak": f"→ {peak}", "sends": f"→ {bytes_text(explorer.plan.wire_bytes)}"}
    for key, value in after.items():
        expect(board.total(key).locator(".mlb-total-value")).to_have_text(value.removeprefix("→ "))


def test_the_last_costs_stay_until_the_new_ones_are_there(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer.on("cpu")
    board = open_board()
    value = board.show("time").locator(".mlb-step-value")
    total = board.total("step").locator(".mlb-total-value")
    before = value.inner_text()
    gate, there = Gate(monkeypatch, explorer.costs), costs_of(explorer)
    with board.next_revision():
        board.drag("batch", "data")
    expect(board.root).to_have_attribute("data-pending", "")
    expect(board.panel("time")).to_have_attribute("aria-busy", "true")
    expect(value).to_have_text(before)
    expect(total).to_have_text(f"{before} …")
    expect(board.status).to_contain_text("the step is being worked out …")
    gate.open.set()
    assert there.wait(60)
    board.blank.poll()
    expect(board.root).not_to_have_attribute("data-pending", "")
    expect(board.panel("time")).to_have_attribute("aria-busy", "false")
    for each in (value, total):
        expect(each).to_have_text(seconds_text(explorer.time.estimate))
    expect(board.status).to_contain_text(f"{seconds_text(explorer.time.estimate)} a step")


def test_what_does_not_fit_is_said(open_board, explorer: Explorer) -> None:
    explorer.known(dataclasses.replace(own(), memory=ml.Figure(5000.0)))
    explorer.load("")
    board = open_board()
    with board.next_revision():
        choice(board, "machine").select_option(label="mine · 2x4")
    memory = board.show("memory")
    peak = bytes_text(explorer.plan.memory.donated.peak_bytes)
    expect(memory).to_contain_text(f"✕ Does not fit: peak memory is {peak} with donate=True, ")
    expect(board.total("peak")).to_contain_text("✕ does not fit")
    expect(memory.locator("[data-role='parameters']")).to_be_visible()
    # The parts stand on the scale of the whole, which is said to be estimated.
    expect(memory.locator(".mlb-verdict .mlb-badge").first).to_have_text("estimated")
    expect(board.total("peak")).to_contain_text("each device holds at its peak")
    scale = memory.locator(".mlb-bar-scale")
    expect(scale).to_have_text("A full bar is a device's capacity, 5.00 kB; what is more is cut.")
    used = memory.locator(".mlb-meter-used")
    whole = "bar => bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width"
    assert used.evaluate(whole) == 1
    board.blank.shot("does-not-fit", full=True)
    with board.next_revision():
        board.drag("hidden", "model")
    expect(memory).to_contain_text("✓ Fits: ")
    expect(board.total("peak")).to_contain_text(" fits")
    # The scale is that of the layout before, so that both compare by eye; on it the parts add up.
    expect(scale).to_have_text("A full bar is a device's capacity, 5.00 kB.")
    assert used.evaluate(whole) == pytest.approx(explorer.plan.memory.donated.peak_bytes / 5000, abs=0.01)
    bars = memory.locator('[data-chart="peak"] :is(.mlb-part, .mlb-meter-used)')
    full, *parts = bars.evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    assert sum(parts) == pytest.approx(full, abs=2)
    with board.next_revision():
        board.button("undo").click()
    expect(memory).to_contain_text("✕ Does not fit")


def test_bars_keep_the_scale_of_the_largest_seen(open_board, explorer: Explorer) -> None:
    explorer.load("")
    explorer.on("v5e")  # of which this program is hardly anything
    board = open_board()
    memory = board.show("memory")
    scale, most = memory.locator(".mlb-bar-scale"), bytes_text(explorer.plan.memory.donated.peak_bytes)
    expect(scale).to_contain_text(f"A full bar is the largest peak so far, {most}, of ")
    memory.get_by_text("Arguments and outputs, exactly").click()
    part = memory.locator('[data-part="params"] .mlb-part')
    share = "bar => bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width"
    before = part.evaluate(share)
    with board.next_revision():
        board.drag("hidden", "model")
    expect(scale).to_contain_text(f"A full bar is the largest peak so far, {most}, of ")
    assert part.evaluate(share) == pytest.approx(before / 4, abs=0.01)


def test_a_machine_that_takes_no_such_mesh_is_refused(open_board) -> None:
    shown = explore(small.program(), ml.mesh("h100:7x1", data=7))
    shown.on("h100")
    board = open_board(shown)
    before = shown.document
    choice(board, "machine").select_option(label="Google TPU v2 · no slice of this size")
    expect(board.status).to_contain_text("No slice of Google TPU v2 has 7 devices")
    expect(board.status).to_have_attribute("data-mood", "refused")
    expect(choice(board, "machine").locator("option:checked")).to_have_text("NVIDIA H100 80 GB SXM")
    assert shown.document == before


def test_slices_wishes_and_assumptions_by_keyboard(open_board, explorer: Explorer) -> None:
    explorer.on("v5e:2x4")
    board = open_board()
    choice(board, "placement of data").focus()
    with board.next_revision():
        board.keyboard.press("ArrowDown")
    expect(choice(board, "placement of data")).to_be_focused()
    assert explorer.document.to_dict()["along"] == {"data": 0}
    with board.next_revision():
        board.keyboard.press("ArrowDown")
    assert explorer.document.to_dict()["along"] == {"data": 1}
    expect(board.root.locator("[data-placement='data']")).to_contain_text("2 along axis 1, a line")
    with board.next_revision():
        choice(board, "slice").select_option(label="2*2x2")
    assert explorer.document.to_dict()["machine"] == "v5e:2*2x2"
    time = board.show("time")
    choice(board, "attention").focus()
    with board.next_revision():
        board.keyboard.press("ArrowDown")
    choice(board, "prefetch weights").focus()
    with board.next_revision():
        board.keyboard.press("Space")
    expect(choice(board, "prefetch weights")).to_be_focused()
    assert explorer.document.to_dict()["options"] == {"attention": "stored", "prefetch": True}
    time.get_by_text("How far off is this?").press("Enter")
    expect(time).to_contain_text("v5e: published steps took 1.")
    expect(time).to_contain_text("docs/accuracy.md#published-steps-of-training")
    with board.next_revision():
        board.keyboard.press("Control+z")
    assert explorer.document.to_dict()["options"] == {"attention": "stored", "prefetch": False}
    # What was opened stays open, and is still where the keyboard is.
    expect(board.root.locator("[data-disclosure='accuracy:time']")).to_have_attribute("open", "")
    expect(board.root.locator("[data-disclosure='accuracy:time'] summary")).to_be_focused()


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        ("cpu", "meshlab calibrate"),  # in a source
        ("v2", "v4"),  # among the machines for which errors were measured
        ("mine", "int8"),  # among the figures that it has, where another is missing
    ],
)
def test_names_in_texts_are_set_as_code(open_board, explorer: Explorer, machine: str, name: str) -> None:
    explorer.on(dataclasses.replace(own(), flops={"int8": ml.Figure(1e14)}) if machine == "mine" else machine)
    board = open_board()
    for tab in TABS:
        for disclosure in board.show(tab).locator("summary").all():
            disclosure.click()
    board.show({"cpu": "devices", "v2": "time", "mine": "time"}[machine])
    expect(board.root.locator("code").get_by_text(name, exact=True).first).to_be_visible()
    expect(board.root).not_to_contain_text("`")


def test_it_is_said_where_errors_are_seconds_text(open_board, explorer: Explorer) -> None:
    explorer.on("v5e")
    board = open_board()
    memory = board.show("memory")
    memory.get_by_text("How far off is this?").click()
    expect(memory).to_contain_text("More on a page of the project: docs/accuracy.md#memory")


def test_a_recalled_figure_is_not_said_to_come_from_its_source(open_board, explorer: Explorer) -> None:
    explorer.on("v2")
    board = open_board()
    board.root.get_by_text("The figures of").click()
    source = explorer.plan.mesh.on.hardware.memory.source
    figures = board.panel("devices").locator("[data-disclosure='figures']")
    expect(figures.locator("li", has_text="memory 17.2 GB")).to_have_text(
        f"memory 17.2 GB recalled, not looked up in its source:{source}"
    )
    verdict = board.show("memory").locator(".mlb-verdict p")
    expect(verdict.locator(".mlb-badge")).to_have_text(["estimated", "recalled"])
    verdict.locator(".mlb-badge").last.hover()
    expect(board.root.get_by_role("tooltip")).to_contain_text(f"recalled, not looked up in its source: {source}")
    assert f"bytes: recalled, not looked up in its source: {source}" in (verdict.get_attribute("title") or "")
    part = board.show("time").locator("[data-part='model'] .mlb-bar-value")
    assert "recalled, not looked up in its source: " in (part.get_attribute("title") or "")


@pytest.mark.parametrize(("machine", "theme"), [("v5p", "light"), ("h100", "dark")])
def test_it_is_accessible(open_board, explorer: Explorer, theme: str, machine: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    explorer.on(machine)
    board = open_board(theme=theme)
    board.blank.view.add_script_tag(path=str(AXE))
    for tab in TABS:
        for disclosure in board.show(tab).locator("summary").all():
            disclosure.click()
        board.blank.shot(f"machine-{machine}-{theme}-{tab}", full=True)
        assert violations(board.blank.view) == []


@pytest.mark.parametrize("width", [480, 900])
def test_it_fits_narrow_pages(open_board, width: int) -> None:
    shown = explore(small.program(), ml.mesh("v5p", pod=8, data=2, model=4), "hidden:model")
    board = open_board(shown, width=width)
    for tab in TABS:
        board.show(tab)
        assert board.blank.view.evaluate("document.documentElement.scrollWidth") <= width
