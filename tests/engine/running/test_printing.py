"""`jax.debug.print` in a step: whole values, in the program's order, once, and the same text under every layout."""

import contextlib
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from tests.engine.looped import SHAPES, Batch, Embed, Hidden, Layers, data

LAYOUTS = {
    "data parallel": ({"data": 4}, "batch:data", False),
    "tensor parallel": ({"data": 2, "model": 2}, "batch:data hidden:model", False),
    "sharded where it is printed": ({"data": 2, "model": 2}, "batch:data embed:model", False),
    "fully sharded": ({"data": 4}, {"batch": "data", "params/*": {"embed": "data"}}, False),
    "micro-batches": ({"data": 2, "micro": ml.serial(2)}, "batch:data+micro", False),
    "a pipeline": ({"pipe": ml.stages(2), "micro": ml.serial(2)}, "batch:micro layers:pipe", False),
    "padded": ({"data": 3}, "batch:data", True),
    "nothing sharded": ({"data": 2}, "", False),
}


def loss(params, x):
    jax.debug.print("batch {} of {what}", x.mean().round(3), what="numbers")

    def layer(x, w):
        hidden = ml.relu(ml.dot(x, w["up"], Embed))
        jax.debug.print("  layer: {:.3f}, and {twice:.2f}", hidden.mean(), twice=2 * hidden.mean())
        out = x + 0.1 * ml.dot(hidden, w["down"], Hidden)
        with np.printoptions(precision=2):
            jax.debug.print("  of dims:{}", out.mean(Batch).array)
        return out, None

    x, _ = ml.scan(ml.checkpoint(layer), x, params, Layers)
    return ml.square(x).mean()


def step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    jax.debug.print("done")
    jax.debug.print("loss {v:.4f}", v=value)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)


def text_of(run, *args):
    """The lines that a call prints, and what it returns."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        result = jax.block_until_ready(run(*args))
        jax.effects_barrier()
    return text.getvalue().splitlines(), result


@pytest.fixture(scope="module")
def program():
    return ml.trace(step, SHAPES, ml.f32[Batch, Embed])


@pytest.fixture(scope="module")
def unsharded():
    params, x = data()
    named = {k: ml.tensor(v, *SHAPES[k].dims) for k, v in params.items()}
    return text_of(jax.jit(step), named, ml.tensor(x, Batch, Embed))


def test_lines_are_those_of_the_unsharded_function_in_its_order(program, unsharded):
    lines, _ = text_of(program.plan(ml.mesh(data=2), "").run, *data())
    # JAX prints again what it computes again for the backward pass.
    assert sorted(lines) == sorted(set(unsharded[0]))
    begin = ["batch", *["  layer", "  of dims"] * Layers.size, "done", "loss"]
    ordered = iter(lines)
    assert [next(line for line in ordered if line.startswith(each)) for each in begin][-1] == lines[-1]
    assert lines[0].endswith(" of numbers")


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_prints_the_same_text(program, unsharded, name):
    axes, layout, pad = LAYOUTS[name]
    lines, result = text_of(program.plan(ml.mesh(**axes), layout, pad=pad).run, *data())
    expected, right = unsharded
    assert sorted(lines) == sorted(set(expected))
    assert lines == text_of(program.plan(ml.mesh(data=1), "").run, *data())[0]
    for mine, theirs in zip(jax.tree.leaves(result), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_layout_that_cannot_return_a_value_prints_the_others():
    """The greatest number of a batch is known behind the loop over micro-batches, whose values are returned."""

    def fn(x):
        doubled = 2 * x
        jax.debug.print("mean {:.3f}", doubled.mean())
        jax.debug.print("most {:.3f}", doubled.max())
        jax.debug.print("sum {:.1f}", doubled.sum())
        return doubled.sum()

    plan = ml.trace(fn, ml.f32[Batch, Embed]).plan(ml.mesh(data=2, micro=ml.serial(2)), "batch:data+micro")
    x = data()[1]
    with pytest.warns(UserWarning, match=r"cannot print all: the values printed at test_printing.py:\d+ cann") as said:
        lines, _ = text_of(plan.run, x)
    assert said[0].filename == __file__  # where the plan was run
    assert lines == [f"mean {2 * x.mean():.3f}", f"sum {2 * x.sum():.1f}"]
    assert text_of(plan.run, x)[0] == lines  # said once


def test_a_plan_is_that_of_the_function_without_prints(program):
    def silent(params, x):
        def quiet(params, x):
            layer = ml.checkpoint(
                lambda x, w: (x + 0.1 * ml.dot(ml.relu(ml.dot(x, w["up"], Embed)), w["down"], Hidden), None)
            )
            return ml.square(ml.scan(layer, x, params, Layers)[0]).mean()

        value, grads = jax.value_and_grad(quiet)(params, x)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    mesh, layout = ml.mesh(data=2, model=2), "batch:data hidden:model"
    one, other = program.plan(mesh, layout), ml.trace(silent, SHAPES, ml.f32[Batch, Embed]).plan(mesh, layout)
    sent = [[(c.kind, c.axes, c.payload_bytes, c.times) for c in plan.collectives] for plan in (one, other)]
    assert sent[0] == sent[1]
    text, report = text_of(one.check, *data())
    assert report.ok, report
    assert not text


def test_prints_in_branches_and_of_shards_are_refused():
    def branch(x):
        jax.lax.cond(x.sum() > 0, lambda: jax.debug.print("{}", x.sum()), lambda: None)
        return x

    def shards(x):
        jax.debug.print("{}", x.sum(), partitioned=True)
        return x

    def callback(x):
        jax.debug.callback(lambda _: None, x.array)
        return x

    for fn, match in (
        (branch, "`debug_print` at .* is inside a `while` or a `cond`, which cannot return what it prints"),
        (shards, "`debug_print` at .* prints shards \\(partitioned=True\\), but a plan prints whole"),
        (callback, "`debug_callback` at .* has a side effect;"),
    ):
        with pytest.raises(ml.TraceError, match=match):
            ml.trace(fn, ml.f32[Batch])


def test_renamed_dims_are_those_of_what_is_printed():
    def fn(x):
        jax.debug.print("{:.2f}", x.sum())
        return x * 2

    plan = ml.trace(fn, ml.f32[Batch]).rename({"batch": "rows"}).plan(ml.mesh(data=2), "rows:data")
    assert text_of(plan.run, np.arange(8, dtype="f4"))[0] == ["28.00"]


def test_numbers_and_whole_texts():
    def fn(x):
        jax.debug.print("begin")
        jax.debug.print("{n} {}", 1.5, n=3)
        jax.debug.print("{}, {}", x.sum("wide"), jax.random.key(7))
        jax.vmap(lambda row: jax.debug.print("row {}", row))(x.array[:2])

        def body(total, each):
            jax.debug.print("{} {}: {:.1f}", 7, "of", each.sum())
            return total + each.sum(), None

        total, _ = ml.scan(body, jnp.zeros(()), x, Batch, reverse=True)
        return total

    plan = ml.trace(fn, ml.f32[Batch, ml.Dim("wide", 2)]).plan(ml.mesh(data=2), "wide:data")
    lines = text_of(plan.run, np.stack([np.arange(8)] * 2, 1).astype("f4"))[0]
    rows = "f32[batch=8]([ 0.  2.  4.  6.  8. 10. 12. 14.]), [0 7]", "row [0. 0.]", "row [1. 1.]"
    assert lines == ["begin", "3 1.5", *rows, *(f"7 of: {2 * i:.1f}" for i in reversed(range(8)))]


def test_two_loops_print_one_after_the_other():
    """They are alike, of as many iterations, and nothing is printed between them."""

    def fn(x):
        def body(name):
            def printing(carry, row):
                jax.debug.print(f"{name} {{:.0f}}", row.sum())
                return carry + row.sum(), None

            return printing

        total, _ = ml.scan(body("first"), jnp.zeros(()), x, Batch)
        return ml.scan(body("second"), total, x, Batch)[0]

    plan = ml.trace(fn, ml.f32[Batch, ml.Dim("wide", 2)]).plan(ml.mesh(data=2), "wide:data")
    lines = text_of(plan.run, np.stack([np.arange(8)] * 2, 1).astype("f4"))[0]
    assert lines == [f"{name} {2 * i}" for name in ("first", "second") for i in range(8)]


def test_a_training_prints_in_each_step():
    def step(w, x):
        jax.debug.print("at {:.0f}", w.sum())
        return w + x

    program = ml.trace(step, ml.f32[Batch,], ml.f32[Batch,], carry={"w": 0})
    plan = program.plan(ml.mesh(data=2), "batch:data")
    ones = np.ones(8, "f4")
    assert text_of(lambda: plan.fit({"w": ones}, [{"x": ones}] * 3, steps=3))[0] == ["at 8", "at 16", "at 24"]
