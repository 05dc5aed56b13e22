"""What the page asks for only while a panel shows it: too much to be sent with every drop, or seldom wanted.

    read(explorer, "forms", {})         {"forms": [{"name": "Python", "text": "ml.Layout.of(...)", …}, …]}

Each is one entry of `READS`: its name, by which the panels of the page name it too (`js/src/stage.ts`), and what
describes it, of the Explorer as it is now and of named arguments. What needs costs that are being worked out is
`{"pending": True}`: the page keeps what it has, and asks again once they are there; so are the reasons of a search.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...engine.errors import closest, listed
from ...engine.gc_pause import no_collection
from ..state.explorer_state import ExplorerState
from ..state.intents import Refused
from .devices.heat import heat_view, numbers_view
from .devices.holdings import zoomed_view
from .devices.matrix import matrix_view
from .devices.sends import sends_view
from .forms import forms_view
from .peak_memory import alive_view, moments_view
from .program_steps import program_view
from .reasons import met_view, regrets_view, way_view
from .remedies import remedies_view
from .roofline import roofline_view

READS: Mapping[str, Callable[..., Mapping[str, object]]] = {
    "alive": alive_view,
    "forms": forms_view,
    "heat": heat_view,
    "matrix": matrix_view,
    "met": met_view,
    "moments": moments_view,
    "numbers": numbers_view,
    "program": program_view,
    "regrets": regrets_view,
    "remedies": remedies_view,
    "roofline": roofline_view,
    "sends": sends_view,
    "way": way_view,
    "zoomed": zoomed_view,
}


def read(explorer: ExplorerState, what: str, args: Mapping[str, Any]) -> Mapping[str, object] | Refused:
    """Describes what a panel asks for.

    Args:
        explorer: the Explorer.
        what: its name in `READS`.
        args: its arguments, by name.

    Returns:
        JSON-like data; a refusal where there is no such thing, or it takes no such arguments.
    """
    if what not in READS:
        return Refused(
            f"There is nothing to read that is called `{what}`.{closest(what, READS)} There are {listed(READS)}.",
            "Restart the kernel and show the Explorer again.",
        )
    try:
        inspect.signature(READS[what]).bind(explorer, **args)
    except TypeError as error:
        return Refused(f"`{what}` was asked for with {dict(args)!r}: {error}.", "Show the Explorer again.")
    with explorer.lock, no_collection():
        return READS[what](explorer, **args)
