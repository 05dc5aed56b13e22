"""Advice: the single change that helps most, of all rules that can be set, moved or taken away, and of all presets.

    advice = advise(documents)
    advice.intent, advice.price         Place("vocab", ("model",)), a step of 5.50 s instead of 5.74 s

A preset is put beside what is there, as its button does: so nothing on the board goes unless the advice says so.
What helps most makes the step shortest, or without a machine sends the fewest bytes while the device computes no more;
where the present layout does not fit its device, whatever fits comes first. Nothing is said where nothing helps.
"""

from __future__ import annotations

import dataclasses
import threading
import time as clock
from collections.abc import Callable, Iterator
from typing import Any

from ...auto.additive.dim_work import SLACK
from ...auto.best_first.changes import otherwise
from ..background.one_by_one import Background
from ..background.quiet import QUIET
from ..documents.document import Document
from ..documents.documents import Documents
from ..documents.intents import Intent, Place, Refused, Remove, TakePreset, TogglePreset
from ..presets.toggles import presses
from .columns import COMPUTE, columns_of, rules_at
from .prices import Price, previewed, price_of

# A change below this share is nothing that a reader would act on.
LEAST = 5e-3
# Seconds between two words of how far the search is.
TELLING = 0.5


@dataclasses.dataclass(frozen=True)
class Advice:
    """The change that helps most.

    Attributes:
        intent: the change.
        text: what it is, in words.
        price: the costs after it.
    """

    intent: Intent
    text: str
    price: Price


def advise(documents: Documents, stopped: Callable[[], bool] = lambda: False) -> Advice | None:
    """Returns the single change that helps most; None where none does.

    Args:
        documents: the Explorer's.
        stopped: says, between any two prices, whether to stop; then nothing is returned.
    """
    now = price_of(documents, documents.present, peak=True)
    survey = surveyed(documents, now, stopped)
    return None if survey is None else best_of(documents, now, survey)


def surveyed(
    documents: Documents,
    now: Price,
    stopped: Callable[[], bool],
    looked: Callable[[int, int], Any] = lambda done, of: None,
) -> list[Advice] | None:
    """Prices every single change that is legal; None where it is stopped, or the board moves on.

    Args:
        documents: the Explorer's.
        now: the price of the present layout.
        stopped: says, between any two prices, whether to stop.
        looked: told, between any two prices, how many changes there were, and of how many.
    """
    document, program, survey = documents.present, documents.program, []
    kept = otherwise(program, documents.plan_at(document).rules)
    every = list(changes(documents))
    for done, (intent, text) in enumerate(every):
        if stopped() or documents.present != document:
            return None
        looked(done, len(every))
        outcome = previewed(documents, intent)
        if isinstance(outcome, Refused) or outcome == document:
            continue
        # Outputs that are stored otherwise than the arguments that they become would save what the next step pays.
        if not otherwise(program, documents.plan_at(outcome).rules) - kept:
            survey.append(Advice(intent, text, price_of(documents, outcome, peak=now.fits is False)))
    return survey


def best_of(documents: Documents, now: Price, survey: list[Advice]) -> Advice | None:
    """Returns the change that helps most, with its peak; None where none does."""
    for best in sorted(survey, key=lambda each: _value(each.price, now)):
        if _value(best.price, now) >= _value(now, now) or not _helps(best.price, now):
            return None
        outcome = previewed(documents, best.intent)
        if isinstance(outcome, Refused):  # the board has moved on
            return None
        price = price_of(documents, outcome, peak=True)
        if price.fits is not False or not now.fits:
            return Advice(best.intent, _worded(documents, best, outcome), price)
    return None


def _worded(documents: Documents, advice: Advice, outcome: Document) -> str:
    """Returns advice in words: of a preset what the layout is called then, if it has a name, and how that is done."""
    name = documents.name_of(outcome) if isinstance(advice.intent, TogglePreset | TakePreset) else None
    if not name:
        return advice.text
    return f"{name}, {advice.text}" if advice.text.startswith("without") else f"{name}, by {advice.text}"


def changes(documents: Documents) -> Iterator[tuple[Intent, str]]:
    """Yields every single change of the layout, with what it is in words."""
    program, layout = documents.program, documents.present.layout
    axes = tuple(documents.plan.mesh.axes)
    for column in columns_of(program, layout):
        rules = rules_at(layout, column)
        at, where = (column.at or None), f", for {column.label}" if column.at != COMPUTE else ""
        for dim in program.dims:
            there = tuple(rules.get(dim, rules.get(f"{dim}?", ())))
            if there:
                yield Remove(dim, at), f"`{dim}` unsharded{where}"
            for axis in axes:
                if axis not in there:
                    yield Place(dim, (*there, axis), at), f"`{dim}` on `{'+'.join((*there, axis))}`{where}"
                if there and there != (axis,):
                    yield Place(dim, (axis,), at), f"`{dim}` on `{axis}`{where}"
    for preset, over, here in presses(documents.presets, documents.name_of(documents.present)):
        label = f"the preset {preset.label}"
        yield TogglePreset(preset.name, over), f"without {label}" if here else label
        if preset.layout is not None:
            yield TakePreset(preset.name), f"{label} alone"


def ranked(now: Price, survey: list[Advice]) -> list[tuple[str, bool]]:
    """Ranks the dims that some zone takes by the best of their zones, with whether that helps."""
    best: dict[str, Price] = {}
    for advice in survey:
        if isinstance(advice.intent, Place):
            dim, price = advice.intent.dim, advice.price
            best[dim] = min(best.get(dim, price), price, key=lambda each: _value(each, now))
    order = sorted(best, key=lambda dim: _value(best[dim], now))
    return [(dim, _value(best[dim], now) < _value(now, now) and _helps(best[dim], now)) for dim in order]


def _value(price: Price, now: Price) -> tuple[float, ...]:
    """What is to be least: first whether it does not fit, then seconds; without a machine the work, then the bytes.

    Work that is hardly less than now is as it is now, as in a search for the least traffic.
    """
    if price.seconds is None:
        hardly = now.work * (1 - SLACK) <= price.work <= now.work
        return now.work if hardly else price.work, float(price.wire_bytes)
    return float(price.fits is False), price.seconds


def _helps(then: Price, now: Price) -> bool:
    if then.seconds is not None and now.seconds is not None:
        return bool(then.fits and now.fits is False) or then.seconds < now.seconds * (1 - LEAST)
    return _value(then, now)[0] < now.work or then.wire_bytes < now.wire_bytes * (1 - LEAST)


@dataclasses.dataclass(frozen=True)
class Advised:
    """What was worked out for one document.

    Attributes:
        document: the document.
        advice: the change that helps most; None where none does.
        ranked: the dims that some zone takes, the one with the best zone first, and whether that one helps.
        error: why nothing could be worked out.
    """

    document: Document
    advice: Advice | None = None
    ranked: list[tuple[str, bool]] = dataclasses.field(default_factory=list)
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Looking:
    """How far the search for advice is.

    Attributes:
        document: the document that it is for.
        done: how many changes were priced.
        of: of how many.
    """

    document: Document
    done: int
    of: int


class Adviser:
    """Advises an Explorer in the background; what it found for a document that is gone by then is dropped.

    Args:
        documents: the Explorer's.
        lock: guards the Explorer.
        tell: called under the lock when there is advice.
    """

    def __init__(self, documents: Documents, lock: threading.RLock, tell: Callable[[], Any]):
        self._documents, self._lock, self._tell = documents, lock, tell
        self._background = Background()
        self._latest: Advised | None = None
        self._looking: Looking | None = None
        self._told = -TELLING

    @property
    def advised(self) -> Advised | None:
        """What is known for the present document; None while it is not worked out."""
        latest = self._latest
        return latest if latest is not None and latest.document == self._documents.present else None

    @property
    def looking(self) -> Looking | None:
        """How far the search for the present document is; None where none goes on."""
        looking = self._looking
        return looking if looking is not None and looking.document == self._documents.present else None

    def _looked(self, document: Document, done: int, of: int) -> None:
        """Notes how far the search is, and tells it from time to time."""
        self._looking = Looking(document, done, of)
        if clock.monotonic() > self._told + TELLING:
            self._told = clock.monotonic()
            with self._lock:
                self._tell()

    def follow(self) -> None:
        """Works out the advice for the present document, unless it is known."""
        if self.advised is None:
            document = self._documents.present
            self._background.follow(self, lambda: self._advise(document))

    def _advise(self, document: Document) -> None:
        try:
            advised = self._worked_out(document)
        except Exception as error:  # of the machine's figures, or meshlab's own: the board says so
            self._keep(Advised(document, error=f"{type(error).__name__}: {error}"))
            raise
        if advised is not None:
            self._keep(advised)

    def _worked_out(self, document: Document) -> Advised | None:
        documents = self._documents

        def stopped() -> bool:
            QUIET.wait()
            return documents.present != document

        if stopped():
            return None
        self._told = clock.monotonic()  # what is quick is told when it is there
        now = price_of(documents, document, peak=True)
        survey = surveyed(documents, now, stopped, lambda done, of: self._looked(document, done, of))
        self._looking = None
        return None if survey is None else Advised(document, best_of(documents, now, survey), ranked(now, survey))

    def _keep(self, advised: Advised) -> None:
        with self._lock:
            if self._documents.present == advised.document:
                self._latest = advised
                self._tell()
