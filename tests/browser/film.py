"""The picture of the README that moves: a hand drags four dims, and the board says what each drop costs.

`python -m tests.browser.pictures docs` takes it with the docs' other pictures.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from tests.browser.blank import BlankBoard, BlankPage

WIDTH, HEIGHT = 1120, 640
# The drops, in order: a dim, a mesh axis, a place.
DROPS = (("batch", "data", ""), ("embed", "data", "params/*"), ("heads", "model", ""), ("ffn", "model", ""))
# Milliseconds that a frame stands: on the way, over a zone, after a drop, and at the end.
WAY, AIMED, DROPPED, LAST = 90, 500, 1800, 4000

# A screenshot has no pointer: one is drawn where the mouse is.
POINTER = """() => {
    const pointer = document.createElement("div");
    pointer.style = "position:fixed;z-index:9999;pointer-events:none;width:20px;height:28px;left:-40px;top:0";
    const outline = "M1 1v22l5-5 4 9 4-2-4-9h7z";
    pointer.innerHTML = `<svg viewBox="0 0 20 28"><path d="${outline}" fill="#111" stroke="#fff"/></svg>`;
    document.body.append(pointer);
    addEventListener("pointermove", ({ clientX, clientY }) => {
        pointer.style.left = `${clientX}px`;
        pointer.style.top = `${clientY}px`;
    }, true);
}"""

Frame = tuple[Image.Image, int]


def take(browser: Browser, path: Path, wait_for: Callable[[BlankBoard], None]) -> None:
    """Films Llama 3 8B from no layout to FSDP and tensor parallelism, and writes an animated GIF that runs for ever.

    Args:
        browser: Chromium.
        path: where the film goes.
        wait_for: waits until all that is in sight is drawn.
    """
    explorer = explore("llama3-8b", ml.mesh("v5p:4x4x4", data=16, model=4), batch=64)
    page = BlankPage(browser, explorer, width=WIDTH, height=HEIGHT)
    board = BlankBoard(page)
    expect(board.root).to_be_visible()
    page.view.evaluate(POINTER)
    board.show("traffic")
    wait_for(board)
    frames = list(_frames(board, wait_for))
    page.close()
    # One palette for all frames: colours that stay do not flicker.
    palette = frames[-1][0].quantize(255, dither=Image.Dither.NONE)
    drawn = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image, _ in frames]
    stands = [stand for _, stand in frames]
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=stands, loop=0, optimize=True)


def _frames(board: BlankBoard, wait_for: Callable[[BlankBoard], None]) -> Iterator[Frame]:
    """Yields what is seen, and for how long."""
    yield _seen(board), DROPPED
    for dim, axis, place in DROPS:
        start = board.press(dim)
        yield _seen(board), AIMED
        for _ in board.on_the_way(start, axis, place):
            yield _seen(board), WAY
        wait_for(board)
        yield _seen(board), AIMED
        with board.next_revision():
            board.mouse.up()
        wait_for(board)
        yield _seen(board), DROPPED
    board.show("devices")
    wait_for(board)
    yield _seen(board), LAST


def _seen(board: BlankBoard) -> Image.Image:
    return Image.open(io.BytesIO(board.root.screenshot())).convert("RGB")
