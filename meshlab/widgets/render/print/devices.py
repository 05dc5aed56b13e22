"""Who holds what: the devices on their machine, and the tensor, in the same colours, patterns and letters.

The devices are the picture of the board (`views/devices/picture.py`), enlarged or shrunk to the width of the page; its
texts are written anew, in sizes for print, and what would meet another is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...documents.document import ExplorerError
from ...state.explorer_state import ExplorerState
from ..identity import channels, identity
from ..palette import DASH, EDGE, INK, QUIET, SOFT, SOLID, mark
from .letters import LINE, SMALL, TEXT, UP, width_of
from .page import GAP, Page
from .sheet import SLICES, Box, Fill, Sheet, box_of

# A picture is enlarged by at most so much; beside it stands the tensor where at least so much of the width is left.
_MOST, _BESIDE = 1.15, 130.0
# The tensor: how high it is at most, in points, and how many times as much its width may be enlarged. Of more slices
# than these none has letters.
_TALL, _STRETCH, _LETTERED = 100.0, 2.5, 1024
# So many slices are listed with their index ranges.
_LISTED = 8
_STYLES = {"label": (TEXT, INK), "note": (SMALL, SOFT), "number": (SMALL, SOFT)}


def draw_devices(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the devices, each as the slice that it holds of the selected tensor, and the tensor as its slices."""
    shards, picture = view["shards"], view["picture"]
    if not shards:
        raise ExplorerError("No tensor is selected; call explorer.select(place).")
    page.title(f"Who holds what of {shards['place']} [{' '.join(shards['dims'])}]")
    scale = min(_MOST, page.width / picture["width"])
    beside = page.width - scale * picture["width"] >= _BESIDE
    top = page.y
    _draw_picture(page, view, picture, shards, scale)
    bottom, page.y = page.y, top if beside else page.y
    left = scale * picture["width"] + 12 if beside else 0.0
    draw_tensor(page, shards, left)
    page.y = max(bottom, page.y)
    if picture["each"] > 1:
        page.note(f"Each square is {picture['each']:,} devices.")
    page.note(_held_text(shards))
    _list_slices(page, shards)


def _held_text(shards: dict[str, Any]) -> str:
    count, copies = shards["slices"], shards["copies"]
    if count == 1:
        return "Every device holds all of it."
    return f"{count:,} slices, {f'each on {copies:,} devices' if copies > 1 else 'each on one device'}."


def fill_of(shards: dict[str, Any], slice_: int) -> tuple[Fill, str, str]:
    """Returns how a slice is filled, its letters, and their colour."""
    shown = identity(shards["parts"], slice_)
    ink = "#10151c" if sum(channels(shown.fill)) > 330 else "#ffffff"
    return Fill(shown.fill, SLICES + shown.pattern if shown.pattern else 0), shown.label, ink


def _draw_picture(page: Page, view: dict[str, Any], picture: Any, shards: dict[str, Any], scale: float) -> None:
    sheet, top = page.sheet, page.y
    for shape in picture["shapes"]:
        if shape["is"] == "rect":
            x, y, w, h = (scale * shape[name] for name in "xywh")
            sheet.rect(x, top + y, w, h, Fill(QUIET), stroke=EDGE, round_by=2)
        if shape["is"] == "path":
            look = mark(view, shape["key"])
            with sheet.moved(0, top, scale):
                sheet.path(shape["d"], SOLID[look % len(SOLID)], 1.6, DASH[look % len(DASH)])
    cells = picture["cells"]
    wide, tall = scale * cells["w"], scale * cells["h"]
    size = letter_size(shards, wide, tall)
    for at, held in enumerate(shards["held"]):
        slices = held if isinstance(held, list) else [held]
        x, y, part = scale * cells["x"][at], top + scale * cells["y"][at], wide / len(slices)
        for n, slice_ in enumerate(slices):
            box = Box(x + n * part, y, x + (n + 1) * part, y + tall)
            draw_slice(sheet, shards, slice_, box, size if len(slices) == 1 else 0, plain=size > 0)
    for shape in picture["shapes"]:
        if shape["is"] == "text":
            _write(sheet, shape, scale, top)
    page.y = top + scale * picture["height"] + GAP


def letter_size(shards: dict[str, Any], wide: float, tall: float) -> float:
    """Returns the size in which the letters of all slices fit into boxes; 0 for none."""
    if not 1 < shards["slices"] <= _LETTERED:
        return 0.0
    labels = (identity(shards["parts"], slice_).label for slice_ in range(shards["slices"]))
    size = min(9.0, 0.7 * tall, (wide - 1) / max(width_of(label, 1, bold=True) for label in labels))
    return size if size >= SMALL else 0.0


def draw_slice(
    sheet: Sheet, shards: dict[str, Any], slice_: int, box: Box, size: float, *, plain: bool = False
) -> None:
    """Draws one slice, with its letters where they have a size; `plain` where they stand for the pattern as well."""
    fill, label, ink = fill_of(shards, slice_)
    wide, tall = box.right - box.left, box.bottom - box.top
    sheet.rect(box.left, box.top, wide, tall, Fill(fill.colour) if plain else fill, round_by=min(1.5, wide / 6))
    sheet.take(box)
    if not size:
        return
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    if fill.pattern and not plain:  # letters are read on no pattern
        long = width_of(label, size, bold=True) + 1
        sheet.rect(x - long / 2, y - 0.5 * size, long, size, Fill(fill.colour))
    sheet.text(x, y + 0.36 * size, label, size, "middle", fill=ink, bold=True)


def _write(sheet: Sheet, shape: dict[str, Any], scale: float, top: float) -> None:
    """Writes a text of the picture in a size for print; the number of a device only where it meets no other."""
    size, fill = _STYLES[shape["as"]]
    x, y, turned = scale * shape["x"], top + scale * shape["y"], bool(shape.get("turn"))
    text, short = shape["text"], shape["text"].split(" ")[-1]
    is_free = sheet.is_free(box_of(x, y, text, size, turned=turned))
    if is_free or shape["as"] == "label":
        sheet.text(x, y, text, size, fill=fill, turned=turned)
    elif shape["as"] == "note" and sheet.is_free(box_of(x, y, short, size)):
        sheet.text(x, y, short, size, fill=fill)


def draw_tensor(
    page: Page,
    shards: dict[str, Any],
    left: float = 0.0,
    most: float = _TALL,
    block: Callable[[int, Box], None] | None = None,
) -> None:
    """Draws the tensor as its slices, and says what runs down and across.

    Args:
        page: where.
        shards: the tensor, from `tensor_view`.
        left: where it begins.
        most: how high it may be, in points.
        block: draws one block in place of its slice, by its number.
    """
    blocks = shards["blocks"]
    for text in axes_texts(shards):
        page.sheet.text(left, page.y + UP * SMALL, text, SMALL, fill=SOFT)
        page.y += LINE * SMALL
    top = page.y + 2
    down = min(_MOST, most / blocks["height"])
    # Its sides are to no scale in any case.
    across = min(_STRETCH * down, (page.width - left) / blocks["width"])
    size = letter_size(shards, across * min(blocks["w"]), down * min(blocks["h"])) if blocks["each"] == 1 else 0.0
    for n, slice_ in enumerate(blocks["slices"]):
        x, y = left + across * blocks["x"][n], top + down * blocks["y"][n]
        box = Box(x, y, x + across * blocks["w"][n], y + down * blocks["h"][n])
        if block:
            block(n, box)
        else:
            draw_slice(page.sheet, shards, slice_, box, size)
    page.y = top + down * blocks["height"] + GAP


def axes_texts(shards: dict[str, Any]) -> list[str]:
    """Says what runs down, what runs across, and what is whole in every slice."""
    blocks = shards["blocks"]

    def said(axis: int) -> str:
        over = f" / {' + '.join(shards['splits'][axis])}" if shards["splits"][axis] else ""
        return f"{shards['dims'][axis]} {shards['shape'][axis]:,}{over}"

    texts = [f"{said(axis)} {sign}" for axis, sign in ((blocks["down"], "↓"), (blocks["across"], "→")) if axis >= 0]
    texts += [f"{said(axis)}, one rectangle each" for axis in blocks["facets"]]
    return texts + [f"{said(axis)}, whole" for axis in blocks["whole"]]


def ranges_text(shards: dict[str, Any], slice_: int) -> str:
    """Says which indices a slice has: "vocab 0–32,063, embed 0–511"."""
    indices, rest = [], slice_
    for count in reversed(shards["parts"]):
        rest, index = divmod(rest, count)
        indices.insert(0, index)
    texts = []
    for axis, index in enumerate(indices):
        if shards["parts"][axis] > 1:
            size, step = shards["shape"][axis], shards["step"][axis]
            first, last = min(index * step, size), min((index + 1) * step, size)
            texts.append(f"{shards['dims'][axis]} {first:,}–{last - 1:,}" if last > first else "padding alone")
    return ", ".join(texts)


def _list_slices(page: Page, shards: dict[str, Any]) -> None:
    """Lists the first slices with their indices, and the last of many."""
    count = shards["slices"]
    if count == 1:
        return
    shown = list(range(count)) if count <= _LISTED else [0, 1, 2, -1, count - 1]
    for slice_ in shown:
        if slice_ < 0:
            page.line([(0.0, "…")], SMALL, SOFT)
            continue
        fill, label, _ = fill_of(shards, slice_)
        page.sheet.rect(0, page.y + 0.5, 8, UP * SMALL, fill)
        page.line([(11.0, label), (11.0 + width_of("AAA", SMALL), ranges_text(shards, slice_))], SMALL)
