"""Slices and updates at positions known only at run time are the same however their operand is sharded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, A, B, C, checked, moved

X8 = ml.mesh(x=8)
TABLE = ml.f32[A, B]
Two, Three, Ten = ml.dims(two=2, three=3, ten=10)


def numbers(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def integer(value, dtype="int32"):
    return ml.tensor(np.array([value], dtype), ml.Dim("one", 1))


def sliced(*sizes):
    def fn(table, row, column):
        return lax.dynamic_slice(table.array, (row.array[0], column.array[0]), sizes)

    return fn


def written(table, new, row, column):
    return lax.dynamic_update_slice(table.array, new.array, (row.array[0], column.array[0]))


LAYOUTS = ("a:x", "b:x", "a:x b:y", "b:x+y", "b:y+x", "two?:x", "ten?:y a:x", "three?:y")


@pytest.mark.parametrize("layout", LAYOUTS[:5])
@pytest.mark.parametrize("sizes", [(1, 16), (2, 3), (8, 5), (8, 8), (8, 9), (3, 16), (8, 16)])
def test_a_slice_at_any_place_is_the_same(sizes, layout):
    fn = sliced(*sizes)
    plan = ml.trace(fn, TABLE, integer(0), integer(0)).plan(X2Y2, layout)
    for row, column in ((0, 0), (3, 5), (-1, 7), (6, -3), (7, 15), (100, 3), (-100, 100)):
        report = plan.check(numbers(8, 16), integer(row), integer(column))
        assert report.ok, f"{sizes} at {row}, {column} under {layout}:\n{report}"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dims", [(Two, Three), (A, Three), (A, Ten), (Two, B), (A, B)])
def test_a_write_at_any_place_is_the_same(dims, layout):
    new = -numbers(*(dim.size for dim in dims))
    plan = ml.trace(written, TABLE, ml.f32[dims], integer(0), integer(0)).plan(
        X2Y2, " ".join(word for word in layout.split() if "?" not in word or word.split("?")[0] in map(str, dims))
    )
    for row, column in ((0, 0), (3, 5), (-1, 7), (6, -3), (7, 15), (100, 3), (-100, 100)):
        report = plan.check(numbers(8, 16), new, integer(row), integer(column))
        assert report.ok, f"{dims} at {row}, {column} under {layout}:\n{report}"


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16"])
def test_every_kind_of_number_is_sliced_and_written(dtype):
    table = ml.tensor(np.asarray(jnp.asarray(numbers(8, 16) % 3 - 1, dtype)), A, B)

    def fn(table, place):
        part = lax.dynamic_slice_in_dim(table.array, place.array[0], 2, 1)
        return part, lax.dynamic_update_slice_in_dim(table.array, part, 0, 1)

    checked(fn, (table, integer(5, "uint8")), "b:x", data=(table, integer(5, "uint8")))


def test_gradients_of_slices_and_writes_are_the_same():
    def fn(table, new, row, column):
        def total(table, new):
            part = lax.dynamic_slice(table, (row.array[0], column.array[0]), (4, 4))
            whole = lax.dynamic_update_slice(table, new, (column.array[0], row.array[0]))
            return (part**2).sum() + (whole**3).sum()

        return jax.grad(total, (0, 1))(table.array, new.array)

    program = ml.trace(fn, TABLE, ml.f32[Two, Three], integer(0), integer(0))
    for mesh, layout in draw(program, seed=5, count=6):
        report = program.plan(mesh, layout).check(numbers(8, 16), numbers(2, 3), integer(3), integer(2))
        assert report.ok, f"{layout} on {mesh}:\n{report}"


def test_a_slice_is_summed_and_a_write_sends_nothing():
    data = numbers(8, 16), integer(1), integer(6)
    plan = checked(sliced(8, 3), (TABLE, integer(0), integer(0)), "b:x", mesh=X4, data=data)
    assert moved(plan) == [("all-reduce", ("x",), 8 * 3 * 4, 1)]
    plan = checked(sliced(2, 3), (TABLE, integer(0), integer(0)), "a:y b:x", mesh=X2Y2, data=data)
    assert moved(plan) == [("all-reduce", ("x", "y"), 2 * 3 * 4, 1)]
    # More than half of it is cut out of the whole.
    plan = checked(sliced(8, 9), (TABLE, integer(0), integer(0)), "b:x", mesh=X4, data=data)
    assert moved(plan) == [("all-gather", ("x",), 8 * 4 * 4, 1)]
    args = TABLE, ml.f32[A, Two], integer(0), integer(0)
    data = numbers(8, 16), numbers(8, 2), integer(0), integer(6)
    assert moved(checked(written, args, "b:x", mesh=X8, data=data)) == []
    assert moved(checked(written, args, "a:x b:y", mesh=X2Y2, data=data)) == []
    # What is written is gathered along what it is written to.
    plan = checked(written, args, {"b": "x", "new": {"two": "x"}}, mesh=ml.mesh(x=2), data=data)
    assert moved(plan) == [("all-gather", ("x",), 8 * 4, 1)]


def test_a_cache_with_its_sequence_split_is_written_to_step_by_step_without_traffic():
    def decode(cache, tokens):
        def step(carry, token):
            cache, place = carry
            cache = lax.dynamic_update_slice(cache, token[:, None], (0, place))
            return (cache, place + 1), cache.sum()

        (cache, _), sums = lax.scan(step, (cache.array, jnp.int32(3)), tokens.array)
        return cache, sums

    args, data = (TABLE, ml.f32[C, A]), (numbers(8, 16), -numbers(8, 8))
    plan = checked(decode, args, "b:x", mesh=X4, data=data)
    # The sums alone, all eight at once, after the loop.
    assert moved(plan) == [("all-reduce", ("x",), 8 * 4, 1)]


def test_positions_are_counted_in_every_layout():
    def fn(table):
        return lax.broadcasted_iota(jnp.int32, (8, 16), 1) * table.array.astype(jnp.int32)

    assert moved(checked(fn, (TABLE,), "a:x b:y", mesh=X2Y2, data=(numbers(8, 16),))) == []
