"""Who holds what, on the machine, as SVG for a snapshot: the picture of devices that the board shows."""

from __future__ import annotations

from collections.abc import Iterator

from .html import escaped, heading
from .identity import channels, identity
from .palette import DASH, mark
from .themed import EDGE, INK, QUIET, SOFT, SOLID

_BOXES = {"node": f'fill="{QUIET}" stroke="{EDGE}"'}
# Directions of the lines of patterns, in degrees.
_TURNS = (0, 45, -45, 0, 90, 30, -30, 60)
# The pattern whose lines are close.
_CLOSE = 7
# Letters are written in squares of at least so many pixels.
_LETTERED = 9


def devices_html(view: dict) -> str:
    """Draws the mesh on its machine, each device in the colour of what it holds of the tensor that is selected."""
    picture, shards = view["picture"], view["shards"]
    if not shards:
        return ""
    place = shards["place"]
    shapes = "".join(_shape(view, shape) for shape in picture["shapes"])
    cells = "".join(_cells(picture, shards))
    turns = "".join(_pattern(number, turn) for number, turn in enumerate(_TURNS) if number)
    size = f'viewBox="0 0 {picture["width"]} {picture["height"]}" width="{1.5 * picture["width"]:.0f}"'
    drawn = f'<svg {size} style="max-width:100%" font-size="11"><defs>{turns}</defs>{shapes}{cells}</svg>'
    each = f" Each square is {picture['each']:,} devices." if picture["each"] > 1 else ""
    held = "every device: all of it" if shards["slices"] == 1 else f"{shards['slices']:,} slices, by colour and letter"
    return f"{heading(f'Who holds what of {place}')}<div>{held}.{each}</div><div>{drawn}</div>"


def _cells(picture: dict, shards: dict) -> Iterator[str]:
    cells = picture["cells"]
    for number, held in enumerate(shards["held"]):
        slices = held if isinstance(held, list) else [held]
        wide, tall = cells["w"] / len(slices), cells["h"]
        for place, slice_ in enumerate(slices):
            shown = identity(shards["parts"], slice_)
            x, y = cells["x"][number] + place * wide, cells["y"][number]
            box = f'x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{tall}" rx="2"'
            yield f'<rect {box} fill="{shown.fill}">{_title(picture, number, shown.label)}</rect>'
            if shown.pattern:
                yield f'<rect {box} fill="url(#mlb-snapshot-{shown.pattern})"/>'
            if shown.label and len(slices) == 1 and min(wide, tall) >= _LETTERED:
                size = min(13.0, 0.6 * tall, 1.4 * wide / len(shown.label))
                ink = "#10151c" if sum(channels(shown.fill)) > 330 else "#fff"
                middle = f'x="{x + wide / 2:.1f}" y="{y + tall / 2 + size / 3:.1f}" text-anchor="middle"'
                yield f'<text {middle} font-size="{size:.1f}" font-weight="700" fill="{ink}">{shown.label}</text>'


def _title(picture: dict, number: int, label: str) -> str:
    devices = picture["cells"]["devices"]
    return f"<title>device {devices[number]}: {label or 'all of it'}</title>" if devices else ""


def _pattern(number: int, turn: int) -> str:
    step = 4 if number == _CLOSE else 7
    line = f'<path d="M0 {step / 2}H{step}" stroke="#fff" stroke-opacity=".62" stroke-width="1.5"/>'
    size = f'width="{step}" height="{step}" patternUnits="userSpaceOnUse" patternTransform="rotate({turn})"'
    return f'<pattern id="mlb-snapshot-{number}" {size}>{line}</pattern>'


def _shape(view: dict, shape: dict) -> str:
    if shape["is"] == "rect":
        box = f'x="{shape["x"]}" y="{shape["y"]}" width="{shape["w"]}" height="{shape["h"]}" rx="3"'
        return f"<rect {box} {_BOXES[shape['as']]}/>"
    if shape["is"] == "path":
        number = mark(view, shape["key"])
        stroke = f'stroke="{SOLID[number]}" stroke-width="{1.5 if shape["as"] == "hook" else 2}"'
        return f'<path d="{shape["d"]}" fill="none" {stroke} stroke-dasharray="{DASH[number] or "none"}"/>'
    rotation = f' transform="rotate({shape["turn"]} {shape["x"]} {shape["y"]})"' if "turn" in shape else ""
    place = f'x="{shape["x"]}" y="{shape["y"]}"'
    colour = INK if shape["as"] == "label" else SOFT
    size = ' font-size="7.5"' if shape["as"] == "number" else ""
    return f'<text {place} fill="{colour}"{size}{rotation}>{escaped(shape["text"])}</text>'
