"""The costs of a plan at other sizes of a dim are those of the plan that is made there."""

from __future__ import annotations

import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.workload.options import Options
from meshlab.models.language import transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.whatif.at_sizes import costs_at
from tests.given import refused

pytestmark = pytest.mark.share(3, of="file")
BARE = ml.mesh(data=2, model=2)


@pytest.mark.parametrize("layout", [ml.layouts.fsdp, ml.layouts.tensor_parallel, ml.layouts.data_parallel])
@pytest.mark.parametrize(
    ("model", "dim"),
    [("llama_adamw", "batch"), ("llama_adamw", "layers"), ("gpt2_adamw", "vocab"), ("convnet_sgd", "batch")],
)
def test_bytes_are_those_of_the_plan_at_that_size(model, dim, layout):
    program = ml.named_models()[model].trace()
    rules = layout(program, BARE)
    sizes = [program.dims[dim] * times for times in (1, 2, 4)]
    costs = costs_at(program.plan(BARE, rules), dim, sizes)
    plans = [program.resize(**{dim: size}).plan(BARE, rules) for size in sizes]
    assert costs.wire_bytes.tolist() == pytest.approx([plan.wire_bytes for plan in plans], rel=1e-12)
    assert costs.argument_bytes.tolist() == [plan.stored.argument_bytes for plan in plans]
    assert costs.seconds is costs.peak_bytes is None


def test_collectives_within_an_operation_are_counted():
    program = ml.named_models()["convnet"].trace()
    plan = program.plan(BARE, "rows:data")
    costs = costs_at(plan, "batch", [8, 16])
    again = program.resize(batch=16).plan(BARE, "rows:data")
    assert costs.wire_bytes.tolist() == pytest.approx([plan.wire_bytes, again.wire_bytes], rel=1e-12)
    assert any(c.kind == "collective-permute" for c in plan.collectives)


def test_on_a_machine_times_are_those_of_a_sweep_and_the_peak_is_donated():
    program, mesh = ml.named_models()["llama_adamw"].trace(), ml.mesh("v5e", data=2, model=2)
    plan = program.plan(mesh, ml.layouts.fsdp(program, mesh))
    costs = costs_at(plan, "batch", [8, 16, 32], Options(attention="flash"))
    assert costs.seconds is not None
    assert costs.peak_bytes is not None
    np.testing.assert_allclose(costs.seconds, ml.sweep(plan, batch=[8, 16, 32], attention="flash").estimate, rtol=1e-12)
    assert costs.peak_bytes[0] == plan.memory.given("flash").donated.peak_bytes
    assert (np.diff(costs.peak_bytes) > 0).all()


def test_what_is_no_dim_is_refused():
    plan = ml.named_models()["mlp"].trace().plan(BARE, "batch:data")
    refused(lambda: costs_at(plan, "bach", [8]), ml.MeshlabError, r"no mesh axis `bach`. Did you mean `batch`")


@pytest.mark.parametrize("schedule", ["paired", "interleaved"])
def test_a_pipeline_sends_what_its_plan_says(schedule):
    config = transformer.Config(seq=8, vocab=32, embed=16, heads=2, group=2, head=8, ffn=32, batch=8, layers=4)
    arguments = shapes(transformer.init, config), *transformer.inputs(config)
    program = ml.trace(training.sgd_step(transformer.loss), *arguments)
    mesh = ml.mesh(data=2, pipe=ml.stages(2, schedule), micro=ml.serial(4))
    plan = program.plan(mesh, {"batch": "data+micro", "layers": "pipe", "params/*": {"embed": "data"}})
    costs = costs_at(plan, "ffn", [32, 64])
    assert costs.wire_bytes[0] == pytest.approx(plan.wire_bytes)
    assert costs.wire_bytes[1] > costs.wire_bytes[0]
