"""Why Auto's layout is the fastest, worked out for a board while nobody waits.

    reasons = Reasons(lambda: explorer.choice, Background(), tell)
    reasons.soon(WAY, explorer.layout)      None; `tell` is called when it is known
    reasons.of(WAY, explorer.layout)        waits

A search asks for the peaks of few of the layouts that it has met, and plans none of those that lie between the board's
and its own: for Llama 3 8B that takes two seconds more. What is worked out is of one choice, the one that holds for the
board as it is, and is forgotten with the next.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ...auto import Choice
from ...auto.reasons.binding import Binding
from ...auto.reasons.ranking import Rank
from ...auto.reasons.regrets import Regret
from ...auto.reasons.waterfall import Fall
from ...engine.errors import LayoutError
from ...engine.specs.layout import Layout
from .one_by_one import Background
from .quiet import QUIET

# What can be asked for.
MET, REGRETS, WAY = "met", "regrets", "way"
# Of the layouts that were met the fastest are shown, and those on the front; ways are kept of so many layouts.
MOST, WAYS = 120, 8


@dataclasses.dataclass(frozen=True)
class MetLayout:
    """A layout that a search has met.

    Attributes:
        layout: the layout.
        seconds: of a step under it.
        peak_bytes: at the donated peak.
    """

    layout: Layout
    seconds: float
    peak_bytes: int


@dataclasses.dataclass(frozen=True)
class Met:
    """The layouts that a search has met.

    Attributes:
        layouts: the fastest ones, and those that none beats in both time and memory; the fastest first.
        count: how many were met.
    """

    layouts: tuple[MetLayout, ...]
    count: int


@dataclasses.dataclass(frozen=True)
class Way:
    """What lies between a layout and Auto's.

    Attributes:
        steps: one change at a time; empty where the search could not plan the layout.
        order: what is to be said of their order.
        rank: of the layout among all ways to compute.
        refused: why it could not be planned.
    """

    steps: tuple[Fall, ...] = ()
    order: str = ""
    rank: Rank | None = None
    refused: str = ""


@dataclasses.dataclass(frozen=True)
class Decided:
    """What each decision otherwise costs, by what the search has met, and what binds its layout."""

    regrets: tuple[Regret, ...]
    binding: Binding


def _met(choice: Choice, pause: Callable[[], Any]) -> Met:
    met = []
    for price in choice.alternatives:
        pause()
        met.append(MetLayout(price.layout, price.seconds, price.peak_bytes))
    shown, lowest = [], math.inf
    for i, each in enumerate(sorted(met, key=lambda each: (each.seconds, each.peak_bytes))):
        if i < MOST or each.peak_bytes < lowest:
            shown.append(each)
        lowest = min(lowest, each.peak_bytes)
    return Met(tuple(shown), len(met))


def _decided(choice: Choice, pause: Callable[[], Any]) -> Decided:
    pause()
    return Decided(choice.regrets, choice.binding)


def _way(choice: Choice, pause: Callable[[], Any], layout: Layout) -> Way:
    pause()
    try:
        way, rank = choice.waterfall(layout, pause=pause), choice.rank(layout)
    except LayoutError as error:
        return Way(refused=str(error))
    return Way(way.steps, way.order, rank)


_WORK: Mapping[str, Callable[..., Any]] = {MET: _met, REGRETS: _decided, WAY: _way}


class Reasons:
    """The reasons of the choice that holds for a board.

    Args:
        choice: gives it; None where there is none.
        background: works them out.
        tell: called when one is known that was asked for.

    Attributes:
        told: how often that was.
    """

    def __init__(self, choice: Callable[[], Choice | None], background: Background, tell: Callable[[], Any]):
        self._choice, self._background, self._tell = choice, background, tell
        self._of: Choice | None = None
        self._known: dict[tuple[Any, ...], Any] = {}
        self._lock = threading.Lock()
        self.told = 0

    def forget(self) -> None:
        """Forgets what is known, with the plans of its choice."""
        self._known_of(None)

    def of(self, what: str, *about: Any) -> Any:
        """Returns a reason, and waits for it; None where there is no choice.

        Args:
            what: "met", "regrets" or "way".
            about: of a way the layout that it begins at.
        """
        return self._worked_out(self._choice(), what, about, lambda: None)

    def soon(self, what: str, *about: Any) -> Any:
        """Returns a reason if it is known; else None, and it follows.

        Args:
            what: "met", "regrets" or "way".
            about: of a way the layout that it begins at.
        """
        choice = self._choice()
        known = self._known_of(choice).get((what, *about))
        if known is None and choice is not None:
            self._background.follow((self, what), lambda: self._work(choice, what, about))
        return known

    def _known_of(self, choice: Choice | None) -> dict[tuple[Any, ...], Any]:
        """What is known of a choice; of another one all is forgotten."""
        with self._lock:
            if self._of is not choice:
                self._of, self._known = choice, {}
            return self._known

    def _work(self, choice: Choice, what: str, about: tuple[Any, ...]) -> None:
        if self._choice() is choice:
            self._worked_out(choice, what, about, QUIET.wait)
            self.told += 1
            self._tell()

    def _worked_out(self, choice: Choice | None, what: str, about: tuple[Any, ...], pause: Callable[[], Any]) -> Any:
        known, key = self._known_of(choice), (what, *about)
        if choice is None or key in known:
            return known.get(key)
        known[key] = worked_out = _WORK[what](choice, pause, *about)
        for old in [each for each in known if each[0] == WAY][:-WAYS]:
            known.pop(old, None)
        return worked_out
