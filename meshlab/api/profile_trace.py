"""A measured step as a Chrome trace: what each device ran, below the predicted step where the mesh is on a machine.

    plan.profile(params, images, labels).write_trace("profile.json")

The predicted step is the first process, as `plan.write_trace` writes it. Each device is a process below it, with the
same lanes in the same order: kernels, and one for each set of mesh axes over which something is sent; what it does at
once is in further lanes. Steps have the names that they have in the predicted lanes. The time in which a device waits
for others in a collective is a slice of its own.

Times of simulated devices are no speed, and a trace has no other scale than seconds: their step is drawn as long as the
predicted one, so that what can be compared are shares of the step. Without a prediction 1 ms is 1% of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..cost.machines.units import share_text
from ..engine.planning.shared_steps import WrittenOut, written_out
from ..engine.planning.step import Step
from ..measuring.joined import COMPUTE, Share
from .priced import Plan
from .step_slices import KERNELS, described, in_order
from .step_trace import trace_of

# The process of the predicted step, and that of the first device.
_PREDICTED, _FIRST = 1, 2


# Of simulated devices without a prediction the step takes so many seconds: a millisecond is a hundredth of it.
_WHOLE = 0.1
SIMULATED = "simulated devices: shares, not speeds"


class _Scale(NamedTuple):
    """How measured times are drawn.

    Attributes:
        zero: when the run begins.
        whole: how long it takes, on all devices.
        drawn: the seconds in which a second is drawn.
        said: what that is, in words; "" where it is a second.
    """

    zero: float
    whole: float
    drawn: float = 1.0
    said: str = ""


def trace_beside(plan: Plan, shares: Sequence[Share], said: str, simulated: bool) -> dict[str, Any]:
    """Returns the trace of a run as plain data.

    Args:
        plan: the plan that ran.
        shares: what each step has of the run's events, in the order in which they begin.
        said: what ran it, and how long it took, in words.
        simulated: whether the devices were simulated ones.
    """
    steps = written_out(plan.planned.steps, plan.steps)
    predicted = trace_of(plan) if plan.mesh.on is not None else {"traceEvents": [], "otherData": {}}
    events = [event for event in predicted["traceEvents"] if event["name"] != "process_name"]
    if events:
        events += _named(_PREDICTED, f"predicted for {plan.mesh.on}, each device")
    scale = _scale(plan, shares, simulated)
    for device in sorted({share.device for share in shares}):
        events += _device(plan, steps, device, [share for share in shares if share.device == device], scale)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {**predicted["otherData"], "measured": said},
    }


def _scale(plan: Plan, shares: Sequence[Share], simulated: bool) -> _Scale:
    zero = shares[0].begin
    whole = max(share.end for share in shares) - zero
    if not simulated:
        return _Scale(zero, whole)
    if plan.mesh.on is None:
        return _Scale(zero, whole, _WHOLE / whole, f"; {SIMULATED}; 1 ms is 1% of the step")
    said = f"; {SIMULATED}; the step is drawn as long as the predicted one"
    return _Scale(zero, whole, float(plan.time.estimate) / whole, said)


def _named(process: int, name: str) -> Iterator[dict[str, Any]]:
    """Yields the name of a process, and its place: by its number."""
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}


def _device(
    plan: Plan, steps: Sequence[WrittenOut], device: int, shares: Iterable[Share], scale: _Scale
) -> Iterator[dict[str, Any]]:
    """Yields the events of one device."""
    process = _FIRST + device
    yield from _named(process, f"measured on device {device}{scale.said}")
    key = in_order(plan.mesh.axes)
    groups = [list(group) for _, group in itertools.groupby(sorted(shares, key=_event), key=_event)]
    # As in the predicted step: kernels, mesh axes in their order, and what is over several of them.
    order = sorted({group[0].axes for group in groups}, key=key)
    ends: dict[str, list[float]] = {}
    threads: dict[str, int] = {}
    for together in groups:
        first = together[0]
        lane = KERNELS if first.kind == COMPUTE else f"over {'+'.join(first.axes)}"
        free = ends.setdefault(lane, [])
        number = next((i for i, end in enumerate(free) if end <= first.begin), len(free))
        free[number : number + 1] = [first.end]
        name = lane if not number else f"{lane}, {number + 1}"
        if name not in threads:
            threads[name] = len(threads)
            place = {"ph": "M", "pid": process, "tid": threads[name]}
            yield place | {"name": "thread_name", "args": {"name": name}}
            yield place | {"name": "thread_sort_index", "args": {"sort_index": order.index(first.axes)}}
        for begin, end, what in _slices(plan, steps, together):
            share = {"share of the step": share_text((end - begin) / scale.whole)}
            yield {
                "ph": "X",
                "pid": process,
                "tid": threads[name],
                "ts": (begin - scale.zero) * scale.drawn * 1e6,
                "dur": (end - begin) * scale.drawn * 1e6,
                "name": what,
                "cat": first.kind,
                "args": _arguments(plan, steps, together) | share,
            }


def _event(share: Share) -> tuple[float, float, str]:
    return share.begin, share.end, share.op


def _slices(plan: Plan, steps: Sequence[WrittenOut], shares: Sequence[Share]) -> Iterator[tuple[float, float, str]]:
    """Yields the waiting of an event, and the rest of it."""
    first = shares[0]
    names = dict.fromkeys(_name(plan, steps[s.step].step, s.kind) for s in shares if s.step is not None)
    what = ", ".join(names) or first.op
    what = what if first.kind == COMPUTE else f"{first.kind}: {what}"
    if first.waiting:
        yield first.begin, first.begin + first.waiting, f"waiting, {what}"
    yield first.begin + first.waiting, first.end, what


def _name(plan: Plan, step: Step, kind: str) -> str:
    """Returns what a step is called, as in the predicted lanes."""
    return described(plan, step, kind)[0] or f"accumulate over {step.in_time}"


def _arguments(plan: Plan, steps: Sequence[WrittenOut], shares: Sequence[Share]) -> dict[str, str]:
    known = [described(plan, steps[s.step].step, s.kind)[2] for s in shares if s.step is not None]
    sources = dict.fromkeys(str(source) for source in known if source)
    return {"source": ", ".join(sources), "instruction": shares[0].op}
