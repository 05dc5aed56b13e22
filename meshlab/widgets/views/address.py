"""The address of what is shown, and the way there: `documents/address.py` has how it is written.

    address_of(explorer, "traffic")         "traffic?layout=batch:data&collective=all-reduce over data of out/0"
    go(explorer, "traffic?layout=…")        the layout on the board, what is selected, and that tab on every page

An address says all of a view that a reader chooses, and nothing of program, mesh and machine: it is opened on a board
that has these. What it does not say of layout, baseline and tensor stays as it is; of dim, device and collective none
is selected then. It is carried out whole or not at all.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypedDict

from msgspec import UNSET

from ...engine.errors import LayoutError, closest, listed, numbered, shown
from ..documents import address
from ..documents.document import Document, ExplorerError
from ..documents.intents import Accepted, Baseline, Load, Outcome, Refused, Select
from ..state.explorer_state import ExplorerState
from ..state.handlers import apply
from ..state.selection import collective_of, place_moved, selected_after
from .panels import TABS
from .plan import collectives_view

_NUMBER = re.compile(r"[0-9]{1,9}\Z")


class LinkView(TypedDict):
    """What opens a view again, to be copied: code, or the link of a board without Python."""

    text: str


class TabPartView(TypedDict):
    """The tab that a page was sent to last, and how often one was."""

    view: str
    count: int


def tab_part(explorer: ExplorerState) -> TabPartView:
    view, count = explorer.tab
    return {"view": view, "count": count}


def link_view(explorer: ExplorerState, view: str) -> LinkView | Refused:
    """Returns the code that opens a tab as it is."""
    if view not in TABS:
        return Refused(_no_tab(view))
    return {"text": f"explorer.go({json.dumps(address_of(explorer, view), ensure_ascii=False)})"}


def address_of(explorer: ExplorerState, view: str = "") -> str:
    """Returns the address of a tab as it is.

    Args:
        explorer: the Explorer.
        view: the tab; by default that which was gone to last, or the first.

    Raises:
        ExplorerError: there is no such tab.
    """
    tab = view or explorer.tab[0] or TABS[0]
    if tab not in TABS:
        raise ExplorerError(_no_tab(tab))
    selection, plan, baseline = explorer.selection, explorer.plan, explorer.tried.compared_with
    said = {"layout": str(explorer.layout)}
    if baseline.layout != explorer.documents.opened.layout:
        said["baseline"] = str(baseline.layout)
    moved = collective_of(plan, selection.collective)
    brought = None if moved is None else place_moved(moved, plan.program)
    if tab == "devices" and selection.place not in (None, brought):
        said["tensor"] = str(selection.place)
    if selection.dim is not None:
        said["dim"] = selection.dim
    if selection.device is not None:
        said["device"] = str(selection.device)
    if selection.collective is not None:
        said["collective"] = collective_names(plan).get(selection.collective, selection.collective)
    return address.written(tab, said)


def collective_names(plan: Any) -> dict[str, str]:
    """Names the collectives that are listed, by their identities, as the page does: alike ones have numbers."""
    seen: Counter[str] = Counter()
    names = {}
    for row in collectives_view(plan)["rows"]:
        name = f"{row['kind']} over {row['key']} of {row['value']}"
        seen[name] += 1
        names[row["id"]] = f"{name} ({seen[name]})" if seen[name] > 1 else name
    return names


def go(explorer: ExplorerState, asked: Any) -> Outcome:
    """Carries out an address: the layout, the baseline, what is selected, and the tab.

    Args:
        explorer: the Explorer.
        asked: the address, or a link that ends in one.

    Returns:
        `Accepted`, or `Refused` with everything that is wrong; nothing changes then.
    """
    if not isinstance(asked, str):
        raise ExplorerError(f'go() was given {shown(asked)} for an address; write "traffic?layout=batch:data".')
    with explorer.lock:
        view, said, problems = address.read(asked)
        if view and view not in TABS:
            problems.insert(0, _no_tab(view))
        documents = {key: _document(explorer, key, said, problems) for key in ("layout", "baseline") if key in said}
        layout, baseline = documents.get("layout"), documents.get("baseline")
        # Where the layout is none, what else is said is looked for under the present one.
        chosen = _selection(explorer, explorer.plan_at(layout or explorer.document), said, problems)
        if problems:
            return _refused(asked, problems)
        if layout is not None:
            apply(explorer, Load(layout.layout.to_dict()))
        if baseline is not None:
            apply(explorer, Baseline(baseline.to_json()))
        apply(explorer, chosen)
        if view:
            explorer.tab = view, explorer.tab[1] + 1
            explorer.changes.tell("tab")
        return Accepted(explorer.revision, explorer.plan)


def _no_tab(view: str) -> str:
    return f"There is no view {shown(view)}.{closest(view, TABS)} There are {listed(TABS)}."


def _refused(asked: str, problems: list[str]) -> Refused:
    more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
    return Refused(
        f"The address {shown(asked)} cannot be opened:\n{numbered(problems)}",
        code="address",
        brief=(f"{problems[0]}{more}", ""),
    )


def _document(explorer: ExplorerState, key: str, said: Mapping[str, str], problems: list[str]) -> Document | None:
    """Returns the document of a layout that is said; its problems where it cannot be planned."""
    try:
        document = dataclasses.replace(explorer.document, layout=address.read_layout(said[key]))
        explorer.plan_at(document)
    except LayoutError as error:
        each = [getattr(problem, "text", str(problem)) for problem in error.problems] or [str(error)]
        problems.extend(f"`{key}`: {text}" for text in dict.fromkeys(each))
        return None
    return document


def _selection(explorer: ExplorerState, plan: Any, said: Mapping[str, str], problems: list[str]) -> Select:
    """Returns the selection that is said, and adds what of it there is not."""
    device = said.get("device")
    asked: dict[str, Any] = {
        "place": said.get("tensor", UNSET),
        "dim": said.get("dim"),
        "device": int(device) if device is not None and _NUMBER.match(device) else device,
        "collective": _collective(plan, said, problems),
    }
    selection = explorer.selection.kept(plan)
    for name, value in asked.items():
        answer = selected_after(selection, Select(**{name: value}), plan)
        if isinstance(answer, Refused):
            problems.append(f"{answer.reason} {answer.fix}".strip())
    return Select(**asked, moment=None)


def _collective(plan: Any, said: Mapping[str, str], problems: list[str]) -> str | None:
    """Returns the identity of the collective that is said by its name, or by its identity."""
    if "collective" not in said:
        return None
    names, asked = collective_names(plan), said["collective"]
    found = asked if asked in names else next((each for each, name in names.items() if name == asked), None)
    if found is None:
        problems.append(f"There is no collective {shown(asked)} under this layout.{closest(asked, names.values())}")
    return found
