"""What a step took on its devices, beside what is predicted: by step of the plan, by line, and by collective.

    profile = plan.profile(params, images, labels)
    profile.lines                   of each line its kernels and its collectives, those first that took longest
    profile.collectives             of each collective its transfer, and the waiting for other devices apart
    profile.seconds, profile.busy, profile.waiting, profile.idle

The step runs several times under JAX's profiler; one run, the one of median length, is told, so that its parts add up.
Seconds of a row are those of a device, in the mean over all devices, each counted once where a device does several
things at once.

Times of simulated devices are those of threads that share this machine's cores: they are joined to the plan just as
well, and say nothing about any machine.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax

from ..cost.machines.units import bytes_text, seconds_text, share_text
from ..cost.step_time.spent import WAITING
from ..engine.argument_checks import whole_number
from ..engine.code.source import Source
from ..engine.devices import describe
from ..engine.errors import RunError
from ..engine.processes import is_joined
from ..engine.programs.random_arguments import MOST_DRAWN, drawn_arguments, drawn_bytes
from ..engine.running.run import flat_arguments
from ..engine.specs.spec import Axes
from ..engine.tables import comparison, html_rows, named, note_lines
from ..measuring.joined import COMPUTE, Share, joined, seconds
from ..measuring.numbered import MODULE, Numbered, numbered
from ..measuring.recorded import Event, recorded
from .priced import Plan
from .profile_trace import trace_beside
from .step_slices import described, slices_of
from .step_trace import written

# Runs in front of those that are recorded.
_WARM = 2
# Rows of the table.
_MOST = 16
# A step of the plan, and what it did: "compute", or a kind of collective with its mesh axes.
_Key = tuple[int, str, Axes]


@dataclasses.dataclass(frozen=True)
class Measured:
    """A step of the plan, or all steps of a line: measured beside predicted.

    Attributes:
        name: what the steps make, or what the collective moves.
        kind: "compute", or the kind of a collective.
        axes: the mesh axes of a collective.
        source: the user's line.
        backward: whether it belongs to the backward pass.
        seconds: the mean over the devices, without `waiting`.
        waiting: seconds in which a device waits in a collective for the others.
        predicted: seconds on the machine of the mesh; None without one.
        executions: how often a device ran it in one run of the step, alone or in a fusion with others.
        by_device: `seconds` of each device, in the order of the mesh.
        steps: the numbers of the steps, in the order in which the plan runs them, from 0.
    """

    name: str
    kind: str
    axes: Axes
    source: Source | None
    backward: bool
    seconds: float
    waiting: float
    predicted: float | None
    executions: float
    by_device: tuple[float, ...]
    steps: tuple[int, ...]

    @property
    def line(self) -> str:
        """The line as text, with its pass: `model.py:17, backward`."""
        return f"{self.source or 'no line'}{', backward' * self.backward}"

    @property
    def what(self) -> str:
        """Its kind in words: "kernels", or the collective's kind and axes."""
        return "kernels" if self.kind == COMPUTE else named(self.kind, self.axes)


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """A measured step, beside its prediction; prints as a table.

    Attributes:
        plan: the plan that ran.
        steps: each step of the plan that ran, or is predicted to take time; its kernels and its collectives apart.
        seconds: from the first event of the run to the last one, on all devices.
        busy: seconds in which a device runs kernels, or sends.
        waiting: seconds in which a device waits in a collective for the others, and does nothing else.
        joined: the share of the kernels' and collectives' time that is joined to steps of the plan.
        named: the share whose own instructions name the step; the rest gets the step of the instructions around it.
        predicted: seconds of a step on the machine of the mesh; None without one.
        machine: that machine; "" without one.
        devices: the devices that ran the step, in words.
        simulated: whether these were simulated devices, whose times say nothing about any machine.
        runs: how many runs were recorded.
        shares: each event of the run, with the step that it is joined to.
    """

    plan: Plan = dataclasses.field(repr=False)
    steps: tuple[Measured, ...]
    seconds: float
    busy: float
    waiting: float
    joined: float
    named: float
    predicted: float | None
    machine: str
    devices: str
    simulated: bool
    runs: int
    shares: tuple[Share, ...] = dataclasses.field(repr=False)

    @property
    def idle(self) -> float:
        """Seconds in which a device does nothing: it has ended, has not begun, or is between two kernels."""
        return max(0.0, self.seconds - self.busy - self.waiting)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the run as a Chrome trace for Perfetto, with each device's lanes below those of the predicted step.

        Of simulated devices it shows shares of the step, and no seconds.

        Args:
            path: the file, which is replaced: `"profile.json"`.

        Raises:
            MeshlabError: the file cannot be written.
        """
        said = self.devices if self.simulated else f"{seconds_text(self.seconds)} on {self.devices}"
        written(lambda: trace_beside(self.plan, self.shares, said, self.simulated), path)

    @functools.cached_property
    def collectives(self) -> tuple[Measured, ...]:
        """The collectives of the plan; those of repeated layers, and those of one step, kind and axes, are one row."""
        return _together((row for row in self.steps if row.kind != COMPUTE), lambda row: (row.name, *_place(row)))

    @functools.cached_property
    def lines(self) -> tuple[Measured, ...]:
        """The kernels of each line, and its collectives by kind and axes; the longest first."""
        rows = _together((row for row in self.steps if row.seconds or row.predicted), _place)
        return tuple(sorted(rows, key=lambda row: -(row.seconds + row.waiting)))

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """The heads and the rows of the table."""
        heads = ["", "", "measured", "waiting", *([f"predicted for {self.machine}"] if self.machine else [])]
        rows = [[row.line, row.what, *self._numbers(row.seconds, row.waiting, row.predicted)] for row in self.lines]
        more = [[f"and {len(rows) - _MOST:,} more", "", "", ""]] if len(rows) > _MOST else []
        step = ["the step", "", *self._numbers(self.seconds, 0.0, self.predicted)]
        return heads, [*rows[:_MOST], *more, step]

    def _numbers(self, took: float, waited: float, predicted: float | None) -> list[str]:
        return [
            seconds_text(took),
            seconds_text(waited) if waited else "",
            *([seconds_text(predicted or 0.0)] if self.machine else []),
        ]

    def _notes(self) -> list[str]:
        busy, waiting, idle = map(seconds_text, (self.busy, self.waiting, self.idle))
        notes = [
            f"Means over {self.devices}: busy for {busy}, waiting for {waiting}, idle for {idle}.",
            f"This is the run of median length of {self.runs}; {share_text(self.joined)} of its time is joined to steps"
            f" of the plan, {share_text(self.named)} by name.",
        ]
        if self.simulated:
            notes.append("Simulated devices are threads on this machine's cores: their times say nothing about speed.")
        return notes

    def _repr_html_(self) -> str:
        heads, rows = self._table()
        return f"{html_rows(rows, heads)}<p>{'<br>'.join(self._notes())}</p>"

    def __str__(self) -> str:
        heads, rows = self._table()
        width = max(len(row[0]) for row in rows)
        (_, _, *heads), rows = heads, [[f"{line:<{width}}  {what}", *rest] for line, what, *rest in rows]
        return "\n".join([*comparison(["", *heads], rows), *note_lines(self._notes())])

    __repr__ = __str__


def profile(plan: Plan, args: Sequence[Any], runs: int) -> Profile:
    """Measures a plan's step; see `Plan.profile`."""
    times = whole_number("profile()", "number of runs", runs, 1, RunError)
    if is_joined():
        raise RunError(
            "profile() measures one process: it does not compare the clocks of several, so it cannot tell waiting from"
            " sending there. Run it without ml.distributed(), on the devices of one process."
        )
    _refuse_drawing(plan, args)
    time = plan.time if plan.mesh.on is not None else None
    made, events = _record(plan, args, times)
    shares = tuple(joined(plan, made, events))
    if not shares:
        raise RunError(
            f"JAX's profiler names no instruction of the compiled program on {describe(made.devices)}: its"
            f" events have other names, such as {events[0].op!r}. So the step cannot be measured there."
        )
    devices = range(len(made.devices))
    begin, end = min(share.begin for share in shares), max(share.end for share in shares)
    each = [[share for share in shares if share.device == device] for device in devices]
    busy = [seconds(share._replace(part=1.0) for share in own) for own in each]
    active = [seconds(share._replace(part=1.0, waiting=0.0) for share in own) for own in each]
    return Profile(
        plan=plan,
        steps=_steps(plan, made, shares),
        seconds=end - begin,
        busy=_mean(busy),
        waiting=_mean(active) - _mean(busy),
        joined=_took(share for share in shares if share.step is not None) / _took(shares),
        named=_took(share for share in shares if share.named) / _took(shares),
        predicted=None if time is None else float(time.estimate),
        machine="" if time is None else str(plan.mesh.on),
        devices=describe(made.devices),
        simulated=made.devices[0].platform == "cpu",
        runs=times,
        shares=shares,
    )


def _refuse_drawing(plan: Plan, args: Sequence[Any]):
    size = drawn_bytes(plan.program)
    if not args and size > MOST_DRAWN:
        raise RunError(
            f"profile() was given no arguments, and draws at most {bytes_text(MOST_DRAWN)} of random ones; this"
            f" program's take {bytes_text(size)}. Pass arguments, or make the dims smaller by `program.resize`."
        )


def _record(plan: Plan, args: Sequence[Any], times: int) -> tuple[Numbered, list[Event]]:
    """Runs a plan, and returns the events of the run of median length."""
    arrays = flat_arguments(plan, tuple(args) or drawn_arguments(plan.program), "profile()")
    made = numbered(plan)
    placed = made.executable.placed(arrays, range(len(arrays)))
    for _ in range(_WARM):
        jax.block_until_ready(made.executable.compiled(*placed))
    runs = recorded(lambda: made.executable.compiled(*placed), MODULE, times)
    lengths = [max(event.end for event in run) - run[0].begin for run in runs]
    return made, runs[sorted(range(times), key=lengths.__getitem__)[times // 2]]


def _steps(plan: Plan, made: Numbered, shares: Iterable[Share]) -> tuple[Measured, ...]:
    """Returns what was measured, or is predicted, of each step."""
    by_step: dict[_Key, list[Share]] = defaultdict(list)
    for share in shares:
        if share.step is not None:
            by_step[share.step, share.kind, share.axes].append(share)
    predicted = _predicted(plan, made) if plan.mesh.on is not None else None
    planned = {
        (number, c.kind, c.axes): c
        for number, each in enumerate(made.steps)
        if made.number_of[id(each.step)] == number
        for c in plan.collectives_by_step[each.position]
    }
    rows = []
    keys: set[_Key] = {*by_step, *(predicted or {}), *planned}
    for key in sorted(keys):
        number, kind, axes = key
        step, own = made.steps[number].step, by_step[key]
        name, _, source = described(plan, step, kind)
        if key in planned:
            name, source = planned[key].value, planned[key].source
        devices = [[s for s in own if s.device == place] for place in range(len(made.devices))]
        took = tuple(map(seconds, devices))
        waited = _mean([sum(s.waiting * s.part for s in each) for each in devices])
        count = len(own) / len(devices)
        guess = None if predicted is None else predicted.get(key, 0.0)
        name = name or f"accumulate over {step.in_time}"
        rows.append(
            Measured(name, kind, axes, source, step.backward, _mean(took), waited, guess, count, took, (number,))
        )
    return tuple(rows)


def _predicted(plan: Plan, made: Numbered) -> Mapping[_Key, float]:
    """Returns the predicted seconds of each step: of its kernels, and of its collectives by kind and axes."""
    sums: dict[_Key, float] = defaultdict(float)
    for each in slices_of(plan.time.spent.spans, 0):
        span = each.span
        if span.kind != WAITING and id(span.step) in made.number_of and not span.inside:
            sums[made.number_of[id(span.step)], span.kind, span.axes] += each.seconds
    return sums


def _place(row: Measured) -> tuple[Hashable, ...]:
    return str(row.source), row.backward, row.kind, row.axes


def _together(rows: Iterable[Measured], key: Callable[[Measured], Hashable]) -> tuple[Measured, ...]:
    """Returns rows that have a key in common as one."""
    groups: dict[Hashable, list[Measured]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return tuple(functools.reduce(_added, group) for group in groups.values())


def _added(one: Measured, other: Measured) -> Measured:
    predicted = None if one.predicted is None or other.predicted is None else one.predicted + other.predicted
    return dataclasses.replace(
        one,
        seconds=one.seconds + other.seconds,
        waiting=one.waiting + other.waiting,
        predicted=predicted,
        executions=one.executions + other.executions,
        by_device=tuple(map(operator.add, one.by_device, other.by_device)),
        steps=(*one.steps, *other.steps),
    )


def _took(shares: Iterable[Share]) -> float:
    """Returns the seconds of events, waiting included, whether or not they run at once."""
    return sum((share.end - share.begin) * share.part for share in shares)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
