"""Rows of what was run: the runs, their losses, and the numbers of a tensor."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ..documents.document import ExplorerError
from ..state.explorer_state import ExplorerState
from ..views.devices.heat import heat_view
from .needed import NO_NUMBERS, NO_RUN
from .plan import Row, View, axis_names


def runs_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each run; a step's seconds are the median of those behind the first, which compiles."""
    if not explorer.runs:
        raise ExplorerError(NO_RUN)
    for run in explorer.runs:
        costs = explorer.costs.known(run.document) if run.document.machine else None
        losses, warm = list(run.losses), list(run.seconds[1:])
        yield {
            "run": run.number,
            "layout": str(run.document.layout),
            "phase": run.phase,
            "steps": run.steps,
            "steps_taken": run.taken,
            "last_loss": losses[-1] if losses else None,
            "measured_seconds": statistics.median(warm) if warm else None,
            "measured_on": run.platform,
            "predicted_seconds": None if costs is None or costs.time is None else float(costs.time.estimate),
            "predicted_on": run.document.machine.on if run.document.machine else "",
            "error": run.error,
        }


def loss_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields the loss of each step of each run."""
    if not any(run.losses for run in explorer.runs):
        raise ExplorerError(NO_RUN)
    for run in explorer.runs:
        for step, loss in enumerate(list(run.losses), 1):
            yield {"run": run.number, "layout": str(run.document.layout), "step": step, "loss": float(loss)}


def numbers_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields the cells of the selected tensor's numbers after the latest run, each with its index ranges."""
    shards, ended = view["shards"], [run for run in explorer.runs if not run.active and run.taken]
    if not shards or not ended:
        raise ExplorerError(NO_NUMBERS)
    heat = heat_view(explorer, shards["place"], ended[-1].number)
    if heat["cells"] is None:
        raise ExplorerError(heat["why"] or NO_NUMBERS)
    cells, names, blocks = heat["cells"], axis_names(shards["dims"]), shards["blocks"]
    odd = {(block, cell): (nan, infinite) for block, cell, nan, infinite in cells["odd"]}
    for number, block in enumerate(cells["blocks"]):
        wide = len(block["across"]) - 1
        for at, value in enumerate(block["values"]):
            ranges = [*zip(blocks["facets"], block["facets"], strict=True)]
            ranges.append((blocks["down"], (block["down"][at // wide], block["down"][at // wide + 1])))
            ranges.append((blocks["across"], (block["across"][at % wide], block["across"][at % wide + 1])))
            row: Row = {"tensor": shards["place"]}
            for axis, (begin, end) in ranges:
                row |= {f"{names[axis]}_begin": begin, f"{names[axis]}_end": end} if axis >= 0 else {}
            least, most = block.get("least"), block.get("most")
            nan, infinite = odd.get((number, at), (0, 0))
            row |= {cells["statistic"].replace(" ", "_"): value}
            row |= {"least": least[at] if least else value, "most": most[at] if most else value}
            yield row | {"nan": nan, "infinite": infinite}
