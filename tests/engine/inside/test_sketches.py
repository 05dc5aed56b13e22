"""A sketch is the same under every layout, and another one where two numbers of a value change places."""

import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.inside.probed import compiled, flat
from meshlab.engine.inside.sketches import COUNT, added, sketch
from meshlab.engine.running.run import mesh_axes

A, B = ml.dims(a=8, b=6)
LAYOUTS = [("", {}), ("a:x", {}), ("a:x b:y", {}), ("b:x+y", {"pad": True}), ("a:y+x", {})]


def sketches(x, layout, pad=False):
    """The sketches of the argument of an identity, as the replicas have them."""
    plan = ml.trace(lambda x: x + x, ml.tensor(x, A, B)).plan(ml.mesh(x=2, y=2), layout, pad=pad)
    whole_numbers = not np.issubdtype(x.dtype, np.floating)
    probed = compiled(plan, lambda runs, tap, shards: sketch(runs, tap, shards, whole_numbers), "sketch")
    _, taken = probed(flat(plan, (ml.tensor(x, A, B),), "run()"))
    return [added(array, tap, mesh_axes(plan.mesh)) for tap, array in zip(probed.taps, taken, strict=True)]


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "?"])
def test_layouts_do_not_change_it(dtype):
    x = np.random.default_rng(0).normal(size=(8, 6)) * 10
    x = (x > 0) if dtype == "?" else np.abs(x).astype(dtype)
    given = [sketches(x, layout, **options)[0] for layout, options in LAYOUTS]
    for each in given:
        assert each.shape[1:] == (COUNT,)
        for replica in each:
            np.testing.assert_allclose(replica.astype(float), given[0][0].astype(float), rtol=1e-5)


def test_two_numbers_that_change_places_change_it():
    x = np.arange(48, dtype="f4").reshape(8, 6)
    swapped = x.copy()
    swapped[[0, 1]] = x[[1, 0]]
    apart = np.abs(sketches(x, "a:x")[0][0] - sketches(swapped, "a:x")[0][0])
    assert (apart > 1).all()
    assert (sketches(x.astype("i4"), "a:x")[0] != sketches(swapped.astype("i4"), "a:x")[0]).all()


def test_a_mask_hides_nothing():
    x = np.ones((8, 6), "f4")
    x[0], x[1] = -1e30, np.inf
    other = x.copy()
    other[3, 3] = 2
    apart = np.abs(sketches(x, "a:x")[0][0] - sketches(other, "a:x")[0][0])
    assert (apart >= 0.49).all()
