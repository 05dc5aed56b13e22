"""The predicted step as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

    plan.write_trace("step.json")

    {"ph": "X", "pid": 1, "tid": 0, "name": "dot_general", "ts": 0.0, "dur": 41.2, "args": {"dims": "[batch, ffn]", …}}

One process stands for a device, as all do the same; a thread for its kernels, one for each set of mesh axes over which
something is sent, and one for loops and their iterations. Times are microseconds. The slices of a thread add up to the
seconds of `plan.time`: `compute`, and `communication` by axes. Iterations are written one by one up to `MOST` slices
in all; a loop of more is written as one iteration, stretched over the time of all, with their number in its arguments.

The format is the JSON of "Trace Event Format" (Google, 2016).
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..cost.machines.units import bytes_text, seconds_text
from ..cost.step_time.spent import Span
from ..engine.errors import MeshlabError, shown
from ..engine.planning.shared_steps import counted
from ..engine.planning.step import Step
from ..engine.plans.collectives import Collective
from .priced import Plan

# Slices of one trace: Perfetto opens a million in a few seconds.
MOST = 200_000
KERNELS, LOOPS = "kernels", "loops"


@dataclasses.dataclass(frozen=True)
class Slice:
    """A stretch of one thread, in seconds from the beginning of the step.

    Attributes:
        thread: `KERNELS`, `LOOPS`, or the mesh axes of a collective.
        name: what is written on it.
        begin: when it begins.
        seconds: how long it takes.
        span: what it is of; None of one iteration.
        times: how many executions it stands for.
    """

    thread: str
    name: str
    begin: float
    seconds: float
    span: Span | None = None
    times: int = 1


def write_trace(plan: Plan, path: Any) -> None:
    """Writes the trace of a plan; see `Plan.write_trace`."""
    if not isinstance(path, str | os.PathLike):
        raise MeshlabError(f'write_trace() was given {shown(path)} for its file; write a path: "step.json".')
    text = json.dumps(trace_of(plan), ensure_ascii=False, allow_nan=False)
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise MeshlabError(f"write_trace() cannot write {shown(str(path))}: {error.strerror}.") from None


def trace_of(plan: Plan) -> dict[str, Any]:
    """Returns the trace as plain data."""
    time, sent = plan.time, _sent(plan)
    slices = list(slices_of(time.spent.spans))
    threads = {name: tid for tid, name in enumerate(dict.fromkeys((KERNELS, *(s.thread for s in slices))))}
    events = [*_names(plan, threads), *(_event(plan, each, threads, sent) for each in slices)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "program": getattr(plan.program.fn, "__name__", "fn"),
            "mesh": str(plan.mesh),
            "layout": str(plan.layout),
            "step": f"{seconds_text(float(time.estimate))}, predicted by meshlab",
        },
    }


def slices_of(spans: Sequence[Span], most: int = MOST) -> Iterator[Slice]:
    """Yields what runs on a device, loops around what is inside them.

    Args:
        spans: of a step's outermost block.
        most: slices, above which iterations are not written one by one.
    """
    each = _count(spans, expanded=True) <= most
    yield from _slices(spans, 0.0, 1.0, each, 1)


def _slices(spans: Sequence[Span], start: float, scale: float, each: bool, times: int) -> Iterator[Slice]:
    for span in spans:
        begin, seconds = start + span.begin * scale, (span.end - span.begin) * scale
        if not span.inside:
            if not span.step.parts or span.step.in_time:  # what a loop in time accumulates is a kernel
                yield Slice("+".join(span.axes) or KERNELS, "", begin, seconds, span, times)
            continue
        count = int(span.times) if each else 1
        if span.step.loops:
            yield Slice(LOOPS, f"{span.step.title or 'loop'} × {int(span.times):,}", begin, seconds, span)
        one = seconds / count
        inner = one / span.iteration if span.iteration else 0.0
        if not each and span.iteration:
            inner = seconds / span.iteration
        for number in range(count):
            if count > 1:
                yield Slice(LOOPS, f"iteration {number}", begin + number * one, one)
            stands_for = times * (1 if each else int(span.times))
            yield from _slices(span.inside, begin + number * one, inner, each, stands_for)


def _count(spans: Sequence[Span], expanded: bool) -> int:
    return sum(
        1 + (int(span.times) if expanded else 1) * (1 + _count(span.inside, expanded)) if span.inside else 1
        for span in spans
    )


def _sent(plan: Plan) -> Mapping[int, Sequence[Collective]]:
    """Returns the collectives of each step, by its identity."""
    pairs = zip(counted(plan.planned.steps), plan.collectives_by_step, strict=True)
    return {id(step): sent for (step, _), sent in pairs if sent}


def _names(plan: Plan, threads: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"one device of {plan.mesh}"}}
    for name, tid in threads.items():
        said = name if name in (KERNELS, LOOPS) else f"over {name}"
        yield {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": said}}
        order = -1 if name == LOOPS else tid
        yield {"ph": "M", "pid": 1, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": order}}


def _event(
    plan: Plan, each: Slice, threads: Mapping[str, int], sent: Mapping[int, Sequence[Collective]]
) -> dict[str, Any]:
    place = {"ph": "X", "pid": 1, "tid": threads[each.thread], "ts": each.begin * 1e6, "dur": each.seconds * 1e6}
    if each.span is None or each.thread == LOOPS:
        return place | {"name": each.name, "cat": LOOPS}
    span = each.span
    name, arguments = _said(plan, span.step)
    if span.axes:
        name = f"{span.kind}: {name}"
        known = [c for c in sent.get(id(span.step), ()) if (c.kind, c.axes) == (span.kind, span.axes)]
        arguments |= _collective(known[0]) if known else {}
    if each.times > 1:
        arguments["times"] = each.times
    return place | {"name": name, "cat": span.kind, "args": arguments}


def _said(plan: Plan, step: Step) -> tuple[str, dict[str, Any]]:
    """Returns the name of what a step moves or computes, with its dims and line."""
    program, operation = plan.program, step.runs
    if step.named is not None:
        value = program.value(step.named)
        return value.label, {"dims": _dims(value.dims), "source": str(value.source or "")}
    if operation is None:
        return step.title or f"accumulate over {step.in_time}", {}
    names = program.names[operation.outputs[0]] if operation.outputs else ()
    return operation.name, {
        "dims": _dims(names),
        "source": str(operation.source or ""),
        "code": getattr(operation.source, "code", "") or "",
        "pass": "backward" if operation.backward else "forward",
    }


def _dims(names: Sequence[str | None]) -> str:
    return f"[{', '.join(name or '1' for name in names)}]"


def _collective(c: Collective) -> dict[str, Any]:
    return {"payload": bytes_text(c.payload_bytes), "sent": bytes_text(c.wire_bytes), "because": c.because}
