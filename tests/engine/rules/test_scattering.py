"""Scatters are the same however array, indices and updates are sharded, and send no more than they must."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, A, B, C, checked, moved

Pick, Row, Many = ml.dims(pick=4, row=8, many=64)
RANDOM = np.random.default_rng(1)
TABLE = ml.f32[A, B]


def numbers(*shape):
    """Whole numbers, which add up and multiply exactly in any order."""
    return RANDOM.integers(1, 4, shape).astype(np.float32)


def positions(low, high, *shape):
    return RANDOM.integers(low, high, shape).astype(np.int32)


def once(size, count):
    return RANDOM.permutation(size)[:count].astype(np.int32)


KINDS = {
    "scatter-add": lax.scatter_add,
    "scatter-mul": lax.scatter_mul,
    "scatter-min": lax.scatter_min,
    "scatter-max": lax.scatter_max,
}


def rows(kind, mode):
    """Rows of [a, b] are written to at positions [c], many of them twice or not there."""

    def fn(table, ids, updates):
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        return KINDS[kind](table.array, ids.array[:, None], updates.array, numbers, mode=mode)

    return fn


def windows(kind, mode, order):
    """Windows of [a, b] are written to at positions [c] of both axes."""

    def fn(table, rows, columns, updates):
        numbers = lax.ScatterDimensionNumbers(order, (), (1, 0))
        starts = jnp.stack([columns.array, rows.array], -1)
        return KINDS[kind](table.array, starts, updates.array, numbers, mode=mode)

    return fn


def overwritten(table, rows, columns, new):
    return table.array.at[rows.array, columns.array].set(new.array)


def along(table, ids, new):
    return jnp.put_along_axis(table.array, ids.array, new.array, 1, inplace=False)


def cache(table, starts, new):
    """Every row of a cache is written to at a position of its own."""

    def write(row, start, new):
        return lax.dynamic_update_slice_in_dim(row, new, start, 0)

    return jax.vmap(write)(table.array, starts.array, new.array)


def applied(table, ids):
    return table.array.at[ids.array].apply(jnp.sqrt), table.array.at[ids.array].subtract(3.0)


OUTSIDE = (positions(-4, 12, 8), positions(-4, 20, 8))
Two, Three = ml.dims(two=2, three=3)
CASES = {
    "overwritten": (
        overwritten,
        (TABLE, ml.i32[C], ml.i32[C], ml.f32[C]),
        (numbers(8, 16), once(9, 8), once(18, 8), numbers(8)),
    ),
    "along": (
        along,
        (TABLE, ml.i32[A, Pick], ml.f32[A, Pick]),
        (numbers(8, 16), np.stack([once(16, 4) for _ in range(8)]), numbers(8, 4)),
    ),
    "cache": (
        cache,
        (TABLE, ml.i32[A], ml.f32[A, Three]),
        (numbers(8, 16), positions(-4, 20, 8), numbers(8, 3)),
    ),
    "applied": (applied, (TABLE, ml.i32[Pick]), (numbers(8, 16), once(10, 4))),
}
for kind in KINDS:
    for mode in ("clip", "drop", "promise_in_bounds") if kind == "scatter-add" else ("drop",):
        CASES[f"{kind} of rows, {mode}"] = (
            rows(kind, mode),
            (TABLE, ml.i32[C], ml.f32[C, B]),
            (numbers(8, 16), OUTSIDE[0], numbers(8, 16)),
        )
        CASES[f"{kind} of windows, {mode}"] = (
            windows(kind, mode, (0, 2)),
            (TABLE, ml.i32[C], ml.i32[C], ml.f32[Two, C, Three]),
            (numbers(8, 16), *OUTSIDE, numbers(2, 8, 3)),
        )


@pytest.mark.share(5)
@pytest.mark.parametrize("layout", ["a:x", "b:y", "a:y b:x", "a:y+x", "c?:x", "a:x c?:y", "b:x+y", "a:x three?:y"])
@pytest.mark.parametrize("name", CASES)
def test_a_scatter_is_the_same_under_every_layout(name, layout):
    fn, args, data = CASES[name]
    if "three" in layout and any("three" in str(a) for a in args):
        layout = layout.replace("three?:y", "two?:y")
    checked(fn, args, layout, mesh=X2Y2, data=data)


@pytest.mark.parametrize(
    "name",
    [
        "overwritten",
        "along",
        "cache",
        "scatter-add of rows, drop",
        "scatter-add of windows, clip",
    ],
)
def test_a_scatter_and_its_gradient_are_the_same_under_layouts_at_random(name):
    fn, args, data = CASES[name]

    def both(table, *others):
        *ids, new = others

        def total(array, update):
            return (fn(ml.tensor(array, *table.dims), *ids, ml.tensor(update, *new.dims)) ** 2).sum()

        return fn(table, *others), jax.grad(total, (0, 1))(table.array, new.array)

    program = ml.trace(both, *args)
    for mesh, layout in draw(program, seed=4, count=5):
        report = program.plan(mesh, layout).check(*data)
        assert report.ok, f"{layout} on {mesh}:\n{report}"


def test_a_write_into_a_split_cache_sends_only_what_is_not_everywhere():
    fn, args, data = CASES["cache"]
    # Sequence on x: each device writes what lies in its part.
    assert moved(checked(fn, args, "b:x", mesh=X4, data=data)) == []
    assert moved(checked(fn, args, "a:x", mesh=X4, data=data)) == []
    assert moved(checked(fn, args, "a:x b:y", mesh=X2Y2, data=data)) == []


def test_overwriting_needs_all_updates_on_every_device():
    fn, args, data = CASES["overwritten"]
    plan = checked(fn, args, "a:x c:y", mesh=X2Y2, data=data)
    assert moved(plan) == [("all-gather", ("y",), 2 * 4 * 4, 1), ("all-gather", ("y",), 4 * 4, 1)]


def test_sums_of_many_updates_are_added_up_device_by_device():
    def count(ids):
        return jnp.zeros(16, jnp.int32).at[ids.array].add(1)

    def add(table, ids, updates):
        return table.array.at[ids.array].add(updates.array)

    ids = positions(-16, 16, 64)
    plan = checked(count, (ml.i32[Many],), "many:x", mesh=X4, data=(ids,))
    assert moved(plan) == [("all-reduce", ("x",), 16 * 4, 1)]
    args = ml.f32[B], ml.i32[Many], ml.f32[Many]
    plan = checked(add, args, "many:x", mesh=X4, data=(numbers(16), ids, numbers(64)))
    assert moved(plan) == [("all-reduce", ("x",), 16 * 4, 1)]
    plan = checked(add, args, "many:x b:y", mesh=X2Y2, data=(numbers(16), ids, numbers(64)))
    assert moved(plan) == [("all-reduce", ("x",), 8 * 4, 1)]
    # Few updates are gathered, and added by all.
    args = TABLE, ml.i32[C], ml.f32[C, B]
    plan = checked(add, args, "c:x", mesh=X4, data=(numbers(8, 16), positions(0, 8, 8), numbers(8, 16)))
    assert sorted(moved(plan)) == [("all-gather", ("x",), 2 * 4, 1), ("all-gather", ("x",), 2 * 16 * 4, 1)]


@pytest.mark.parametrize("layout", [{"c": "x", "table": {"b": "x"}, "out": {"b": "x"}}, "c:x b:y"])
def test_the_gradient_of_a_table_that_all_batches_share_is_reduced_where_it_is_stored(layout):
    """Embeddings of positions: looked up once, and added to every one of a batch."""

    def fn(table, x):
        def loss(table):
            return (jnp.tanh(x.array + table[jnp.arange(A.size)[::-1]]) ** 2).sum()

        return jax.grad(loss)(table.array)

    plan = checked(fn, (TABLE, ml.f32[C, A, B]), layout, mesh=X2Y2)
    summed = "reduce-scatter" if isinstance(layout, dict) else "all-reduce"
    assert [c.kind for c in plan.collectives if c.kind != "all-gather"] == [summed]


def test_a_few_updates_are_reduced_before_they_are_spread():
    """The gradient of rows that were picked: [c, pick, b] is summed over `row`, not [c, a, b]."""

    def fn(x, w, ids):
        def loss(x):
            return (jnp.take_along_axis(x, ids.array[..., None], 1) @ w.array).sum()

        return jax.grad(loss)(x.array)

    few = ml.i32[C, Pick]
    plan = checked(fn, (ml.f32[C, A, B], ml.f32[B, Row], few), "row:x")
    assert moved(plan) == [("all-reduce", ("x",), C.size * Pick.size * B.size * 4, 1)]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32"])
def test_every_kind_of_index_is_understood(dtype):
    ids = ml.tensor(np.array([0, 7, 3, 8, 100, 127, 5, 1], dtype), C)

    def fn(table, ids, new):
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        return [
            lax.scatter_add(table.array, ids.array[:, None], new.array, numbers, mode=mode) for mode in ("clip", "drop")
        ]

    checked(fn, (TABLE, ids, ml.f32[C, B]), "a:x", data=(numbers(8, 16), ids, numbers(8, 16)))


CACHE_WRITES = {
    "dynamic_update_slice": lambda cache, new, at: lax.dynamic_update_slice(cache, new[None], (at, 0)),
    **{
        how: lambda cache, new, at, how=how: getattr(cache.at[at], how)(new)
        for how in ("set", "add", "multiply", "max", "min")
    },
    "apply": lambda cache, new, at: cache.at[at].apply(jnp.sin),
    "clip": lambda cache, new, at: cache.at[at].set(new, mode="clip"),
}
ONE_ROW_EACH = {
    "in time": (ml.mesh(data=4, micro=ml.serial(2)), {"batch": "data", "window": "micro"}),
    "stored whole": (ml.mesh(data=4, model=2), {"batch": "data", "window": "model", "cache": {"window": None}}),
}


@pytest.mark.parametrize("where", ONE_ROW_EACH)
@pytest.mark.parametrize("how", CACHE_WRITES)
def test_one_row_a_device_is_written_into_a_slice_of_a_cache(how, where):
    """XLA joins the slice with that of the scatter, and forgets that the row is not in it."""
    arrays = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((4, 8, 2), (4, 2)))
    at = jax.ShapeDtypeStruct((4,), jnp.int32)
    names = ("batch window head", "batch head", "batch")
    program = ml.trace(jax.vmap(CACHE_WRITES[how]), *map(ml.named, (*arrays, at), names))
    plan = program.plan(*ONE_ROW_EACH[where])
    for first in (2, 5):  # one in each of the slices
        given = np.arange(64, dtype=np.float32).reshape(4, 8, 2), -numbers(4, 2), (np.arange(4) + first) % 8
        assert plan.check(*given[:2], given[2].astype(np.int32)).ok
