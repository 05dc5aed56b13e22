"""How far a look into a step is, and the values that can be looked at, as JSON-like data; nothing where nobody looks.

    look_part(explorer)             {"look": {"number": 1, "value": "hidden", "run": 1, "phase": "working", …}}
    values_view(explorer, run=1)    {"groups": [{"title": "places", "rows": [{"name": "params/w1", …}, …]}, …], …}

What was seen is a read of the panel that shows it (`devices/looked.py`).
"""

from __future__ import annotations

from typing import Any, TypedDict

from ....engine.inside.names import places
from ....engine.programs.lines import lines
from ...documents.intents import Refused
from ...state.explorer_state import ExplorerState

# So many values are listed of each kind; the others have to be asked for by name.
MOST_LISTED = 200


class LookView(TypedDict):
    """The latest look: at which value of the last step of which run, and how far it is."""

    number: int
    value: str
    run: int
    phase: str
    error: str


class LookPartView(TypedDict):
    look: LookView | None


class NamedValueView(TypedDict):
    """A value of a step by a name that `plan.watch` takes; `times` says how often its line runs."""

    name: str
    dims: list[str]
    shape: list[int]
    source: str
    times: int


class NamedValuesView(TypedDict):
    title: str
    rows: list[NamedValueView]


class ValuesView(TypedDict):
    """The values of a step, by kind, and how many more there are."""

    groups: list[NamedValuesView]
    left_out: int


def look_part(explorer: ExplorerState) -> LookPartView:
    job = explorer.looks.last
    if job is None:
        return {"look": None}
    run = explorer.runs[-1].number
    return {"look": {"number": job.number, "value": job.of, "run": run, "phase": job.phase, "error": job.error}}


def values_view(explorer: ExplorerState, run: int) -> ValuesView | Refused:
    """Lists the values of a run's step: places, what lines assign, and what other lines compute.

    Args:
        explorer: the Explorer.
        run: the number of the run.
    """
    ran = next((each for each in explorer.runs if each.number == run), None)
    if ran is None or ran.values is None:
        return Refused(f"Run {run} has no arrays any more.", "Run again.")
    program = ran.values.plan.program
    kinds = _kinds(program)
    titles = ("places", "values that lines assign", "other lines")
    groups: list[NamedValuesView] = [
        {"title": title, "rows": [_row(program, *each) for each in kind[:MOST_LISTED]]}
        for title, kind in zip(titles, kinds, strict=True)
    ]
    return {
        "groups": [group for group in groups if group["rows"]],
        "left_out": sum(len(kind[MOST_LISTED:]) for kind in kinds),
    }


def _kinds(program: Any) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Returns names with their values, kind by kind; a name means the first kind that has it."""
    by_line = lines(program)
    named: dict[str, tuple[int, ...]] = {}
    kinds: list[list[tuple[str, tuple[int, ...]]]] = []
    for kind in (places(program), by_line.assigned, by_line.lines):
        # A line whose value has a name is not listed again.
        listed = {*named.values()} if kind is by_line.lines else set()
        fresh = {name: each for name, each in kind.items() if name not in named and each and each not in listed}
        named |= fresh
        kinds.append([*fresh.items()])
    return kinds


def _row(program: Any, name: str, numbers: tuple[int, ...]) -> NamedValueView:
    value = program.value(numbers[0])
    return {
        "name": name,
        "dims": [name or "1" for name in value.dims],
        "shape": [int(size) for size in value.shape],
        "source": str(value.source or ""),
        "times": len(numbers),
    }
