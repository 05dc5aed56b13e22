"""One collective, hop by hop, on the devices of a group: what each has before, what is sent, what it has then.

    view = hops_view(explorer, "5f0c3a91", device=0)
    view["hops"][0]         {"text": "each device sends its slice, 8.00 kB, to the next", "transfers": […], …}
    view["start"][0]        the pieces that the first device has at first, as indices into `pieces`

What each device has after a hop follows from the transfers: the page plays them, and so do the tests, which hold the
end against the plan. What a piece is of the tensor says `pieces`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from ....cost.machines.hardware import HardwareError
from ....cost.machines.units import bytes_text
from ....cost.workload.scenario import at_plan_sizes
from ....engine.collectives.hops import NOBODY, Course, Transfer, onward, states
from ....engine.collectives.kinds import KINDS, PAIRS, Kind
from ....engine.collectives.routes import pairs
from ....engine.plans.collective import Collective
from ....engine.specs.mesh import groups_of
from ....engine.specs.spec import Axes
from ...state.explorer_state import ExplorerState
from ...state.selection import collective_of
from .holdings import SlicesView, cut_text
from .pieces import cut_of, slice_numbers, slices_view

# Of a group of more devices the first are drawn; of still more none; and so many groups are listed.
MOST_DRAWN, FIRST, MOST_DEVICES, MOST_GROUPS = 16, 8, 256, 64


# From, to (-1: nobody), the piece, and how many devices' addends the receiver's then has.
TransferView = tuple[int, int, int, int]
# The slice, and the cell of a device in which it stands before it is sent, and afterwards.
PieceView = tuple[int, int, int]
# Pieces are slices of a tensor, or equal parts of what each device has: so many of its numbers, or all of one device.
Parts = Literal["slices", "numbers", "devices"]


class HopView(TypedDict):
    """What is sent at one time: all that goes to or from the devices that are drawn, and the bytes of each piece."""

    text: str
    bytes: float
    adds: bool
    keeps: bool
    transfers: list[TransferView]


class GroupNameView(TypedDict):
    """A group by its first device, and where that stands on the other mesh axes."""

    device: int
    name: str


class PlayView(TypedDict):
    """What is played: the pieces, in cells line by line, those that each device has at first, and the hops."""

    slices: SlicesView | None
    parts: Parts
    lines: list[str]
    columns: int
    pieces: list[PieceView]
    start: list[list[int]]
    hops: list[HopView]


class EndsView(TypedDict):
    """How the tensor is cut before a collective, and afterwards."""

    before: str
    after: str


class HopsView(PlayView, EndsView):
    """A collective hop by hop in one `group`, named by its first device; of its `size` devices `more` are not drawn."""

    id: str
    kind: str
    key: str
    value: str
    size: int
    group: int
    groups: list[GroupNameView]
    group_count: int
    devices: list[int]
    more: int
    sums: bool
    formula: str
    wire: float
    times: int
    seconds: float | None
    note: str


class NoHopsView(TypedDict):
    """The plan has no such collective."""

    id: None


def hops_view(explorer: ExplorerState, collective: str, device: int = 0) -> HopsView | NoHopsView:
    """Describes a collective of the present plan, hop by hop, in the group of a device.

    Args:
        explorer: the Explorer.
        collective: its name in the view.
        device: any device of the group.

    Returns:
        The pieces, who has which at first, and what is sent hop by hop; no hops of a group of very many devices.
    """
    plan = explorer.plan
    found = collective_of(plan, collective)
    if found is None:
        return {"id": None}
    kind = KINDS[found.kind]
    axes, sent_to = _route(found, kind, plan.mesh.axes)
    groups = groups_of(plan.mesh, axes)
    members = groups[(groups == device).any(axis=1).argmax()].tolist()
    size, firsts = len(members), groups[:, 0].tolist()
    listed = firsts[:MOST_GROUPS] if members[0] in firsts[:MOST_GROUPS] else [*firsts[: MOST_GROUPS - 1], members[0]]
    course = _course(found, kind, size, sent_to) if size <= MOST_DEVICES else None
    drawn = 0 if course is None else size if size <= MOST_DRAWN else FIRST
    turns, wire = found.turns, found.wire_bytes * found.turns
    often = f"{turns} × " if turns > 1 else ""
    sent = f"{often}{kind.formula} × {bytes_text(found.payload_bytes)} = {bytes_text(wire)}"
    return {
        "id": collective,
        "kind": found.kind,
        "key": "+".join(found.axes),
        "value": found.value,
        "size": size,
        "group": members[0],
        "groups": [_group_view(plan.mesh, axes, first) for first in listed],
        "group_count": len(groups),
        "devices": members[:drawn],
        "more": size - drawn,
        "sums": kind.sums,
        **_ends_view(found, kind),
        **(NOT_PLAYED if course is None else _play_view(plan.mesh, found, course, members, drawn)),
        "formula": sent,
        "wire": float(wire),
        "times": found.times // turns,
        "seconds": _seconds(explorer, found, kind),
        "note": _note(found, course, size),
    }


NOT_PLAYED: PlayView = {
    "slices": None,
    "parts": "slices",
    "lines": [],
    "columns": 0,
    "pieces": [],
    "start": [],
    "hops": [],
}


def _course(found: Collective, kind: Kind, size: int, sent_to: Sequence[tuple[int, int]]) -> Course:
    """Returns how a collective goes; of what is sent on and on, all of its turns."""
    return onward(size, sent_to, found.turns) if found.turns > 1 else kind.course(size, sent_to)


def _route(found: Collective, kind: Kind, sizes: Mapping[str, int]) -> tuple[Axes, list[tuple[int, int]]]:
    """Returns the mesh axes of the groups, and of a permute who sends to whom in one."""
    if kind.way != PAIRS or found.asked.route is None:
        return found.axes, []
    return pairs(found.asked.route, sizes)


def _group_view(mesh: Any, axes: Axes, first: int) -> GroupNameView:
    at = [f"{axis} {index}" for axis, index in mesh.coordinates(first).items() if axis not in axes]
    return {"device": first, "name": ", ".join(at)}


def _ends_view(found: Collective, kind: Kind) -> EndsView:
    """Says how the tensor is cut; of what an operation sends inside it, what its kind does."""
    if found.moved is None:
        if found.turns > 1:
            return {"before": "Each device has a slice.", "after": "Each slice has gone from device to device."}
        before, _, after = kind.meaning.rstrip(".").partition("; afterwards ")
        return {"before": f"{before}.", "after": f"{after or before}."}
    before, after = (f"{found.value} {cut_text(found.dims, end)}." for end in (found.moved.start, found.moved.result))
    return {"before": before, "after": after}


def _play_view(mesh: Any, found: Collective, course: Course, members: Sequence[int], drawn: int) -> PlayView:
    """Describes the pieces and the hops of a course, as far as they concern the first members."""
    size, payload = len(members), found.payload_bytes / course.cut
    several = max(itertools.chain(*course.start)) >= size  # each member has a piece for each other one
    known: dict[int, int] = {}

    def number(piece: int) -> int:
        return known.setdefault(piece, len(known))

    start = [[number(piece) for piece in course.start[member]] for member in range(drawn)]
    played = states(course)
    next(played)
    hops: list[HopView] = []
    for hop, held in zip(course.hops, played, strict=True):
        transfers: list[TransferView] = [
            (
                members[each.source],
                NOBODY if each.target == NOBODY else members[each.target],
                number(each.piece),
                0 if each.target == NOBODY else held[each.target][each.piece].bit_count(),
            )
            for each in hop.transfers
            if _concerns(each, drawn)
        ]
        text = hop.text.format(bytes=bytes_text(payload))
        hops.append({"text": text, "bytes": payload, "adds": hop.adds, "keeps": hop.keeps, "transfers": transfers})
    cut = cut_of(found, course, size)
    ends = {piece: divmod(piece, size) if several else (piece, piece) for piece in known}
    slices = slice_numbers(mesh, cut, members, ends)
    return {
        "slices": slices_view(mesh, found, cut),
        "parts": "slices" if not cut.equal else "numbers" if course.cut > 1 else "devices",
        "lines": ["to send", "received"] if several else [],
        "columns": size,
        "pieces": [(slices[piece], *_cells(piece, *ends[piece], size, several)) for piece in known],
        "start": start,
        "hops": hops,
    }


def _concerns(transfer: Transfer, drawn: int) -> bool:
    return transfer.source < drawn or 0 <= transfer.target < drawn


def _cells(piece: int, owner: int, taker: int, size: int, several: bool) -> tuple[int, int]:
    """Returns the cell of a piece before it is sent, and afterwards: what a device has for itself is there already."""
    if not several:
        return piece, piece
    return size + owner if owner == taker else taker, size + owner


def _seconds(explorer: ExplorerState, found: Collective, kind: Kind) -> float | None:
    """Returns the seconds of one execution as the step's time counts them; None on no machine, or without a figure."""
    plan = explorer.plan
    if plan.mesh.on is None:
        return None
    try:
        seconds = at_plan_sizes(plan, explorer.document.options).seconds_of(kind, found.axes, found.payload_bytes)
        return found.turns * float(seconds)
    except HardwareError:
        return None


def _note(found: Collective, course: Course | None, size: int) -> str:
    """Says what is not as it is drawn; "" where there is nothing to say."""
    if course is None:
        return f"Hops are drawn of groups of up to {MOST_DEVICES} devices; this one has {size:,}."
    count = math.prod(found.shape)
    if course.cut > 1 and count % course.cut:
        if count == 1:
            return f"It is one number, which cannot be cut: the plan counts 1/{course.cut} of it a hop."
        return f"{course.cut} does not divide its {count:,} numbers: the plan counts {count / course.cut:.3g} a hop."
    if any(each.target in (NOBODY, each.source) for hop in course.hops for each in hop.transfers):
        return "The plan counts the same for devices that send nothing: the step waits for the others."
    return ""
