"""A lookup in which each row asks for its own runs through, as vmap's does; any other stays a lookup."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml


def named(names, *shape, dtype=jnp.float32):
    return ml.named(jax.ShapeDtypeStruct(shape, dtype), names)


def picked(logits, labels):
    return logits[jnp.arange(logits.shape[0]), labels]


def picked_by_two(logits, labels):
    batch, seq = labels.shape
    return logits[jnp.arange(batch)[:, None], jnp.arange(seq), labels]


def picked_windows(values, rows):
    return values[jnp.arange(values.shape[0])[:, None], rows]


def picked_by_a_pair(values, i, j):
    return values[jnp.arange(values.shape[0]), i, j]


def written(weights, chosen):
    batch, experts = weights.shape[0], 8
    return jnp.zeros((batch, experts)).at[jnp.arange(batch)[:, None], chosen].set(weights)


LOGITS, LABELS = named("batch vocab", 8, 6), named("batch", 8, dtype=jnp.int32)
BY_TWO = named("batch seq vocab", 8, 4, 6), named("batch seq", 8, 4, dtype=jnp.int32)
WINDOWS = named("batch seq feat", 8, 4, 6), named("batch k", 8, 2, dtype=jnp.int32)
PAIR = named("batch seq vocab", 8, 4, 6), LABELS, LABELS
WRITTEN = named("batch k", 8, 2), named("batch k", 8, 2, dtype=jnp.int32)
CASES = {
    "one of each row": (picked, (LOGITS, LABELS)),
    "one of each row and column": (picked_by_two, BY_TWO),
    "windows": (picked_windows, WINDOWS),
    "by two more indices": (picked_by_a_pair, PAIR),
    "written": (written, WRITTEN),
}


@pytest.mark.parametrize(("fn", "args"), CASES.values(), ids=CASES)
def test_sends_nothing_where_its_rows_are_sharded(fn, args):
    """GSPMD finds the same ("parallel dims" of a gather or scatter)."""
    plan = ml.trace(fn, *args).plan(ml.mesh(data=2, model=2), "batch:data+model")
    assert plan.collectives == ()
    check = plan.check()
    assert check.ok, check


@pytest.mark.parametrize(("fn", "args"), CASES.values(), ids=CASES)
def test_rows_stay_local_in_the_backward_pass(fn, args):
    def loss(first, *rest):
        return (fn(first, *rest) ** 2).sum()

    plan = ml.trace(jax.grad(loss), *args).plan(ml.mesh(data=4), "batch:data")
    assert plan.collectives == ()
    assert plan.check().ok


@pytest.mark.parametrize(("fn", "args"), CASES.values(), ids=CASES)
def test_rows_run_in_micro_batches(fn, args):
    def loss(first, *rest):
        return (fn(first, *rest) ** 2).sum()

    plan = ml.trace(loss, *args).plan(ml.mesh(data=2, micro=ml.serial(2)), "batch:data+micro")
    assert plan.check().ok


def test_what_is_looked_up_beside_the_rows_may_be_sharded():
    plan = ml.trace(picked, LOGITS, LABELS).plan(ml.mesh(data=2, model=2), "batch:data vocab:model")
    assert [(c.kind, c.axes) for c in plan.collectives] == [("all-reduce", ("model",))]
    assert plan.check().ok


def test_a_diagonal_is_no_row_of_its_own():
    def diagonal(scores):
        rows = jnp.arange(scores.shape[0])
        return scores[rows, rows]

    program = ml.trace(diagonal, named("image text", 8, 8))
    assert program.dims == {"image": 8, "text": 8}
    assert program.plan(ml.mesh(data=2, model=2), "image:data text:model").check().ok


def test_rows_that_are_shifted_or_fewer_stay_a_lookup():
    def shifted(x, labels):
        return x[jnp.arange(1, 5), labels[:4]]

    plan = ml.trace(shifted, LOGITS, LABELS).plan(ml.mesh(data=2), "batch:data")
    assert plan.collectives
    assert plan.check().ok


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.uint8, jnp.bfloat16], ids=str)
def test_rows_that_their_dtype_cannot_count_stay_a_lookup(dtype):
    """300 rows: an int8 begins anew behind 127, and a bfloat16 rounds behind 256."""

    def fn(x, labels):
        return x[jnp.arange(x.shape[0]).astype(dtype).astype(jnp.int32), labels]

    program = ml.trace(fn, named("batch vocab", 300, 6), named("batch", 300, dtype=jnp.int32))
    x, labels = np.arange(1800, dtype=np.float32).reshape(300, 6), np.arange(300, dtype=np.int32) % 6
    plan = program.plan(ml.mesh(data=2), "batch:data")
    assert np.array_equal(plan.run(x, labels), fn(jnp.asarray(x), labels))


def test_indices_that_were_sorted_are_sorted_no_more():
    def fn(x, columns):
        rows = jnp.broadcast_to(jnp.arange(8)[:, None], columns.shape)
        return x.at[rows, columns].get(indices_are_sorted=True)

    program = ml.trace(fn, named("batch vocab", 8, 6), named("batch k", 8, 2, dtype=jnp.int32))
    columns = np.sort(np.random.default_rng(0).integers(0, 6, (8, 2)).astype(np.int32), 1)
    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    assert np.array_equal(program.plan(ml.mesh(data=2), "batch:data").run(x, columns), fn(jnp.asarray(x), columns))
