"""What looks odd and can be traced is exact: callbacks, hints to the compiler, empty arrays, odd dtypes, padding."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml

pytestmark = pytest.mark.share(2, of="file")

SHAPE = (8, 16)
LAYOUTS = ("a:x", "b:x", "a:x b:y", "b:x+y")
MESH = ml.mesh(x=2, y=4)


def like(dtype=jnp.float32, shape=SHAPE):
    return ml.named(jax.ShapeDtypeStruct(shape, dtype), "a b")


X = like()


def holds(fn, *arguments, layouts=LAYOUTS, data=()):
    program = ml.trace(fn, *arguments)
    for layout in layouts:
        report = program.plan(MESH, layout).check(*data)
        assert report.ok, f"{layout}: {report}"
    return program


# What a program may hold beside numbers


def test_the_same_with_sizes_that_are_known_is_exact():
    program = holds(lambda x: (jnp.where(x > 0, x, 0.0).sum(), jnp.nonzero(x, size=4, fill_value=0)[0]), X)
    assert program.places == ("x", "out/0", "out/1")


def test_a_pure_callback_runs_whole_and_the_plan_says_so():
    def fn(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2.0

    program = holds(fn, X)
    plan = program.plan(MESH, "a:x")
    assert "`pure_callback` needs `a` whole" in plan.collectives[0].because
    assert re.search(r"`pure_callback` at test_odd_input\.py:\d+ has no rule", str(plan.explain()))


@pytest.mark.parametrize("how", ["constraint", "device_put", "checkpoint_name", "stop_gradient"])
def test_what_says_where_values_lie_is_not_heard_and_cuts_no_names(how):
    device = jax.devices()[0]
    sharding = NamedSharding(jax.sharding.Mesh(np.array([device]), ("one",), axis_types=(AxisType.Auto,)), P("one"))
    said = {
        "constraint": lambda x: lax.with_sharding_constraint(x, sharding),
        "device_put": lambda x: jax.device_put(x, device),
        "checkpoint_name": lambda x: checkpoint_name(x, "kept"),
        "stop_gradient": lax.stop_gradient,
    }[how]
    program = holds(lambda x: jnp.tanh(said(x * 2.0)) + 1.0, X)
    assert program.place("out").dims == ("a", "b")
    assert not program.plan(MESH, "a:x b:y").collectives


def test_none_and_empty_trees_are_no_leaves():
    for params in (None, {}, [], {"w": None}, ({}, [None])):
        program = holds(lambda params, x: x, params, X, layouts=("a:x",), data=(params, np.ones(SHAPE, np.float32)))
        assert program.places == ("x", "out")


def test_numbers_and_none_may_be_returned():
    program = holds(lambda x: (x, None, 3, 2.5, True), X)
    assert program.places == ("x", "out/0", "out/2", "out/3", "out/4")
    assert program.plan(MESH, "a:x").run(np.ones(SHAPE, np.float32))[1] is None


# Sizes and dtypes at the edges


def test_arrays_of_size_zero_and_scalars_are_exact():
    program = holds(lambda x: (x * 2.0, x.sum(0), jnp.sort(x, 1)), like(shape=(0, 16)), layouts=("b:x", "b:x+y"))
    with pytest.raises(ml.LayoutError, match="`a` has size 0: there is nothing to shard"):
        program.plan(MESH, "a:x")
    holds(lambda x, y: (x + y, x * 2), 1.5, 2, layouts=("",), data=(1.5, 2))
    holds(lambda: (jnp.arange(3.0), jnp.float32(1.0)), layouts=("",))
    holds(lambda x: jnp.float32(3.0), X)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_are_exact(dtype):
    def fn(x):
        wide = x.astype(jnp.float32)
        return x * 2, x.T, jnp.max(x, 0), wide.sum(0), (wide + 1.0).astype(dtype), jnp.where(x > 0, x, -x)

    holds(fn, like(jnp.dtype(dtype)))


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int32", "uint32"])
def test_whole_numbers_and_truths_are_exact(dtype):
    def fn(x):
        return ~x, x.sum(0), x.max(1), x.any(0), x.all(), x.astype(jnp.float32).mean(), jnp.where(x > 0, x, x[::-1])

    holds(fn, like(jnp.dtype(dtype)))


def test_complex_numbers_are_exact():
    def fn(x, y):
        z = x + 1j * y
        return z @ z.T, jnp.abs(z).sum(0), jnp.conj(z).mean(), z.real, jnp.angle(z).max(1)

    holds(fn, X, X)
    holds(lambda z: (z.sum(1), (z * jnp.conj(z)).real.max()), like(jnp.complex64))


def test_wide_numbers_are_exact_where_jax_has_them():
    with jax.enable_x64(True):
        program = holds(lambda x, i: (x @ x.T, x.sum(), i.sum(0)), like(jnp.float64), like(jnp.int64))
        assert program.place("out/0").dtype == np.float64
        assert program.place("out/2").dtype == np.int64
        holds(lambda z: z.sum(0), like(jnp.complex128))


def test_wide_numbers_are_narrowed_as_jax_narrows_them():
    wide = np.random.default_rng(0).normal(size=SHAPE)
    program = ml.trace(lambda x: x.sum(0), ml.named(wide, "a b"))
    assert program.place("x").dtype == np.float32
    result = program.plan(MESH, "a:x").run(wide)
    np.testing.assert_allclose(result, wide.sum(0), rtol=1e-5)


def test_large_constants_are_held_whole_by_every_device():
    table = np.random.default_rng(0).normal(size=(1024, 4096)).astype(np.float32)

    def fn(x, ids):
        return x @ table[:16], jnp.asarray(table)[ids]

    ids = ml.named(jax.ShapeDtypeStruct((8,), jnp.int32), "a")
    data = (np.ones(SHAPE, np.float32), np.arange(8, dtype=np.int32))
    program = holds(fn, X, ids, layouts=("a:x",), data=data)
    plan = program.plan(MESH, "a:x")
    assert not plan.collectives
    assert plan.memory.argument_bytes == (8 * 16 * 4 + 8 * 4) / 2


# Derivatives of one's own


@jax.custom_vjp
def clipped(x):
    return x * 3.0


clipped.defvjp(lambda x: (x * 3.0, x), lambda x, g: (jnp.clip(g * x, -1.0, 1.0),))


@jax.custom_jvp
def softened(x):
    return jnp.sqrt(x * x + 1.0)


softened.defjvp(lambda primals, tangents: (softened(*primals), primals[0] / softened(*primals) * tangents[0]))


@pytest.mark.parametrize("fn", [clipped, softened])
def test_custom_derivatives_are_those_that_are_used(fn):
    program = holds(lambda x: (fn(x), jax.grad(lambda v: (fn(v) ** 2).sum())(x)), X)
    assert program.place("out/1").dims == ("a", "b")
    assert not program.plan(MESH, "a:x b:y").collectives


# What is padded, or masked, never makes finite results infinite or no numbers


def fragile(x, w):
    """Finite where x is positive; zeros in its place make a zero of each divisor and each logarithm."""

    def loss(x, w):
        shares = x / x.sum(1, keepdims=True)
        entropy = -(shares * jnp.log(shares)).sum(1)
        scaled = x * lax.rsqrt((x * x).mean(0)) + jnp.sqrt(x) ** 0.5
        spread = scaled.std(1) + jnp.linalg.norm(scaled, axis=0).sum()
        return (entropy / spread).mean() + (1.0 / (scaled @ w)).mean()

    value, grads = jax.value_and_grad(loss, (0, 1))(x, w)
    return value, grads, jnp.log(x).max(0), (1.0 / x).min(1), jnp.power(x, -1.5).sum(), x.prod(1)


def masked(x, w):
    """Rows of a softmax in which some scores are minus infinity, and their gradient."""

    def loss(x):
        seen = jnp.arange(x.shape[0])[:, None] >= jnp.arange(x.shape[0])
        scores = jnp.where(seen, (x @ w) @ (x @ w).T, -jnp.inf)
        return (jax.nn.softmax(scores, -1) @ x).sum() + jax.nn.logsumexp(scores, -1).mean()

    return jax.value_and_grad(loss)(x)


@pytest.mark.parametrize("fn", [fragile, masked])
def test_finite_results_stay_finite_under_padding_and_masks(fn):
    x, w = (
        np.random.default_rng(i).uniform(0.5, 1.5, shape).astype(np.float32)
        for i, shape in enumerate([(10, 7), (7, 7)])
    )
    arguments = (ml.named(x, "a b"), ml.named(w, "b _"))
    plain = jax.tree.leaves(jax.jit(fn)(x, w))
    assert plain
    assert all(np.all(np.isfinite(leaf)) for leaf in plain)
    program = ml.trace(fn, *arguments)
    assert len(program.outputs) == len(plain)
    for layout in ("a:y", "b:y", "a:x b:y", "a:x+y"):
        plan = program.plan(MESH, layout, pad=True)
        for place, leaf in zip(program.outputs, jax.tree.leaves(plan.run(x, w)), strict=True):
            assert np.all(np.isfinite(leaf)), f"{layout}: {place}"
        report = plan.check(x, w)
        assert report.ok, f"{layout}: {report}"


def test_loops_and_branches_under_padding_stay_finite():
    def fn(x):
        y = lax.while_loop(lambda v: v.min() < 2.0, lambda v: v / v.max() + v, x)
        z = lax.cond(y.min() > 1.0, jnp.log, lambda v: 1.0 / v, y)
        return lax.scan(lambda c, row: (c + row / row.sum(), jnp.log(c).max()), jnp.ones(7), z)

    x = np.random.default_rng(0).uniform(0.5, 1.5, (10, 7)).astype(np.float32)
    program = ml.trace(fn, ml.named(x, "_ b"))
    for layout, leaf in itertools.product(("b:x", "b:y", "b:x+y"), range(2)):
        plan = program.plan(MESH, layout, pad=True)
        assert np.all(np.isfinite(plan.run(x)[leaf])), layout
        assert plan.check(x).ok, layout
