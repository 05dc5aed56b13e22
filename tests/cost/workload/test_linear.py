"""Linear matmuls in 8-bit floats: which they are, what they and their casts take, and on which machines."""

import re
from typing import cast

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.machines.hardware import hardware
from meshlab.cost.machines.matmul_kernels import MatmulKernels
from meshlab.cost.machines.units import seconds_text
from meshlab.cost.workload.linear import CAST, linear_matmuls, require_fp8
from meshlab.cost.workload.options import Options
from meshlab.engine.attention.scores import scores_of
from meshlab.engine.code.operations import walk
from meshlab.models import zoo
from meshlab.models.language import moe
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

MODELS = {model.name: model for model in zoo.models()}
H100 = hardware("h100")
KERNELS = cast("MatmulKernels", H100.kernels("float8_e4m3fn"))


def matmuls(program):
    return [operation for operation in walk(program.code.block) if operation.name in ("dot_general", "ragged_dot")]


def dims(program, operation):
    return [set(program.names[value]) for value in (*operation.inputs[:2], operation.outputs[0])]


# Models, with the dims of their heads and routers, and how many matmuls are linear, and operands are cast.
@pytest.mark.parametrize(
    ("model", "wide", "linear", "casts"),
    [
        # Four of attention, and two: each forward, again for the backward pass but the last, and for two gradients.
        ("gpt2_adamw", {"vocab"}, 6 + 5 + 12, 4 + 3 + 6),
        ("gpt2", {"vocab"}, 6, 4),
        ("llama_adamw", {"vocab"}, 7 + 6 + 14, 4 + 3 + 7),
        ("vit", {"classes"}, 13, 9),
    ],
)
def test_all_matmuls_are_linear_but_attention_and_head(model, wide, linear, casts):
    program = MODELS[model].trace()
    found = linear_matmuls(program)
    assert len(found) == linear
    assert sum(len(each.casts) for each in found.values()) == casts
    for operation in matmuls(program):
        of_scores = any(value in scores_of(program) for value in (*operation.reads, *operation.outputs))
        of_head = any(wide & each for each in dims(program, operation))
        weights = any("batch" not in each for each in dims(program, operation))
        assert (operation in found) == (weights and not of_scores and not of_head)


# Three matmuls of experts: forward, again for the backward pass, and for the gradients of rows and of weights.
@pytest.mark.parametrize(
    ("loss", "count"), [("loss", 12), ("switch_loss", 12), ("dropless_loss", 11), ("sorted_loss", 12)]
)
def test_a_router_is_not_and_its_experts_are(loss, count):
    config = moe.Config()
    program = ml.trace(training.sgd_step(getattr(moe, loss)), shapes(moe.init, config), *moe.inputs(config))
    found = linear_matmuls(program)
    assert (
        len([operation for operation in found if any("experts" in each for each in dims(program, operation))]) == count
    )
    assert not any("routes" in each for operation in found for each in dims(program, operation))


def test_weights_by_weights_are_not():
    """The two factors of an adapter, which are added to the weights."""
    T, E, R, F = ml.dims(tokens=64, embed=8, rank=2, ffn=16)
    shapes = ml.bf16[T, E], ml.bf16[E, R], ml.bf16[R, F], ml.bf16[E, F], ml.i32[T]
    program = ml.trace(lambda x, a, b, w, ids: ml.dot(x, w + ml.dot(a, b, R), E).sum(F) + ids, *shapes)
    assert [dims(program, operation) for operation in linear_matmuls(program)] == [
        [{"tokens", "embed"}, {"embed", "ffn"}, {"tokens", "ffn"}]
    ]
    assert len(matmuls(program)) == 2


def layer(tokens=8192, width=8192, hidden=28_672, dtype=ml.bf16):
    """A matmul with its gradients; its tokens are numbered, so that their dim is no weights'."""
    T, E, F = ml.dims(tokens=tokens, embed=width, ffn=hidden)

    def step(w, x, dy, ids):
        y, back = jax.vjp(lambda w, x: ml.dot(x, w, E), w, x)
        return y, back(dy), ids + 1

    return ml.trace(step, dtype[E, F], dtype[T, E], dtype[T, F], ml.i32[T])


def alone(rows, columns, inner):
    """The seconds of a matmul in 8 bits that writes 16."""
    rate = H100.flops_per_second("float8_e4m3fn")
    nbytes = rows * inner + inner * columns + 2 * rows * columns
    waiting = nbytes / (H100.bytes_per_second * KERNELS.memory.value)
    return KERNELS.base.value + max(KERNELS.multiplying(rows, columns, inner, 1, rate), waiting)


def test_matmuls_have_a_base_and_a_share_of_their_own_and_each_activation_is_cast_once():
    plan = layer().plan(ml.mesh("h100", x=1))
    wide, narrow = plan.time, plan.time.given(linear="fp8")
    casts = [cost for _, _, cost in narrow.spent.kernels if cost.name == CAST]
    # The input and the gradient of the output: read twice, written as they are and transposed. Weights are not.
    assert sorted(cost.nbytes for cost in casts) == [8192 * 8192 * 6, 8192 * 28_672 * 6]
    shapes = [(8192, 28_672, 8192), (8192, 8192, 28_672), (8192, 28_672, 8192)]
    casting = sum(cost.nbytes for cost in casts) / (H100.bytes_per_second * H100.efficiency.memory.value)
    others = [cost.seconds for step, _, cost in wide.spent.kernels if step.primitive != "dot_general"]
    assert narrow.estimate == pytest.approx(sum(alone(*shape) for shape in shapes) + casting + sum(others), rel=1e-3)
    assert 0.5 < (narrow.estimate - casting) / wide.estimate < 0.7
    # It does the same work, at a peak of twice as many FLOP/s.
    assert narrow.flops == wide.flops
    assert narrow.mfu * narrow.estimate == pytest.approx(wide.mfu * wide.estimate * 989 / 1979)
    assert narrow.compute_bound > 0.8 * narrow.estimate
    assert any(piece.name.startswith(CAST) and piece.bound == "memory" for piece in narrow.pieces)
    assert re.search(f"linear matmuls +3 in 8-bit floats, with casts of {seconds_text(casting)}", str(narrow))


def test_small_matmuls_gain_nothing():
    """The base of a matmul in 8 bits is twice that in 16."""
    time = layer(128, 256, 256).plan(ml.mesh("h100", x=1)).time
    assert time.given(linear="fp8").estimate > time.estimate


def test_programs_in_8_bits_have_the_same_kernels():
    x, w = (jax.ShapeDtypeStruct(shape, "float8_e4m3fn") for shape in ((4096, 4096), (4096, 4096)))
    program = ml.trace(lambda x, w: jax.lax.dot(x, w, preferred_element_type="bfloat16"), x, w)
    assert program.plan(ml.mesh("h100", x=1)).time.estimate == pytest.approx(alone(4096, 4096, 4096), rel=1e-6)


def test_sweeps_price_each_point_so():
    plan = layer().plan(ml.mesh("h100", x=2), "tokens:x")
    swept = ml.sweep(plan, on=["h100", "gb200"], tokens=[4096, 8192], linear="fp8")
    for i, on in enumerate(("h100", "gb200")):
        for j, tokens in enumerate((4096, 8192)):
            own = layer(tokens).plan(ml.mesh(on, x=2), "tokens:x").time.given(linear="fp8")
            assert np.asarray(swept.estimate)[i, j] == pytest.approx(own.estimate)


def test_machines_without_8_bits_are_refused_all_at_once():
    plan = layer().plan(ml.mesh("v5p", x=2), "tokens:x")
    with pytest.raises(ml.HardwareError, match=r'linear="fp8" needs .*none for Google TPU v5p\. .* `h100`'):
        plan.time.given(linear="fp8")
    with pytest.raises(ml.HardwareError, match=r"none for NVIDIA A100 .* and Google TPU v5p\."):
        require_fp8(map(hardware, ("a100", "v5p", "h100")))
    with pytest.raises(ml.HardwareError, match="there is none for NVIDIA A100"):
        ml.sweep(layer().plan(ml.mesh("h100", x=2), "tokens:x"), on=["a100", "h100"], linear="fp8")
    with pytest.raises(ml.HardwareError, match=r"computed in 'fp4'\. Did you mean `fp8`\? There are `program`, `fp8`"):
        Options(linear="fp4")


def test_a_program_without_linear_matmuls_says_so():
    B, E = ml.dims(batch=64, embed=64)
    time = ml.trace(lambda x: x + 1, ml.bf16[B, E]).plan(ml.mesh("h100", x=1)).time.given(linear="fp8")
    assert "none in this program: `fp8` has no effect" in str(time)
    assert time.estimate == time.given(linear="program").estimate
