"""What is watched is what the unsharded function computes, in whole and in parts; the step's results stay its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.inside.watch import Seen, _equal
from meshlab.engine.programs.lines import lines
from meshlab.engine.verifying.random_layouts import draw, draw_in_turn
from meshlab.models.zoo import models
from tests import share
from tests.engine.inside.test_own_order import SOON
from tests.engine.looped import SHAPES, Batch, Embed, Hidden, Layers, data, descent
from tests.widened import widened

pytestmark = pytest.mark.share(2, of="file")

MESH = ml.mesh(data=2, model=2)
MODELS = {model.name: model for model in models()}


def loss(params, x):
    def layer(x, w):
        hidden = ml.tanh(ml.dot(x, w["up"], Embed))
        out = ml.dot(hidden, w["down"], Hidden)
        return ml.tag(x + out, "residual"), None

    last, _ = ml.scan(layer, x, params, Layers)
    return ml.square(last).mean()


step = descent(loss)


def by_hand(params, x):
    """The values of all layers: hidden, out and what is passed on."""
    rows = []
    for up, down in zip(params["up"], params["down"], strict=True):
        hidden = np.tanh(x @ up)
        out = hidden @ down
        x = x + out
        rows.append((hidden, out, x))
    return [np.stack(each) for each in zip(*rows, strict=True)]


@pytest.fixture(scope="module")
def seen():
    plan = ml.trace(step, SHAPES, ml.f32[Batch, Embed]).plan(MESH, "batch:data hidden:model")
    return plan, plan.watch(*data(), values=["hidden", "out", "residual", "x", "out/*"])


def test_values_of_a_loop_are_whole_by_iteration(seen):
    for name, expected in zip(("hidden", "out", "residual"), by_hand(*data()), strict=True):
        assert seen[1][name].loops == (4,)
        np.testing.assert_allclose(seen[1][name].whole, expected, atol=1e-5)


def test_each_device_has_its_own_part(seen):
    whole = seen[1]["hidden"].whole
    for device, shard in enumerate(seen[1]["hidden"].shards):
        rows, columns = device // 2 * 4, device % 2 * 16
        np.testing.assert_array_equal(shard, whole[:, rows : rows + 4, columns : columns + 16])


def test_a_partial_sum_has_addends(seen):
    out, hidden = seen[1]["out"], seen[1]["hidden"].whole
    assert out.addends.shape == (2, 4, 8, 16)
    down = data()[0]["down"]
    for part, columns in enumerate((slice(0, 16), slice(16, 32))):
        expected = np.einsum("lbh,lhe->lbe", hidden[..., columns], down[:, columns])
        np.testing.assert_allclose(out.addends[part], expected, atol=1e-5)
    assert [form.by for form in out.forms] == ["dot_general", "all-reduce over model"]
    assert out.forms[1].addends is None
    np.testing.assert_allclose(out.forms[1].whole, out.whole, atol=1e-6)
    assert seen[1]["hidden"].addends is None


def test_arguments_and_results_have_places(seen):
    np.testing.assert_array_equal(seen[1]["x"].whole, data()[1])
    np.testing.assert_allclose(seen[1]["out/0"].whole, seen[1].result[0], rtol=1e-6)
    assert set(seen[1]) == {"hidden", "out", "residual", "x", "out/0", "out/1/up", "out/1/down"}


def test_a_list_of_it_says_where_and_how(seen):
    text = repr(seen[1])
    assert "out: `out` at test_watch.py:" in text
    made, moved = "[data, ·] partial over model by dot_general", "[data, ·] by all-reduce over model"
    assert f"4 × [batch embed] float32, {made}, then {moved}" in text


def test_a_line_names_what_it_makes(seen):
    plan, watched = seen
    line = str(watched["hidden"].value.source)
    again = plan.watch(*data(), values=[line])
    np.testing.assert_array_equal(again[line].whole, watched["hidden"].whole)


def test_watching_changes_no_bit_of_the_results(seen):
    equal = jax.tree.map(np.array_equal, seen[1].result, seen[0].run(*data()))
    assert all(jax.tree.leaves(equal))
    assert seen[1].exact


def test_it_is_said_where_the_watched_program_rounds_otherwise(seen):
    other = Seen(seen[1].result, False, {"hidden": seen[1].all("hidden")})
    assert repr(other).endswith(
        "The watched program rounds differently: its results are not equal to the plan's bit by bit."
    )
    assert not _equal(seen[1].result, jax.tree.map(lambda x: np.nextafter(x, np.float32(np.inf)), seen[1].result))


@pytest.mark.share(24)
@pytest.mark.parametrize("name", MODELS)
def test_watching_changes_no_bit_of_a_model(name):
    program, args = MODELS[name].trace(), MODELS[name].data(0)
    ((mesh, layout),) = draw(program, seed=share.number(), count=1)
    plan = program.plan(mesh, layout)
    watched = plan.watch(*args, values=["*", *lines(program).assigned])
    assert len(watched) >= len(program.outputs)
    for one, other in zip(*map(jax.tree.leaves, (watched.result, plan.run(*args))), strict=True):
        np.testing.assert_array_equal(_numbers(one), _numbers(other), f"{layout} on {mesh}")
    jax.clear_caches()


def _numbers(array):
    return jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else np.asarray(array)


def test_micro_batches_are_put_together():
    program = ml.trace(step, SHAPES, ml.f32[Batch, Embed])
    plan = program.plan(ml.mesh(data=2, micro=ml.serial(2)), "batch:data+micro")
    watched = plan.watch(*data(), values=["hidden", "grads/params/up"])
    np.testing.assert_allclose(watched["hidden"].whole, by_hand(*data())[0], atol=1e-5)
    one = program.plan(ml.mesh(data=1), "").watch(*data(), values=["grads/params/up"])
    np.testing.assert_allclose(watched["grads/params/up"].whole, one["grads/params/up"].whole, atol=1e-6)
    made, summed = (watched["grads/params/up"].forms[i].addends for i in (0, -1))
    assert made is not None
    assert summed is not None
    assert len(made) == 4  # one of each device in each micro-batch
    assert len(summed) == 2


def put_together(plan, args):
    """The whole of each form of all values of numbers that have one, and how many there are."""
    watched = plan.watch(*args, values=["*", *lines(plan.program).assigned])
    values = {name: [form for value in watched.all(name) for form in value.forms] for name in watched}
    return {name: [each for each in forms if not each.own_order] for name, forms in values.items()}


def hold(plan, args):
    """Holds each value of a plan against that of one device; returns how many were compared."""
    one, count = put_together(plan.program.plan(ml.mesh(one=1), ""), args), 0
    for name, forms in put_together(plan, args).items():
        expected = [each.whole for each in one[name]]
        for form in forms:
            whole = form.whole
            if not np.issubdtype(whole.dtype, np.floating) or whole.shape not in [each.shape for each in expected]:
                continue
            count += 1
            most = max(np.abs(each).max(initial=1e-6) for each in expected if each.shape == whole.shape)
            assert any(
                np.allclose(whole, each, rtol=1e-6, atol=1e-7 * most) for each in expected if each.shape == whole.shape
            ), f"{name}, {form} under {plan.layout} on {plan.mesh}"
    return count


def test_blocks_that_devices_share_otherwise_than_they_were_cut_are_put_together():
    """Iteration 0 has the first half of each device's rows, which do not lie side by side."""
    model = MODELS["moe"]
    with jax.enable_x64(True):
        program, args = ml.trace(model.step, *widened(model.shapes)), widened(model.data(0))
        plan = program.plan(ml.mesh(x=4, t=ml.serial(2)), "batch:t groups:x+t")
        assert hold(plan, args) > 30
        assert plan.first_difference(model.step, *args) is None
    assert set(plan.planned.cuts.values()) == {("x",)}


@pytest.mark.share(12)
@pytest.mark.parametrize("name", [*SOON, "moe_sgd", "transformer_sgd", "t5"])
def test_the_whole_is_that_of_one_device(name):
    model = MODELS[name]
    with jax.enable_x64(True):
        program, args = ml.trace(model.step, *widened(model.shapes)), widened(model.data(0))
        ((mesh, layout, pad),) = draw_in_turn(program, seed=share.number(), count=1)
        assert hold(program.plan(mesh, layout, pad=pad), args)
    jax.clear_caches()


def test_a_line_that_runs_again_and_again_has_several_values():
    def twice(x):
        for _ in range(2):
            double = x * 2
            x = ml.tanh(double)
        return x.sum()

    plan = ml.trace(twice, ml.f32[Batch, Embed]).plan(ml.mesh(data=2), "batch:data")
    x = data()[1]
    seen = plan.watch(x, values=["double", "x"])
    first, second = seen.all("double")
    np.testing.assert_allclose(first.whole, 2 * x, atol=1e-6)
    np.testing.assert_allclose(second.whole, 2 * np.tanh(2 * x), atol=1e-6)
    assert len(seen.all("x")) == 1  # the argument is a place, which comes before lines


def test_padding_is_cut():
    odd = ml.Dim("odd", 7)
    plan = ml.trace(lambda x: ml.tanh(x), ml.f32[odd]).plan(ml.mesh(data=2), "odd:data", pad=True)
    seen = plan.watch(np.arange(7, dtype="f4"), values=["out"])
    np.testing.assert_allclose(seen["out"].whole, np.tanh(np.arange(7)), atol=1e-6)
    assert [len(shard) for shard in seen["out"].shards] == [4, 4]


def test_names_of_no_value_are_refused_together(seen):
    with pytest.raises(
        ml.RunError,
        match=r"watch\(\) was given unknown names: `hiden` \(Did you mean `hidden`\?\); `test_watch.py:1`.*; 3\. "
        r"It knows the places `.*; the lines that assign `.*; and every line that computes something",
    ):
        seen[0].watch(*data(), values=["hidden", "hiden", "test_watch.py:1", 3])
    with pytest.raises(ml.RunError, match=r"watch\(\) was given values='hidden'; it takes a list of names"):
        seen[0].watch(*data(), values="hidden")
    with pytest.raises(ml.RunError, match=r"watch\(\) was given no names: It knows the places"):
        seen[0].watch(*data(), values=[])
    with pytest.raises(
        ml.RunError, match=r"`hiden` was not watched. Did you mean `hidden`\? The watched values are `hidden`"
    ):
        seen[1]["hiden"]
    with pytest.raises(ml.RunError, match=r"The plan takes 2 arguments .* Give watch\(\) the same arguments"):
        seen[0].watch(data()[0], values=["hidden"])


def test_what_is_inside_of_a_while_is_refused():
    def fn(x):
        def body(x):
            halved = x * 0.5
            return halved

        return jax.lax.while_loop(lambda x: x.max() > 1, body, x.array)

    plan = ml.trace(fn, ml.f32[Batch, Embed]).plan(ml.mesh(data=2), "batch:data")
    with pytest.raises(
        ml.RunError,
        match=r"watch\(\) cannot look at `halved`: `halved` is computed inside while at test_watch.py:\d+, which"
        r" returns only its results\.",
    ):
        plan.watch(data()[1], values=["halved"])


def test_what_is_inside_of_a_pipeline_is_refused():
    plan = ml.trace(step, SHAPES, ml.f32[Batch, Embed]).plan(
        ml.mesh(pipe=ml.stages(2), micro=ml.serial(2)), "batch:micro layers:pipe"
    )
    with pytest.raises(ml.RunError, match=r"`hidden` is computed inside the pipeline, whose stages return"):
        plan.watch(*data(), values=["hidden"])
    assert plan.watch(*data(), values=["out/0"])["out/0"].whole.shape == ()
