"""The machine, the mesh on it, predicted time and peak memory, as plain HTML and SVG for a snapshot."""

from __future__ import annotations

from ...cost.machines.units import seconds_text
from ..views.machine_figures import RECALLED
from .html import bars, escaped, heading, prose
from .palette import DASH, EDGE, INK, NEUTRAL, QUIET, SOFT, SOLID, mark

_BAD = ' style="color:#a4262c;font-weight:600"'
_BOXES = {
    "chip": f'fill="#fff" stroke="{NEUTRAL}"',
    "device": f'fill="{QUIET}" stroke="{NEUTRAL}"',
    "node": f'fill="#f5f6f8" stroke="{EDGE}"',
    "slice": f'fill="#fff" stroke="{SOFT}"',
    "switch": f'fill="{SOFT}"',
}


def machine_html(view: dict) -> str:
    """Draws the machine with the mesh on it, and the predicted time of a step; nothing where none is chosen."""
    machine = view["machine"]
    if not machine["on"]:
        return ""
    placed = "; ".join(f"{axis['name']} × {axis['size']:,}: {axis['placement']}" for axis in machine["axes"])
    drawn = picture_svg(view, machine["picture"])
    left_out = f'<div style="color:{SOFT}">{prose(machine["picture"]["left_out"])}</div>'
    head = heading(f"On {machine['title']}, {machine['slice']}")
    return f"{head}<div>{prose(placed)}</div>{drawn}{left_out}{_time(view)}"


def _time(view: dict) -> str:
    time = view["time"]
    if time is None:  # a board that is not waited for is drawn before its costs are known
        return heading("Predicted time of a step") + "<div>It was being worked out.</div>"
    if "missing" in time:
        return heading("Predicted time of a step") + f"<div>{prose(time['missing'])}</div>"
    texts, options = time["texts"], time["options"]
    rows = [(part["label"], [(_colour(view, part), part["seconds"])]) for part in time["parts"]]
    assumed = f"attention {options['attention']}, {'with' if options['prefetch'] else 'without'} prefetching"
    sends = any(part["sends"] for part in time["parts"])
    notes = [(f"Exposed communication: {texts['exposed']}. " if sends else "") + f"Assumed: {assumed}."]
    notes += [time["substituted"]] if time["substituted"] else []
    notes += [f"Rests on figures that are {RECALLED}: {'; '.join(time['recalled'])}."] if time["recalled"] else []
    notes.append(_error(time["accuracy"]))
    return (
        heading("Predicted time of a step")
        + f"<div><b>{texts['estimate']}</b>, between {texts['lower']} (all communication that can overlap does) and"
        + f" {texts['upper']} (none does). {prose(time['limit']['text'])}</div>"
        + bars(rows, seconds_text)
        + "".join(f'<div style="color:{SOFT}">{prose(note)}</div>' for note in notes)
    )


def peak_memory_html(view: dict) -> str:
    """Draws peak memory against the capacity of a device; nothing where no machine is chosen."""
    memory = view["peak_memory"]
    if not memory:
        return ""
    recalled = f" The machine's memory is {RECALLED}." if memory["recalled"] else ""
    return (
        heading("Peak memory per device, predicted")
        + f"<div{'' if memory['fits'] else _BAD}>{prose(memory['text'])}{recalled}</div>"
        + bars([(part["name"], [(NEUTRAL, part["bytes"])]) for part in memory["parts"]])
        + f'<div style="color:{SOFT}">{prose(memory["note"])} {prose(_error(memory["accuracy"]))}</div>'
    )


def _error(accuracy: dict) -> str:
    return f"Error: {accuracy['text']} (More on a page of the project: `{accuracy['where']}`.)"


def _colour(view: dict, part: dict) -> str:
    return SOLID[mark(view, part["key"])] if part["sends"] else NEUTRAL


def picture_svg(view: dict, picture: dict) -> str:
    """Paints the shapes of `picture_of` as SVG."""
    drawn = "".join(_shape(view, shape) for shape in picture["shapes"])
    size = f'viewBox="0 0 {picture["width"]} {picture["height"]}" width="{picture["width"]}"'
    return f'<div><svg {size} height="{picture["height"]}" style="max-width:100%" font-size="12.5">{drawn}</svg></div>'


def _shape(view: dict, shape: dict) -> str:
    if shape["is"] == "rect":
        box = f'x="{shape["x"]}" y="{shape["y"]}" width="{shape["w"]}" height="{shape["h"]}" rx="3"'
        title = f"<title>{escaped(shape['title'])}</title>" if "title" in shape else ""
        return f"<rect {box} {_BOXES[shape['as']]}>{title}</rect>"
    if shape["is"] == "path":
        number = mark(view, shape["key"])
        stroke = f'stroke="{SOLID[number]}" stroke-width="{2 if shape["as"] == "hook" else 3}"'
        return f'<path d="{shape["d"]}" fill="none" {stroke} stroke-dasharray="{DASH[number] or "none"}"/>'
    rotation = f' transform="rotate({shape["turn"]} {shape["x"]} {shape["y"]})"' if "turn" in shape else ""
    place = f'x="{shape["x"]}" y="{shape["y"]}"'
    colour = INK if shape["as"] == "label" else SOFT
    return f'<text {place} fill="{colour}"{rotation}>{escaped(shape["text"])}</text>'
