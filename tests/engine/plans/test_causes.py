"""A cause is told in the user's words: what is stored, what is summed, whose gradient it is."""

import json

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.api.explain import explain
from meshlab.models.basic import mlp
from meshlab.models.parts.initial import shapes
from meshlab.models.zoo import models

MESH = ml.mesh(data=2, model=2)
SMALL = mlp.Config(16, 8, 8, 64, 8)


@pytest.fixture(scope="module")
def text():
    model = next(m for m in models() if m.name == "transformer_adamw")
    return ml.trace(model.step, *model.shapes)


@pytest.fixture(scope="module")
def readme():
    return ml.trace(mlp.step, shapes(mlp.init, SMALL), *mlp.inputs(SMALL))


def test_what_is_gathered_in_a_loop_is_told_by_where_it_is_stored(text):
    layout = {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}
    gathers = [c for c in text.plan(MESH, layout).collectives if c.kind == "all-gather" and c.times > 1]
    assert {c.value for c in gathers} >= {"params/layers/query", "params/layers/down"}
    assert all("is stored with `embed` split over `data`" in c.because for c in gathers)
    assert not any("Take `embed` off" in c.remedy for c in gathers)


def test_gradients_are_named_after_what_they_are_gradients_of(text):
    sums = [c for c in text.plan(MESH, "batch:data").collectives if c.payload_bytes > 4]
    named = {c.value for c in sums}
    assert {
        "gradient of params/embedding",
        "gradient of params/layers/query",
        "gradient of params/layers/down",
    } <= named
    assert all("in the backward pass" in c.because for c in sums)


def test_an_output_that_is_stored_on_another_axis(readme):
    rows = readme.plan(MESH, {"hidden": "model", "out/1/w1": {"hidden": "data"}}).collectives
    (gather,) = [c for c in rows if c.value == "out/1/w1"]
    assert gather.because == "`out/1/w1` is stored with `hidden` split over `data`, but it is made split over `model`."
    assert gather.remedy == 'Store it as it is made: {"out/1/w1": {"hidden": "model"}}.'


def test_several_dims_are_told_in_the_plural(readme):
    first = readme.plan(MESH, "rows:data cols:model").collectives[0]
    assert first.because == "`rows` and `cols` are summed while split: `rows` over `data`, `cols` over `model`."
    assert first.remedy.startswith("Take `rows` off `data` and `cols` off `model`: then every device adds up")


def test_an_explanation_is_readable_in_a_notebook(readme):
    page = explain(readme.plan(MESH, "hidden:model"))._repr_html_()
    # As far to the right as JupyterLab's texts are.
    assert page.startswith('<div style="padding-left:6px"><p><b>all-reduce over model')
    assert "<br><b>Because:</b> <code>hidden</code> is summed while split over <code>model</code>.<br>" in page
    assert "<br><b>Remedy:</b> Take <code>hidden</code> off <code>model</code>: then " in page
    assert "`" not in page
    assert explain(readme.plan(MESH, None))._repr_html_() == (
        '<div style="padding-left:6px"><p>No device sends anything: the plan has no collectives.</p>'
        "<p>Each device does 100% of the FLOPs; an even split would be 25%.</p></div>"
    )


def test_axes_are_listed_in_the_order_of_the_mesh(readme):
    written = repr(readme.plan(MESH, "batch:data hidden:model"))
    assert written.index("over data") < written.index("over model")


def test_a_place_wants_a_dict(readme):
    with pytest.raises(ml.LayoutError, match=r"`params/\*` is a place, whose rules are a dict"):
        readme.plan(MESH, {"params/*": "hidden:data"})


def test_a_misspelt_glob_is_told_the_globs(readme):
    with pytest.raises(
        ml.LayoutError, match=r"`param/\*` matches no place of this program. Did you mean `params/\*`\?"
    ):
        readme.plan(MESH, {"param/*": {"hidden": "data"}})


def test_constants_have_a_label():
    table = jax.numpy.arange(8.0)
    program = ml.trace(lambda x: x * ml.tensor(table, "a"), ml.f32[ml.Dim("a", 8)])
    assert all(value.label for value in program.values)


def test_a_relayout_is_told_as_a_chain_with_the_price_of_the_alternative():
    program = ml.trace(ml.tanh, ml.f32[ml.Dim("a", 8), ml.Dim("b", 16)])
    (moved,) = program.plan(ml.mesh(x=2, y=2), {"a": "x", "out": {"a": "y"}}).explain().rows
    assert moved.kind == "collective-permute"
    assert moved.because == "`out` is stored with `a` split over `y`, but it is made split over `x`."
    assert moved.chain == "collective-permute over `x` and `y`: 256 B sent; gathering first would send 256 B"
    plan = program.plan(ml.mesh(x=4, y=2), {"a": "x+y", "out": {"a": None, "b": "x"}})
    gather, exchange = plan.explain().rows
    assert gather.chain == exchange.chain
    # Of 512 bytes: 1/8 gathered over y, then 3/4 of the quarter that is left exchanged; or 7 × 1/8 gathered at once.
    assert exchange.chain == (
        "all-gather over `y`, then all-to-all over `x`: 160 B sent; gathering first would send 448 B"
    )
    assert "chain    all-gather over `y`, then" in str(plan.explain())


def abstract(text, *shape):
    return ml.named(jax.ShapeDtypeStruct(shape, "float32"), text)


def causes(fn, arguments, layout, mesh=MESH):
    """The causes and remedies of a plan, each once."""
    rows = ml.trace(fn, *arguments).plan(mesh, layout).collectives
    return [*dict.fromkeys((c.because, c.remedy) for c in rows)], rows


def test_each_dim_is_told_with_its_own_axes():
    def fn(x):
        return x.max(1), jnp.argmax(x, 1), jax.lax.top_k(x, 2)[0]

    reasons, _ = causes(fn, [abstract("batch vocab", 8, 64)], "batch:data vocab:model")
    assert [because for because, _ in reasons] == [
        "The greatest value over `vocab` is taken while it is split over `model`.",
        "The position of the greatest value over `vocab` is searched while it is split over `model`.",
        "The greatest values over `vocab` are searched while it is split over `model`.",
    ]
    assert {remedy for _, remedy in reasons} == {"Take `vocab` off `model`."}


def test_windows_along_two_dims_are_told_apart_by_the_axes_that_are_sent_over():
    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3), (1, 1, 1), "SAME")

    image = abstract("batch height width", 8, 8, 8)
    reasons, _ = causes(pool, [image], "batch:b height:data width:model", ml.mesh(b=2, data=2, model=2))
    written = "The greatest value in windows along `{}` is taken while it is split over `{}`."
    assert {because for because, _ in reasons} == {written.format("height", "data"), written.format("width", "model")}
    reasons, _ = causes(lambda x: x.max((1, 2)), [image], "height:data width:model")
    assert reasons == [
        (
            "The greatest value over `height` and `width` is taken while they are split: `height` over `data`, "
            "`width` over `model`.",
            "Take `height` off `data` and `width` off `model`.",
        )
    ]


def test_a_sum_that_two_operations_make_is_told_of_both():
    def fn(w, x):
        return jnp.mean(jnp.tanh(x @ w), 0).sum()

    reasons, _ = causes(fn, [abstract("a b", 4, 8), abstract("batch a", 16, 4)], "batch:data b:model")
    assert reasons == [
        (
            "`batch` and `b` are summed while split: `batch` over `data`, `b` over `model`.",
            "Take `batch` off `data` and `b` off `model`: then every device adds up the whole sum itself.",
        )
    ]


def test_a_sum_that_a_loop_carries_is_told_from_where_it_is_made():
    def accumulate(w, xs):
        def turn(total, x):
            grad = jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)
            return jax.tree.map(jnp.add, total, grad), None

        total, _ = jax.lax.scan(turn, jnp.zeros_like(w), xs)
        return w, jax.tree.map(lambda g: g / 3, total)

    arguments = abstract("a b", 4, 8), abstract("accum batch a", 3, 16, 4)
    reasons, (row,) = causes(accumulate, arguments, "batch:data")
    line = accumulate.__code__.co_firstlineno
    assert reasons[0][0] == (
        f"`batch` is summed in the backward pass inside the loop at test_causes.py:{line + 5} while split over `data`; "
        "the sum is carried through the loop and added up once after it."
    )
    assert str(row.source) == f"test_causes.py:{line + 2}"
    assert row.value == "out/1"
    assert row.times == 1


def test_a_sum_that_a_loop_stacks_is_told_from_where_it_is_made():
    def stack(xs):
        return jax.lax.scan(lambda c, x: (c, jnp.tanh(x).sum(0)), 0.0, xs)[1] * 2.0

    reasons, _ = causes(stack, [abstract("steps batch a", 3, 16, 4)], "batch:data")
    assert [because for because, _ in reasons] == [
        f"`batch` is summed inside the loop at test_causes.py:{stack.__code__.co_firstlineno + 1} while split over "
        "`data`; the sums of all iterations are stacked and added up once after it."
    ]


def test_a_sum_that_a_loop_hands_to_its_next_turn_is_told_from_where_it_is_made():
    def cell(state, x, w):
        state = jnp.tanh(x + state @ w)
        return state, state

    def loss(w, xs):
        return jax.lax.scan(lambda c, x: cell(c, x, w), jnp.zeros_like(xs[0]), xs)[1].sum()

    arguments = abstract("_ a", 8, 8), abstract("steps batch a", 3, 4, 8)
    _, rows = causes(jax.grad(loss), arguments, "a:data")
    (row,) = [c for c in rows if c.kind == "all-reduce"]
    assert row.because == (
        f"`a` is summed in the backward pass inside the loop at test_causes.py:{loss.__code__.co_firstlineno + 1} "
        "while split over `data`; the sum is carried into the next iteration and added up there."
    )
    assert row.times == 3


def test_remedies_name_the_dims_that_layouts_have():
    def fn(w, x):
        return jnp.sort(x @ w, axis=1)

    arguments = abstract("embed (heads=4 head)", 8, 16), abstract("batch embed", 8, 8)
    ((because, remedy),), _ = causes(fn, arguments, "heads:model")
    assert because == "`sort` needs `heads` whole, but it is split over `model`."
    assert remedy == "Take `heads` off `model`."
    reasons, _ = causes(lambda w, x: (x @ w).sum(1), arguments, "heads:model")
    assert reasons[0][1].startswith("Take `heads` off `model`: then")


def test_what_is_stored_split_is_told_whatever_its_form():
    def fn(g, w, x):
        return (x * g.astype(x.dtype)[None, None]) @ w

    arguments = abstract("embed", 8), abstract("embed out", 8, 4), abstract("batch seq embed", 8, 4, 8)
    reasons, (row,) = causes(fn, arguments, {"batch": "data", "g": {"embed": "data"}})
    assert reasons == [
        (
            "`g` is stored with `embed` split over `data`; `mul` computes with it whole.",
            "Store `g` whole.",
        )
    ]
    assert row.value == "g"


def looped(w, x):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]


def test_what_a_loop_steps_through_is_gathered_at_once_unless_it_is_stored_along_another_dim():
    arguments = abstract("layers embed _", 4, 8, 8), abstract("batch embed", 16, 8)
    program = ml.trace(looped, *arguments)
    plan = program.plan(ml.mesh(data=2), {"batch": "data", "w": {"layers": "data"}})
    (row,) = [row for row in plan.collectives if row.kind == "all-gather"]
    assert row.because == (
        "`w` is stored with `layers` split over `data`, but each device runs all iterations of the loop over `layers`: "
        "what they read, 1,024 B, is gathered at once before it."
    )
    slices, whole = row.remedies
    assert slices.text == "store `w` with `embed` split over `data` instead of `layers`, to gather one slice at a time"
    assert whole.text == "store `w` whole"
    better = program.plan(plan.mesh, slices.applied(plan.layout))
    (each,) = [row for row in better.collectives if row.kind == "all-gather"]
    assert (each.times, each.wire_bytes * 4) == (4, row.wire_bytes)
    assert better.memory.peak_bytes < plan.memory.peak_bytes
    assert not [r for r in program.plan(plan.mesh, whole.applied(plan.layout)).collectives if r.kind == "all-gather"]
    better.check()


def test_a_loop_over_what_no_other_dim_can_split_has_one_remedy():
    arguments = abstract("layers embed _", 4, 7, 7), abstract("batch embed", 16, 7)
    plan = ml.trace(looped, *arguments).plan(ml.mesh(data=2), {"batch": "data", "w": {"layers": "data"}})
    (row,) = [row for row in plan.collectives if row.kind == "all-gather"]
    assert [remedy.text for remedy in row.remedies] == ["store `w` whole"]


def test_a_reduction_is_told_for_all_micro_batches(readme):
    mesh = ml.mesh(data=2, micro=ml.serial(8))
    sums = readme.plan(mesh, "batch:data+micro").collectives
    assert len(sums) == 3
    assert all(
        c.because.endswith(" while split over `data`; added up over 8 micro-batches, reduced once.") for c in sums
    )


def test_what_runs_in_each_iteration_is_told(readme):
    mesh = ml.mesh(data=2, micro=ml.serial(4))
    rows = readme.plan(mesh, {"batch": "data+micro", "params/*": {"hidden": "data"}}).collectives
    gather = next(c for c in rows if c.kind == "all-gather")
    assert gather.because.endswith("computes with it whole. It is gathered again in each of 4 micro-batches.")
    scatter = next(c for c in rows if c.kind == "reduce-scatter")
    assert "each device keeps its part; reduced in each of 4 micro-batches." in scatter.because


def test_blocks_of_another_dim_are_no_micro_batches():
    program = ml.trace(lambda x: (x * x).sum(), ml.f32[ml.dims(seq=16, embed=8)])
    (total,) = program.plan(ml.mesh(data=2, chunk=ml.serial(4)), "seq:data+chunk").collectives
    assert total.because.endswith("; added up over 4 blocks of `seq`, reduced once.")


def test_a_plan_with_a_serial_axis_says_so_as_json(readme):
    plan = readme.plan(ml.mesh(data=2, micro=ml.serial(4, gather="once")), "batch:data+micro")
    assert json.loads(plan.to_json())["mesh"] == {"data": 2, "micro": {"serial": 4, "gather": "once"}}
    assert "data=2 × micro=serial(4" in str(plan.explain()) + repr(plan)
