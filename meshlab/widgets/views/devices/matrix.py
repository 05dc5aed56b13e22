"""Who sends to whom: the bytes that each device sends to each other one in a step, by a stated convention.

    matrix_view(explorer)["cells"]      [(0, 1, 6000.0, ["model"]), (1, 0, 6000.0, ["model"]), …]

Ring collectives are a ring's: each device sends all that the plan counts to the next of its group, and the last to the
first. In an all-to-all each sends as much to each other one. A collective-permute sends to the pairs that are run
(`engine/collectives/routes.py`); what it moves nowhere, because a device keeps its block or has none behind it, is
counted by the plan all the same, and stands on the diagonal. So each row adds up to the wire bytes of the plan, and by
mesh axis to those of the axis.

Of more than `MOST_DEVICES` devices there are no cells, but one block for each set of mesh axes that something is sent
over.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import numpy as np

from ....engine.collectives.kinds import KINDS
from ....engine.collectives.routes import Route, pairs
from ....engine.plans.collective import Collective
from ....engine.specs.mesh import groups_of
from ...state.explorer_state import ExplorerState

MOST_DEVICES = 64
RING, EACH, PAIRS = "ring", "each", "pairs"
CONVENTION = (
    "An all-gather, reduce-scatter or all-reduce is a ring, in which each device sends to the next of its group; in an"
    " all-to-all each sends to every other one; a collective-permute sends to its pairs."
)


# From, to, bytes, and the sets of mesh axes that they are sent over.
MatrixCellView = tuple[int, int, float, list[str]]


class MatrixBlockView(TypedDict):
    """The groups over one set of mesh axes, and the bytes that each of their devices sends: in all, and by the way."""

    key: str
    size: int
    groups: int
    ways: dict[str, float]
    bytes: float


class MatrixView(TypedDict):
    """Who sends to whom in a step, in bytes; `kept` is what stays on its device."""

    devices: int
    most: int
    total: int
    cells: list[MatrixCellView]
    kept: int
    blocks: list[MatrixBlockView]
    convention: str


class Way(NamedTuple):
    """How bytes are sent.

    Attributes:
        axes: the mesh axes of the groups, major first.
        how: "ring", "each" or "pairs".
        route: of pairs, who sends to whom.
    """

    axes: tuple[str, ...]
    how: str
    route: Route | None = None

    @property
    def key(self) -> str:
        """Its mesh axes as one text."""
        return "+".join(self.axes)


def matrix_view(explorer: ExplorerState) -> MatrixView:
    """Describes who sends to whom under the present layout."""
    plan = explorer.plan
    sent = sent_by_way(plan.collectives)
    few = plan.mesh.size <= MOST_DEVICES
    cells, kept = _cells(plan.mesh, sent) if few else ([], 0)
    return {
        "devices": plan.mesh.size,
        "most": MOST_DEVICES,
        "total": round(plan.wire_bytes),
        "cells": cells,
        "kept": kept,
        "blocks": _blocks(plan.mesh, sent),
        "convention": CONVENTION,
    }


def sent_by_way(collectives: tuple[Collective, ...]) -> dict[Way, float]:
    """Adds up what one device sends in a step by the way in which it is sent."""
    sent: dict[Way, float] = defaultdict(float)
    for c in collectives:
        how = KINDS[c.kind].way or RING
        sent[Way(tuple(c.axes), how, c.asked.route)] += c.wire_bytes * c.times
    return dict(sent)


def matrices(mesh: Any, sent: Mapping[Way, float]) -> dict[str, np.ndarray]:
    """Returns for each set of mesh axes the bytes that each device (row) sends to each other one (column)."""
    by_key: dict[str, np.ndarray] = {}
    for way, count in sent.items():
        matrix = by_key.setdefault(way.key, np.zeros((mesh.size, mesh.size)))
        groups = groups_of(mesh, way.axes)
        if way.how == RING:
            matrix[groups, np.roll(groups, -1, axis=1)] += count
        elif way.how == EACH:
            n = groups.shape[1]
            for distance in range(1, n):
                matrix[groups, np.roll(groups, -distance, axis=1)] += count / (n - 1)
        else:
            matrix[np.arange(mesh.size), _targets(mesh, way.route)] += count
    return by_key


def _targets(mesh: Any, route: Route | None) -> np.ndarray:
    """Returns to which device each sends in a permute: itself, where it keeps its block or has none behind it."""
    assert route is not None, "a collective-permute has a route"
    axes, listed = pairs(route, mesh.axes)
    groups = groups_of(mesh, axes)
    targets = np.arange(mesh.size)
    for source, target in listed:
        targets[groups[:, source]] = groups[:, target]
    return targets


def _cells(mesh: Any, sent: Mapping[Way, float]) -> tuple[list[MatrixCellView], int]:
    """Lists the cells that are not empty, and counts what stays on one device."""
    by_key = matrices(mesh, sent)
    whole = sum(by_key.values(), np.zeros((mesh.size, mesh.size)))
    cells = [
        (int(i), int(j), float(whole[i, j]), [key for key, matrix in by_key.items() if matrix[i, j]])
        for i, j in zip(*whole.nonzero(), strict=True)
    ]
    return cells, round(float(np.trace(whole)))


def _blocks(mesh: Any, sent: Mapping[Way, float]) -> list[MatrixBlockView]:
    """Describes, for each set of mesh axes, its groups and what each of their devices sends in which way."""
    by_key: dict[str, dict[str, float]] = {}
    axes_of = {way.key: way.axes for way in sent}
    for way, count in sent.items():
        ways = by_key.setdefault(way.key, dict.fromkeys((RING, EACH, PAIRS), 0.0))
        ways[way.how] += count
    order = sorted(by_key, key=lambda key: -sum(by_key[key].values()))
    blocks: list[MatrixBlockView] = []
    for key in order:
        size = math.prod(mesh.axes[axis] for axis in axes_of[key])
        ways = {how: count for how, count in by_key[key].items() if count}
        blocks.append(
            {"key": key, "size": size, "groups": mesh.size // size, "ways": ways, "bytes": sum(ways.values())}
        )
    return blocks
