"""Who sends to whom in one collective, as directed edges for the picture of devices.

    sends_view(explorer, "5f0c3a91")
        {"edges": [(0, 1, 240.0), (1, 2, 240.0), …], "text": "all-reduce over model of logits: each device sends …"}

The edges are those of the device × device matrix (`device_matrix`), of this collective alone: added up over all
collectives of a mesh axis they are the wire bytes of the axis. Of more than 64 devices there are no edges, only words.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from ....cost.machines.units import bytes_text
from ...state.explorer_state import ExplorerState
from ...state.selection import collective_of, place_moved
from .matrix import EACH, MOST_DEVICES, RING, matrices, sent_by_way

_HOW = {
    RING: "sends {bytes} to the next of its group of {size}, as on a ring",
    EACH: "sends {bytes} to the other {others} of its group, as much to each",
}


# Sender, receiver, bytes in a step.
EdgeView = tuple[int, int, float]


class SendsView(TypedDict):
    """Who sends to whom; `place` is that of the tensor that is sent, "" where that has none."""

    key: str
    edges: list[EdgeView]
    text: str
    place: str


def sends_view(explorer: ExplorerState, collective: str) -> SendsView:
    """Describes who sends to whom in a collective of the present plan.

    Args:
        explorer: the Explorer.
        collective: its name in the view.

    Returns:
        The mesh axes as one `key`, `edges` (sender, receiver, bytes in a step), a `text` and the `place` of what is
        sent; nothing where the plan has no such collective.
    """
    plan = explorer.plan
    found = collective_of(plan, collective)
    if found is None:
        return {"key": "", "edges": [], "text": "", "place": ""}
    sent = sent_by_way((found,))
    ((way, count),) = sent.items()
    size = int(np.prod([plan.mesh.axes[axis] for axis in way.axes], dtype=int))
    how = _HOW.get(way.how, "sends {bytes}, along the arrows").format(
        bytes=bytes_text(round(count)), size=size, others=size - 1
    )
    edges: list[EdgeView] = []
    if plan.mesh.size <= MOST_DEVICES:
        (matrix,) = matrices(plan.mesh, sent).values()
        np.fill_diagonal(matrix, 0)  # what a device keeps is no edge
        edges = [(int(i), int(j), float(matrix[i, j])) for i, j in zip(*matrix.nonzero(), strict=True)]
    where = "" if edges else f" in each of {plan.mesh.size // size:,} groups"
    return {
        "key": way.key,
        "edges": edges,
        "text": f"{found.kind} over {'+'.join(found.axes)} of {found.value}: each device{where} {how}.",
        "place": place_moved(found, plan.program) or "",
    }
