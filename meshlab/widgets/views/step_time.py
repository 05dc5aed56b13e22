"""Predicted time as plain data: what the board, its figure and its snapshot draw.

    view = costs_view(explorer)["time"]
    view["estimate"], view["limit"]["text"]     0.00342, "Limited by memory: kernels that wait for it take 2.1 ms."

Each part has its seconds and the figures of the machine that they rest on, and says which of these were recalled.
"""

from __future__ import annotations

from typing import Any

from ...cost.machines.accuracy import TIME, accuracy
from ...cost.machines.units import seconds_text as told
from ...cost.step_time.time import Time
from ...cost.workload.setting import ATTENTION
from ..state.costing import Costs
from ..state.document import Document
from .machine_figures import figures_behind
from .peak_memory import held_view

PRODUCTS, MEMORY = "products", "memory"


def costs_view(explorer: Any) -> dict:
    """Describes what the step of an Explorer takes and holds.

    Args:
        explorer: the Explorer.

    Returns:
        Plain data: `time` and `held`, both None where no machine is chosen, and whether they are `pending`.
    """
    document = explorer.document
    costs = explorer.costing.soon(document) if document.machine else None
    if costs is None:
        return {"time": None, "held": None, "pending": document.machine is not None}
    return {
        "time": time_view(costs, document),
        "held": held_view(explorer.plan, costs.memory),
        "pending": False,
    }


def time_view(costs: Costs, document: Document) -> dict:
    """Describes predicted time, or says which figure of the machine is missing."""
    options, time = document.options, costs.time
    switches = {"attention": options.attention, "prefetch": options.prefetch, "attentions": list(ATTENTION)}
    if time is None:
        return {"missing": costs.missing, "options": switches}
    parts = [_part(key, seconds, time) for key, seconds in _seconds(time)]
    return {
        "lower": float(time.lower),
        "estimate": float(time.estimate),
        "upper": float(time.upper),
        "compute": float(time.compute),
        "exposed": float(time.exposed),
        "told": {name: told(float(getattr(time, name))) for name in ("lower", "estimate", "upper", "exposed")},
        "parts": parts,
        "limit": {"by": time.limited_by, "text": limit_told(time)},
        "substituted": substituted_told(time),
        "options": switches,
        "recalled": _recalled(parts),
        "accuracy": accuracy(TIME, time.hardware),
    }


def _seconds(time: Time) -> list[tuple[str, float]]:
    """The parts of a time that take any; all of them where none does."""
    order = list(time.setting.plan.mesh.axes)
    sent = sorted(time.communication, key=lambda axes: [order.index(axis) for axis in axes.split("+")])
    sent = [(axes, float(time.communication[axes])) for axes in sent]
    parts = [(PRODUCTS, float(time.products)), (MEMORY, float(time.memory)), *sent]
    return [part for part in parts if part[1]] or parts


def memory_told(time: Time) -> str:
    """What the kernels of `Time.memory` wait for: on a machine where each takes time to begin, for that as well."""
    return "memory and launches" if time.hardware.efficiency.launch.value else "memory"


def _label(key: str, time: Time) -> str:
    if key == MEMORY:
        return memory_told(time)
    return "products" if key == PRODUCTS else f"sending over {key.replace('+', ' + ')}"


def _part(key: str, seconds: float, time: Time) -> dict:
    placement, code = time.setting.placements[0], time.setting.plan.program.code
    figures = figures_behind(key, placement, code)
    return {
        "key": key,
        "label": _label(key, time),
        "sends": key not in (PRODUCTS, MEMORY),
        "seconds": seconds,
        "told": told(seconds),
        "figures": figures,
        "recalled": any(figure["recalled"] for figure in figures),
    }


def _recalled(parts: list[dict]) -> list[str]:
    """What the time rests on that was recalled, in words."""
    found = [figure["text"] for part in parts if part["seconds"] for figure in part["figures"] if figure["recalled"]]
    return list(dict.fromkeys(found))


def limit_told(time: Time) -> str:
    """Says what takes longest, and how long."""
    by = time.limited_by
    if by == PRODUCTS:
        return f"Limited by products: kernels that wait for the matrix units take {told(float(time.products))}."
    if by == MEMORY:
        waits = "memory, or for their launch," if time.hardware.efficiency.launch.value else "it"
        return f"Limited by {memory_told(time)}: kernels that wait for {waits} take {told(float(time.memory))}."
    axes = by.removeprefix("communication over ")
    sent = told(float(time.communication[axes]))
    return f"Limited by communication over {axes.replace('+', ' + ')}: its collectives take {sent}."


def substituted_told(time: Time) -> str:
    """Says which collectives the machine's compiler makes all-reduces of; empty where none."""
    found = [f"{times:,} × {what.replace('+', ' + ')}" for what, times in time.substituted.items()]
    if not found:
        return ""
    return f"Its compiler sends all-reduces, twice as much, instead of {', '.join(found)}."


def estimate_change(explorer: Any) -> dict:
    """Returns by how much the last change moved the estimate and the peak; None where there is nothing to compare."""
    past = explorer.history.past
    known = explorer.costing.soon(explorer.document) if explorer.document.machine else None
    now, before = known, _quickly(explorer, past[-1] if past and known else None)
    return {"seconds": _seconds_more(now, before), "peak": _bytes_more(now, before)}


def preview_view(explorer: Any, document: Document) -> dict:
    """Tells what a document would take and hold, where a machine is chosen and that is found out quickly."""
    then, now = _quickly(explorer, document), _quickly(explorer, explorer.document)
    if then is None:
        return {}
    held = held_view(explorer.plan_at(document), then.memory)
    told = {"peak": held["bytes"], "peak_change": _bytes_more(then, now), "fits": held["fits"]}
    if then.time is None:
        return told
    return told | {"seconds": float(then.time.estimate), "seconds_change": _seconds_more(then, now)}


def _quickly(explorer: Any, document: Document | None) -> Costs | None:
    return explorer.costing.quickly(document) if document and document.machine else None


def _seconds_more(now: Costs | None, before: Costs | None) -> float | None:
    if now is None or before is None or now.time is None or before.time is None:
        return None
    return float(now.time.estimate - before.time.estimate)


def _bytes_more(now: Costs | None, before: Costs | None) -> int | None:
    return None if now is None or before is None else now.memory.peak_bytes - before.memory.peak_bytes
