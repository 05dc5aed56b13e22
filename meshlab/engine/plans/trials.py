"""Tries remedies: each is planned before it is shown, and says what it does to bytes, peak memory and time.

    plan.collectives[0].remedies[0].outcome         sends 0 B instead of 6,000 B, peak 90,112 → 172,032 B

What is refused, and what leaves as much to send for the same cause, is not offered. The changed layout is planned when
somebody reads the remedies of a collective, once for all collectives that have the same remedy; its peak and its
time follow when they are read. So neither searches nor tables of figures pay for advice.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import LayoutError, MeshlabError
from ..specs.layout import Layout
from ..specs.spec import Axes
from .remedies import Change, Remedy


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """What a change of the layout does, by the plans before and after it.

    Attributes:
        now: the plan whose collective it would remove.
        then: the plan of the changed layout.
    """

    now: Any
    then: Any

    @property
    def sent(self) -> tuple[float, float]:
        """Bytes that one device sends in a step, now and then."""
        return self.now.wire_bytes, self.then.wire_bytes

    @property
    def peak(self) -> tuple[int, int]:
        """The predicted peak memory of a device in bytes, now and then."""
        return self.now.memory.peak_bytes, self.then.memory.peak_bytes

    @functools.cached_property
    def seconds(self) -> tuple[float, float] | None:
        """The predicted seconds of a step, now and then; None without a machine, or where it lacks a figure."""
        if self.now.mesh.on is None:
            return None
        try:
            return self.now.time.estimate, self.then.time.estimate
        except MeshlabError:
            return None

    def __str__(self):
        sent, peak = ([f"{round(count):,}" for count in pair] for pair in (self.sent, self.peak))
        texts = [f"sends {sent[1]} B instead of {sent[0]} B" if sent[0] != sent[1] else "sends the same bytes"]
        texts.append(f"peak {peak[0]} → {peak[1]} B" if peak[0] != peak[1] else "same peak")
        if self.seconds:
            texts.append("step {:.4g} → {:.4g} ms".format(*(1e3 * each for each in self.seconds)))
        return ", ".join(texts)


class Trials:
    """Tries the remedies of one plan's collectives, each once.

    Args:
        plan: the plan.
        planned: plans the same program under another layout, on the same mesh, padded alike.
    """

    def __init__(self, plan: Any, planned: Callable[[Layout], Any]):
        # Its collectives hold this: were the plan held by it, no plan would be freed before Python looks for cycles.
        self._plan, self._layout, self._planned = weakref.ref(plan), plan.layout, planned
        self._outcomes: dict[tuple[Change, ...], Outcome | None] = {}

    def of(self, proposed: Iterable[Remedy], axes: Axes, because: str) -> tuple[Remedy, ...]:
        """Returns those of some remedies that are legal and help, with their outcomes.

        Args:
            proposed: the remedies; what only asks for a name stays as it is.
            axes: of the collective that they are for, the mesh axes.
            because: and its cause, of which less must be sent then.
        """

        def helps(remedy: Remedy, outcome: Outcome) -> bool:
            if remedy.saves and outcome.sent[1] >= outcome.sent[0]:
                return False
            now, then = (_sent(plan.collectives, axes, because) for plan in (outcome.now, outcome.then))
            return then < now

        tried = ((remedy, self._outcome(remedy)) for remedy in proposed)
        return tuple(
            dataclasses.replace(remedy, outcome=outcome)
            for remedy, outcome in tried
            if (helps(remedy, outcome) if outcome else not remedy.changes)
        )

    def _now(self) -> Any:
        """Returns the plan; where nobody holds it any more, it is planned again, once for all that outcomes hold."""
        plan = self._plan()
        if plan is None:
            plan = self._planned(self._layout)
            self._plan = weakref.ref(plan)
        return plan

    def _outcome(self, remedy: Remedy) -> Outcome | None:
        if remedy.changes not in self._outcomes:
            layout = remedy.applied(self._layout)
            try:
                changed = layout != self._layout
                outcome = Outcome(self._now(), self._planned(layout)) if changed else None
            except LayoutError:
                outcome = None
            self._outcomes[remedy.changes] = outcome
        return self._outcomes[remedy.changes]


def _sent(collectives: Iterable[Any], axes: Axes, because: str) -> float:
    """Adds up what is sent over mesh axes for one cause."""
    return sum(c.wire_bytes * c.times for c in collectives if c.axes == axes and c.because == because)
