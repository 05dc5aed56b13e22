"""The machine, predicted time and peak memory, as plain HTML for a snapshot."""

from __future__ import annotations

from ...cost.machines.units import seconds_text
from ...engine.tables import prose
from ..views.machine_figures import RECALLED
from .html import bars, heading
from .palette import mark
from .themed import BAD, NEUTRAL, SOFT, SOLID

_BAD = f' style="color:{BAD};font-weight:600"'


def machine_html(view: dict) -> str:
    """Draws the machine with the mesh on it, and the predicted time of a step; nothing where none is chosen."""
    machine = view["machine"]
    if not machine["on"]:
        return ""
    placed = "; ".join(f"{axis['name']} × {axis['size']:,}: {axis['placement']}" for axis in machine["axes"])
    head = heading(f"On {machine['title']}, {machine['slice']}")
    return f"{head}<div>{prose(placed)}</div>{_time(view)}"


def _time(view: dict) -> str:
    time = view["time"]
    if time is None:  # a board that is not waited for is drawn before its costs are known
        return heading("Predicted time of a step") + "<div>It was still being computed.</div>"
    if "missing" in time:
        return heading("Predicted time of a step") + f"<div>{prose(time['missing'])}</div>"
    texts, options = time["texts"], time["options"]
    rows = [(part["label"], [(_colour(view, part), part["seconds"])]) for part in time["parts"]]
    assumed = f"attention {options['run']}, {'with' if options['prefetch'] else 'without'} prefetching"
    sends = any(part["sends"] for part in time["parts"])
    notes = [(f"Exposed communication: {texts['exposed']}. " if sends else "") + f"Assumed: {assumed}."]
    notes += [time["use"]] if time["use"] else []
    notes += [time["substituted"]] if time["substituted"] else []
    notes += [f"Depends on figures that are {RECALLED}: {'; '.join(time['recalled'])}."] if time["recalled"] else []
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
