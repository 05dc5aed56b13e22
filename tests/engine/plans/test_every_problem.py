"""A layout is refused with all its problems at once: those of dims, and those that only dividing a plan finds."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml

MICRO, BOTH = ml.mesh(micro=ml.serial(4)), ml.mesh(data=2, micro=ml.serial(4))
AT_ONCE, TOGETHER = "needs all of `batch` at once", "needs in each iteration over `micro`"


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def program_of(loss, batch):
    def step(w, x, y):
        value, grad = jax.value_and_grad(loss)(w, x, y)
        return w - 0.1 * grad, value

    arguments = ml.named(f32(4, 6), "d h"), ml.named(f32(batch, 4), "batch d"), ml.named(f32(batch), "batch")
    return ml.trace(step, *arguments)


def normalized(h):
    centred = h - h.mean(0)
    return centred / jnp.sqrt(jnp.square(centred).mean(0) + 1e-5)


def norm_alone(w, x, y):
    return jnp.square(normalized(x @ w).sum(1) - y).mean()


def norm_sort_and_max(w, x, y):
    h = normalized(x @ w)
    best = jnp.sort(h[:, 0])[:2]
    greatest = h[:, 1].max()
    return jnp.square((h - greatest).sum(1) - y).mean() + best.sum()


def refused(program, mesh, layout, pad=False):
    with pytest.raises(ml.LayoutError) as error:
        program.plan(mesh, layout, pad=pad)
    return list(map(str, error.value.problems)), str(error.value)


@pytest.mark.parametrize(("mesh", "layout"), [(MICRO, "batch:micro"), (BOTH, "batch:data+micro")], ids=str)
@pytest.mark.parametrize("batch", [8, 12], ids=["divided", "uneven"])
def test_what_dims_refuse_and_what_dividing_finds_are_one_error(mesh, layout, batch):
    alone, _ = refused(program_of(norm_alone, 8), mesh, layout)
    assert alone
    assert all(TOGETHER in text for text in alone)
    texts, message = refused(program_of(norm_sort_and_max, batch), mesh, layout)
    for name in ("sort", "reduce_max"):
        assert any(f"`{name}` at" in text and AT_ONCE in text for text in texts), texts
    # Those of the batch norm are the same as without the others, and nothing follows from these.
    assert [text for text in texts if TOGETHER in text] == alone
    uneven = [text for text in texts if "does not divide" in text]
    assert len(uneven) == (batch == 12 and mesh is BOTH)
    assert len(texts) == len(alone) + len(uneven) + 2
    assert "There may be more" not in message


def test_each_problem_alone_is_found_with_padding_too():
    texts, _ = refused(program_of(norm_sort_and_max, 7), MICRO, "batch:micro", pad=True)
    assert any(AT_ONCE in text for text in texts)
    assert any(TOGETHER in text for text in texts)


def test_moves_in_time_and_sums_are_one_error():
    def step(w, x):
        turned = ml.merge(x * 2, (Batch, D), ml.Dim("both", 32)) * 3
        y = ml.dot(x, w, "d")
        return turned, y - y.mean("batch")

    D, H, Batch = ml.dims(d=4, h=6, batch=8)
    program = ml.trace(step, ml.f32[D, H], ml.f32[Batch, D])
    texts, _ = refused(program, ml.mesh(data=2, micro=ml.serial(2)), "batch:data+micro both:micro")
    assert len(texts) == 2
    assert "would change places" in texts[0]
    assert TOGETHER in texts[1]


@pytest.mark.parametrize(
    ("batch", "layout"),
    [(7, "batch:data+micro"), (8, "batch:data+micro nope:data"), (8, {"batch": "data+micro", "w": {"d": "micro"}})],
    ids=["devices alone do not divide it", "unknown", "stored in time"],
)
def test_where_no_plan_can_be_made_it_is_said_that_more_may_follow(batch, layout):
    texts, message = refused(program_of(norm_sort_and_max, batch), BOTH, layout)
    assert not any(TOGETHER in text for text in texts)
    wanted = "There may be more: dependencies between blocks of `micro` are checked once these are fixed."
    assert message.endswith(f"\n{wanted}"), message
    # Without a serial axis in the layout there is nothing to add.
    assert "There may be more" not in refused(program_of(norm_alone, 8), BOTH, "batch:data nope:data")[1]


def test_an_uneven_batch_alone_is_the_only_problem():
    program = program_of(lambda w, x, y: jnp.square((x @ w).sum(1) - y).mean(), 12)
    texts, message = refused(program, BOTH, "batch:data+micro")
    assert len(texts) == 1
    assert "micro=ml.serial(3) or micro=ml.serial(6)" in message
    assert "There may be more" not in message


def test_one_block_is_all_of_a_dim():
    plan = program_of(norm_sort_and_max, 8).plan(ml.mesh(micro=ml.serial(1)), "batch:micro")
    assert plan.check().ok
    assert not program_of(norm_alone, 8).refusals(ml.mesh(micro=ml.serial(1)))["batch"]["micro"]
