"""`plan.memory.range`: the peaks of plans that are made with other factors."""

from __future__ import annotations

import pytest

import meshlab as ml
from tests.cost.workload.test_expert_loads import program

LAYOUTS = {
    "experts with data": (ml.mesh("h100:1x1x8", data=8), "batch:data experts:data", 8),
    "no machine": (ml.mesh(data=8), "batch:data experts:data", 8),
    "groups": (ml.mesh("h100:1x1x8", data=2, ep=4), "batch:data+ep experts:ep", 4),
    "tpu": (ml.mesh("v5p:2x2x2", data=2, ep=4), "batch:data+ep experts:ep", 4),
    "experts alone": (ml.mesh("h100:1x1x4", ep=4), "experts:ep", 4),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("factor", [1.0, 1.5, 4.0])
def test_it_is_what_other_factors_take(name, factor):
    mesh, layout, never = LAYOUTS[name]
    memory = program(factor).plan(mesh, layout).memory
    found = memory.range
    for size, at in ((found.least_bytes, 1.0), (found.most_bytes, float(never))):
        made = program(at).plan(mesh, layout).memory.peak_bytes
        # Tiles of a TPU pad arrays inside operations by the shapes that these stand for.
        off = 0.1 if name == "tpu" else 0.003
        assert size == pytest.approx(made, rel=off if factor != at else 1e-9)
    assert dict(found.most) == {"rows": never}
    assert dict(found.factors) == {"rows": pytest.approx(factor)}
    assert found.least_bytes < found.most_bytes
    assert f"range            {found}" in repr(memory)
    assert f"with a factor of {never}, which never drops" in str(found)
    assert memory.donated.range.least_bytes <= found.least_bytes


def test_devices_that_have_all_experts_need_no_more():
    found = program(1.0).plan(ml.mesh(data=4), "batch:data").memory.range
    assert found.least_bytes == found.most_bytes
    assert "each device has all experts" in str(found)


def test_without_experts_it_is_the_peak():
    Rows, Width = ml.dims(rows=64, width=64)
    memory = ml.trace(lambda x: x * 2, ml.f32[Rows, Width]).plan(ml.mesh(data=4), "rows:data").memory
    assert memory.range.least_bytes == memory.range.most_bytes == memory.peak_bytes
    assert "no rows are sent to experts" in str(memory.range)
    assert "range " not in repr(memory)
