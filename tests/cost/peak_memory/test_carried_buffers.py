"""Buffers that arguments, loops and outputs share, donated or not; and updates of weights behind collectives."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from benchmarks.memory import total
from meshlab.cost.peak_memory.memory import memory_of
from meshlab.engine.running import run
from meshlab.models.zoo import models

PLATFORMS = ("cpu", "gpu", "tpu")
CACHE, WEIGHT = 4 * 256 * 64 * 4, 64 * 128 * 4


def f32(names, *shape):
    return ml.named(jax.ShapeDtypeStruct(shape, jnp.float32), names)


def written(cache, x, position):
    return jax.lax.dynamic_update_slice(cache, x[:, None], (0, position, 0))


def decode(cache, tokens):
    def one(carry, x):
        cache, position = carry
        cache = written(cache, x, position)
        return (cache, position + 1), jnp.einsum("btd,bd->b", cache, x)

    (cache, _), out = jax.lax.scan(one, (cache, 0), tokens)
    return cache, out


def nested(cache, tokens):
    def turn(cache, x):
        return jax.lax.fori_loop(0, 3, lambda i, cache: written(cache, i * x, i), cache), x.sum()

    return jax.lax.scan(turn, cache, tokens)


def once(cache, tokens):
    return written(cache, tokens[0], 7), tokens.sum()


def descended(weights, x):
    def loss(weights):
        y = x
        for weight in weights:
            y = jnp.tanh(y @ weight)
        return jnp.square(y).mean()

    value, grads = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, grads), value


def each_batch(weights, xs):
    return jax.lax.scan(descended, weights, xs)


def one_batch(weights, xs):
    return jax.lax.fori_loop(0, 5, lambda _, carry: descended(carry[0], xs[0]), (weights, 0.0))


def handed_on(weights, xs):
    return weights, jnp.tanh(xs[0] @ weights[0]).sum()


def scanned(weights, xs):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), w), xs[0], weights)[::-1]


def plan_of(fn, devices=2):
    if fn in (decode, nested, once):
        arguments = f32("batch time d", 4, 256, 64), f32("steps batch d", 3, 4, 64)
    elif fn is scanned:
        arguments = f32("layers embed _", 4, 128, 128), f32("steps batch embed", 3, 16, 128)
    else:
        arguments = [f32("embed ffn", 64, 128), f32("ffn embed", 128, 64)] * 2, f32("steps batch embed", 3, 16, 64)
    return ml.trace(fn, *arguments).plan(ml.mesh(x=devices), "batch:x")


@pytest.mark.parametrize("fn", [decode, nested, once, each_batch, one_batch, handed_on, scanned])
def test_the_peak_of_what_a_loop_carries_is_that_of_the_compiler(fn):
    plan = plan_of(fn)
    for donate, memory in ((False, plan.memory), (True, plan.memory.donated)):
        analysis = run.compiled(plan, donate=donate).memory_analysis()
        names = ("argument", "output", "temp", "alias")
        exact = total({name: getattr(analysis, f"{name}_size_in_bytes") for name in names})
        assert memory.peak_bytes == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("fn", [decode, nested, once])
def test_a_cache_is_there_once_where_it_is_donated_and_twice_where_it_is_not(fn, platform):
    """As XLA's compilers for v5e and H100 had it, of a cache of 256 MiB: 256 and 512."""
    memory = memory_of(plan_of(fn), platform)
    assert memory.donated.peak_bytes == pytest.approx(CACHE // 2, rel=0.05)
    assert memory.peak_bytes == pytest.approx(2 * CACHE // 2, rel=0.05)


@pytest.mark.parametrize(
    ("names", "caches"),
    [("batch time d", (3, 2)), ("batch d time", (3, 2)), ("time batch d", (2, 1))],
)
def test_a_cache_that_is_stored_in_another_order_than_it_is_written_in_is_copied_on_tpus(names, caches):
    """As XLA's compiler for v5e had it, of caches of 512 MiB (`benchmarks/looped.py`)."""
    sizes = {"batch": 16, "time": 512, "d": 256}
    axis = names.split().index("time")

    def step(cache, w, tokens):
        def one(carry, x):
            cache, position = carry
            at = [position if each == axis else 0 for each in range(3)]
            cache = jax.lax.dynamic_update_slice(cache, jnp.expand_dims(x @ w, axis), at)
            return (cache, position + 1), x.sum()

        (cache, _), out = jax.lax.scan(one, (cache, 0), tokens)
        return cache, out

    arguments = f32(names, *map(sizes.get, names.split())), f32("_ d", 256, 256), f32("steps batch _", 3, 16, 256)
    plan = ml.trace(step, *arguments).plan(ml.mesh(x=1))
    cache = 16 * 512 * 256 * 4
    for platform, expected in (("tpu", caches), ("gpu", (2, 1))):
        memory = memory_of(plan, platform)
        assert memory.peak_bytes == pytest.approx(expected[0] * cache, rel=0.1)
        assert memory.donated.peak_bytes == pytest.approx(expected[1] * cache, rel=0.1)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("fn", "nbytes"), [(handed_on, 4 * WEIGHT), (scanned, 4 * 128 * 128 * 4)])
def test_what_comes_back_as_it_came_is_there_once_where_it_is_donated(fn, nbytes, platform):
    """A step that returns what it does not train, and a scan that returns its own slices."""
    memory = memory_of(plan_of(fn), platform)
    assert memory.donated.peak_bytes - memory.argument_bytes < 0.6 * nbytes
    assert memory.peak_bytes - memory.argument_bytes >= nbytes


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("fn", [each_batch, one_batch])
def test_weights_that_a_loop_updates_are_written_over_where_they_are_donated(fn, platform):
    memory = memory_of(plan_of(fn), platform)
    assert memory.peak_bytes - memory.donated.peak_bytes == 4 * WEIGHT


@pytest.mark.parametrize("fn", [each_batch, one_batch])
def test_weights_are_copied_in_a_loop_only_where_a_later_step_reads_them(fn):
    """XLA for GPUs takes such copies out once steps have an order; of two weights in CPUs' order it cannot."""
    plan = plan_of(fn, devices=1)
    assert memory_of(plan, "gpu").peak_bytes < memory_of(plan, "cpu").peak_bytes


def test_gradients_are_all_there_before_weights_are_updated_on_gpus():
    """As XLA's compiler for H100 had it: 400 MiB, for 12 weights of 16 MiB and their gradients, and one being added."""
    layers, weight = 12, 2048 * 2048 * 4
    arguments = [f32("embed _", 2048, 2048)] * layers, f32("batch embed", 16, 2048)
    plan = ml.trace(descended, *arguments).plan(ml.mesh(x=8), "batch:x")
    memory = memory_of(plan, "gpu").donated
    assert (memory.peak_bytes - memory.argument_bytes) / weight == pytest.approx(layers + 1, abs=0.1)


@pytest.mark.share(6)
@pytest.mark.parametrize("model", [m for m in models() if m.name.endswith(("_sgd", "_adamw"))], ids=lambda m: m.name)
def test_overwriting_never_costs(model):
    program = model.trace()
    dim = "batch" if "batch" in program.dims else next(iter(program.dims))
    plan = program.plan(ml.mesh(x=4), {dim: "x"})
    for platform in PLATFORMS:
        memory = memory_of(plan, platform)
        assert memory.donated.peak_bytes <= memory.peak_bytes
