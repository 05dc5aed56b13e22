"""The panels of the stage: each is one entry here, and a module of the page that draws it.

    PANELS["memory"]        Panel("Memory", ("board", "costs", "beside"), {"alive": alive_view, …})
    js/src/memory.ts        export const panel: Drawing = { draw: drawMemory, … }

A panel is drawn again after a change of the parts that it shows. What takes longer than a drop may, or is seldom looked
at, it reads for itself while it is seen (`reads.py`). The page's list of panels is written of this one (`make types`);
`explorer.views` has each for a cell of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ..documents.intents import Refused
from .asked.looking import values_view
from .devices.heat import heat_view, numbers_view
from .devices.holdings import zoomed_view
from .devices.hops import hops_view
from .devices.looked import looked_view
from .devices.matrix import matrix_view
from .devices.sends import sends_view
from .peak_memory import alive_view, moments_view
from .program.inserted import inserted_view
from .program.steps import program_view
from .reasons import met_view, regrets_view, way_view
from .remedies import remedies_view
from .roofline import roofline_view
from .stages import stages_view

Read = Callable[..., Mapping[str, Any] | Refused]


@dataclasses.dataclass(frozen=True)
class Panel:
    """A panel of the stage.

    Attributes:
        title: on its tab.
        parts: those of the board that it shows, by their names in `PARTS`.
        reads: what it asks for itself, by name.
        module: of the page, where that is not called as the panel is.
    """

    title: str
    parts: tuple[str, ...] = ()
    reads: Mapping[str, Read] = dataclasses.field(default_factory=dict)
    module: str = ""


PANELS: Mapping[str, Panel] = {
    "devices": Panel(
        "Devices",
        ("board", "picture", "devices", "selection", "beside", "job", "look"),
        {
            "zoomed": zoomed_view,
            "sends": sends_view,
            "numbers": numbers_view,
            "heat": heat_view,
            "values": values_view,
            "looked": looked_view,
        },
    ),
    "program": Panel("Program", ("board", "xla"), {"program": program_view, "inserted": inserted_view}),
    "traffic": Panel(
        "Traffic", ("board", "beside", "xla"), {"matrix": matrix_view, "remedies": remedies_view, "hops": hops_view}
    ),
    "memory": Panel("Memory", ("board", "costs", "beside"), {"alive": alive_view, "moments": moments_view}),
    "time": Panel("Time", ("board", "costs", "beside", "profile"), {"roofline": roofline_view, "stages": stages_view}),
    "compare": Panel(
        "Compare",
        ("board", "comparison", "search", "beside"),
        {"met": met_view, "way": way_view, "regrets": regrets_view},
        module="comparison",
    ),
    "run": Panel("Run", module="training"),
    # Without a tab, for a cell of its own: Traffic has it too.
    "collective": Panel("One collective", ("board", "selection"), {"hops": hops_view}, module="hops"),
}
# Those with a tab of the workbench.
TABS = tuple(name for name in PANELS if name != "collective")
