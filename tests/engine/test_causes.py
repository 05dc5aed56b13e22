"""A cause is told in the user's words: what is stored, what is summed, whose gradient it is."""

import jax
import pytest

import meshlab as ml
from meshlab.engine.explain import explain
from meshlab.models import mlp
from meshlab.models.initial import shapes
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
    assert first.because == "`rows` and `cols` are summed while split over `data` and `model`."


def test_an_explanation_is_readable_in_a_notebook(readme):
    page = explain(readme.plan(MESH, "hidden:model"))._repr_html_()
    assert page.startswith("<p><b>all-reduce over model")
    assert "because" in page
    assert explain(readme.plan(MESH, None))._repr_html_() == (
        "<p>No device sends anything: the plan has no collectives.</p>"
    )


def test_axes_are_listed_in_the_order_of_the_mesh(readme):
    told = repr(readme.plan(MESH, "batch:data hidden:model"))
    assert told.index("over data") < told.index("over model")


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
    plan = program.plan(ml.mesh(x=2, y=4), {"a": "x+y", "out": {"a": None, "b": "x"}})
    gather, exchange = plan.explain().rows
    assert gather.chain == exchange.chain
    # Of 512 bytes: 3 × 1/8 gathered over y, then half of what is left exchanged; or 7 × 1/8 gathered at once.
    assert exchange.chain == (
        "all-gather over `y`, then all-to-all over `x`: 320 B sent; gathering first would send 448 B"
    )
    assert "chain    all-gather over `y`, then" in str(plan.explain())
