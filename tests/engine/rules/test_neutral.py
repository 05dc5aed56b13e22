"""Per-shard implementations on padded axes never let the padding show."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.rules.neutral import neutral

# Nothing here is divided by 4 or 8, nor by 2 where it is looked up.
Rows, Words, Ids, Two = ml.dims(rows=5, words=13, ids=6, two=2)
MESH = ml.mesh(x=4, y=2)
X8 = ml.mesh(x=8)
TABLE = ml.f32[Rows, Words]
RANDOM = np.random.default_rng(8)
LAYOUTS = ("words:x", "rows:x words:y", "words:y+x", "ids?:x rows:y")


def table():
    x = RANDOM.integers(-3, 4, (5, 13)).astype(np.float32)
    x[0, 12] = x[1, 3] = np.nan
    x[2, :], x[3, :] = -np.inf, np.inf
    return x


def ordered(x, ids):
    x = x.array
    best = [f(x, axis) for f in (jnp.argmax, jnp.argmin) for axis in (0, 1)]
    return best, [lax.top_k(x, k) for k in (1, 2, 5, 13)], jnp.argmax(x > 0, 1)


def running(x, ids):
    signs = jnp.where(x.array > 0, 1.0, -1.0)
    return [
        f(signs, axis, reverse)
        for f in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)
        for axis in (0, 1)
        for reverse in (False, True)
    ]


def joined(x, ids):
    positive, whole = x.array > -2, jnp.where(x.array > 0, 3, -6)
    return (
        jnp.prod(whole, 1),
        jnp.any(~positive, 1),
        jnp.all(positive, 0),
        [f(whole, [1]) for f in (lax.reduce_and, lax.reduce_or, lax.reduce_xor)],
    )


def looked_up(x, ids):
    x, ids = x.array, ids.array
    lookups = [jnp.take(x, ids, 1, mode=mode) for mode in ("clip", "fill", "wrap")]
    rows = jax.vmap(lambda row, at: lax.dynamic_slice_in_dim(row, at, 2))(x, ids[:5])
    return lookups, rows, x[ids % 5, ids], lax.dynamic_slice(x, (ids[0], ids[1]), (2, 3)), jnp.take(x > 0, ids, 1)


def written(x, ids):
    x, ids = x.array, ids.array
    news = jnp.arange(6.0)
    return (
        x.at[:, ids].add(news, mode="drop"),
        x.at[:, ids].max(news, mode="clip"),
        x.at[ids[0]].set(7.0),
        lax.dynamic_update_slice(x, jnp.ones((2, 3)), (ids[1], ids[2])),
        jax.vmap(lambda row, at: lax.dynamic_update_slice_in_dim(row, news[:2], at, 0))(x, ids[:5]),
        jnp.zeros(13).at[ids].add(news),
    )


def drawn(x, ids):
    key = jax.random.PRNGKey(0) + ids.array[:2].astype(jnp.uint32)
    return [
        jnp.where(x.array > 0, bits, bits) for bits in (jax.random.bits(key, (5, 13)), jax.random.normal(key, (5, 13)))
    ]


@pytest.mark.share(5)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fn", [ordered, running, joined, looked_up, written, drawn])
def test_results_are_those_of_the_plain_function_where_parts_are_padded(fn, layout):
    plan = ml.trace(fn, TABLE, ml.i32[Ids]).plan(MESH, layout, pad=True)
    for ids in ([0, 12, 3, -1, 20, 5], [12, 4, 11, 11, -9, 0]):
        report = plan.check(table(), np.array(ids, np.int32))
        assert report.ok, f"{layout}:\n{report}"


def test_an_embedding_of_an_awkward_vocabulary_is_never_gathered():
    def fn(x, ids):
        def loss(x):
            return (jnp.take(x, ids.array, 1, mode="clip") ** 2).sum()

        return jnp.argmax(x.array, 1), jax.grad(loss)(x.array)

    program = ml.trace(fn, TABLE, ml.i32[Ids])
    for mesh, layout in ((X8, "words:x"), (MESH, "words:x rows:y"), (MESH, "words:x ids:y"), (MESH, "ids:x")):
        plan = program.plan(mesh, layout, pad=True)
        report = plan.check(np.nan_to_num(table(), posinf=3, neginf=-3), np.array([0, 12, 3, 3, 2, 9], np.int32))
        assert report.ok, f"{layout}:\n{report}"
        assert {c.kind for c in plan.collectives} <= {"all-reduce"}


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float32", "bfloat16"])
def test_neutral_elements_change_nothing(dtype):
    x = jnp.asarray([0, 1] if dtype == "bool" else [0, 1, 2, 100], dtype)
    for name, join in (
        ("cummax", lax.max),
        ("cummin", lax.min),
        ("reduce_or", lax.bitwise_or),
        ("reduce_and", lax.bitwise_and),
        ("reduce_xor", lax.bitwise_xor),
        ("cumsum", lax.add),
        ("cumprod", lax.mul),
        ("cumlogsumexp", jnp.logaddexp),
    ):
        bits, floats = name.startswith("reduce"), jnp.issubdtype(x.dtype, jnp.inexact)
        if (bits and floats) or (dtype == "bool" and name in ("cumsum", "cumprod")):
            continue
        if name == "cumlogsumexp" and not floats:
            continue
        np.testing.assert_array_equal(join(x, jnp.broadcast_to(neutral(name, x.dtype), x.shape)), x)
