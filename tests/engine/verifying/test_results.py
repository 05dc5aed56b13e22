"""Results are compared on data that fits, every draw counts, and what was not compared is said."""

import re
import threading
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import meshlab as ml
from meshlab.engine.programs.positive import positive_arguments
from meshlab.engine.programs.random_arguments import drawn_arguments
from meshlab.engine.verifying import results
from tests.engine.small_programs import X4, A, B, C

F32 = jnp.float32


def places(program):
    return {a.place for a in program.arguments if a.value in positive_arguments(program)}


def traced(fn, *texts):
    return ml.trace(fn, *(ml.named(jax.ShapeDtypeStruct((8,) * len(t.split()), F32), t) for t in texts))


@pytest.mark.parametrize(
    ("fn", "asked"),
    [
        (lambda x, y: jnp.sqrt(0.9 * x + 0.1 * y * y), {"x"}),
        (lambda x, y: jnp.log(x) / jax.lax.rsqrt(y.T[:4] + 1).sum(), {"x", "y"}),
        (lambda x, y: jax.nn.log_softmax(x) * y, set()),
        (lambda x, y: jnp.sqrt(jnp.square(x).mean() - 1) + y**2 + (y - x) ** 3, set()),
        (lambda x, y: jnp.log(jnp.maximum(x, 1e-6)) + y**0.3, {"y"}),
        (lambda x, y: jax.lax.scan(lambda c, r: (c * 0.9 + r, jnp.sqrt(c)), x, y)[1], {"x", "y"}),
        (lambda x, y: jax.lax.cond(x[0] > 0, lambda: jnp.log(x), lambda: jnp.exp(y[0])), {"x"}),
    ],
)
def test_what_a_root_is_taken_of_must_be_positive(fn, asked):
    assert places(traced(fn, "a", "b a")) == asked


def adam(loss):
    """A train step with Adam, and its optimizer."""
    optimizer = optax.adam(6e-4)

    def step(params, state, ids):
        value, grads = jax.value_and_grad(loss)(params, ids)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, optimizer


def attention_layers(params, ids, size=12):
    """The loss of two layers of attention that know no masks, whose softmax has a winner where all data is positive."""
    x = params["wte"][ids]
    for w in params["layers"]:
        q, k, v = (jnp.einsum("bte,ehd->bthd", x, w[n]) for n in "qkv")
        scores = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) * size**-0.5)
        x = x + jnp.einsum("bthd,hde->bte", jnp.einsum("bhts,bshd->bthd", scores, v), w["o"])
    return optax.softmax_cross_entropy_with_integer_labels(x @ params["wte"].T, ids).mean()


def test_a_second_moment_is_drawn_above_zero_and_all_else_around_it():
    shape, step, optimizer = jax.ShapeDtypeStruct, *adam(attention_layers)
    layer = {n: shape((48, 4, 12), F32) for n in "qkv"} | {"o": shape((4, 12, 48), F32)}
    params = {"wte": shape((96, 48), F32), "layers": [layer] * 2}
    names = {"wte": "vocab embd", "layers/*": "embd heads kv", "*/o": "heads kv embd"}
    ids = ml.named(shape((8, 16), jnp.int32), "batch length")
    program = ml.trace(step, ml.named(params, names), jax.eval_shape(optimizer.init, params), ids)
    asked = places(program)
    assert len(asked) == 9
    assert all("/nu/" in place for place in asked)
    _, state, _ = drawn_arguments(program)
    assert all(leaf.min() > 0 for leaf in jax.tree.leaves(state[0].nu))
    assert all(leaf.min() < 0 < leaf.max() for leaf in jax.tree.leaves(state[0].mu))
    report = program.plan(ml.mesh(x=4), "batch:x").check()
    assert report.ok, report
    assert "Not compared" not in str(report)


def chaotic(x):
    """Of x near 0.5 a number that a rounding error of it changes altogether."""
    for _ in range(40):
        x = 3.99 * x * (1 - x)
    return x


def test_what_rounding_moves_by_its_own_size_is_said_not_to_be_compared():
    # Addends in another order round otherwise; what is then made of the sum hides anything.
    program = ml.trace(
        lambda x, y: (chaotic(jnp.sin((x * y).sum(1)) ** 2), x + y),
        *[ml.named(jax.ShapeDtypeStruct((64, 512), F32), "a b")] * 2,
    )
    report = program.plan(X4, "b:x").check()
    assert report.ok, report
    (note,) = [n for n in report.notes if n.startswith("Not compared")]
    assert re.fullmatch(
        r"Not compared: `out/0`\. Rounding all data drawn moves it by up to \d+% of the root mean square: a wrong plan"
        r" could pass\. Give plan\.check arguments of typical magnitude\.",
        note,
    )
    assert note in str(report)


def test_a_draw_that_failed_counts_whatever_the_others_say(monkeypatch):
    # Right around zero, wrong where the data is small, and the other way round: both are wrong.
    program = ml.trace(lambda x, y: ml.dot(x, y, "b"), ml.f32[A, B], ml.f32[B, C])
    plan = program.plan(X4, "b:x")
    run = results.run
    for wrong in (1, 2):
        count = iter(range(1, 9))

        def sometimes(plan, args, wrong=wrong, count=count, **how):
            found = run(plan, args, **how)
            return jax.tree.map(lambda leaf: leaf + 1.0, found) if next(count) == wrong else found

        monkeypatch.setattr(results, "run", sometimes)
        report = plan.check()
        assert not report.results_equal
        assert next(count) == results.ALWAYS + 1


def test_what_is_no_number_is_drawn_above_zero_as_well():
    report = ml.trace(lambda x: ml.log(x - 0.04) * 1, ml.f32[A]).plan(X4, "a:x").check()
    assert report.ok
    assert not report.notes
    undefined = ml.trace(lambda x: ml.log(-ml.exp(x)), ml.f32[A]).plan(X4, "a:x").check()
    assert "Not compared: of all data drawn `out` is NaN or infinite everywhere." in str(undefined)


def test_a_check_reports_its_stages_and_ends_between_them():
    plan = ml.trace(lambda x, y: ml.dot(x, y, "b"), ml.f32[A, B], ml.f32[B, C]).plan(X4, "b:x")
    seen = []
    assert plan.check(progress=seen.append).ok
    assert [each.stage for each in seen] == [
        "compiling",
        "reading the compiled program",
        "running the plan on data",
        "running the unsharded function on data",
        "running the plan on small data",
        "running the unsharded function on small data",
    ]
    assert str(seen[0]) == "compiling for 4 devices, 0 s"
    cancel = threading.Event()
    with pytest.raises(ml.MeshlabError, match=r"check\(\) was cancelled after .* s, before running the unsharded"):
        plan.check(
            progress=lambda each: cancel.set() if each.stage == "running the plan on data" else None, cancel=cancel
        )
    with pytest.raises(ml.MeshlabError, match=r"check\(\) was given cancel=3; it must be a threading.Event or similar"):
        plan.check(cancel=cast("Any", 3))
    with pytest.raises(ml.MeshlabError, match="progress"):
        plan.check(progress=cast("Any", 3))


def test_arguments_that_are_given_are_compared_once():
    seen = []
    x, y = np.ones((8, 16), np.float32), np.ones((16, 8), np.float32)
    plan = ml.trace(lambda x, y: ml.dot(x, y, "b"), ml.f32[A, B], ml.f32[B, C]).plan(X4, "b:x")
    assert plan.check(x, y, progress=seen.append).ok
    assert [each.stage for each in seen][2:] == [
        f"running the {what} on the arguments" for what in ("plan", "unsharded function")
    ]
