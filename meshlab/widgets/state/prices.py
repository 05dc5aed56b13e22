"""Prices: what an intent would cost before it is carried out, one intent after the other.

    prices = prices_of(documents, [Place("embed", ("data",), "params/*"), ...])
    prices[0].seconds, prices[0].peak_bytes

The board asks for those of all zones while a chip is held, a few at a time, so that Python answers other messages in
between; what is asked for again is remembered with the plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from msgspec import structs

from ...api.stages import make_plan
from ...cost.machines.hardware import HardwareError
from ...cost.step_time.time import time_of
from ...cost.workload.options import USUAL
from ...cost.workload.scenario import at_plan_sizes
from ...engine.errors import LayoutError, MeshlabError
from ..background.curves import Point
from ..documents import edits
from ..documents.costing import costs_of
from ..documents.document import Document
from ..documents.documents import Documents
from ..documents.history import History
from ..documents.intents import Intent, Place, Refused, ResizeAxis, refused
from ..documents.placing import with_placed
from .apply_intent import after
from .columns import COMPUTE, Column, columns_of
from .totals import totals_of


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


def price_of(documents: Documents, document: Document, peak: bool) -> Price:
    """Returns the price of a document; its peak only if that is asked for, since it takes longest.

    Where costs take long (`documents.slow`), only what follows from the plan: a drop would have to wait for the rest.
    """
    plan, options = documents.plan_at(document), document.options
    sent, work = round(plan.wire_bytes), plan.work.share
    if document.machine is None or documents.slow:
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


def previewed(documents: Documents, intent: Intent) -> Document | Refused:
    """Returns the document after an intent; a refusal where there is none, or its program was not traced yet."""
    asked = after(documents, intent)
    if isinstance(asked, Document):
        return Refused("The program has to be traced again at these sizes before its costs are known.")
    return asked.present if isinstance(asked, History) else asked


def prices_of(documents: Documents, intents: Iterable[Intent], peak: bool = False) -> list[Price | Refused]:
    outcomes = [previewed(documents, intent) for intent in intents]
    return [o if isinstance(o, Refused) else price_of(documents, o, peak) for o in outcomes]


def point_of(documents: Documents, axis: str, size: int) -> Point:
    """Returns what the board would say of its layout with a mesh axis of another size, planned anew, and not kept."""
    try:
        document = edits.resize_axis(documents, ResizeAxis(axis, size))
        mesh = documents.plans.mesh(document)
        plan = make_plan(documents.programs.at(document), mesh, document.layout, document.pad or None)
        totals = totals_of(plan, costs_of(plan, document) if document.machine else None)
    except LayoutError as error:
        # Without the fix: "Sizes that fit: 16" are sizes of a dim, and the point's are the axis's.
        return Point(size, refused=refused(error).reason)
    except MeshlabError as error:
        return Point(size, refused=str(error))
    return Point(size, totals.seconds, totals.peak_bytes, totals.wire_bytes, totals.argument_bytes)


def other_columns(documents: Documents, intent: Any) -> list[Column]:
    """Returns the columns that take the rule of a placement that is refused among the compute rules."""
    if not isinstance(intent, Place) or (intent.at or COMPUTE) != COMPUTE:
        return []
    layout, program = documents.present.layout, documents.program
    columns = [column for column in columns_of(program, layout) if column.at]
    placed = [(column, structs.replace(intent, at=column.at, source=None)) for column in columns]
    return [column for column, place in placed if _is_legal(documents, place)]


def can_pad(documents: Documents, intent: Any) -> bool:
    """Says whether a placement that is refused would be legal if dims were padded; not what its plan alone refuses."""
    if not isinstance(intent, Place) or documents.present.pad or _is_legal(documents, intent):
        return False
    return _is_legal(documents, intent, pad=True)


def _is_legal(documents: Documents, place: Place, pad: bool = False) -> bool:
    """Says whether a placement is legal, without the plan of it: that is made when its own zone is priced."""
    try:
        return documents.legal(with_placed(documents.present.layout, documents.program, place), pad) is None
    except LayoutError:
        return False
