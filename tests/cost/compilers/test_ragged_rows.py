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


def sent(found: ml.Compiled) -> dict[str, int]:
    """How many of the all-to-alls of rows, and of the numbers of their experts, are ragged."""
    kinds = [(c.dtype, "ragged" in c.name) for c in found.collectives if c.kind == "all-to-all"]
    return {dtype: kinds.count((dtype, True)) for dtype, _ in kinds}


def test_on_tpus_what_there_is_is_sent():
    found = compiled("v5e:2x2", 256, "tpu")
    # As many bytes as planned are the most that may be sent.
    assert found.equal
    assert sent(found) == {"float32": 4, "int32": 0}


@pytest.mark.parametrize(("machine", "embed", "platform"), [("v5e:2x2", 96, "tpu"), ("h100:1x4", 256, "cuda")])
def test_elsewhere_all_places_are_sent(machine, embed, platform):
    found = compiled(machine, embed, platform)
    assert found.ok
    assert set(sent(found).values()) == {0}
