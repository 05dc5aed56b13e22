"""Compares two saved plans: their figures, and the collectives that are new, gone or changed.

    compared = compare(before, after, tolerance=0.01)
    compared.regressions          what is worse by more than the tolerance, in words; nothing where the plan is as good
    compared.changes              each collective that differs

A collective is known again by its kind, mesh axes, and what it moves. What is then in one plan alone is paired where
only the axes differ, or the kind, or the name of what is moved on the same line: that is a change, all else is new or
gone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence

from ..cost.machines.units import bytes_text, seconds_text, share_text
from .exits import UsageError
from .saved import Saved, Sent

NEW, GONE, CHANGED = "new", "gone", "changed"
# By which differing collectives are paired, in this order: only the axes differ, only the kind, only the name.
_PAIRED: tuple[Callable[[Traffic], Hashable], ...] = (
    lambda t: (t.kind, t.value),
    lambda t: (t.axes, t.value),
    lambda t: (t.kind, t.axes, t.source, t.payload_bytes, t.times),
)


@dataclasses.dataclass(frozen=True)
class Traffic:
    """All collectives of one kind, over the same axes, of one value.

    Attributes:
        kind: all-reduce, all-gather, …
        axes: the mesh axes, major first.
        value: a short name of what is moved.
        dims: of what is moved.
        source: the user's line of the first of them.
        payload_bytes: of their operands on one device, in a step.
        wire_bytes: that one device sends in a step.
        times: executions in a step.
    """

    kind: str
    axes: tuple[str, ...]
    value: str
    dims: tuple[str, ...]
    source: str
    payload_bytes: int
    wire_bytes: float
    times: int


@dataclasses.dataclass(frozen=True)
class CollectiveChange:
    """A collective that differs.

    Attributes:
        what: "new", "gone" or "changed".
        before: as it was; None where it is new.
        after: as it is; None where it is gone.
    """

    what: str
    before: Traffic | None
    after: Traffic | None

    @property
    def size(self) -> float:
        """The bytes that one device sends for it in a step, in the plan where these are more."""
        return max(each.wire_bytes for each in (self.before, self.after) if each is not None)


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure of two plans.

    Attributes:
        name: what it is.
        before: in the first plan; None where it is not known.
        after: in the second.
        text: writes it with its unit.
        counts: whether being more is worse; else it is only told.
    """

    name: str
    before: float | None
    after: float | None
    text: Callable[[float], str]
    counts: bool = True

    @property
    def more(self) -> str:
        """By how much the second is more, in words; "" where one is not known."""
        if self.before is None or self.after is None or self.before == self.after:
            return ""
        sign = "+" if self.after > self.before else "−"
        if not self.before:
            return f"{sign}{self.text(self.after)}"
        return f"{sign}{share_text(abs(self.after / self.before - 1))}"

    def is_worse(self, tolerance: float) -> bool:
        if self.before is None or self.after is None or not self.counts:
            return False
        return self.after > self.before * (1 + tolerance)

    def __str__(self):
        before, after = ("not known" if n is None else self.text(n) for n in (self.before, self.after))
        return f"{self.name}: {before} → {after} ({self.more})"


@dataclasses.dataclass(frozen=True)
class PlanDiff:
    """Two saved plans beside each other.

    Attributes:
        before: the first.
        after: the second.
        figures: time, peak and bytes of both.
        changes: the collectives that differ, the largest first.
        regressions: what is worse in the second, in words.
    """

    before: Saved
    after: Saved
    figures: tuple[Figure, ...]
    changes: tuple[CollectiveChange, ...]
    regressions: tuple[str, ...]


def compare(before: Saved, after: Saved, tolerance: float) -> PlanDiff:
    """Compares two plans of one program.

    Args:
        before: the plan that is there.
        after: the plan that is to be.
        tolerance: the share by which time, peak and bytes may be more.
    """
    _check(before, after)
    figures = _figures(before, after)
    worse = [str(each) for each in figures if each.is_worse(tolerance)]
    if after.peak.fits is False:
        held = f", which holds {bytes_text(after.peak.limit_bytes)}" if after.peak.limit_bytes else ""
        worse.insert(0, f"the peak of {bytes_text(after.peak.peak_bytes)} does not fit a device{held}")
    return PlanDiff(before, after, figures, changes(before.costs.collectives, after.costs.collectives), tuple(worse))


def _check(before: Saved, after: Saved):
    problems = []
    if before.program.name != after.program.name:
        problems.append(f"they are of different programs: `{before.program.name}` and `{after.program.name}`")
    # Names that were made up say which axis they stand for in one trace alone.
    names = [name for name in {**before.program.dims, **after.program.dims} if not name.startswith("~")]
    sizes = [(name, before.program.dims.get(name), after.program.dims.get(name)) for name in names]
    if other := [f"`{name}` is {_size(a)} and {_size(b)}" for name, a, b in sizes if a != b]:
        problems.append(f"their dims differ: {', '.join(other)}")
    if (before.seconds is None) != (after.seconds is None):
        which, plan = ("first", before) if before.seconds is None else ("second", after)
        why = plan.costs.no_time or "it was planned on no machine: give --on"
        problems.append(f"the {which} has no time ({why})")
    if problems:
        raise UsageError(
            f"The two plans cannot be compared: {'; '.join(problems)}. Plan both alike, and save them again."
        )


def _size(size: int | None) -> str:
    return "not there" if size is None else f"{size:,}"


def _figures(before: Saved, after: Saved) -> tuple[Figure, ...]:
    axes = dict.fromkeys((*before.by_axes, *after.by_axes))
    return (
        Figure("estimated step time", before.seconds, after.seconds, seconds_text),
        Figure("peak memory per device", before.peak.peak_bytes, after.peak.peak_bytes, bytes_text),
        Figure("sent per device", before.costs.wire_bytes, after.costs.wire_bytes, bytes_text),
        *(
            Figure(
                f"  over {name}",
                before.by_axes.get(name, 0.0),
                after.by_axes.get(name, 0.0),
                bytes_text,
                False,
            )
            for name in axes
        ),
    )


def changes(before: Sequence[Sent], after: Sequence[Sent]) -> tuple[CollectiveChange, ...]:
    """Returns the collectives that differ, the largest first."""
    old, new = _traffic(before), _traffic(after)
    found = [CollectiveChange(CHANGED, old[key], new[key]) for key in old if key in new and _differ(old[key], new[key])]
    gone = [each for key, each in old.items() if key not in new]
    added = [each for key, each in new.items() if key not in old]
    for key in _PAIRED:
        pairs, gone, added = _pair(gone, added, key)
        found += [CollectiveChange(CHANGED, one, other) for one, other in pairs]
    found += [
        *(CollectiveChange(GONE, each, None) for each in gone),
        *(CollectiveChange(NEW, None, each) for each in added),
    ]
    return tuple(sorted(found, key=lambda change: -change.size))


def _differ(one: Traffic, other: Traffic) -> bool:
    return (one.payload_bytes, one.times) != (other.payload_bytes, other.times)


def _traffic(collectives: Iterable[Sent]) -> dict[Hashable, Traffic]:
    """Adds up the collectives of one kind, over the same axes, of one value."""
    groups: dict[Hashable, list[Sent]] = {}
    for each in collectives:
        groups.setdefault((each.kind, each.axes, each.value, each.dims), []).append(each)
    return {key: _sum(group) for key, group in groups.items()}


def _sum(group: Sequence[Sent]) -> Traffic:
    first = group[0]
    return Traffic(
        *(first.kind, first.axes, first.value, first.dims, first.source or ""),
        payload_bytes=sum(each.payload_bytes * each.times for each in group),
        wire_bytes=sum(each.wire_bytes * each.times for each in group),
        times=sum(each.times for each in group),
    )


def _pair(
    gone: Sequence[Traffic], added: Sequence[Traffic], key: Callable[[Traffic], Hashable]
) -> tuple[list[tuple[Traffic, Traffic]], list[Traffic], list[Traffic]]:
    """Pairs what is gone with what is new, one with one; returns the pairs, and what is left of both."""
    waiting: dict[Hashable, list[Traffic]] = {}
    for each in added:
        waiting.setdefault(key(each), []).append(each)
    pairs, left = [], []
    for each in gone:
        alike = waiting.get(key(each))
        if alike:
            pairs.append((each, alike.pop(0)))
        else:
            left.append(each)
    return pairs, left, [each for group in waiting.values() for each in group]
