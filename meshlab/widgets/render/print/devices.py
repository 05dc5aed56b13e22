"""Who holds what: the devices on their machine, and the tensor, in the same colours, patterns and letters.

The devices are the picture of the board (`views/devices/picture.py`), enlarged or shrunk to the width of the page; its
texts are written anew, in sizes for print, and what would meet another is left out. Above it stand the mesh axes, with
the lines that are drawn of them. Letters are written where they can be read; where they cannot, none are spoken of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...documents.document import ExplorerError
from ...state.explorer_state import ExplorerState
from ..identity import channels, identity
from ..palette import DASH, EDGE, QUIET, SOFT, SOLID, mark
from .letters import LINE, SMALL, UP, width_of
from .page import GAP, Page, dashed
from .sheet import SLICES, Box, Fill, Sheet, box_of

# A picture is enlarged by at most so much; beside it stands the tensor, so wide at least, where a device is still so
# wide then, in points.
_MOST, _BESIDE, _LEAST = 1.15, 84.0, 8.0
# The tensor: how high it is at most, beside the devices, below them, and where it has one slice, in points, and how
# many times as much its width may be enlarged. Of more slices than these none has letters.
_TALL, _LOW, _FLAT, _STRETCH, _LETTERED = 100.0, 56.0, 20.0, 2.5, 1024
# So many slices are listed with their index ranges; so far a hook reaches out of a picture, in its pixels.
_LISTED, _HOOK = 8, 12.0
_STYLES = {"note": (SMALL, SOFT), "number": (SMALL, SOFT)}


def draw_devices(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the devices, each as the slice that it holds of the selected tensor, and the tensor as its slices."""
    shards, picture = view["shards"], view["picture"]
    if not shards:
        raise ExplorerError("No tensor is selected; call explorer.select(place).")
    page.title(f"Who holds what of {shards['place']} [{' '.join(shards['dims'])}]")
    _name_axes(page, view, picture)
    box = _extent(picture)
    scale, left = _scale_of(page, picture, shards, box)
    top = page.y
    size = _draw_picture(page, view, (scale, box))
    bottom, page.y = page.y, top if left else page.y
    most = _FLAT if shards["slices"] == 1 else _TALL if left else _LOW
    lettered = draw_tensor(page, shards, left, most, stretch=_STRETCH if left else 2 * _STRETCH) + size > 0
    page.y = max(bottom, page.y)
    if picture["each"] > 1:
        page.note(f"Each square is {picture['each']:,} devices.")
    page.note(_held_text(shards, lettered))
    _list_slices(page, shards, lettered)


def _name_axes(page: Page, view: dict[str, Any], picture: Any) -> None:
    """Says where each mesh axis runs, with its line where one is drawn of it."""
    drawn = {shape["key"] for shape in picture["shapes"] if shape["is"] == "path" and shape["as"] != "sample"}
    entries = []
    for shape in picture["shapes"]:
        if shape["is"] == "text" and shape["as"] == "label":
            name, text = shape["text"].split(" ")[0], shape["text"]
            look = mark(view, name) if name in drawn else None
            line = None if look is None else dashed(SOLID[look % len(SOLID)], 1.6, DASH[look % len(DASH)])
            entries.append((line, text.replace("→", "↓") if shape.get("turn") else text))
    page.legend(entries)


def _extent(picture: Any) -> Box:
    """Returns what of a picture its cells, frames, links and notes take, in its pixels."""
    cells, shapes = picture["cells"], picture["shapes"]
    out = _HOOK if any(shape["as"] == "hook" for shape in shapes) else 1.0
    boxes = [
        Box(x - out, y - out, x + cells["w"] + out, y + cells["h"] + out)
        for x, y in zip(cells["x"], cells["y"], strict=True)
    ]
    for shape in shapes:
        if shape["is"] == "rect":
            boxes.append(Box(shape["x"], shape["y"], shape["x"] + shape["w"], shape["y"] + shape["h"]))
        if shape["is"] == "text" and shape["as"] != "label":
            # Where the picture is shrunk, its texts are not.
            boxes.append(box_of(shape["x"], shape["y"], shape["text"], 1.2 * SMALL))
    left, top = min(box.left for box in boxes), min(box.top for box in boxes)
    return Box(left, top, max(box.right for box in boxes), max(box.bottom for box in boxes))


def _scale_of(page: Page, picture: Any, shards: dict[str, Any], box: Box) -> tuple[float, float]:
    """Returns how a picture is scaled, and where the tensor begins beside it; 0 where that stands below."""
    wide, cells = box.right - box.left, picture["cells"]
    need = 12 + max(_BESIDE, *(width_of(text, SMALL) for text in axes_texts(shards)))
    alone, beside = min(_MOST, page.width / wide), min(_MOST, (page.width - need) / wide)
    letters = [letter_size(shards, scale * cells["w"], scale * cells["h"]) > 0 for scale in (alone, beside)]
    if beside * cells["w"] < _LEAST or letters == [True, False]:
        return alone, 0.0
    return beside, beside * wide + 12


def _held_text(shards: dict[str, Any], lettered: bool) -> str:
    count, copies = shards["slices"], shards["copies"]
    if count == 1:
        return "Every device holds all of it."
    on = f"each on {copies:,} devices" if copies > 1 else "each on one device"
    return f"{count:,} slices, {on}." if lettered else f"Each shade is one of {count:,} slices, {on}."


def fill_of(shards: dict[str, Any], slice_: int) -> tuple[Fill, str, str]:
    """Returns how a slice is filled, its letters, and their colour."""
    shown = identity(shards["parts"], slice_)
    ink = "#10151c" if sum(channels(shown.fill)) > 330 else "#ffffff"
    return Fill(shown.fill, SLICES + shown.pattern if shown.pattern else 0), shown.label, ink


def _draw_picture(page: Page, view: dict[str, Any], at_scale: tuple[float, Box]) -> float:
    """Draws the devices, and returns the size of their letters; 0 where they have none."""
    (scale, box), picture, shards = at_scale, view["picture"], view["shards"]
    sheet, left, top = page.sheet, -scale * box.left, page.y - scale * box.top
    for shape in picture["shapes"]:
        if shape["is"] == "rect":
            x, y, w, h = (scale * shape[name] for name in "xywh")
            sheet.rect(left + x, top + y, w, h, Fill(QUIET), stroke=EDGE, round_by=2)
        if shape["is"] == "path" and shape["as"] != "sample":
            look = mark(view, shape["key"])
            with sheet.moved(left, top, scale):
                sheet.path(shape["d"], SOLID[look % len(SOLID)], 1.6, DASH[look % len(DASH)])
    cells = picture["cells"]
    wide, tall = scale * cells["w"], scale * cells["h"]
    size = letter_size(shards, wide, tall)
    for at, held in enumerate(shards["held"]):
        slices = held if isinstance(held, list) else [held]
        x, y, part = left + scale * cells["x"][at], top + scale * cells["y"][at], wide / len(slices)
        for n, slice_ in enumerate(slices):
            place = Box(x + n * part, y, x + (n + 1) * part, y + tall)
            draw_slice(sheet, shards, slice_, place, size if len(slices) == 1 else 0, plain=size > 0)
    for shape in picture["shapes"]:
        if shape["is"] == "text" and shape["as"] != "label":
            _write(sheet, shape, left + scale * shape["x"], top + scale * shape["y"])
    page.y = top + scale * box.bottom + GAP
    return size


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


def _write(sheet: Sheet, shape: dict[str, Any], x: float, y: float) -> None:
    """Writes a text of the picture in a size for print; the number of a device only where it meets no other."""
    size, fill = _STYLES[shape["as"]]
    text, short = shape["text"], shape["text"].split(" ")[-1]
    if sheet.is_free(box_of(x, y, text, size)):
        sheet.text(x, y, text, size, fill=fill)
    elif shape["as"] == "note" and sheet.is_free(box_of(x, y, short, size)):
        sheet.text(x, y, short, size, fill=fill)


def draw_tensor(
    page: Page,
    shards: dict[str, Any],
    left: float = 0.0,
    most: float = _TALL,
    block: Callable[[int, Box], None] | None = None,
    *,
    stretch: float = _STRETCH,
) -> float:
    """Draws the tensor as its slices, and says what runs down and across.

    Args:
        page: where.
        shards: the tensor, from `tensor_view`.
        left: where it begins.
        most: how high it may be, in points.
        block: draws one block in place of its slice, by its number.
        stretch: how many times as much as its height its width may be enlarged.

    Returns:
        The size of the slices' letters; 0 where they have none.
    """
    blocks = shards["blocks"]
    for text in axes_texts(shards):
        page.sheet.text(left, page.y + UP * SMALL, text, SMALL, fill=SOFT)
        page.y += LINE * SMALL
    top = page.y + 2
    down = min(_MOST, most / blocks["height"])
    # Its sides are to no scale in any case.
    across = min(stretch * down, (page.width - left) / blocks["width"])
    size = letter_size(shards, across * min(blocks["w"]), down * min(blocks["h"])) if blocks["each"] == 1 else 0.0
    for n, slice_ in enumerate(blocks["slices"]):
        x, y = left + across * blocks["x"][n], top + down * blocks["y"][n]
        box = Box(x, y, x + across * blocks["w"][n], y + down * blocks["h"][n])
        if block:
            block(n, box)
        else:
            draw_slice(page.sheet, shards, slice_, box, size)
    page.y = top + down * blocks["height"] + GAP
    return size


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


def _list_slices(page: Page, shards: dict[str, Any], lettered: bool) -> None:
    """Lists the first slices with their indices, and the last of many; not where many have shades alone."""
    count = shards["slices"]
    if count == 1 or (count > _LISTED and not lettered):
        return
    shown = list(range(count)) if count <= _LISTED else [0, 1, -1, count - 1]
    for slice_ in shown:
        if slice_ < 0:
            page.line([(0.0, "…")], SMALL, SOFT)
            continue
        fill, label, _ = fill_of(shards, slice_)
        page.sheet.rect(0, page.y + 0.5, 8, UP * SMALL, fill)
        ranges = 11.0 + width_of("AAA", SMALL) * lettered
        page.line([*[(11.0, label)] * lettered, (ranges, ranges_text(shards, slice_))], SMALL)
