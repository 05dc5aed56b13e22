"""Gathers are the same however table, indices and windows are sharded, and send no more than they must."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, A, B, C, D, checked, moved, sent

Pick, Row = ml.dims(pick=4, row=8)
X8 = ml.mesh(x=8)
RANDOM = np.random.default_rng(0)


def numbers(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def positions(low, high, *shape):
    return RANDOM.integers(low, high, shape).astype(np.int32)


def along(table, ids):
    return jnp.take_along_axis(table.array, ids.array, 1)


def elements(table, rows, columns):
    return table.array[rows.array, columns.array]


def rows_and_columns(table, rows, columns):
    return table.array[rows.array, :, columns.array]


def mixed(table, rows):
    return table.array[:, rows.array, :3]


def windows(mode, sizes):
    """Windows of [a, b] at positions [c] of both axes, with their own order of the axes."""

    def fn(table, rows, columns):
        numbers = lax.GatherDimensionNumbers(offset_dims=(0, 2), collapsed_slice_dims=(), start_index_map=(1, 0))
        starts = jnp.stack([columns.array, rows.array], -1)
        return lax.gather(table.array, starts, numbers, sizes, mode=mode, fill_value=-7.0)

    return fn


def row_windows(size):
    def fn(table, starts):
        return jax.vmap(lambda row, start: lax.dynamic_slice_in_dim(row, start, size))(table.array, starts.array)

    return fn


TABLE = ml.f32[A, B]
OUTSIDE = (positions(-4, 12, 8), positions(-4, 20, 8))
CASES = {
    "along": (along, (TABLE, ml.i32[A, Pick]), (numbers(8, 16), positions(-20, 20, 8, 4))),
    "elements": (elements, (TABLE, ml.i32[C], ml.i32[C]), (numbers(8, 16), *OUTSIDE)),
    "planes": (rows_and_columns, (ml.f32[A, B, Row], ml.i32[C], ml.i32[C]), (numbers(8, 16, 8), *OUTSIDE)),
    "mixed": (mixed, (ml.f32[A, B, Row], ml.i32[C]), (numbers(8, 16, 8), OUTSIDE[1])),
    "rows": (row_windows(3), (TABLE, ml.i32[A]), (numbers(8, 16), OUTSIDE[1])),
    "long rows": (row_windows(13), (TABLE, ml.i32[A]), (numbers(8, 16), OUTSIDE[1])),
} | {
    f"{mode} {sizes}": (windows(mode, sizes), (TABLE, ml.i32[C], ml.i32[C]), (numbers(8, 16), *OUTSIDE))
    for mode in ("clip", "fill", "promise_in_bounds")
    for sizes in ((2, 3), (1, 5), (8, 2))
}
LAYOUTS = ("a:x", "b:x", "a:x b:y", "a:y+x", "b:x+y", "a:x c?:y", "c?:y+x", "b:y pick?:x row?:x")


@pytest.mark.share(5)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_a_gather_is_the_same_under_every_layout(name, layout):
    fn, args, data = CASES[name]
    checked(fn, args, layout, mesh=X2Y2, data=data)


@pytest.mark.share(5)
@pytest.mark.parametrize("name", CASES)
def test_a_gather_and_its_gradient_are_the_same_under_layouts_at_random(name):
    fn, args, data = CASES[name]

    def both(table, *ids):
        def total(array):
            return (fn(ml.tensor(array, *table.dims), *ids) ** 2).sum()

        return fn(table, *ids), jax.grad(total)(table.array)

    program = ml.trace(both, *args)
    for mesh, layout in draw(program, seed=3, count=4):
        report = program.plan(mesh, layout).check(*data)
        assert report.ok, f"{layout} on {mesh}:\n{report}"


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "bfloat16", "complex64"])
@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_every_kind_of_number_is_found(dtype, mode):
    table = ml.tensor(np.asarray(jnp.asarray(numbers(8, 16) % 3 - 1, dtype)), A, B)
    ids = ml.tensor(positions(-9, 9, 8), C)

    def fn(table, ids):
        return jnp.take(table.array, ids.array, 0, mode=mode), table.array[ids.array, ids.array]

    for layout in ("a:x", "a:x b:y", "a:y+x"):
        checked(fn, (table, ids), layout, mesh=X2Y2, data=(table, ids))


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int8"])
def test_every_kind_of_index_is_understood(dtype):
    rows = ml.tensor(np.array([0, 7, 3, 8, 100, 127, 5, 1], dtype), C)

    def fn(table, rows):
        return jnp.take(table.array, rows.array, 0, mode="clip"), jnp.take(table.array, rows.array, 0, mode="fill")

    checked(fn, (TABLE, rows), "a:x", data=(numbers(8, 16), rows))


def test_what_is_found_is_summed_and_what_rides_along_is_not_touched():
    plan = checked(along, CASES["along"][1], "b:x", mesh=X4, data=CASES["along"][2])
    assert moved(plan) == [("all-reduce", ("x",), 8 * 4 * 4, 1)]
    assert "`b` is looked up" in plan.collectives[0].because
    plan = checked(along, CASES["along"][1], "a:x b:y", mesh=X2Y2, data=CASES["along"][2])
    assert moved(plan) == [("all-reduce", ("y",), 4 * 4 * 4, 1)]
    plan = checked(along, CASES["along"][1], "a:x", mesh=X8, data=CASES["along"][2])
    assert moved(plan) == []
    # Two axes, one sum.
    plan = checked(elements, CASES["elements"][1], "a:x b:y", mesh=X2Y2, data=CASES["elements"][2])
    assert moved(plan) == [("all-reduce", ("x", "y"), 8 * 4, 1)]


def test_a_short_window_is_found_where_it_lies_and_a_long_one_is_cut_out_of_the_whole():
    plan = checked(row_windows(3), CASES["rows"][1], "b:x", mesh=X4, data=CASES["rows"][2])
    assert moved(plan) == [("all-reduce", ("x",), 8 * 3 * 4, 1)]
    plan = checked(row_windows(13), CASES["long rows"][1], "b:x", mesh=X4, data=CASES["long rows"][2])
    assert moved(plan) == [("all-gather", ("x",), 8 * 4 * 4, 1)]


def test_a_row_looked_up_in_nested_maps_is_found_where_it_lies():
    """JAX keeps the row as a window of one."""

    def fn(table, ids):
        return jax.vmap(jax.vmap(lambda i: table.array[i]))(ids.array)

    plan = checked(fn, (ml.f32[A, B], ml.i32[ml.Dim("rows", 8), ml.Dim("columns", 16)]), "a:x rows:y", mesh=X2Y2)
    assert [c.kind for c in plan.collectives] == ["all-reduce"]


def test_of_truth_values_the_greatest_stands_for_the_sum():
    def fn(table, ids):
        return table.array[ids.array] > 0, (table.array > 3)[ids.array]

    plan = checked(fn, (TABLE, ml.i32[C]), "a:x", data=(numbers(8, 16), positions(0, 8, 8)))
    assert sent(plan, "payload_bytes") == {"all-reduce": 8 * 16 * 4 + 8 * 16}


def test_a_table_and_indices_of_one_dim_are_not_split_by_one_axis_at_once():
    def fn(table, order):
        return jnp.take(table.array, order.array, 0), jnp.take_along_axis(table.array, order.array[:, None], 0)

    order = RANDOM.permutation(8).astype(np.int32)
    checked(fn, (TABLE, ml.i32[A]), "a:x", data=(numbers(8, 16), order))
    checked(lambda x: x.array[jnp.argsort(x.array)], (ml.f32[D],), "d:x", data=(numbers(16)[::-1],))
