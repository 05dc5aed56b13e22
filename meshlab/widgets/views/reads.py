"""What the page asks for only while a panel shows it: too much to be sent with every drop, or seldom wanted.

    read(explorer, "forms", {})         {"forms": [{"name": "Python", "text": "ml.Layout.of(...)", …}, …]}

Each has a name, and what describes it, of the Explorer as it is now and of named arguments: mostly a panel's own
(`panels.py`). What needs costs that are being worked out is `{"pending": True}`: the page keeps what it has, and asks
again once they are there; so are the reasons of a search. Where costs failed, what needs them is refused with the
reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ...engine.errors import closest, listed
from ...engine.gc_pause import no_collection
from ..documents.costing import CostsFailed
from ..documents.intents import Refused
from ..state.explorer_state import ExplorerState
from .address import link_view
from .forms.forms import forms_view
from .panels import PANELS, Read
from .step_lanes import step_view

READS: Mapping[str, Read] = {name: read for panel in PANELS.values() for name, read in panel.reads.items()} | {
    "forms": forms_view,  # of the Export menu, as the next
    "link": link_view,
    "step": step_view,  # of the step over time, which stands below all panels
}


def read(
    explorer: ExplorerState, what: str, args: Mapping[str, Any], more: Mapping[str, Read] | None = None
) -> Mapping[str, object] | Refused:
    """Describes what a panel asks for.

    Args:
        explorer: the Explorer.
        what: its name in `READS`.
        args: its arguments, by name.
        more: what else can be read.

    Returns:
        JSON-like data; a refusal where there is no such thing, or it takes no such arguments.
    """
    reads: Mapping[str, Read] = {**READS, **(more or {})}
    if what not in reads:
        return Refused(
            f"There is nothing to read named `{what}`.{closest(what, reads)} There are {listed(reads)}.",
            "Restart the kernel and show the Explorer again.",
        )
    try:
        inspect.signature(reads[what]).bind(explorer, **args)
    except TypeError as error:
        return Refused(f"`{what}` was asked for with {dict(args)!r}: {error}.", "Show the Explorer again.")
    with explorer.lock, no_collection():
        try:
            return reads[what](explorer, **args)
        except CostsFailed as error:
            return Refused(str(error), code="costs")
