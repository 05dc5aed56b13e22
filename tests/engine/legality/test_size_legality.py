"""A merged axis that is only stored is cut anywhere; to compute, its parts are whole heads."""

import itertools

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml

MESHES = (ml.mesh(data=2, model=4), ml.mesh(data=8), ml.mesh(data=2, model=3))


def array(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def step(params, x):
    """Three heads of eight, which are taken apart and merged again."""

    def loss(params):
        heads = jax.nn.softmax((x @ params["up"]).reshape(-1, 3, 8), 1)
        return jnp.square(heads.reshape(-1, 24) @ params["down"] + params["bias"]).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)


@pytest.fixture(scope="module")
def program():
    names = {"up": "embed (heads=3 head)", "down": "(heads=3 head) embed", "bias": "embed"}
    params = {"up": array(12, 24), "down": array(24, 12), "bias": array(12)}
    return ml.trace(step, ml.named(params, names), ml.named(array(16, 12), "batch embed"))


def layouts(mesh):
    """What a device computes, with all ways to store the two weights over some axes."""
    orders = [axes for n in (1, 2) for axes in itertools.permutations(mesh.axes, n)]
    computed = [{"batch": "data"}, {"batch": "data", "heads": "model"}] if mesh.axes.get("model") == 3 else [{}]
    for plain, axes, places in itertools.product(computed, orders, (("params/up",), ("params/*", "out/1/*"))):
        yield {**plain, **{place: {"heads": axes} for place in places}}


@pytest.mark.share(3)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_what_is_stored_by_size_is_compiled_as_planned(program, mesh):
    compiled, drawn = 0, list(layouts(mesh))
    for layout in drawn:
        plan = program.plan(mesh, layout)
        stored = plan.spec("params/up").splits[1]
        assert stored == next(rules["heads"] for place, rules in layout.items() if place.startswith("params/"))
        report = plan.check()
        assert report.ok, (layout, str(report))
        compiled += 1
    assert compiled == len(drawn) >= 2


def test_it_is_gathered_before_it_is_taken_apart(program):
    plan = program.plan(ml.mesh(data=8), {"batch": "data", "params/up": {"heads": "data"}})
    (gather,) = [c for c in plan.collectives if c.kind == "all-gather" and c.value == "params/up"]
    assert gather.payload_bytes == 12 * 24 * 4 // 8
    whole = program.plan(ml.mesh(data=8), "batch:data")
    assert whole.stored.argument_bytes - plan.stored.argument_bytes == 12 * 24 * 4 * 7 // 8


def test_a_size_that_does_not_divide_is_told_as_it_is(program):
    with pytest.raises(
        ml.LayoutError, match=r"At `params/down`, `params/up`: `heads\*head` has size 24, which 5 \(`x`\)"
    ):
        program.plan(ml.mesh(x=5), {"params/*": {"heads": "x"}})
    with pytest.raises(ml.LayoutError, match=r"`heads` has size 3, which 8 \(`x`\) does not divide"):
        program.plan(ml.mesh(x=8), "heads:x")


def test_padding_pads_nothing_that_is_stored_by_size(program):
    layout = {"batch": "data", "params/*": {"heads": "data"}}
    plan, padded = (program.plan(ml.mesh(data=8), layout, pad=pad) for pad in (False, True))
    assert padded.rules.padded == {}
    assert plan.partition_specs == padded.partition_specs
    assert padded.check().ok
