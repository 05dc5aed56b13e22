"""The picture of devices: on meshes of any size nothing overlaps and nothing is cut; a block of many opens."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.devices.arrangement import MOST
from tests.browser.blank import BlankBoard
from tests.widgets import small

# Boxes of the cells, and of the letters in them, as [left, top, right, bottom].
BOXES = """panel => {
    const box = element => {
        const { left, top, right, bottom } = element.getBoundingClientRect();
        return [left, top, right, bottom];
    };
    const cells = [...panel.querySelectorAll(".mlb-mesh .mlb-site")];
    const texts = cell => [...cell.querySelectorAll("text")].filter(each => each.textContent && each.checkVisibility());
    return {
        room: panel.clientWidth - panel.scrollWidth,
        cells: cells.map(cell => ({ box: box(cell.querySelector("rect")), texts: texts(cell).map(box) })),
        pictures: [...panel.querySelectorAll(".mlb-holdings svg")].map(box),
        panel: box(panel),
    };
}"""
WIDTHS = (600, 1000, 1280, 1920)
TALL, WIDE = ml.dims(tall=1 << 16, wide=1 << 16)


@pytest.fixture
def explorer(axes: dict[str, int]) -> Explorer:
    """An Explorer of one tensor of which each device has a slice of its own, so that letters are as long as can be."""
    return opened(ml.mesh(**axes))


def opened(mesh: ml.Mesh) -> Explorer:
    program = ml.trace(ml.relu, ml.f32[TALL, WIDE])
    names = list(mesh.axes)
    half = (len(names) + 1) // 2
    explorer = explore(program, mesh, {"tall": tuple(names[:half]), "wide": tuple(names[half:])})
    explorer.select(next(iter(program.places)))
    return explorer


def overlap(one: list[float], other: list[float]) -> bool:
    return all(min(one[i + 2], other[i + 2]) - max(one[i], other[i]) > 0.5 for i in (0, 1))


def inside(one: list[float], other: list[float], by: float = 0.5) -> bool:
    return all(one[i] >= other[i] - by and one[i + 2] <= other[i + 2] + by for i in (0, 1))


@pytest.mark.parametrize(
    ("axes", "pair"),
    [
        ({"data": 2}, True),
        ({"data": 2, "model": 4}, False),
        ({"data": 2, "model": 4}, True),
        ({"data": 2, "fsdp": 2, "expert": 2, "model": 2}, False),
        ({"data": 8, "model": 8}, True),
        ({"data": 4, "model": 16}, False),
        ({"data": 8, "fsdp": 8, "model": 8}, True),
        ({"data": 64, "model": 64}, False),
        ({"data": 256, "model": 256}, True),
    ],
    ids=lambda each: "x".join(map(str, each.values())) if isinstance(each, dict) else "beside" if each else "alone",
)
def test_nothing_overlaps_and_nothing_is_cut(open_board, explorer: Explorer, axes: dict[str, int], pair: bool) -> None:
    if pair:
        explorer.beside("")
    board = open_board()
    panel = board.show("devices")
    for width in WIDTHS:
        board.blank.view.set_viewport_size({"width": width, "height": 800})
        drawn = panel.evaluate(BOXES)
        assert drawn["room"] >= 0
        assert len(drawn["cells"]) == min(MOST, explorer.mesh.size) * (1 + pair)
        boxes = sorted(cell["box"] for cell in drawn["cells"])
        assert not any(overlap(one, other) for i, one in enumerate(boxes) for other in boxes[i + 1 : i + 40])
        for number, cell in enumerate(drawn["cells"]):
            assert all(inside(text, cell["box"], by=2) for text in cell["texts"]), f"{number}: {cell}"
        left, _, right, _ = drawn["panel"]
        assert all(left <= picture[0] and picture[2] <= right + 1 for picture in drawn["pictures"])
        name = "x".join(map(str, axes.values()))
        board.blank.shot(f"devices-{name}-{width}{'-beside' * pair}", full=True)


@pytest.mark.parametrize("by", ["click", "Enter"])
@pytest.mark.parametrize("axes", [{"data": 64, "model": 64}])
def test_a_square_of_many_devices_opens(open_board, explorer: Explorer, by: str) -> None:
    board: BlankBoard = open_board()
    block = board.root.locator('[data-block="9"]')
    if by == "click":
        block.click()
    else:
        block.focus()
        board.keyboard.press("Enter")
    cells = board.root.locator(".mlb-mesh [data-device]")
    expect(cells).to_have_count(4096 // MOST)
    expect(board.root.locator(".mlb-scope")).to_contain_text("8 devices of 4,096")
    for cell in cells.all():
        device = int(cell.get_attribute("data-device") or -1)
        (tall, stop), (wide, end) = explorer.plan.shard(explorer.selected, device)
        label = (cell.locator("title").text_content() or "").replace("\u2060", "")
        assert f"tall {tall:,}–{stop - 1:,}, wide {wide:,}–{end - 1:,}" in label
    board.root.get_by_text("all devices").click()
    expect(board.root.locator(".mlb-mesh [data-block]")).to_have_count(MOST)


@pytest.mark.parametrize("axes", [{"data": 2, "model": 4}])
def test_a_device_and_its_block_of_the_tensor_are_marked_together(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    board.root.locator('[data-device="6"]').click()
    alike = board.root.locator("[data-alike]")
    expect(alike).to_have_count(2)
    slices = alike.evaluate_all("all => all.map(each => each.dataset.slice)")
    assert slices == ["6", "6"]
    expect(board.root.locator(".mlb-tensor [data-alike]")).to_have_count(1)
    # The other way round, by the mouse alone.
    board.root.locator('.mlb-tensor [data-slice="3"]').hover()
    expect(board.root.locator('[data-device="3"]')).to_have_attribute("data-alike", "")
    board.mouse.move(1, 1)
    expect(board.root.locator('[data-device="3"]')).not_to_have_attribute("data-alike", "")
    expect(board.root.locator('[data-device="6"]')).to_have_attribute("data-alike", "")


@pytest.mark.parametrize("axes", [{"data": 2, "model": 4}])
def test_a_collective_that_is_selected_is_drawn_as_arrows(open_board, axes: dict[str, int]) -> None:
    explorer = small.on_v5e()
    board: BlankBoard = open_board(explorer)
    board.show("traffic").locator('[data-axes="model"]').first.click()
    edges = board.show("devices").locator(".mlb-edge")
    expect(edges).to_have_count(8)
    pairs = edges.evaluate_all("all => all.map(each => each.dataset.edge)")
    assert sorted(pairs) == ["0-1", "1-2", "2-3", "3-0", "4-5", "5-6", "6-7", "7-4"]
    expect(board.root.locator(".mlb-sends")).to_contain_text("all-reduce over model of logits: each device sends 240 B")
    board.blank.shot("devices-arrows")
    board.keyboard.press("Escape")
    expect(edges).to_have_count(0)


# Where the first picture ends, and where the stage does.
ENDS = """panel => [...panel.querySelectorAll(".mlb-holdings svg")].map(svg => {
    const [drawn, stage] = [svg.getBoundingClientRect(), panel.getBoundingClientRect()];
    return [drawn.bottom, stage.bottom, drawn.height];
})"""


@pytest.mark.parametrize("axes", [{"data": 8, "fsdp": 8, "model": 4}, {"data": 2, "model": 4}])
def test_pictures_are_seen_whole_on_a_low_stage(open_board, explorer: Explorer) -> None:
    board = open_board(width=1112, height=600)
    for bottom, edge, height in board.show("devices").evaluate(ENDS):
        assert bottom <= edge + 1
        assert height >= 100


@pytest.mark.parametrize("axes", [{"data": 16, "model": 4}])
def test_blocks_of_the_tensor_say_their_letter_who_holds_them_and_where_they_begin(open_board) -> None:
    # 16 slices of 4 devices each: 64 devices on a torus, too small for numbers inside.
    program = ml.trace(ml.relu, ml.f32[TALL, WIDE])
    shown = explore(program, ml.mesh("v5p:4x4x4", data=16, model=4), "wide:data")
    shown.select(next(iter(program.places)))
    panel = open_board(shown).show("devices")
    tensor = panel.locator(".mlb-tensor")
    assert tensor.locator(".mlb-letter").all_text_contents() == list("ABCDEFGHIJKLMNOP")
    held = tensor.locator(".mlb-holders").all_text_contents()
    assert held == [f"{4 * i}–{4 * i + 3}" for i in range(16)]
    ticks = tensor.locator(".mlb-block-tick").all_text_contents()
    assert (ticks[0], ticks[-1]) == ("0", f"{1 << 16:,}")
    expect(panel.locator(".mlb-mesh .mlb-draw-number").first).to_have_text("0")


@pytest.mark.parametrize("axes", [{"model": 4}], ids=["4"])
def test_blocks_of_a_padded_tensor_end_where_it_does(open_board, axes: dict[str, int]) -> None:
    """Ten classes over four devices, three each: the last has one, and two of padding."""
    shown = explore(small.program(), ml.mesh(**axes))
    shown.pad(True)
    shown.place("classes", "model")
    shown.select("params/w2")
    board: BlankBoard = open_board(shown, panel="devices", width=900)
    panel = board.panel("devices")
    heights = "sites => sites.map(site => [...site.querySelectorAll('rect.mlb-slice, rect.mlb-padding')]"
    heights += ".map(rect => [rect.getAttribute('class'), Number(rect.getAttribute('height')) > 0]))"
    blocks = panel.locator(".mlb-tensor .mlb-site").evaluate_all(heights)
    assert blocks == [[["mlb-slice", True]]] * 4
    frames = panel.locator(".mlb-tensor .mlb-site").evaluate_all(
        "sites => sites.map(site => ['.mlb-slice', '.mlb-site-frame'].map(each => site.querySelector(each)"
        ".getBoundingClientRect()).map(({ width, height }) => [Math.round(width), Math.round(height)]))"
    )
    assert all(slice_ == frame for slice_, frame in frames)
    widths = [frame[0] for _, frame in frames]
    assert widths[:3] == [widths[0]] * 3
    assert widths[3] == pytest.approx(widths[0] / 3, abs=1.5)
    # Of a device the padding is drawn.
    expect(panel.locator(".mlb-mesh .mlb-padding")).to_have_count(1)
