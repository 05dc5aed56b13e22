"""What each step of a plan took, as shares of the measured step, by where it stands in the predicted one.

    took = shares_of(profile, predicted)
    took[12, "compute", ()]             Took(seconds=0.031, waiting=0.0)

A measured step counts with the predicted one of its position, kind and mesh axes. A compiler fuses other steps than the
cost model does: one without a predicted time counts with the nearest before it in the same lane, or else behind it, as
in memory over time. So nothing that was measured is left out; what is in no predicted lane is at `ELSEWHERE`.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from ....api.profile import Measured, Profile
from ....engine.planning.shared_steps import written_out

Axes = tuple[str, ...]
# A position in the plan, what a step did there ("compute", or the kind of a collective), and over which mesh axes.
Key = tuple[int, str, Axes]
ELSEWHERE: Key = (-1, "", ())


class Took(NamedTuple):
    """Shares of the measured step: of running or sending, and of waiting for other devices."""

    seconds: float
    waiting: float


def shares_of(profile: Profile, predicted: Collection[Key]) -> dict[Key, Took]:
    """Returns what was measured by the keys of predicted steps."""
    plan: Any = profile.plan
    written = written_out(plan.planned.steps, plan.steps)
    by_lane: dict[Axes, list[Key]] = defaultdict(list)
    for key in sorted(predicted):
        by_lane[key[2]].append(key)
    sums: dict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in profile.steps:
        each = sums[_key(row, written[row.steps[0]].position, predicted, by_lane[row.axes])]
        each[0] += row.seconds / profile.seconds
        each[1] += row.waiting / profile.seconds
    return {key: Took(*each) for key, each in sums.items()}


def _key(row: Measured, position: int, predicted: Collection[Key], lane: list[Key]) -> Key:
    own: Key = (position, row.kind, row.axes)
    if own in predicted or not lane:
        return own if own in predicted else ELSEWHERE
    return lane[max(0, bisect.bisect_right(lane, own) - 1)]
