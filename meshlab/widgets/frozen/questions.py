"""What a page reads while a panel shows it (`views/reads.READS`), and with which arguments it is recorded of a layout.

    [*answers(twin)]        [('["matrix",{}]', {"axes": …}), ('["sends",{"collective":"5f0c3a91"}]', {"edges": …}), …]

Charts of plotly.js are left out: the library is longer than all the rest of the file, which says so in their place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...engine.errors import MeshlabError
from ..background.reasons import MET, REGRETS, WAY
from ..documents.intents import Refused
from ..views.plan import collectives_view
from ..views.reads import read
from .twin import Twin

Arguments = Mapping[str, Any]


def _once(twin: Twin) -> list[Arguments]:
    return [{}]


def _where_timed(twin: Twin) -> list[Arguments]:
    return [{}] if twin.document.machine else []


def _where_staged(twin: Twin) -> list[Arguments]:
    """Asks for a pipeline's schedule in lockstep, and as if each stage ran by itself."""
    time = twin.costs.of(twin.document).time if twin.document.machine else None
    return [] if time is None or time.spent.cells is None else [{}, {"free_running": True}]


def _at_the_peak(twin: Twin) -> list[Arguments]:
    if not twin.document.machine:
        return []
    timeline = twin.costs.of(twin.document).memory.timeline
    return [{"step": max(range(len(timeline)), key=lambda i: timeline[i].bytes)}]


def _of_collectives(twin: Twin) -> list[Arguments]:
    return [{"collective": row["id"]} for row in collectives_view(twin.plan)["rows"]]


def _of_each(twin: Twin) -> list[Arguments]:
    """Asks for collectives in the group of the first device, as it is when none is selected."""
    return [{**args, "device": 0} for args in _of_collectives(twin)]


def _of_remedied(twin: Twin) -> list[Arguments]:
    return [{"collective": row["id"]} for row in collectives_view(twin.plan)["rows"] if row["proposed"]]


def _explained(reason: str) -> Callable[[Twin], list[Arguments]]:
    """Asks for a reason where a search has found the fastest layout, and has it worked out."""

    def asked(twin: Twin) -> list[Arguments]:
        if twin.searches.fastest is None:
            return []
        twin.reasons.of(reason, *((twin.layout,) if reason == WAY else ()))
        return [{}]

    return asked


RECORDED: Mapping[str, Callable[[Twin], list[Arguments]]] = {
    "program": _once,
    "matrix": _once,
    "forms": _once,
    "roofline": _where_timed,
    "stages": _where_staged,
    "alive": _at_the_peak,
    "sends": _of_collectives,
    "remedies": _of_remedied,
    "hops": _of_each,
    "met": _explained(MET),
    "way": _explained(WAY),
    "regrets": _explained(REGRETS),
}
# Of each layout this takes as long as all the rest: it is recorded of those that have a button or a card.
SELDOM = ("way",)
# Why the others are not: a page asks for none of them where it knows that.
LEFT_OUT = {
    "link": "the page says it itself",
    "moments": "a chart of plotly.js alone",
    "zoomed": "a part of a large mesh: there are as many as clicks",
    "inserted": "XLA compiles nothing for a file",
    "heat": "numbers of a run",
    "numbers": "numbers of a run",
    "values": "numbers of a run",
    "looked": "numbers of a run",
    "step": "every slice of a step: longer than all else of a layout; the lanes that came with it are drawn instead",
}


def key_of(what: str, args: Arguments) -> str:
    """Returns a question, or a gesture, as the text by which its answer is kept; the page makes the same of it.

    What is not asked for is as if it were not said: `pad: False` is no `pad`.
    """
    asked = {name: value for name, value in args.items() if value is not None and value is not False}
    return json.dumps([what, asked], sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def answers(twin: Twin, seldom: bool) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yields each question that is recorded of the layout of a twin, as text, with its answer.

    Args:
        twin: at the layout.
        seldom: whether what takes a second of each layout is recorded as well.
    """
    for what, asked in RECORDED.items():
        if what in SELDOM and not seldom:
            continue
        for args in asked(twin):
            data = read(twin, what, args)
            if isinstance(data, Refused):  # what is asked here is there
                raise MeshlabError(f"`{what}` of {dict(args)!r} could not be recorded: {data.reason}")
            yield key_of(what, args), {**data, "chart": None} if "chart" in data else data
