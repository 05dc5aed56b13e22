"""Kinds of collectives are a table: what reads it knows a kind that is added, and nothing else names one."""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.cost.machines.collective_time import rate
from meshlab.engine.collectives.device import Device
from meshlab.engine.collectives.hops import Course, Hop, Pairs, Transfer
from meshlab.engine.collectives.kinds import KINDS, RING, SLICE, Here, Kind, Sending
from meshlab.engine.rules.per_shard import PER_SHARD, ShardedOperation
from meshlab.engine.verifying.hlo import read_collectives
from meshlab.widgets.notebook.protocol import shared_state
from meshlab.widgets.state.selection import identities
from meshlab.widgets.views.devices.hops import hops_view
from meshlab.widgets.views.devices.matrix import sent_by_way
from tests.test_layers import nodes, sources

Rows, Time = ml.dims(rows=4, time=16)
FOUND = "meshlab.engine.collectives.kinds"
_HLO = """ENTRY %main (x: f32[4,2]) -> f32[4,2] {
  %x = f32[4,2]{1,0} parameter(0)
  ROOT %y = f32[4,2]{1,0} collective-broadcast(%x), replica_groups={{0,1,2,3,4,5,6,7}}
}"""


def _from_first(device: Here, x: Any, asked: Sending) -> Any:
    """XLA for CPU knows no broadcast: a sum of which all addends but one are zero."""
    return lax.psum(jnp.where(device.index(asked.axes) == 0, x, 0), asked.axes)


def _along_a_chain(n: int, _pairs: Pairs) -> Course:
    """The first device sends n pieces one after the other, and each but the last passes on what it gets."""
    sent = [[Transfer(i, i + 1, hop - i) for i in range(n - 1) if 0 <= hop - i < n] for hop in range(2 * n - 2)]
    hops = tuple(Hop("devices pass on {bytes}", tuple(each), keeps=True) for each in sent)
    return Course(n, (tuple(range(n)), *((),) * (n - 1)), hops)


BROADCAST = Kind(
    "collective-broadcast",
    "The first device of a group has something; afterwards each has it.",
    way=RING,
    sent=lambda n: (n - 1) / n,
    formula="(n − 1)/n",
    course=_along_a_chain,
    run=_from_first,
    answer=lambda shape, _asked, _n: shape,
)


@pytest.fixture
def explorer(monkeypatch: pytest.MonkeyPatch):
    """An Explorer of a program whose operation, for a test, hands on what the first device has."""

    def hand_on(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
        return [device.send(BROADCAST, operands[0], Sending(sharded.split(sharded.params["axis"])))]

    monkeypatch.setitem(KINDS, BROADCAST.name, BROADCAST)
    monkeypatch.setitem(PER_SHARD, "cumsum", dataclasses.replace(PER_SHARD["cumsum"], run=hand_on))
    program = ml.trace(lambda x: jnp.cumsum(x.array, 1), ml.f32[Rows, Time])
    return ml.explore(program, ml.mesh("h100", x=8), layout="time:x")


def test_a_kind_that_is_added_is_counted_run_priced_read_and_drawn(explorer) -> None:
    plan = explorer.plan
    (sent,) = plan.collectives
    payload = 4 * Rows.size * Time.size // 8
    assert (sent.kind, sent.axes, sent.payload_bytes) == (BROADCAST.name, ("x",), payload)
    assert sent.wire_bytes == payload * 7 / 8
    given = np.arange(64, dtype=np.float32).reshape(4, 16)
    np.testing.assert_array_equal(plan.run(given), np.tile(given[:, :2], 8))
    gather = rate(KINDS["reduce-scatter"], plan.mesh.on, ("x",)).seconds(payload)
    assert plan.time.communication["x"] == pytest.approx(gather)
    (compiled,) = read_collectives(_HLO, {"x": 8})
    assert (compiled.kind, compiled.axes) == (BROADCAST.name, ("x",))
    (way,) = sent_by_way(plan.collectives)
    assert way.how == RING
    view: Any = hops_view(explorer, identities(plan)[0])
    assert sum(hop["bytes"] * len(hop["transfers"]) for hop in view["hops"]) == 8 * sent.wire_bytes
    assert {target for hop in view["hops"] for _, target, _, _ in hop["transfers"]} == set(range(1, 8))
    assert shared_state(explorer)["terms"][BROADCAST.name] == BROADCAST.meaning


@pytest.mark.parametrize("kind", [*KINDS.values(), SLICE], ids=str)
def test_a_copy_of_a_kind_is_the_kind(kind: Kind) -> None:
    assert copy.deepcopy(kind) is kind
    assert kind.sends == (kind is not SLICE)


def test_only_the_table_names_kinds() -> None:
    """Docstrings may: their examples are run; and puzzles, which name them as users do."""
    named = []
    for module, text in sources().items():
        if module.startswith("meshlab.puzzles.course."):
            continue
        prose = {id(node.value) for node in nodes(text) if isinstance(node, ast.Expr)}
        named += [
            (module, node.lineno)
            for node in nodes(text)
            if isinstance(node, ast.Constant) and node.value in KINDS and id(node) not in prose and module != FOUND
        ]
    assert not named
    assert FOUND in sources()
