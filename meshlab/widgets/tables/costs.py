"""Rows of predicted costs: memory, time, kernels, and what was compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ..background.reasons import REGRETS, Decided
from ..documents.document import ExplorerError
from ..state.explorer_state import ExplorerState
from ..views.peak_memory import phases_view
from ..views.roofline import dots_of
from .needed import NOT_FASTEST, costs_of, met, peaked, timed, tried, way
from .plan import Row, View


def memory_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields the bytes at the peak by role; without a machine those of each argument and output."""
    peak = view["peak_memory"]
    if not peak:
        for part in view["memory"]["parts"]:
            yield {"value": part["name"], "is_output": part["output"], "bytes": part["bytes"]}
        return
    for part in peak["parts"]:
        yield {"kind": "part", "role": part["name"], "bytes": part["bytes"], "device_memory_bytes": peak["limit"]}
    yield {"kind": "total", "role": "all", "bytes": peak["bytes"], "device_memory_bytes": peak["limit"]}


def moments_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each operation with the memory that is in use while it runs."""
    peaked(view)
    memory = costs_of(explorer).memory
    phases = phases_view(memory)
    for at, point in enumerate(memory.timeline):
        phase = next((each["name"] for each in phases if each["begin"] <= at < each["end"]), "")
        source = "" if point.source is None else str(point.source)
        yield {"operation": at, "name": point.step, "source": source, "phase": phase, "bytes": int(point.bytes)}


def time_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields the parts of the predicted time, then the step: its estimate, its bounds, and what is exposed."""
    time = timed(view)
    for part in time["parts"]:
        figures = "recalled" if part["recalled"] else "verified"
        yield {"kind": "part", "part": part["label"], "seconds": part["seconds"], "figures": figures}
    for name in ("lower", "estimate", "upper", "exposed"):
        yield {
            "kind": "step",
            "part": f"step, {name}",
            "seconds": time[name],
            "figures": "recalled" if time["recalled"] else "verified",
        }


def timeline_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each segment of each lane; `exposed` are the stretches in which no kernel runs."""
    timed(view)
    timeline = view["timeline"]
    lanes = [(lane["key"] or "kernels", lane["segments"]) for lane in timeline["lanes"]]
    for lane, segments in (*lanes, ("exposed", timeline["exposed"])):
        for each in segments:
            yield {
                "lane": lane,
                "kind": each["kind"],
                "name": each["name"],
                "begin_seconds": each["begin"],
                "end_seconds": each["end"],
                "running_seconds": each["seconds"],
                "times": each["times"],
                "dims": " ".join(each["dims"]),
                "source": each["source"],
            }


def roofline_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields groups of kernels, the longest first."""
    timed(view)
    time = costs_of(explorer).time
    for dot in dots_of(time) if time is not None else ():
        yield {
            "operation": dot["name"],
            "source": dot["source"],
            "dims": " ".join(dot["dims"]),
            "dtype": dot["dtype"],
            "count": dot["count"],
            "seconds": dot["seconds"],
            "flops": dot["flops"],
            "bytes": dot["bytes"],
            "flops_per_byte": dot["intensity"],
            "flops_per_second": dot["rate"],
            "bound_by": dot["bound"],
        }


def comparison_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each layout that was tried, and each that Auto's search met."""
    for card in tried(view):
        totals = card["totals"]
        yield {
            "number": int(card["key"]),
            "name": card["name"],
            "note": card.get("note", ""),
            "layout": card["layout"],
            "mesh": card["mesh"],
            "seconds": totals["seconds"],
            "peak_bytes": totals["peak"],
            "fits": totals["fits"],
            "wire_bytes": totals["bytes"],
            "argument_bytes": totals["arguments"],
            "share_of_work": totals["work"],
            "on_board": card["now"],
            "compared_with": card["baseline"],
        }
    found, limit = met(explorer), view["comparison"]["limit"] or math.inf
    for each in found.layouts if found else ():
        yield {
            "number": None,
            "name": "",
            "note": "",
            "layout": str(each.layout),
            "seconds": each.seconds,
            "peak_bytes": each.peak_bytes,
            "fits": each.peak_bytes <= limit,
        }


def waterfall_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields the way from the layout on the board to Auto's, one change at a time."""
    steps = way(explorer).steps
    for before, step in itertools.pairwise([steps[0], *steps]):
        yield {
            "change": step.change,
            "seconds": step.seconds,
            "changed_seconds": step.seconds - before.seconds,
            "wire_bytes": step.wire_bytes,
            "peak_bytes": step.peak_bytes,
            "layout": str(step.layout),
        }


def regrets_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields what each decision otherwise costs: the seconds of the best layout met that decides so, and a bound."""
    decided: Decided | None = explorer.reasons.of(REGRETS)
    if decided is None:
        raise ExplorerError(NOT_FASTEST)
    search = explorer.regrets.of(explorer.searches.fastest)
    for each in search.regrets if search is not None and search.regrets else decided.regrets:
        found = math.isfinite(each.seconds)
        yield {
            "change": each.change,
            "seconds": each.seconds if found else None,
            "at_least_seconds": each.bound if math.isfinite(each.bound) else None,
            "best_seconds": each.best,
            "is_exact": each.exact,
            "layout": "" if each.layout is None else str(each.layout),
        }
