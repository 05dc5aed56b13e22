"""Prices: what an intent would cost before it is carried out, one intent after the other.

    prices = prices_of(explorer, [Place("embed", ("data",), "params/*"), ...])
    prices[0].seconds, prices[0].peak_bytes

The board asks for those of all zones while a chip is held, a few at a time, so that Python answers other messages in
between; what is asked for again is remembered with the plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from ...cost.machines.hardware import HardwareError
from ...cost.step_time.time import time_of
from ...cost.workload.options import USUAL
from ...cost.workload.scenario import at_plan_sizes
from ...engine.errors import LayoutError
from .apply_intent import layout_after
from .columns import COMPUTE, Column, columns_of
from .document import Document
from .explorer_state import ExplorerState
from .intents import Intent, Place, Refused


@dataclasses.dataclass(frozen=True)
class Price:
    """The costs of a document.

    Attributes:
        wire_bytes: sent by each device in a step.
        seconds: the estimate of a step; None without a machine, or where a figure of it is missing.
        peak_bytes: the donated peak of a device; None where it was not asked for, or there is no machine.
        fits: whether that fits a device; None where the peak is None.
        work: the share of a step's matmuls that each device computes.
    """

    wire_bytes: int
    seconds: float | None = None
    peak_bytes: int | None = None
    fits: bool | None = None
    work: float = dataclasses.field(default=1.0, compare=False)


def price_of(explorer: ExplorerState, document: Document, peak: bool) -> Price:
    """Returns the price of a document; its peak only if that is asked for, since it takes longest.

    Where costs take long (`explorer.slow`), only what follows from the plan: a drop would have to wait for the rest.
    """
    plan, options = explorer.plan_at(document), document.options
    sent, work = round(plan.wire_bytes), plan.work.share
    if document.machine is None or explorer.slow:
        return Price(sent, work=work)
    try:
        time = plan.time if options == USUAL else time_of(at_plan_sizes(plan, options))
        seconds = float(time.estimate)
    except HardwareError:  # a figure of the machine is missing, which the panel of time says
        seconds = None
    if not peak:
        return Price(sent, seconds, work=work)
    memory = plan.memory.given(options.attention).donated
    return Price(sent, seconds, memory.peak_bytes, memory.fits, work)


def prices_of(explorer: ExplorerState, intents: Iterable[Intent], peak: bool = False) -> list[Price | Refused]:
    outcomes = [explorer.what_if(intent) for intent in intents]
    return [o if isinstance(o, Refused) else price_of(explorer, o.document, peak) for o in outcomes]


def other_columns(explorer: ExplorerState, intent: Any) -> list[Column]:
    """Returns the columns that take the rule of a placement that is refused among the compute rules."""
    if not isinstance(intent, Place) or (intent.at or COMPUTE) != COMPUTE:
        return []
    columns = [column for column in columns_of(explorer.program, explorer.layout) if column.at]
    placed = [(column, dataclasses.replace(intent, at=column.at, source=None)) for column in columns]
    return [column for column, place in placed if _is_legal(explorer, place)]


def _is_legal(explorer: ExplorerState, place: Place) -> bool:
    """Says whether a placement is legal, without the plan of it: that is made when its own zone is priced."""
    try:
        return explorer.legal(layout_after(place, explorer.layout, explorer.program)) is None
    except LayoutError:
        return False
