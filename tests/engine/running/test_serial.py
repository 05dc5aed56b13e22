"""Gradient accumulation: a plan over a serial axis computes what the plain step computes, in pieces."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import meshlab as ml
from meshlab.engine.planning.steps import Iterated, Nested
from tests.engine.small_programs import moved, temporary_bytes

pytestmark = pytest.mark.share(2, of="file")

Batch, Rows, Hidden, Classes = ml.dims(batch=32, rows=8, hidden=16, classes=4)
PARAMS = {"w1": ml.f32[Rows, Hidden], "w2": ml.f32[Hidden, Classes]}
ARGUMENTS = PARAMS, ml.f32[Batch, Rows], ml.i32[Batch]
MICRO, DATA = ml.mesh(micro=ml.serial(4)), ml.mesh(data=2, micro=ml.serial(4))
FSDP = {"batch": "data+micro", "params/*": {"hidden": "data"}}


def losses(params, images, labels):
    hidden = ml.relu(ml.dot(images, params["w1"], Rows))
    return ml.cross_entropy(ml.dot(hidden, params["w2"], Hidden), labels, Classes)


def descent(loss):
    def step(params, *inputs):
        value, grads = jax.value_and_grad(loss)(params, *inputs)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    return step


step = descent(lambda params, images, labels: losses(params, images, labels).mean())
PROGRAM = ml.trace(step, *ARGUMENTS)


def ok(plan, *data):
    report = plan.check(*data)
    assert report.ok, f"{report}\n{plan}"
    return plan


def loops(plan):
    return [each for each in plan.steps if isinstance(each, Iterated)]


def test_gradients_are_reduced_once_after_the_loop():
    plan = ok(PROGRAM.plan(DATA, "batch:data+micro"))
    (loop,) = loops(plan)
    assert (loop.axis, loop.times, len(loop.results)) == ("micro", 4, 3)
    # As without the axis: two gradients and the loss, each once.
    assert moved(plan) == moved(PROGRAM.plan(ml.mesh(data=2), "batch:data"))
    assert {times for *_, times in moved(plan)} == {1}
    assert plan.stored == PROGRAM.plan(ml.mesh(data=2), "batch:data").stored


def test_a_layout_that_does_not_use_it_has_no_loop():
    plan = PROGRAM.plan(DATA, "batch:data")
    assert not loops(plan)
    assert list(map(str, plan.steps)) == list(map(str, PROGRAM.plan(ml.mesh(data=2), "batch:data").steps))
    assert not loops(PROGRAM.plan(ml.mesh(micro=ml.serial(1)), "batch:micro"))


def times_of(plan, kind):
    return [c.times for c in plan.collectives if c.kind == kind]


@pytest.mark.parametrize(
    ("serial", "gathered", "scattered"),
    [
        (ml.serial(4), 4, 4),
        (ml.serial(4, reduce="once"), 1, 1),
        (ml.serial(4, reduce="each"), 4, 4),
        (ml.serial(4, gather="once"), 1, 4),
        (ml.serial(4, reduce="once", gather="each"), 4, 1),
        (ml.serial(4, reduce="each", gather="once"), 1, 4),
    ],
    ids=str,
)
def test_sharded_gradients_are_reduced_once_or_in_each_iteration(serial, gathered, scattered):
    plan = ok(PROGRAM.plan(ml.mesh(data=2, micro=serial), FSDP))
    assert times_of(plan, "all-gather") == [gathered] * 2
    assert times_of(plan, "reduce-scatter") == [scattered] * 2
    # The loss is whole everywhere: reduced once, unless everything is to be reduced in each iteration.
    assert times_of(plan, "all-reduce") == [4 if serial.reduce == "each" else 1]


def test_a_masked_mean_is_found_by_a_loop_in_front():
    def loss(params, images, labels, mask):
        return (losses(params, images, labels) * mask).sum() / mask.sum()

    program = ml.trace(descent(loss), *ARGUMENTS, ml.f32[Batch])
    data = [jnp.ones((8, 16)) * 0.1, jnp.linspace(-1, 1, 64).reshape(16, 4)]
    random = np.random.default_rng(0)
    images, labels = random.normal(size=(32, 8)).astype("f4"), random.integers(0, 4, 32).astype("i4")
    mask = (random.uniform(size=32) < 0.5).astype("f4")
    params = dict(zip(PARAMS, data, strict=True))
    for mesh, layout in ((MICRO, "batch:micro"), (DATA, "batch:data+micro")):
        plan = ok(program.plan(mesh, layout), params, images, labels, mask)
        front, loop = loops(plan)
        assert len(front.results) == 1
        assert len(front.steps) < len(loop.steps)


def test_an_output_with_the_dim_is_joined():
    def predict(params, images):
        hidden = ml.relu(ml.dot(images, params["w1"], Rows))
        return ml.dot(hidden, params["w2"], Hidden), hidden.sum(Batch)

    program = ml.trace(predict, PARAMS, ml.f32[Batch, Rows])
    for mesh, layout in ((MICRO, "batch:micro"), (DATA, "batch:data+micro")):
        plan = ok(program.plan(mesh, layout))
        assert {result.is_sum for loop in loops(plan) for result in loop.results} == {True, False}
    assert plan.shard("out/0", 1) == ((16, 32), (0, 4))
    assert plan.shard(next(v for v in program.values if v.dims == ("batch", "hidden")), 1) == ((16, 32), (0, 16))


@pytest.mark.parametrize(("mesh", "layout"), [(MICRO, "batch:micro"), (DATA, "batch:data+micro")])
def test_dropout_draws_the_same_bits(mesh, layout):
    def loss(params, images, labels, key):
        hidden = ml.dropout(key, ml.relu(ml.dot(images, params["w1"], Rows)), 0.5)
        logits = ml.dot(hidden, params["w2"], Hidden)
        return ml.cross_entropy(logits, labels, Classes).mean() + 0 * hidden.sum(), (hidden != 0).astype(ml.i32)

    def both(params, images, labels, key):
        (value, mask), grads = jax.value_and_grad(loss, has_aux=True)(params, images, labels, key)
        return value, mask, grads

    program = ml.trace(both, *ARGUMENTS, jax.random.key(0))
    ok(program.plan(mesh, layout))


@pytest.mark.parametrize(("mesh", "layout"), [(MICRO, "batch:micro"), (DATA, "batch:data+micro")])
def test_a_padded_batch_counts_no_padding(mesh, layout):
    Uneven = ml.Dim("batch", 30)
    program = ml.trace(step, PARAMS, ml.f32[Uneven, Rows], ml.i32[Uneven])
    with pytest.raises(ml.LayoutError, match=r"has size 30, which (4|8) .*`micro`.* does not divide.*pad=True"):
        program.plan(mesh, layout)
    assert ok(program.plan(mesh, layout, pad=True)).grid.padded == {30: 32}


def test_donated_arguments_are_overwritten_after_the_loop():
    plan = ml.trace(step, *ARGUMENTS, carry={"params": 1}).plan(DATA, "batch:data+micro")
    random = np.random.default_rng(0)
    params = {
        "w1": jnp.asarray(random.normal(size=(8, 16)), "f4"),
        "w2": jnp.asarray(random.normal(size=(16, 4)), "f4"),
    }
    images, labels = random.normal(size=(32, 8)).astype("f4"), random.integers(0, 4, 32).astype("i4")
    kept, expected = jax.tree.map(jnp.copy, params), params
    unsharded = PROGRAM.plan(ml.mesh())
    for _ in range(3):
        loss, kept = plan.run(kept, images, labels, donate=True)
        value, expected = unsharded.run(expected, images, labels)
        np.testing.assert_allclose(loss, value, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        jax.tree.leaves(kept),
        jax.tree.leaves(expected),
    )


def test_sums_of_16_bits_are_accumulated_in_32_and_sent_in_16():
    half = jax.tree.map(lambda w: ml.bf16[w.dims], PARAMS, is_leaf=lambda w: hasattr(w, "dims"))
    program = ml.trace(step, half, ml.bf16[Batch, Rows], ml.i32[Batch])
    mesh, one = ml.mesh(data=2, micro=ml.serial(8)), ml.mesh(data=2)
    plan = ok(program.plan(mesh, "batch:data+micro"))
    assert moved(plan) == moved(program.plan(one, "batch:data"))
    assert "f32[8,16]" in str(plan.compile().as_text())


def test_clipping_and_the_optimizer_run_after_the_loop():
    optimizer = optax.chain(optax.clip_by_global_norm(0.1), optax.adamw(1e-2))

    def update(params, state, images, labels):
        value, grads = jax.value_and_grad(lambda *a: losses(*a).mean())(params, images, labels)
        updates, state = optimizer.update(grads, state, params)
        return value, optax.apply_updates(params, updates), state

    program = ml.trace(update, PARAMS, jax.eval_shape(optimizer.init, PARAMS), *ARGUMENTS[1:])
    plan = ok(program.plan(DATA, "batch:data+micro"))
    (loop,) = loops(plan)
    assert not any("sqrt" in str(each) for each in loop.steps)
    assert any("sqrt" in str(each) for each in plan.steps)
    assert [c.times for c in plan.collectives] == [1] * 3


def test_in_64_bits_it_is_equal_but_for_the_order_of_additions():
    with jax.enable_x64(True):
        wide = {"w1": jax.ShapeDtypeStruct((8, 16), jnp.float64), "w2": jax.ShapeDtypeStruct((16, 4), jnp.float64)}
        params, random = ml.named(wide, {"w1": "rows hidden", "w2": "hidden classes"}), np.random.default_rng(0)

        def plain(params, x, y):
            def loss(p):
                return jnp.mean((jax.nn.relu(x @ p["w1"]) @ p["w2"] - y) ** 2)

            value, grads = jax.value_and_grad(loss)(params)
            return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

        shapes = (jax.ShapeDtypeStruct((32, 8), jnp.float64), jax.ShapeDtypeStruct((32, 4), jnp.float64))
        program = ml.trace(plain, params, ml.named(shapes[0], "batch rows"), ml.named(shapes[1], "batch classes"))
        data = {"w1": random.normal(size=(8, 16)), "w2": random.normal(size=(16, 4))}
        report = program.plan(DATA, "batch:data+micro").check(
            data, random.normal(size=(32, 8)), random.normal(size=(32, 4))
        )
        assert report.ok, report
        assert max(error for _, error, _ in report.errors) < 1e-12


def test_temporary_memory_falls_with_the_number_of_micro_batches():
    Deep = ml.Dim("batch", 256)
    program = ml.trace(step, PARAMS, ml.f32[Deep, Rows], ml.i32[Deep])
    sizes = [temporary_bytes(program.plan(ml.mesh(micro=ml.serial(n)), "batch:micro")) for n in (1, 4, 16)]
    assert sizes[0] > 2 * sizes[1] > 2 * sizes[2]


def regression(update):
    """A step of a least-squares fit, in plain JAX: what becomes of `w`, by its gradient and the loss."""

    def fit(w, x, y):
        value, grad = jax.value_and_grad(lambda w: jnp.square(x @ w - y).mean())(w)
        return update(w, grad, value), value

    return ml.trace(fit, *regression_arguments())


def regression_arguments():
    """Weights, data and targets of a least-squares fit."""
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((4,), (8, 4), (8,))]
    return [ml.named(shape, names) for shape, names in zip(shapes, ("d", "batch d", "batch"), strict=True)]


# Updates that a branch makes or skips: a sum of all micro-batches would wait in them.
BRANCHES = {
    "skipped": lambda w, g, v: jax.lax.cond(jnp.isfinite(v), lambda: w - 0.1 * g, lambda: w),
    "given as operands": lambda w, g, v: jax.lax.cond(v > 0, lambda w, g: w - 0.1 * g, lambda w, g: w, w, g),
    "by a weight": lambda w, g, v: jax.lax.cond(w[0] > 0, lambda: w - 0.1 * g, lambda: w),
    "unscaled": lambda w, g, v: w - jax.lax.cond(jnp.isfinite(v), lambda: g / 3, lambda: jnp.zeros_like(g)),
    "three": lambda w, g, v: jax.lax.switch(jnp.int32(v) % 3, [lambda: w - 0.1 * g, lambda: w, lambda: w + g * v]),
    "summed": lambda w, g, v: jax.lax.cond(v > 0, lambda: w - 0.1 * g.sum(), lambda: w),
    "two deep": lambda w, g, v: jax.lax.cond(
        v > 0, lambda: jax.lax.cond(v > 1, lambda: w - 0.1 * g, lambda: w + 2 * g), lambda: w
    ),
    "a loop in it": lambda w, g, v: jax.lax.cond(
        v > 0, lambda: jax.lax.fori_loop(0, 3, lambda i, u: u - 0.1 * g * u, w), lambda: w
    ),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("name", BRANCHES)
def test_branches_behind_the_loop_read_sums_of_all_iterations(name):
    program = regression(BRANCHES[name])
    plan = ok(program.plan(DATA, "batch:data+micro"))
    (loop,) = loops(plan)
    assert not any(isinstance(step, Nested) for step in loop.steps)
    assert [c.times for c in plan.collectives] == [1, 1]
    sharded = {"batch": "data+micro", "w": {"d": "data"}}
    ok(program.plan(DATA, sharded))
    ok(program.plan(ml.mesh(data=2, micro=ml.serial(4, reduce="each")), "batch:data+micro"))


def test_a_gradient_that_a_branch_skips_is_scattered_in_each_iteration():
    plan = ok(regression(BRANCHES["skipped"]).plan(DATA, {"batch": "data+micro", "w": {"d": "data"}}))
    assert times_of(plan, "reduce-scatter") == times_of(plan, "all-gather") == [4]


@pytest.mark.parametrize("linear", [lambda w, s: s.sum() * w, lambda w, s: s * 2, lambda w, s: s], ids=["×", "2", "1"])
def test_branches_in_an_iteration_read_addends_of_it(linear):
    """What is linear in a sum is computed after the loop, unless an iteration's branches read it beside their block."""

    def fn(x, w):
        s = linear(w, x.sum(0))
        return jax.lax.cond(w[0] > 0, lambda: (x * 2, s * 2), lambda: (x, s * 3))

    x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((8, 4), (4,)))
    program = ml.trace(fn, ml.named(x, "batch d"), ml.named(w, "d"))
    (loop,) = loops(ok(program.plan(DATA, "batch:data+micro")))
    assert any(isinstance(step, Nested) for step in loop.steps)


def test_sums_that_branches_make_and_read_in_an_iteration_are_refused():
    def centred(x, w):
        return jax.lax.cond(w[0] > 0, lambda: x - x.sum(0), lambda: x)

    x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((8, 4), (4,)))
    program = ml.trace(centred, ml.named(x, "batch d"), ml.named(w, "d"))
    with pytest.raises(ml.LayoutError, match=r"`sub` at .* needs in each iteration .* the sum that `reduce_sum` at"):
        program.plan(MICRO, "batch:micro")

    def both(x, w):
        summed = w * x.sum()
        return jax.lax.cond(w[0] > 0, lambda: (x - x.sum(0), w + summed * 2), lambda: (x, w))

    program = ml.trace(both, ml.named(x, "batch d"), ml.named(w, "d"))
    with pytest.raises(ml.LayoutError, match=r"2 problems:(\n.*`(sub|add)` at .* the sum that `reduce_sum` at .*){2}"):
        program.plan(MICRO, "batch:micro")


@pytest.mark.parametrize(
    "returned", [lambda *all: all, lambda w, *_: w, lambda w, p, v1, v2: (w, v1 + v2)], ids=["all", "weights", "sum"]
)
def test_two_steps_in_one_function_are_two_loops(returned):
    def gradient(w, x, y):
        return jax.value_and_grad(lambda w: jnp.square(x @ w - y).mean())(w)

    def steps(w, x, y):
        predicted = x @ w
        first, grad = gradient(w, x, y)
        w -= 0.1 * grad
        second, grad = gradient(w, x, y)
        return returned(w - 0.1 * grad, predicted, first, second)

    plan = ok(ml.trace(steps, *regression_arguments()).plan(DATA, "batch:data+micro"))
    front, loop = loops(plan)
    # Each computes one forward and one backward product, and nothing again.
    assert [sum(str(step).startswith("dot_general") for step in each.steps) for each in (front, loop)] == [2, 2]


def half(x):
    return jnp.tanh(x) * 0.5


def integrated(x, w):
    """A loop in a loop, the weights a carry that no iteration splits."""

    def outer(carry, _):
        x, w = carry
        return (jax.lax.fori_loop(0, 2, lambda _, c: half(c @ w), x), w), x.sum(1)

    return jax.lax.scan(outer, (x, w), None, length=3)


def scoped(x, w):
    with jax.named_scope("chain"):
        return jax.lax.fori_loop(0, 3, lambda _, c: half(c @ w), x)


CARRIED = {
    "scan": lambda x, _: jax.lax.scan(lambda c, _: (half(c), c.sum(1)), x, None, length=3),
    "fori_loop": lambda x, _: jax.lax.fori_loop(0, 3, lambda _, c: half(c), x),
    "while_loop": lambda x, _: jax.lax.while_loop(lambda s: s[1] < 3, lambda s: (half(s[0]), s[1] + 1), (x, 0))[0],
    "its loss": lambda x, _: jax.lax.scan(lambda c, _: (half(c), None), x, None, length=3)[0].sum(),
    "its gradient": jax.grad(lambda x, w: jnp.square(jax.lax.fori_loop(0, 3, lambda _, c: half(c @ w), x)).sum()),
    "two loops": integrated,
}


@pytest.mark.parametrize("name", CARRIED)
@pytest.mark.parametrize(("mesh", "layout"), [(MICRO, "batch:micro"), (DATA, "batch:data+micro")])
def test_a_loop_may_begin_from_blocks_of_an_argument(name, mesh, layout):
    arrays = jax.ShapeDtypeStruct((8, 4), jnp.float32), jax.ShapeDtypeStruct((4, 4), jnp.float32)
    program = ml.trace(CARRIED[name], ml.named(arrays[0], "batch embed"), ml.named(arrays[1], "embed _"))
    plan = ok(program.plan(mesh, layout))
    assert len(loops(plan)) == 1
    spatial = {axis: size for axis, size in mesh.axes.items() if axis not in mesh.in_time}
    assert moved(plan) == moved(program.plan(ml.mesh(**spatial), "batch:data" if spatial else {}))


def test_a_loop_begins_from_blocks_where_its_scope_says_so():
    arrays = jax.ShapeDtypeStruct((8, 4), jnp.float32), jax.ShapeDtypeStruct((4, 4), jnp.float32)
    program = ml.trace(scoped, ml.named(arrays[0], "batch embed"), ml.named(arrays[1], "embed _"))
    assert len(loops(ok(program.plan(MICRO, {"@chain": {"batch": "micro"}})))) == 1
    assert not loops(ok(program.plan(DATA, {"batch": "data+micro", "@chain": {"batch": "data"}})))
