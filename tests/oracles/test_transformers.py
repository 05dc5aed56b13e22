"""What a transformer has, and from where on training it is bound by compute: How to Scale Your Model, chapters 4 to 6.

Sources: https://jax-ml.github.io/scaling-book/transformers/ , /training/ and /applied-training/. Experts (SB-43) are
not here.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.cost.machines.hardware import hardware
from meshlab.models.language import decoding, llama
from meshlab.models.parts.initial import shapes
from tests.oracles.programs import (
    ONE,
    block,
    communication_seconds,
    compute_seconds,
    crossing,
    elements,
    flops,
    gradients,
    in_dtype,
    machine,
    parameters,
    stack,
    time,
    torus,
)

YEAR, DAY = 365.25 * 86400, 86400
# Of chapter 4: D, F, V and L; of chapter 5: Llama 2 13B. Both with as many keys as queries.
FOUR = llama.Config(1, 128, 32_000, 4096, heads=32, group=1, head=128, ffn=16_384, layers=64)
LLAMA2_13B = llama.Config(1, 128, 32_000, 5120, heads=40, group=1, head=128, ffn=13_824, layers=40)
LLAMA3_70B = llama.Config.llama3_70b(batch=1, seq=128)


def counted(config):
    """Parameters by what they are for: `ffn`, `attention` and `vocab`; the norms are left out."""
    params = shapes(llama.init, config)
    layers = {name: elements(x) for name, x in params["layers"].items()}
    return {
        "ffn": sum(layers[name] for name in ("gate", "up", "down")),
        "attention": sum(layers[name] for name in ("query", "key", "value", "output")),
        "vocab": elements((params["embedding"], params["head"])),
    }


@pytest.mark.parametrize(
    ("init", "config", "expected"),
    [
        # Printed as 16e9, with 4e3 and 16e3 for 4,096 and 16,384.
        pytest.param(llama.init, FOUR, 1.7442e10, id="SB-40"),
        pytest.param(llama.init, LLAMA3_70B, 7.055e10, id="SB-49"),
        pytest.param(llama.init, LLAMA2_13B, 1.3015e10, id="SB-56"),
    ],
)
def test_parameters(init, config, expected):
    assert parameters(init, config) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(LLAMA3_70B, {"ffn": 5.637e10, "vocab": 2.101e9, "attention": 1.208e10}, id="SB-49"),
        pytest.param(LLAMA2_13B, {"ffn": 8.493e9, "vocab": 3.277e8, "attention": 4.194e9}, id="SB-56"),
    ],
)
def test_parameters_by_what_they_are_for(config, expected):
    assert counted(config) == pytest.approx(expected, rel=1e-3)


def test_the_share_of_attention_and_what_a_token_leaves_in_the_cache():
    """SB-41: int8 keys and values."""
    counts = counted(FOUR)
    assert counts["attention"] / (counts["attention"] + counts["ffn"]) == pytest.approx(0.25)
    cache = jax.eval_shape(lambda: decoding.empty(FOUR, 1, jnp.int8))
    plan = ml.trace(lambda cache: cache, cache).plan(ONE, {})
    assert plan.memory.argument_bytes == 2 * 262_144 == 524_288


def test_the_operations_of_an_einsum():
    """SB-44: A[I,J,K,L] * B[I,J,M,N,O] -> C[K,L,M,N,O]."""
    dims = ml.dims(i=2, j=3, k=4, l=5, m=6, n=7, o=8)
    first, second = ml.f32[dims[:4]], ml.f32[dims[:2] + dims[4:]]
    plan = ml.trace(lambda a, b: ml.dot(a, b, "i", "j"), first, second).plan(ONE, {})
    assert flops(plan) == 2 * 2 * 3 * 4 * 5 * 6 * 7 * 8


def test_the_operations_of_a_layer():
    """SB-59: 4BDF/X forward and 8BDF/X backward, under data, FSDP, tensor and mixed parallelism."""
    batch, embed, ffn = 256, 64, 512
    forward, step = block(batch, embed, ffn), block(batch, embed, ffn, step=True)
    for mesh, layout in (
        (ml.mesh(x=4), "batch:x"),
        (ml.mesh(x=4), {"batch": "x", "params/*": {"embed": "x"}}),
        (ml.mesh(x=4), "ffn:x"),
        (ml.mesh(x=4, y=2), {"batch": "x", "ffn": "y", "params/*": {"embed": "x"}}),
    ):
        assert flops(forward.plan(mesh, layout)) == 4 * batch * embed * ffn / mesh.size
        assert flops(step.plan(mesh, layout)) == 12 * batch * embed * ffn / mesh.size


# From where on training is bound by compute. The book leaves out (n-1)/n on rings.


def bound(program, mesh, layout, on, shape=None):
    """How much longer computing takes than communicating."""
    plan = program.plan(mesh, layout)
    return compute_seconds(plan, on) - communication_seconds(plan, on, shape)


FULLY_SHARDED = {
    axes: {"batch": axes, "params/*": {"embed": axes}, "out/1/*": {"embed": axes}, "out/2": {"batch": axes}}
    for axes in (("x",), ("x", "y", "z"))
}


@pytest.mark.parametrize(
    ("axes", "expected"), [pytest.param(("x",), 2550, id="one axis"), pytest.param(("x", "y", "z"), 850, id="three")]
)
def test_tokens_of_a_chip_from_which_fsdp_is_bound_by_compute(axes, expected):
    """SB-45: C/W on a v5p. Weights are gathered in either pass, and gradients reduced and scattered."""
    mesh, on = ml.mesh(x=4, y=4, z=4), machine("v5p")
    chips = 4 ** len(axes)

    def difference(tokens):
        return bound(stack(tokens * chips, 8192, 28_672), mesh, FULLY_SHARDED[axes], on, (4, 4, 4))

    assert crossing(difference, 128, 16_384) == pytest.approx(expected, rel=1e-3)


def test_tokens_of_a_pod_from_which_fsdp_is_bound_by_compute():
    """SB-45: 7.6 million on 8,960 chips. SB-52: a batch of 4 Mi is 468 tokens for each, too few for FSDP alone."""
    mesh, on, shape = ml.mesh(x=16, y=20, z=28), machine("v5p"), (16, 20, 28)

    def difference(tokens):
        return bound(stack(tokens * 8960, 8960, 28_672), mesh, FULLY_SHARDED["x", "y", "z"], on, shape)

    size = crossing(difference, 128, 16_384)
    assert size * 8960 == pytest.approx(7.616e6, rel=2e-3)
    tokens = 4 * 2**20 / torus("v5p").largest
    assert tokens == pytest.approx(468.1, rel=1e-3)
    assert difference(round(tokens)) < 0


def test_tokens_of_a_pod_from_which_data_parallelism_between_pods_is_bound_by_compute():
    """SB-54: 76,000, C/W of a pod of 3.8e18 FLOP/s that sends 5e13 bytes/s to others."""
    mesh, on = ml.mesh(pods=2, x=16, y=20, z=28), machine("v5p", flops=3.8e18 / 8960, inter_node=5e13 / 8960)
    inside = ("x", "y", "z")
    layout = {"batch": ("pods", *inside), "params/*": {"embed": inside}, "out/0/*": {"embed": inside}}

    def difference(tokens):
        plan = gradients(tokens * 2, 8960, 28_672).plan(mesh, layout)
        predicted = time(plan, on, (16, 20, 28), slices=2)
        return predicted.flops / on.flops_per_second("bfloat16") - predicted.communication["pods"]

    assert crossing(difference, 8960, 8960 * 100) == pytest.approx(76_000, rel=1e-3)


@pytest.mark.parametrize(
    ("ffn", "longest", "expected"),
    [pytest.param(28_672, 16, 11.24, id="SB-46"), pytest.param(50_000, 20, 19.6, id="SB-46 50k")],
)
def test_how_far_tensor_parallelism_is_bound_by_compute(ffn, longest, expected):
    """SB-46: up to F/2,550 on one axis of a v5p. Computing falls as 1/Y, what is sent does not."""
    on, tensor = machine("v5p"), {"ffn": "y", "residual": {"embed": "y"}, "x": {"embed": "y"}, "out": {"embed": "y"}}

    def difference(share):
        ways = round(1 / share)
        return bound(block(65_536, 40_960, ffn), ml.mesh(x=4, y=ways, z=4), tensor, on, (4, ways, 4))

    assert 1 / crossing(difference, 1 / longest, 1 / 4) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("name", ["v5p"])
def test_how_far_tensor_parallelism_over_two_axes_is_bound_by_compute(name):
    """SB-65: up to 2F/2,550."""
    on, both = machine(name), ("y", "z")
    tensor = {"ffn": both, "residual": {"embed": both}, "x": {"embed": both}, "out": {"embed": both}}

    def difference(share):
        ways = round(1 / share) // 4
        return bound(block(65_536, 8192, 28_672), ml.mesh(x=4, y=4, z=ways), tensor, on, (4, 4, ways))

    assert 1 / crossing(difference, 1 / 32, 1 / 16) == pytest.approx(22.5, rel=2e-3)


# What training holds


def adam(loss):
    """A step of Adam: 16-bit parameters and no copy of them, two moments in 32 bits."""

    def updated(w, m, v, g):
        wide = g.astype(jnp.float32)
        m, v = 0.9 * m + 0.1 * wide, 0.95 * v + 0.05 * wide * wide
        return (w.astype(jnp.float32) - 1e-3 * m / (jnp.sqrt(v) + 1e-8)).astype(w.dtype), m, v

    def step(params, state, tokens, targets):
        grads = jax.grad(loss)(params, tokens, targets)
        leaves, tree = jax.tree.flatten(params)
        others = (jax.tree.leaves(each) for each in (state["first"], state["second"], grads))
        new = [updated(*each) for each in zip(leaves, *others, strict=True)]
        params, first, second = (jax.tree.unflatten(tree, [each[i] for each in new]) for i in range(3))
        return params, {"first": first, "second": second}

    return step


def stored(config, saved):
    """Bytes of a step on one device, by what they are for."""
    params = in_dtype(shapes(llama.init, config), jnp.bfloat16)
    state = {kind: in_dtype(params, jnp.float32) for kind in ("first", "second")}
    step = adam(functools.partial(llama.loss, saved=saved))
    program = ml.trace(step, params, state, *llama.inputs(config), carry={"params": 0, "state": 1})
    return program.plan(ml.mesh("v5p", x=1), {}).memory.donated.parts


def test_what_a_batch_of_4_million_tokens_holds():
    """SB-51: Llama 3 70B, four values of D kept of each layer. The text writes three, and counts four.

    140 and 560 GB are for 70e9 parameters, of which there are 70.55e9.
    """
    parts = stored(llama.Config.llama3_70b(batch=1000, seq=4000), ("query", "core", "attention"))
    assert parts["parameters"] == pytest.approx(140e9, rel=1e-2)
    assert parts["optimizer state"] == pytest.approx(560e9, rel=1e-2)
    assert parts["activations"] == pytest.approx(20.97e12, rel=1e-3)
    total = sum(parts[name] for name in ("parameters", "optimizer state", "activations"))
    assert total == pytest.approx(21.67e12, rel=5e-3)
    assert total / hardware("v5p").memory_bytes == pytest.approx(225.7, rel=5e-3)
    assert total / 8960 == pytest.approx(2.42e9, rel=5e-3)


def test_what_a_batch_of_16_million_tokens_holds():
    """SB-57: Llama 2 13B, 10 bytes of state for each parameter; kept are D + 2F of each layer, F = 2.7 D.

    Besides there is what the last layer hands on.
    """
    parts = stored(dataclasses.replace(LLAMA2_13B, batch=4000, seq=4000), ("gate", "up"))
    assert parts["parameters"] + parts["optimizer state"] == pytest.approx(1.30e11, rel=2e-3)
    assert parts["activations"] == pytest.approx(4.194e13, rel=5e-3)


# How long training takes


@functools.cache
def operations_of_a_token(saved=("all",)):
    """Of one training step of Llama 3 70B, of short sequences: what attention adds, 6 N leaves out."""
    loss = functools.partial(llama.loss, saved=saved)
    program = ml.trace(jax.value_and_grad(loss), shapes(llama.init, LLAMA3_70B), *llama.inputs(LLAMA3_70B))
    return flops(program.plan(ONE, {})) / LLAMA3_70B.seq


def test_how_long_llama_trains():
    """SB-50 and SB-55: 6.3e24 operations, which is 6 N for N = 70e9 and 15e12 tokens.

    Two differences, which almost cancel: Llama has 70.55e9 parameters, of which the embedding, 1.05e9, is looked up.
    """
    total = operations_of_a_token() * 15e12
    assert total == pytest.approx(6.3e24, rel=1e-2)
    rate = hardware("v5p").flops_per_second("bfloat16")
    assert total / rate / YEAR == pytest.approx(435.2, rel=1e-2)
    assert total / (8960 * rate * 0.4) / DAY == pytest.approx(44.32, rel=1e-2)
    # 16e6 tokens a step on as many chips as leave each of them the 850 of SB-45.
    assert total / (16e6 / 850 * rate * 0.5) / DAY == pytest.approx(16.88, rel=1e-2)
