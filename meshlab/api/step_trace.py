"""The predicted step as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

    plan.write_trace("step.json")

    {"ph": "X", "pid": 1, "tid": 0, "name": "dot_general", "ts": 0.0, "dur": 41.2, "args": {"dims": "[batch, ffn]", …}}

One process stands for a device, as all do the same; a thread for its kernels, one for each set of mesh axes over which
something is sent, and one for what kernels are in: loops and their iterations, scopes, lines (`step_slices.py`). Times
are microseconds. Iterations are written one by one up to `MOST` slices in all; of more one is written for all, with how
many they are.

The format is the JSON of "Trace Event Format" (Google, 2016).
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..cost.machines.units import bytes_text, seconds_text
from ..engine.errors import MeshlabError, shown
from ..engine.plans.collective import Collective
from ..engine.whole_files import write_whole
from .priced import Plan
from .step_slices import (
    KERNELS,
    LOOP,
    LOOPS,
    REPETITION,
    Frame,
    Slice,
    described,
    frames_of,
    in_order,
    paths_of,
    slices_of,
)

# Slices of one trace: Perfetto opens a million in a few seconds.
MOST = 200_000
_THREADS = {KERNELS: KERNELS, LOOPS: "loops, scopes, lines"}


def write_trace(plan: Plan, path: Any) -> None:
    """Writes the trace of a plan; see `Plan.write_trace`."""
    written(lambda: trace_of(plan), path)


def written(trace: Callable[[], dict[str, Any]], path: Any) -> None:
    """Writes a trace as a file, which is replaced; makes it when the path is known to be one."""
    if not isinstance(path, str | os.PathLike):
        raise MeshlabError(f'write_trace() was given {shown(path)} for its file; write a path: "step.json".')
    text = json.dumps(trace(), ensure_ascii=False, allow_nan=False)
    try:
        write_whole(pathlib.Path(path), text)
    except OSError as error:
        raise MeshlabError(f"write_trace() cannot write {shown(str(path))}: {error.strerror}.") from None


def trace_of(plan: Plan) -> dict[str, Any]:
    """Returns the trace as plain data."""
    time, sent = plan.time, plan.sent
    slices = list(slices_of(time.spent.spans, MOST))
    sent_over = sorted({s.span.axes for s in slices if s.span.axes}, key=in_order(plan.mesh.axes))
    threads = {name: tid for tid, name in enumerate((KERNELS, LOOPS, *map("+".join, sent_over)))}
    events = [*_names(plan, threads), *(_event(plan, s, threads, sent) for s in slices if s.thread != LOOPS)]
    events += [_frame(each, threads[LOOPS]) for each in frames_of(slices, paths_of(plan))]
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


def _names(plan: Plan, threads: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"one device of {plan.mesh}"}}
    for name, tid in threads.items():
        said = _THREADS.get(name, f"over {name}")
        yield {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": said}}
        order = -1 if name == LOOPS else tid
        yield {"ph": "M", "pid": 1, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": order}}


def _event(
    plan: Plan, each: Slice, threads: Mapping[str, int], sent: Mapping[int, Sequence[Collective]]
) -> dict[str, Any]:
    span, step = each.span, each.span.step
    place = {"ph": "X", "pid": 1, "tid": threads[each.thread], "ts": each.begin * 1e6, "dur": each.seconds * 1e6}
    name, dims, source = described(plan, step, span.kind)
    name = name or f"accumulate over {step.in_time}"
    arguments: dict[str, Any] = {
        "dims": _dims(dims),
        "source": str(source or ""),
        "code": source.code if source else "",
    }
    if span.axes:
        name = f"{span.kind}: {name}"
        known = [c for c in sent.get(id(step), ()) if (c.kind, c.axes) == (span.kind, span.axes)]
        arguments |= _collective(known[0]) if known else {}
    if each.times > 1:
        arguments["times"] = each.times
    return place | {"name": name, "cat": span.kind, "args": arguments}


def _frame(frame: Frame, thread: int) -> dict[str, Any]:
    kind, name, source = frame.part
    said = {LOOP: f"{name} × {frame.times:,}", REPETITION: f"repetition {name}"}.get(kind, name)
    place = {"ph": "X", "pid": 1, "tid": thread, "ts": frame.begin * 1e6, "dur": frame.seconds * 1e6}
    arguments = {"source": str(source)} if source else {}
    return place | {"name": said, "cat": kind, "args": arguments}


def _dims(names: Sequence[str | None]) -> str:
    return f"[{', '.join(name or '1' for name in names)}]"


def _collective(c: Collective) -> dict[str, Any]:
    return {"payload": bytes_text(c.payload_bytes), "sent": bytes_text(c.wire_bytes), "because": c.because}
