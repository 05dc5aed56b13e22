"""Time and memory of a plan whose micro-batches run one after another."""

import numpy as np
import pytest

import meshlab as ml
from meshlab.models.zoo import models
from tests.engine.small_programs import temporary_bytes

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in models()}
FSDP = {"batch": "data+micro", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}
TRAINING = ("transformer_adamw", "gpt2_adamw", "llama_bfloat16", "state_space_adamw", "moe_sgd", "convnet_sgd")


def planned(name, count, layout, **axes):
    return MODELS[name].trace().plan(ml.mesh("v5e:2x2", **axes, micro=ml.serial(count)), layout)


def test_the_same_work_is_done_in_more_pieces():
    plain = MODELS["transformer_adamw"].trace().plan(ml.mesh("v5e:2x2", data=4), "batch:data").time
    times = [planned("transformer_adamw", count, "batch:data+micro", data=4).time for count in (1, 2)]
    assert times[0].estimate == plain.estimate
    assert all(each.flops == plain.flops and each.model_flops == plain.model_flops for each in times)
    # Gradients are reduced once; smaller kernels take longer together, and sums are added up.
    assert all(each.communication == plain.communication for each in times)
    assert times[1].compute > times[0].compute


def test_what_each_iteration_sends_is_paid_in_each():
    def sent(**options):
        mesh = ml.mesh("v5e:2x2", data=4, micro=ml.serial(2, **options))
        return MODELS["transformer_adamw"].trace().plan(mesh, FSDP).time.communication["data"]

    once, each = sent(reduce="once"), sent(reduce="each")
    assert sent() > 1.2 * once
    assert each >= sent() > sent(gather="once") > once


def test_accumulating_is_a_kernel():
    time = planned("mlp", 4, "batch:data+micro", data=4).time
    (added,) = [(times, cost) for step, times, cost in time.spent.kernels if type(step).__name__ == "Iterated"]
    gradients = 4 * (8 * 8 * 64 + 64 * 8) + 4
    assert added[0] == 4
    assert added[1].nbytes == 3 * gradients


def test_a_sweep_varies_the_number_of_micro_batches():
    plan = planned("transformer_adamw", 2, "batch:data+micro", data=2, model=2)
    swept = ml.sweep(plan, micro=[2, 4], batch=[8, 16])
    alone = planned("transformer_adamw", 4, "batch:data+micro", data=2, model=2)
    assert swept.estimate[0, 0] == pytest.approx(plan.time.estimate)
    assert swept.estimate[1, 0] == pytest.approx(alone.time.estimate)
    assert swept.peak_bytes[0, 0] == plan.memory.peak_bytes
    assert (np.diff(swept.peak_bytes, axis=0) <= 0).all()


@pytest.mark.share(3)
@pytest.mark.parametrize("counts", [(1, 2, 4), (4, 1, 2), (1,)])
def test_at_one_micro_batch_a_sweep_has_the_plan_without_a_loop(counts):
    two, one = (planned("transformer_adamw", n, "batch:data+micro", data=2, model=2) for n in (2, 1))
    swept = ml.sweep(two, micro=counts, batch=[8, 12])
    assert swept.varied["micro"] == counts
    assert len(swept.columns()["estimate"]) == 2 * len(counts)
    assert swept.estimate[counts.index(1), 0] == one.time.estimate
    assert swept.peak_bytes[counts.index(1), 0] == one.memory.peak_bytes
    for i, count in enumerate(counts):
        alone = ml.sweep(one, batch=[8, 12]) if count == 1 else ml.sweep(two, micro=[count], batch=[8, 12])
        for mine, its in (
            *((swept.figures[name], alone.figures[name]) for name in swept.figures),
            (swept.communication["data"], alone.communication["data"]),
            (swept.peak_bytes, alone.peak_bytes),
            (swept.limit_bytes, alone.limit_bytes),
        ):
            np.testing.assert_array_equal(mine[i], its.reshape(2))
        assert {at[1]: why for at, why in swept.reasons.items() if at[0] == i} == {
            at[-1]: why for at, why in alone.reasons.items()
        }


def test_sizes_that_micro_batches_do_not_divide_are_left_out():
    plan = planned("transformer_adamw", 2, "batch:data+micro", data=4)
    swept = ml.sweep(plan, batch=[8, 12])
    assert np.isnan(swept.estimate).tolist() == [False, True]
    assert "`batch` of 12" in swept.reasons[1,]


@pytest.mark.share(5)
@pytest.mark.parametrize("name", TRAINING)
def test_temporary_memory_falls_with_micro_batches_as_predicted(name):
    program, predicted, compiled = MODELS[name].trace(), [], []
    layout = {"batch": "micro"} | ({"groups": "micro"} if name.startswith("moe") else {})
    for count in (1, 2, 4):
        plan = program.plan(ml.mesh(micro=ml.serial(count)), layout)
        predicted.append(plan.memory.temporary_bytes)
        compiled.append(temporary_bytes(plan))
    assert compiled[0] > 1.2 * compiled[1] > 1.2 * compiled[2], compiled
    assert predicted[0] > 1.2 * predicted[1] > 1.2 * predicted[2], predicted
    # CPU tests compile for quickly, so that less is fused than `plan.memory` follows.
    assert np.allclose(predicted, compiled, rtol=0.5), (predicted, compiled)


def test_the_peak_is_told_by_role():
    memory = planned("transformer_adamw", 2, FSDP, data=4).memory
    assert sum(memory.parts.values()) == memory.peak_bytes
    assert repr(memory)
    assert memory.timeline
    assert memory.donated.peak_bytes < memory.peak_bytes


def test_sums_of_16_bits_take_four_bytes_a_number():
    Batch, Rows, Cols = ml.dims(batch=64, rows=128, cols=256)
    program = ml.trace(lambda x, y: ml.dot(x, y, Batch), ml.bf16[Batch, Rows], ml.bf16[Batch, Cols])
    plan = program.plan(ml.mesh(micro=ml.serial(4)), "batch:micro")
    assert plan.memory.temporary_bytes >= 4 * 128 * 256
