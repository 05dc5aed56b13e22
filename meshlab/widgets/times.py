"""Predicted time as plain data: what the board, its figure and its snapshot draw.

    view = time_view(explorer)
    view["estimate"], view["limit"]["text"]     0.00342, "Limited by memory: kernels that wait for it take 2.1 ms."

Each part has its seconds and the figures of the machine that they rest on, and says which of these were recalled.
"""

from __future__ import annotations

from typing import Any

from ..cost.hardware import HardwareError
from ..cost.setting import ATTENTION
from ..cost.time import Time, told
from .accuracy import RUNS, accuracy
from .document import Document
from .held import held_view
from .sources import figures_behind

PRODUCTS, MEMORY = "products", "memory"
_LABELS = {PRODUCTS: "products", MEMORY: "memory"}


def time_view(explorer: Any) -> dict | None:
    """Describes the predicted time of an Explorer's step.

    Args:
        explorer: the Explorer.

    Returns:
        Plain data; None where no machine is chosen, and why there is no time where a figure is missing.
    """
    document = explorer.document
    if document.machine is None:
        return None
    options = document.options
    switches = {"attention": options.attention, "prefetch": options.prefetch, "attentions": list(ATTENTION)}
    try:
        time = explorer.time
    except HardwareError as error:
        return {"missing": str(error), "options": switches}
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
        "options": switches,
        "recalled": _recalled(parts),
        "accuracy": accuracy(RUNS),
    }


def _seconds(time: Time) -> list[tuple[str, float]]:
    order = list(time.setting.plan.mesh.axes)
    sent = sorted(time.communication, key=lambda axes: [order.index(axis) for axis in axes.split("+")])
    sent = [(axes, float(time.communication[axes])) for axes in sent]
    return [(PRODUCTS, float(time.products)), (MEMORY, float(time.memory)), *sent]


def _part(key: str, seconds: float, time: Time) -> dict:
    placement, code = time.setting.placements[0], time.setting.plan.program.code
    figures = figures_behind(key, placement, code)
    return {
        "key": key,
        "label": _LABELS.get(key, f"sending over {key.replace('+', ' + ')}"),
        "sends": key not in _LABELS,
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
        return f"Limited by memory: kernels that wait for it, or for their launch, take {told(float(time.memory))}."
    axes = by.removeprefix("communication over ")
    sent = told(float(time.communication[axes]))
    return f"Limited by communication over {axes.replace('+', ' + ')}: its collectives take {sent}."


def seconds_change(explorer: Any) -> float | None:
    """Returns by how many seconds the last change moved the estimate, or None where there is nothing to compare."""
    past = explorer.history.past
    now, before = (_estimate(explorer, document) for document in (explorer.document, past[-1] if past else None))
    return None if now is None or before is None else now - before


def preview_view(explorer: Any, document: Document) -> dict:
    """Tells what a document would take and hold, where a machine is chosen; nothing where none is."""
    seconds, now = _estimate(explorer, document), _estimate(explorer, explorer.document)
    if seconds is None:
        return {}
    change = None if now is None else seconds - now
    held = held_view(explorer.plan_at(document))
    return {"seconds": seconds, "seconds_change": change, "fits": held["fits"] if held else None}


def _estimate(explorer: Any, document: Document | None) -> float | None:
    try:
        return float(explorer.time_at(document).estimate) if document else None
    except HardwareError:  # no machine, or none of its figures
        return None
