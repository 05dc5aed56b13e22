"""Predicted time as JSON-like data, which the board, its figure and its snapshot draw.

    view = costs_view(explorer)["time"]
    view["estimate"], view["limit"]["text"]     0.00342, "Memory-bound: kernels that wait for memory take 2.1 ms."

Each part has its seconds and the figures of the machine behind them, with those that were recalled marked.
"""

from __future__ import annotations

import math
from typing import Any, TypedDict

from ...cost.machines.accuracy import TIME
from ...cost.machines.units import seconds_text, share_text
from ...cost.step_time.time import Time
from ...cost.step_time.utilisation import TOKENS, expected_between, expected_text
from ...cost.workload.attention import ATTENTION
from ..documents.costing import Costs, CostsFailed
from ..documents.document import Document
from ..state.explorer_state import ExplorerState
from .machine_figures import AccuracyView, FigureView, accuracy_view, figures_behind
from .peak_memory import PeakMemoryView, peak_memory_view
from .timeline import TimelineView, timeline_view

COMPUTE, MEMORY, WAITING = "compute", "memory", "waiting"
# By the dims whose product they are, what a step goes through; the first that a program has counts.
RATES = {TOKENS: "tokens", TOKENS[:1]: "examples"}


class TimePartView(TypedDict):
    """A part of a predicted time; `sends` where it is communication, whose key is its mesh axes."""

    key: str
    label: str
    sends: bool
    seconds: float
    text: str
    figures: list[FigureView]
    recalled: bool


class TimeTextsView(TypedDict):
    lower: str
    estimate: str
    upper: str
    exposed: str


class TimeLimitView(TypedDict):
    by: str
    text: str


class ExpectedView(TypedDict):
    """The step as published steps took: its time, between which times where several are published, and their factor."""

    text: str
    between: str
    said: str


class TimeOptionsView(TypedDict):
    """What is assumed of the run; `run` is the attention that it comes to."""

    attention: str
    prefetch: bool
    attentions: list[str]
    run: str


class RateView(TypedDict):
    """How many tokens, or else examples, a device gets through in a second, and how many a step has."""

    text: str
    unit: str
    step: str


class TimeView(TypedDict):
    """The predicted time of a step, in seconds; `schedule` is a pipeline's, empty without one."""

    lower: float
    estimate: float
    upper: float
    compute: float
    exposed: float
    texts: TimeTextsView
    parts: list[TimePartView]
    limit: TimeLimitView
    use: str
    rate: RateView | None
    expected: ExpectedView | None
    substituted: str
    options: TimeOptionsView
    recalled: list[str]
    accuracy: AccuracyView
    schedule: str


class NoTimeView(TypedDict):
    """No time is predicted: a figure of the machine is missing, or predicting it failed."""

    missing: str
    options: TimeOptionsView


class PredictionView(TypedDict):
    """The costs of a plan on its machine; there are none without one, and while they are worked out."""

    time: TimeView | NoTimeView | None
    peak_memory: PeakMemoryView | None
    pending: bool


class CostsView(PredictionView):
    timeline: TimelineView | None


def costs_view(explorer: ExplorerState) -> CostsView:
    """Describes the predicted time and peak memory of an Explorer's step.

    Returns:
        JSON-like data: `time` and `peak_memory`, both None where no machine is chosen, and whether they are `pending`.
    """
    document = explorer.document
    costs = shown_soon(explorer, document)
    timeline = None
    if isinstance(costs, Costs) and costs.time is not None:
        timeline = timeline_view(costs.time, costs.memory)
    return {"timeline": timeline, **prediction_view(explorer.plan, document, costs)}


def shown_soon(explorer: ExplorerState, document: Document, aside: bool = False) -> Costs | CostsFailed | None:
    """Returns the costs of a document, or how they failed; None without a machine, and while they are worked out."""
    try:
        return explorer.costs.soon(document, aside) if document.machine else None
    except CostsFailed as error:
        return error


def prediction_view(plan: Any, document: Document, costs: Costs | CostsFailed | None) -> PredictionView:
    """Describes the costs of a plan on the machine of its document; while they are None they are pending."""
    if isinstance(costs, CostsFailed):
        failed: NoTimeView = {"missing": str(costs), "options": _switches(document, None)}
        return {"time": failed, "peak_memory": None, "pending": False}
    if costs is None:
        return {"time": None, "peak_memory": None, "pending": document.machine is not None}
    peak = peak_memory_view(plan, costs.memory, costs.undonated_bytes)
    return {"time": time_view(costs, document), "peak_memory": peak, "pending": False}


def time_view(costs: Costs, document: Document) -> TimeView | NoTimeView:
    """Describes predicted time, or names the figure of the machine that is missing."""
    time, switches = costs.time, _switches(document, costs.time)
    if time is None:
        return {"missing": costs.missing, "options": switches}
    parts = [_part(key, seconds, time) for key, seconds in _seconds(time)]
    return {
        "lower": float(time.lower),
        "estimate": float(time.estimate),
        "upper": float(time.upper),
        "compute": float(time.compute),
        "exposed": float(time.exposed),
        "texts": {
            "lower": seconds_text(float(time.lower)),
            "estimate": seconds_text(float(time.estimate)),
            "upper": seconds_text(float(time.upper)),
            "exposed": seconds_text(float(time.exposed)),
        },
        "parts": parts,
        "limit": {"by": time.limited_by, "text": limit_text(time)},
        "use": use_text(time),
        "rate": rate_view(time),
        "expected": expected_view(time),
        "substituted": substituted_text(time),
        "options": switches,
        "recalled": _recalled(parts),
        "accuracy": accuracy_view(TIME, time.hardware),
        "schedule": "" if time.spent.cells is None else str(time.spent.cells.schedule),
    }


def _switches(document: Document, time: Time | None) -> TimeOptionsView:
    options = document.options
    return {
        "attention": options.attention,
        "prefetch": options.prefetch,
        "attentions": list(ATTENTION),
        "run": options.attention if time is None else time.scenario.attention,
    }


def _seconds(time: Time) -> list[tuple[str, float]]:
    """Returns the parts of a time that take any; all of them where none does."""
    order = list(time.scenario.plan.mesh.axes)
    sent = sorted(time.communication, key=lambda axes: [order.index(axis) for axis in axes.split("+")])
    sent = [(axes, float(time.communication[axes])) for axes in sent]
    parts = [(COMPUTE, float(time.compute_bound)), (MEMORY, float(time.memory_bound)), *sent]
    parts += [(WAITING, float(time.idle))] if time.idle else []
    return [part for part in parts if part[1]] or parts


def _label(key: str, time: Time) -> str:
    """Names a part of a time; kernels of `Time.memory_bound` also wait for their launch where a launch takes time."""
    if key == MEMORY:
        return "memory- or launch-bound" if time.hardware.efficiency.launch.value else "memory-bound"
    if key == WAITING:
        return "waiting for other stages"
    return "compute-bound" if key == COMPUTE else f"communication over {key.replace('+', ' + ')}"


def _part(key: str, seconds: float, time: Time) -> TimePartView:
    placement, code = time.scenario.placements[0], time.scenario.plan.program.code
    figures = [] if key == WAITING else figures_behind(key, placement, code)
    return {
        "key": key,
        "label": _label(key, time),
        "sends": key not in (COMPUTE, MEMORY, WAITING),
        "seconds": seconds,
        "text": seconds_text(seconds),
        "figures": figures,
        "recalled": any(figure["recalled"] for figure in figures),
    }


def _recalled(parts: list[TimePartView]) -> list[str]:
    """Returns the figures behind a time that were recalled, as text."""
    texts = [figure["text"] for part in parts if part["seconds"] for figure in part["figures"] if figure["recalled"]]
    return list(dict.fromkeys(texts))


def limit_text(time: Time) -> str:
    """Says what bounds the step, and how long that takes."""
    by = time.limited_by
    if by == COMPUTE:
        return f"Compute-bound: kernels limited by the matrix units take {seconds_text(float(time.compute_bound))}."
    if by == MEMORY:
        limits = "memory bandwidth" + " or launch latency" * bool(time.hardware.efficiency.launch.value)
        seconds = seconds_text(float(time.memory_bound))
        return f"{_label(by, time).capitalize()}: kernels limited by {limits} take {seconds}."
    axes = by.removeprefix("communication over ")
    seconds = seconds_text(float(time.communication[axes]))
    return f"Communication-bound over {axes.replace('+', ' + ')}: its collectives take {seconds}."


def use_text(time: Time) -> str:
    """Says how well the estimated step uses its devices, and what published steps make of it; empty where neither."""
    use = [f"{share_text(float(time.mfu))} MFU"] if time.mfu else []
    use += [f"{share_text(float(time.hfu))} HFU"] if time.mfu and time.executes_more else []
    if rate := rate_view(time):
        use.append(f"{rate['text']} {rate['unit']}")
    texts = [f"Estimated: {', '.join(use)}."] if use else []
    if time.expected is not None:
        texts.append(f"Expected: {expected_text(time.expected, time.factor, str(time.hardware))}.")
    return " ".join(texts)


def rate_view(time: Time) -> RateView | None:
    """Describes how much a device gets through: by it steps of other batches compare, which their times do not."""
    dims = time.scenario.plan.program.dims
    names = next((names for names in RATES if dims.keys() >= {*names}), None)
    if names is None or not time.estimate:
        return None
    items, rate = RATES[names], float(time.per_second(*names))
    return {
        "text": f"{rate:,.0f}" if rate >= 10 else f"{rate:.3g}",
        "unit": f"{items}/s per device",
        "step": f"{math.prod(dims[name] for name in names):,} a step",
    }


def expected_view(time: Time) -> ExpectedView | None:
    """Describes what published steps make of the estimate; None where none are published of its machine."""
    expected, factor = time.expected, time.factor
    if expected is None or factor is None:
        return None
    between = () if factor.spread is None else expected_between(expected, factor.spread)
    said = expected_text(expected, factor, str(time.hardware))
    return {"text": seconds_text(float(expected)), "between": " to ".join(map(seconds_text, between)), "said": said}


def substituted_text(time: Time) -> str:
    """Names the collectives that the machine's compiler replaces by all-reduces; empty where none."""
    replaced = [f"{times:,} × {what.replace('+', ' + ')}" for what, times in time.substituted.items()]
    if not replaced:
        return ""
    return f"The compiler sends all-reduces, twice the bytes, instead of {', '.join(replaced)}."
