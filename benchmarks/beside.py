"""What a drop costs beside Auto's layout: no more than without it.

Two Explorers of one step, whose layers are written out, follow the same random walk of drops; on one of them Auto has
found a layout before. A drop here is what Python does for the page: it plans, and shares what is drawn. What follows in
the background is waited for before the next.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import meshlab as ml
from benchmarks.planning import Subject, subjects
from benchmarks.timing import Sample, timed
from meshlab.widgets.notebook.protocol import shared_state

DROPS = 12
# Of the median of a drop, what is taken for noise.
NOISE = 0.1


def measure(subject: Subject | None = None, drops: int = DROPS) -> list[Sample]:
    """Returns a sample of drops without a comparison, one of drops beside it, and by how much their medians differ.

    Args:
        subject: what is laid out; by default a Llama of 15,000 operations.
        drops: how many chips to drop on each.
    """
    chosen = subject or next(each for each in subjects() if each.name == "Llama 3 8B, a loop")
    without, beside = (ml.explore(chosen.trace(), ml.lay(chosen.mesh, "v5e"), "batch:data") for _ in range(2))
    beside.auto("traffic")
    for explorer in (without, beside):
        explorer.view()
        explorer.subscribe(lambda what, explorer=explorer: _shared(explorer, what))
    choose, seconds = random.Random(0), {id(without): [], id(beside): []}
    for number in range(drops):
        dim, *axes = choose.choice(_moves(without))
        for explorer in (without, beside) if number % 2 else (beside, without):
            seconds[id(explorer)] += timed("", [functools.partial(explorer.place, dim, *axes)]).seconds
            explorer.view()
    plain, more = (Sample(chosen.name, tuple(seconds[id(explorer)])) for explorer in (without, beside))
    medians = [sample.percentile(0.5) for sample in (plain, more)]
    return [
        Sample(f"{chosen.name}: drop", plain.seconds),
        Sample(f"{chosen.name}: drop beside Auto's layout", more.seconds),
        Sample(f"{chosen.name}: what that adds to the median", (medians[1] - medians[0],), NOISE * medians[0]),
    ]


def _shared(explorer: Any, what: str) -> None:
    """Shares what a session would; what follows in the background is no part of the drop."""
    if what != "costs":
        shared_state(explorer, what)


def _moves(explorer: Any) -> list[tuple[str, ...]]:
    """Returns the legal moves that change something, back to the tray included."""
    rules = explorer.layout.rules
    onto_axes = [
        (dim, axis)
        for dim, axes in explorer.documents.refusals().items()
        for axis, refusal in axes.items()
        if refusal is None and rules.get(dim) != (axis,)
    ]
    return onto_axes + [(dim,) for dim in rules]
