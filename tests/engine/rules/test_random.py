"""Random numbers are the same under every layout, to the bit, and drawing them sends nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry2x32_p

import meshlab as ml
from meshlab.engine.planning.steps import Compute
from meshlab.engine.rules.random import counters
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, A, B, checked, moved

TABLE = ml.f32[A, B]
ZEROS = np.zeros((8, 16), np.float32)
SHAPE = (8, 16)

DRAWN = {
    "normal": lambda key: jax.random.normal(key, SHAPE),
    "narrow normal": lambda key: jax.random.normal(key, SHAPE, jnp.bfloat16),
    "uniform": lambda key: jax.random.uniform(key, SHAPE, minval=-2, maxval=3),
    "bernoulli": lambda key: jax.random.bernoulli(key, 0.3, SHAPE),
    "integers": lambda key: jax.random.randint(key, SHAPE, -5, 100),
    "small integers": lambda key: jax.random.randint(key, SHAPE, 0, 7, jnp.int8),
    "bits": lambda key: [jax.random.bits(key, SHAPE, f"uint{width}") for width in (8, 16, 32)],
    "truncated": lambda key: jax.random.truncated_normal(key, -1, 2, SHAPE),
    "gumbel": lambda key: jax.random.gumbel(key, SHAPE),
    "exponential": lambda key: jax.random.exponential(key, SHAPE),
    "gamma": lambda key: jax.random.gamma(key, 2.0, SHAPE),
    "folded": lambda key: jax.random.normal(jax.random.fold_in(key, 7), SHAPE),
    "split": lambda key: [jax.random.normal(k, SHAPE) for k in jax.random.split(key)],
    "batch": lambda key: jax.vmap(lambda k: jax.random.normal(k, (16,)))(jax.random.split(key, 8)),
    "permutations": lambda key: jax.vmap(lambda k: jax.random.permutation(k, 16))(jax.random.split(key, 8)),
    "folded batch": lambda key: jax.vmap(lambda i: jax.random.bits(jax.random.fold_in(key, i), (16,)))(jnp.arange(8)),
    "clone": lambda key: jax.random.bits(jax.random.clone(key), SHAPE),
}


def beside(x, drawn):
    """Ties the dims of what is drawn to those of an argument; whole numbers keep their bits."""
    return jax.tree.map(lambda d: jnp.where(x.array > 0, d, d), drawn)


def computed(plan, name):
    """The steps of a plan that compute a primitive."""
    return [step for step in plan.steps if isinstance(step, Compute) and step.operation.name == name]


def equal(results, wanted):
    for f, w in zip(jax.tree.leaves(results), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.asarray(f, np.float64), np.asarray(w, np.float64))


@pytest.mark.share(5)
@pytest.mark.parametrize("name", DRAWN)
def test_the_same_numbers_are_drawn_where_they_are_split(name):
    def fn(x, raw, seed):
        return beside(x, (DRAWN[name](raw), DRAWN[name](jax.random.key(seed))))

    args = ZEROS, jax.random.PRNGKey(4), np.int32(-5)
    plan = checked(fn, (TABLE, *args[1:]), "a:x b:y", mesh=X2Y2, data=args)
    # What is shuffled is sorted by random numbers, and what is sorted is gathered.
    assert bool(moved(plan)) == ("permutations" in name)
    # The logarithms and powers of a gamma are vectorized otherwise in smaller parts, by XLA.
    if name != "gamma":
        equal(plan.run(*args), jax.jit(lambda *a: fn(ml.tensor(a[0], A, B), *a[1:]))(*args))


@pytest.mark.parametrize("layout", ["a:x", "b:x", "b:x+y", "b:y+x", "a:y+x"])
def test_the_same_bits_are_drawn_under_every_layout(layout):
    def fn(x, raw):
        return beside(x, [jax.random.bits(raw, SHAPE, f"uint{width}") for width in (8, 16, 32)])

    data = ZEROS, jax.random.PRNGKey(4)
    assert moved(checked(fn, (TABLE, data[1]), layout, mesh=X2Y2, data=data)) == []


def test_typed_keys_are_arguments_and_results():
    def fn(x, key, keys):
        first, rest = jax.random.split(key)
        drawn = beside(x, jax.vmap(lambda k: jax.random.normal(k, (16,)))(keys))
        return drawn, jax.random.split(first, (2, 3)), jax.random.key_data(rest), jax.random.fold_in(keys[3], 1)

    args = ZEROS, jax.random.key(8), jax.random.split(jax.random.key(9), 8)
    plan = ml.trace(fn, TABLE, *args[1:]).plan(X2Y2, "b:x")
    results = plan.run(*args)
    wanted = jax.jit(lambda *a: fn(ml.tensor(a[0], A, B), *a[1:]))(*args)
    assert moved(plan) == []
    equal(results[0], wanted[0])
    for f, w in zip(results[1:], wanted[1:], strict=True):
        assert f.dtype == w.dtype
        data = [jax.random.key_data(k) if jnp.issubdtype(k.dtype, jax.dtypes.prng_key) else k for k in (f, w)]
        np.testing.assert_array_equal(data[0], data[1])


def test_each_device_makes_its_own_part():
    def fn(x, key):
        return beside(x, jax.random.normal(key, (8, 16)))

    plan = checked(fn, (TABLE, jax.random.PRNGKey(0)), "a:x b:y", mesh=X2Y2, data=(ZEROS, jax.random.PRNGKey(0)))
    (step,) = computed(plan, "random_bits")
    assert step.per_shard
    assert step.results[0].splits == (("x",), ("y",))
    compiled = str(plan.compile().as_text())
    assert "u32[4,8]" in compiled
    assert "u32[8,16]" not in compiled


def test_dropout_and_its_gradient_need_no_word_with_others():
    def fn(x, key):
        def loss(x):
            mask = jax.random.bernoulli(key, 0.5, x.shape)
            return (jnp.where(mask, x / 0.5, 0) ** 2).sum()

        return jax.grad(loss)(x.array)

    program = ml.trace(fn, TABLE, jax.random.PRNGKey(0))
    data = np.arange(128, dtype=np.float32).reshape(8, 16), jax.random.PRNGKey(11)
    for mesh, layout in draw(program, seed=8, count=4):
        report = program.plan(mesh, layout).check(*data)
        assert report.ok, f"{layout} on {mesh}:\n{report}"
    assert moved(program.plan(X2Y2, "a:x b:y")) == []


def test_numbers_are_drawn_inside_loops_and_sampled_from_split_logits():
    def fn(logits, key):
        def step(key, _):
            key, one = jax.random.split(key)
            return key, jax.random.categorical(one, logits.array)

        return jax.lax.scan(step, key, None, 3)[1]

    data = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16), jax.random.PRNGKey(1)
    plan = checked(fn, (TABLE, data[1]), "b:x", mesh=X4, data=data)
    assert moved(plan) == [("all-reduce", ("x",), 8 * 4, 3)] * 2


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_generators_run_unsharded(impl):
    def fn(x, seed):
        return beside(x, jax.random.bits(jax.random.key(seed, impl=impl), (8, 16)))

    plan = checked(fn, (TABLE, np.int32(0)), "a:x b:y", mesh=X2Y2, data=(ZEROS, np.int32(7)))
    (step,) = computed(plan, "random_bits")
    assert not step.per_shard
    assert step.results[0].splits == ((), ())


def test_threefry_that_cannot_be_split_runs_unsharded():
    def fn(x, raw):
        return beside(x, jax.random.bits(raw, (8, 16)))

    with jax.threefry_partitionable(False):
        data = ZEROS, jax.random.PRNGKey(5)
        plan = checked(fn, (TABLE, data[1]), "a:x b:y", mesh=X2Y2, data=data)
    (step,) = computed(plan, "random_bits")
    assert not step.per_shard


def test_hashing_by_hand_runs_through():
    def fn(x):
        counts = jax.lax.broadcasted_iota(jnp.uint32, (8, 16), 0) + x.array.astype(jnp.uint32)
        key = jnp.full((8, 16), 9, jnp.uint32)
        return threefry2x32_p.bind(key, key, counts, counts + 1)

    assert moved(checked(fn, (TABLE,), "a:x b:y", mesh=X2Y2, data=(ZEROS,))) == []


@pytest.mark.parametrize(
    ("shape", "part", "firsts"),
    [
        ((8, 16), (4, 4), (4, 12)),
        ((2**16, 2**17), (3, 2), (2**16 - 3, 2**17 - 2)),
        ((2**16, 2**16), (2, 2), (2**16 - 2, 2**16 - 2)),
        ((3, 2**20, 1000, 17), (2, 2, 2, 2), (1, 2**20 - 5, 998, 15)),
        ((70000, 70001, 70003), (2, 1, 3), (69998, 70000, 70000)),
        ((), (), ()),
    ],
)
def test_elements_are_counted_through_arrays_of_any_size(shape, part, firsts):
    high, low = counters(shape, part, firsts)
    for place in np.ndindex(*part):
        wanted = 0
        for size, first, p in zip(shape, firsts, place, strict=True):
            wanted = wanted * size + first + p
        assert (int(high[place]), int(low[place])) == (wanted >> 32, wanted % 2**32)


KEYED = {
    "numbers": lambda key: jax.random.normal(key, (16,)),
    "keys": lambda key: jax.random.key_data(jax.random.split(key, 3)),
    "folded": lambda key: jax.random.key_data(jax.random.fold_in(key, 3)),
    "gamma": lambda key: jax.random.gamma(key, 2.0, (16,)),
}


@pytest.mark.parametrize("generator", ["rbg", "unsafe_rbg"])
@pytest.mark.parametrize("name", KEYED)
def test_generators_of_sequences_draw_for_all_keys_together(name, generator):
    """What they draw for a key depends on those beside it: under `vmap` the first one counts."""
    keys = jax.random.split(jax.random.key(0, impl=generator), 8)
    plan = ml.trace(jax.vmap(KEYED[name]), ml.named(keys, "chain")).plan(X4, "chain:x")
    report = plan.check(keys)
    assert report.ok, report
    assert [kind for kind, *_ in moved(plan)] == ["all-gather"]
