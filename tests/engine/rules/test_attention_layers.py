"""Attention in the layers of a model: sent as counted, exact after a step, and falling in memory with the ring."""

from __future__ import annotations

import functools

import jax
import pytest

import meshlab as ml
from meshlab.engine.programs.random_arguments import drawn_arguments
from tests.widened import widened

from .test_attention import Batch, Depth, Heads, K, Q, Seq, attend, counted, drawn, step

LAYERS = 3


@functools.cache
def layers(again: bool, wide: bool = False) -> ml.Program:
    """A step of descent of layers around a core; `again` computes them again in the backward pass."""
    Embed, Layers = ml.Dim("embed", 16), ml.Dim("layers", LAYERS)

    def layer(x, w):
        q, k, v = (ml.dot(x, w[name], Embed) for name in "qkv")
        with jax.named_scope("core"):
            out = attend(q, k, v, causal=True)
        return x + ml.dot(out, w["out"], Heads, Depth)

    def loss(params, x):
        run = ml.checkpoint(layer) if again else layer
        x, _ = ml.scan(lambda x, w: (run(x, w), None), x, params, Layers)
        return (x**2).mean()

    def train(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    into, out = ml.f32[Layers, Embed, Heads, Depth], ml.f32[Layers, Heads, Depth, Embed]
    arguments = {"q": into, "k": into, "v": into, "out": out}, ml.f32[Batch, Seq, Embed]
    return ml.trace(train, *(widened(arguments) if wide else arguments))


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("again", [False, True], ids=["kept", "rematerialised"])
def test_permutes_of_a_ring(n: int, again: bool):
    plan = layers(again).plan(ml.mesh(cp=n), "seq:cp kv:cp")
    permutes = 8 * n - 6 if again else 6 * n - 4
    assert counted(plan)["collective-permute", ("cp",)] == LAYERS * permutes
    assert plan.check().ok


@pytest.mark.parametrize("again", [False, True], ids=["kept", "rematerialised"])
@pytest.mark.parametrize("n", [2, 4])
def test_all_to_alls_of_usp(n: int, again: bool):
    """Four arrays there and four gradients back; again, the forward pass's four once more, and two turns of a ring."""
    layout = {"seq": "cp+u", "kv": "cp+u", "@core": {"seq": "cp", "kv": "cp", "heads": "u"}}
    plan = layers(again).plan(ml.mesh(cp=n, u=2), layout)
    assert counted(plan)["all-to-all", ("u",)] == LAYERS * (12 if again else 8)
    assert counted(plan)["collective-permute", ("cp",)] == LAYERS * (8 * n - 6 if again else 6 * n - 4)
    assert plan.check().ok


@pytest.mark.parametrize("n", [2, 4, 8])
def test_flash_decoding_sends_one_maximum_and_one_sum(n: int):
    plan = ml.trace(attend, *drawn()).plan(ml.mesh(a=n), "kv:a")
    assert counted(plan) == {("all-reduce", ("a",)): 2}
    assert plan.check().ok


STEPS = {
    "gathered": "seq:cp",
    "ring": "seq:cp kv:cp",
    "zig-zag": "seq:zigzag(cp) kv:zigzag(cp)",
    "USP": {"seq": "cp+u", "kv": "cp+u", "@core": {"seq": "cp", "kv": "cp", "heads": "u"}},
}


@pytest.mark.share(4)
@pytest.mark.parametrize(("wide", "most"), [(False, 1e-6), (True, 1e-12)], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("how", STEPS)
def test_a_step_is_that_of_one_device(how: str, wide: bool, most: float):
    with jax.enable_x64(wide):
        program = layers(True, wide)
        plan, plain = program.plan(ml.mesh(cp=4, u=2), STEPS[how]), jax.jit(program.fn)
        arguments = drawn_arguments(program)
        for mine, right in zip(*(jax.tree.leaves(run(*arguments)) for run in (plan.run, plain)), strict=True):
            assert abs(mine - right).max() <= most * (1 + abs(right).max())


@pytest.mark.parametrize("length", [4096, 65_536, 1_048_576])
def test_temporary_memory_falls_with_the_ring(length: int):
    """By prediction; at 4096 positions as XLA for CPUs compiles it too. docs/long-sequences.md has the table."""
    sizes = {Seq: ml.Dim("seq", length), Depth: ml.Dim("depth", 64)}
    arrays = [ml.bf16[tuple(sizes.get(dim, dim) for dim in dims)] for dims in (Q, K, K)]
    program = ml.trace(functools.partial(step, causal=True), *arrays)
    plans = [program.plan(ml.mesh(a=n), "seq:a kv:a") for n in (1, 2, 4, 8)]
    held = [plan.stored.argument_bytes + plan.stored.output_bytes for plan in plans]
    temporary = [plan.memory.peak_bytes - stored for plan, stored in zip(plans, held, strict=True)]
    assert temporary == sorted(temporary, reverse=True)
    if length > 4096:
        # Nothing is left that all devices hold: with n devices it is an n-th.
        assert temporary[3] < temporary[1] / 3
    else:
        compiled = [plan.compile().memory_analysis() for plan in plans[1:]]
        assert all(compiled)
        sizes_as_compiled = [each.temp_size_in_bytes for each in compiled if each]
        assert sizes_as_compiled == sorted(sizes_as_compiled, reverse=True)
