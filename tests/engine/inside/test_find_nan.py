"""The first NaN is found in its line, its iteration and on its devices, whatever the layout; none where none is."""

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.inside import find_nan, search
from tests.engine import looped
from tests.engine.inside import test_watch
from tests.engine.looped import Batch, Embed, Hidden, Layers, descent

SHAPES = {**looped.SHAPES, "bias": ml.f32[Layers,]}
LAYOUTS = [("data=2", ""), ("data=2 model=2", "batch:data hidden:model"), ("data=2 model=2", "batch:data+model")]


def loss(params, x):
    def layer(x, w):
        hidden = ml.relu(ml.dot(x, w["up"], Embed))
        scale = ml.log(hidden.mean() + w["bias"])
        return x + 0.1 * ml.dot(hidden * scale, w["down"], Hidden), None

    last, _ = ml.scan(layer, x, params, Layers)
    return ml.square(last).mean()


step = descent(loss)


def data(bias=(1, 1, 1, 1)):
    params, x = looped.data()
    return {**params, "bias": np.array(bias, "f4")}, x


@pytest.fixture(scope="module")
def program():
    return ml.trace(step, SHAPES, ml.f32[Batch, Embed])


def planned(program, mesh, layout):
    return program.plan(ml.mesh(**{name: int(size) for name, size in (a.split("=") for a in mesh.split())}), layout)


@pytest.mark.parametrize(("mesh", "layout"), LAYOUTS)
def test_a_nan_of_one_layer_is_found_there(program, mesh, layout, monkeypatch):
    monkeypatch.setattr(search, "MOST", 6)  # named values first, then inside
    plan = planned(program, mesh, layout)
    found = plan.find_nan(*data(bias=(1, 1, -50, 1)))
    assert (found.kind, found.place.made_by, found.iterations) == ("NaN", "log", (2,))
    assert found.source.code.startswith("scale = ml.log(")
    assert found.devices == tuple(range(plan.mesh.size))
    line = f"test_find_nan.py:{found.source.line}"
    assert str(found) == f"The first NaN is in `scale` (log) at {line}, in iteration 2 of 4, on all devices."
    assert plan.find_nan(*data()) is None


def test_a_nan_in_the_batch_is_found_on_the_devices_that_have_it(program):
    plan = planned(program, "data=2 model=2", "batch:data hidden:model")
    params, x = data()
    x[5, 3] = np.nan
    found = plan.find_nan(params, x)
    assert (found.value.place, found.devices, found.place.made_by) == ("x", (2, 3), "")
    assert str(found) == "The first NaN is in `x`, on devices 2, 3."


def test_the_backward_pass_runs_its_iterations_from_the_last():
    def root(w, x):
        def layer(x, w):
            return x * ml.sqrt(w), None

        return ml.scan(layer, x, w, Layers)[0].sum()

    plan = ml.trace(jax.grad(root), ml.f32[Layers,], ml.f32[Batch]).plan(ml.mesh(data=2), "batch:data")
    # The gradient of a root at 0 is infinite, times 0 it is NaN: in layers 1 and 3, of which 3 comes first.
    found = plan.find_nan(np.array([1, 0, 1, 0], "f4"), np.ones(8, "f4"))
    assert found is not None
    assert (found.kind, found.iterations) == ("NaN", (3,))


def test_an_infinity_counts_if_it_reaches_a_result():
    def fn(x):
        masked = ml.where(x > 0, x, -np.inf)
        weights = ml.softmax(masked, Embed)
        large = ml.exp(x * 100)
        return weights.sum() + (large * 2).sum()

    plan = ml.trace(fn, ml.f32[Batch, Embed]).plan(ml.mesh(data=2), "batch:data")
    x = np.full((8, 16), 0.5, "f4")
    assert plan.find_nan(x) is None  # the mask's infinities are meant
    x[6, 0] = 2
    found = plan.find_nan(x)
    assert found is not None
    assert (found.kind, found.value.label, found.place.made_by, found.devices) == ("infinity", "large", "exp", (1,))


def test_padding_is_not_looked_at(monkeypatch):
    """Zeros by zeros, in rows that are none of the batch's."""
    program = ml.trace(lambda x: ml.log(x / x.sum(Embed)), ml.f32[Batch, Embed])
    plan, x = program.plan(ml.mesh(data=3), "batch:data", pad=True), np.ones((8, 16), "f4")
    assert plan.find_nan(x) is None
    x[7, 3] = -1
    found = plan.find_nan(x)
    assert found is not None
    assert (found.kind, found.devices, found.place.made_by) == ("NaN", (2,), "log")
    monkeypatch.setattr(find_nan.Probing, "counts", lambda *_: None)
    assert program.plan(ml.mesh(data=3), "batch:data", pad=True).find_nan(np.ones((8, 16), "f4")) is not None


def test_infinities_in_padding_are_none_and_hide_none():
    """What is divided by padding is infinite; so is what is made of it, beside a number that overflows by itself."""
    program = ml.trace(lambda x: 2 * ml.exp(100 / x), ml.f32[Batch, ml.Dim("embed", 15)])
    for axes, layout, device in (({"data": 3}, "batch:data", 2), ({"x": 3, "y": 2}, {"batch": "x", "embed": "y"}, 5)):
        plan, x = program.plan(ml.mesh(**axes), layout, pad=True), np.full((8, 15), 10, "f4")
        assert plan.find_nan(x) is None
        x[7, 14] = 1
        found = plan.find_nan(x)
        assert found is not None
        assert (found.kind, found.devices, found.place.made_by) == ("infinity", (device,), "exp")


def test_arguments_are_checked(program):
    plan = planned(program, "data=2", "")
    with pytest.raises(ml.RunError, match=r"The plan takes 2 arguments .* Give find_nan\(\) the same arguments"):
        plan.find_nan(data()[0])


def test_a_pipeline_is_named_as_a_whole():
    program = ml.trace(test_watch.step, test_watch.SHAPES, ml.f32[Batch, Embed])
    plan = program.plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(2)), "batch:micro layers:pipe")
    params, x = test_watch.data()
    params["down"][2, 0, 0] = np.inf
    found = plan.find_nan(params, x)
    assert found is not None
    assert (found.kind, found.iterations, found.place.made_by) == ("NaN", (), "the pipeline")


def test_the_search_looks_at_few_values_at_a_time(program, monkeypatch):
    looked = []
    real = find_nan.compiled
    monkeypatch.setattr(search, "MOST", 6)
    monkeypatch.setattr(find_nan, "compiled", lambda *args: looked.append(args[2][1]) or real(*args))
    found = planned(program, "data=2", "batch:data").find_nan(*data(bias=(1, -50, 1, 1)))
    assert (found.place.made_by, found.iterations) == ("log", (1,))
    assert len(looked) > 1
    results = 4
    assert max(map(len, looked)) <= 6 + results
