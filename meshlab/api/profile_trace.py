"""A measured step as a Chrome trace: what each device ran, beside the predicted step where the mesh is on a machine.

    plan.profile(params, images, labels).write_trace("profile.json")

Each device is a process, with a lane of kernels and one for each set of mesh axes over which something is sent; what a
device does at once is in further lanes. The time in which it waits for others in a collective is a slice of its own.
The predicted step is the first process, as `plan.write_trace` writes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..engine.planning.shared_steps import WrittenOut, written_out
from ..measuring.joined import COMPUTE, Share
from .priced import Plan
from .step_slices import KERNELS, described
from .step_trace import trace_of

# The process of the first device; that of the predicted step is before it.
_FIRST = 2


def trace_beside(plan: Plan, shares: Sequence[Share], said: str) -> dict[str, Any]:
    """Returns the trace of a run as plain data.

    Args:
        plan: the plan that ran.
        shares: what each step has of the run's events, in the order in which they begin.
        said: what the times are, in words.
    """
    steps = written_out(plan.planned.steps, plan.steps)
    predicted = trace_of(plan) if plan.mesh.on is not None else {"traceEvents": [], "otherData": {}}
    events = list(predicted["traceEvents"])
    for device in sorted({share.device for share in shares}):
        events += _device(plan, steps, device, [share for share in shares if share.device == device], shares[0].begin)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {**predicted["otherData"], "measured": said},
    }


def _device(
    plan: Plan, steps: Sequence[WrittenOut], device: int, shares: Iterable[Share], zero: float
) -> Iterator[dict[str, Any]]:
    """Yields the events of one device, from `zero` on."""
    process = _FIRST + device
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": f"measured on device {device}"}}
    ends: dict[str, list[float]] = {}
    threads: dict[str, int] = {}
    for _, group in itertools.groupby(sorted(shares, key=_event), key=_event):
        together = list(group)
        first = together[0]
        lane = KERNELS if first.kind == COMPUTE else f"over {'+'.join(first.axes)}"
        free = ends.setdefault(lane, [])
        number = next((i for i, end in enumerate(free) if end <= first.begin), len(free))
        free[number : number + 1] = [first.end]
        name = lane if not number else f"{lane}, {number + 1}"
        if name not in threads:
            threads[name] = len(threads)
            yield {"ph": "M", "pid": process, "tid": threads[name], "name": "thread_name", "args": {"name": name}}
        for begin, end, what in _slices(plan, steps, together):
            yield {
                "ph": "X",
                "pid": process,
                "tid": threads[name],
                "ts": (begin - zero) * 1e6,
                "dur": (end - begin) * 1e6,
                "name": what,
                "cat": first.kind,
                "args": _arguments(plan, steps, together),
            }


def _event(share: Share) -> tuple[float, float, str]:
    return share.begin, share.end, share.op


def _slices(plan: Plan, steps: Sequence[WrittenOut], shares: Sequence[Share]) -> Iterator[tuple[float, float, str]]:
    """Yields the waiting of an event, and the rest of it."""
    first = shares[0]
    names = dict.fromkeys(described(plan, steps[s.step].step, s.kind)[0] for s in shares if s.step is not None)
    what = ", ".join(filter(None, names)) or first.op
    what = what if first.kind == COMPUTE else f"{first.kind}: {what}"
    if first.waiting:
        yield first.begin, first.begin + first.waiting, f"waiting, {what}"
    yield first.begin + first.waiting, first.end, what


def _arguments(plan: Plan, steps: Sequence[WrittenOut], shares: Sequence[Share]) -> dict[str, str]:
    known = [described(plan, steps[s.step].step, s.kind)[2] for s in shares if s.step is not None]
    sources = dict.fromkeys(str(source) for source in known if source)
    return {"source": ", ".join(sources), "instruction": shares[0].op}
