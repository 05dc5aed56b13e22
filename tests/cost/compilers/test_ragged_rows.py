"""Rows of experts as TPU and GPU compilers send them: without empty places on TPUs, where rows are whole tiles."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.cost.compilers.compile_for import compile_for
from tests.cost.compilers.test_compile_for import needs
from tests.cost.workload.test_expert_loads import program

pytestmark = pytest.mark.share(2, of="file")


def compiled(machine: str, embed: int, platform: str) -> ml.Compiled:
    needs(platform)
    plan = program(2.0, sizes=(64, embed, 256)).plan(ml.mesh(machine, data=4), "batch:data experts:data")
    return compile_for(plan)


def test_on_tpus_what_there_is_is_sent():
    found = compiled("v5e:2x2", 256, "tpu")
    assert found.ok
    assert not found.equal
    assert {(d.rule, d.times) for d in found.comparison.differences} == {("ragged", 4)}
    # The numbers of their experts are sent with all places.
    assert {(c.kind, c.dtype) for c in found.collectives if "all-to-all" in c.kind} == {
        ("ragged-all-to-all", "float32"),
        ("all-to-all", "int32"),
    }
    assert "the rows that there are, and not all places" in str(found)


@pytest.mark.parametrize(("machine", "embed", "platform"), [("v5e:2x2", 96, "tpu"), ("h100:1x4", 256, "cuda")])
def test_elsewhere_all_places_are_sent(machine, embed, platform):
    found = compiled(machine, embed, platform)
    assert found.ok
    assert {c.kind for c in found.collectives if "all-to-all" in c.kind} == {"all-to-all"}
