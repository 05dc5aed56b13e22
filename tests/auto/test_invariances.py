"""What changes no optimum, or changes it by a known factor: equal axes, names, more of the same layer, faster machines.

And what there is none of: of layouts that fit in less memory than every layout takes.
"""

from __future__ import annotations

import functools

import jax
import pytest

import meshlab as ml
from meshlab.auto.brute_force import priced_layouts
from tests.auto.best_first.programs import grown, mixtral

# About a millionth and a million, as powers of two: neither rounds a number, and equally good layouts stay so.
SCALES = (2.0**-20, 2.0**20)


@functools.cache
def blocks(layers: int) -> ml.Program:
    """Gradient descent on equal feed-forward layers, each with a residual connection, in a scan."""
    Layers, Batch, Embed, Ffn = ml.dims(layers=layers, batch=8192, embed=2048, ffn=8192)

    def loss(weights, x):
        def layer(x, each):
            return x + ml.dot(ml.relu(ml.dot(x, each["up"], Embed)), each["down"], Ffn), None

        return ml.square(ml.scan(layer, x, weights, Layers)[0]).mean()

    def step(weights, x):
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, jax.grad(loss)(weights, x))

    weights = {"up": ml.f32[Layers, Embed, Ffn], "down": ml.f32[Layers, Ffn, Embed]}
    return ml.trace(step, weights, ml.f32[Batch, Embed])


def machine(faster: float) -> ml.Hardware:
    """A machine of nodes of eight, all of whose speeds are so many times as high."""
    switch = ml.Switch.of(8, egress=4e11 * faster, base=8e-6 / faster, step=1e-6 / faster)
    return ml.Hardware.of(
        "scaled",
        flops={"bf16": 9e14 * faster, "f32": 4.5e14 * faster},
        memory=8e10,
        bandwidth=3e12 * faster,
        network=switch,
        efficiency=ml.Efficiency.of(matmul=0.8, memory=0.9, network=0.9, launch=2e-6 / faster),
    )


def torus(faster: float) -> ml.Hardware:
    """A torus of 4 x 4, the same."""
    network = ml.Torus.of(4, 4, link=4.5e10 * faster, hop_latency=1e-6 / faster)
    flops = {"bf16": 2e14 * faster}
    return ml.Hardware.of(
        "scaled", flops=flops, memory=1.6e10, bandwidth=8e11 * faster, network=network, platform="tpu"
    )


@pytest.mark.share(12)
@pytest.mark.parametrize("name", ["mlp_adamw", "autoencoder"])
@pytest.mark.parametrize("made", [machine, torus])
def test_a_machine_that_is_faster_in_all_has_the_same_layout(name, made):
    """In seconds from 1e-10 to 1e2: a solver with absolute tolerances would take the first layout for the best."""
    program, sizes = grown(name), {"data": 4, "model": 2 if made is machine else 4}
    usual = ml.auto.layout(program, ml.mesh(made(1.0), **sizes))
    assert usual.layout.rules
    for faster in SCALES:
        scaled = ml.auto.layout(program, ml.mesh(made(faster), **sizes))
        assert scaled.layout == usual.layout
        assert scaled.proof.value * faster == pytest.approx(usual.proof.value, rel=1e-9)
        assert scaled.proof.bound * faster == pytest.approx(usual.proof.bound, rel=1e-9)


@pytest.mark.parametrize("factor", [2, 32, 1024])
def test_the_least_traffic_grows_with_all_sizes(factor):
    """All tensors have two dims, so that everything is sent `factor` squared times as often: up to a million."""
    program = grown("mlp_sgd", 4)
    mesh = ml.mesh(a=4, b=2)
    larger = program.resize(**{dim: size * factor for dim, size in program.dims.items()})
    once, more = (ml.auto.layout(each, mesh, objective="traffic") for each in (program, larger))
    assert more.layout == once.layout
    # All but the loss, a number.
    scalar = sum(c.wire_bytes * c.times for c in once.plan.collectives if c.payload_bytes == 4)
    assert more.proof.value - scalar == pytest.approx((once.proof.value - scalar) * factor**2)


EQUAL = {"time": ml.mesh("v5e:4x4", a=4, b=4), "traffic": ml.mesh(a=4, b=4)}


def swapped(layout: ml.Layout) -> ml.Layout:
    """The layout with its two axes in each other's place."""
    return ml.Layout.of(_swapped(layout.to_dict()))


def _swapped(rules):
    if isinstance(rules, dict):
        return {key: _swapped(value) for key, value in rules.items()}
    return tuple(map(_swapped, rules)) if isinstance(rules, tuple | list) else {"a": "b", "b": "a"}.get(rules, rules)


@pytest.mark.share(6)
@pytest.mark.parametrize("objective", EQUAL)
@pytest.mark.parametrize("dim", ["batch", "ffn"])
@pytest.mark.parametrize("pinned", [True, False])
def test_equal_axes_change_places(objective, dim, pinned):
    """What is pinned to one of them, or kept off it, costs as much as with the other."""
    program, mesh = blocks(2), EQUAL[objective]

    def best(axis: str) -> ml.auto.Choice:
        pin, forbid = ({dim: axis}, None) if pinned else (None, {dim: axis})
        return ml.auto.layout(program, mesh, objective=objective, exact=True, pin=pin, forbid=forbid)

    on_a, on_b = best("a"), best("b")
    assert on_a.proof.value == on_b.proof.value
    plan = program.plan(mesh, swapped(on_a.layout))
    assert (plan.time.estimate if objective == "time" else plan.wire_bytes) == on_a.proof.value


@pytest.mark.parametrize("objective", EQUAL)
def test_the_order_of_equal_axes_does_not_count(objective):
    here, sizes = EQUAL[objective], {"b": 4, "a": 4}
    there = ml.mesh("v5e:4x4", **sizes) if objective == "time" else ml.mesh(**sizes)
    one, other = (ml.auto.layout(blocks(2), mesh, objective=objective, exact=True) for mesh in (here, there))
    assert one.proof.value == other.proof.value


@pytest.mark.share(5)
@pytest.mark.parametrize("objective", EQUAL)
@pytest.mark.parametrize("backwards", [False, True])
def test_names_of_dims_do_not_count(objective, backwards):
    """Not even by their order in the alphabet, by which equally good layouts might be told apart."""
    program, mesh = grown("mlp_adamw"), EQUAL[objective]
    dims = sorted(program.dims, reverse=backwards)
    names = {dim: f"dim{number}" for number, dim in enumerate(dims)}
    named = ml.auto.layout(program, mesh, objective=objective, exact=True)
    other = ml.auto.layout(program.rename(names), mesh, objective=objective, exact=True)
    assert other.proof.value == named.proof.value
    assert {names[dim]: axes for dim, axes in named.layout.rules.items()} == other.layout.rules


@pytest.mark.share(5)
@pytest.mark.parametrize(
    ("objective", "mesh"),
    [
        ("traffic", ml.mesh(data=4, model=2)),
        ("time", ml.mesh("v5e:2x4", data=4, model=2)),
        ("time", ml.mesh("h100:8", data=4, model=2)),
    ],
    ids=["traffic", "v5e", "h100"],
)
def test_each_layer_more_costs_the_same(objective, mesh):
    """And is laid out like those that were there."""
    choices = [ml.auto.layout(blocks(layers), mesh, objective=objective, exact=True) for layers in (1, 2, 3, 5)]
    assert len({choice.layout for choice in choices}) == 1
    one, two, three, five = (choice.proof.value for choice in choices)
    assert two - one > 0.5 * one
    assert three - two == pytest.approx(two - one, rel=1e-9)
    assert five - three == pytest.approx(2 * (two - one), rel=1e-9)


# What fits in no memory


@pytest.mark.share(5)
@pytest.mark.parametrize("name", ["mlp_sgd", "mlp_adamw", "autoencoder"])
def test_a_budget_below_every_peak_is_told_as_that_by_search_and_by_brute_force(name):
    program, mesh = grown(name), ml.mesh("v5p:2x2x2", a=4, b=2)
    least = min(price.peak_bytes for price in priced_layouts(program, mesh))
    assert mesh.on is not None
    capacity = mesh.on.hardware.memory_bytes
    with pytest.raises(ml.auto.NothingFits, match="found no layout that fits"):
        ml.auto.layout(program, mesh, memory=(least - 1) / capacity)
    choice = ml.auto.layout(program, mesh, memory=least / capacity)
    assert choice.plan.memory.donated.peak_bytes == least


@pytest.mark.nightly
@pytest.mark.slow
def test_a_mixture_of_experts_does_not_fit_where_its_parameters_alone_do_not():
    """Mixtral 8x7B with AdamW: 12 bytes a parameter, which four devices share; too many layouts to go through."""
    program, mesh = mixtral(8), ml.mesh("v5p:2x2x1", data=2, model=2)
    assert mesh.on is not None
    shared = 46_702_792_704 * 12 / mesh.size
    assert shared > mesh.on.hardware.memory_bytes
    with pytest.raises(ml.auto.NothingFits, match="found no layout that fits 96.0 GB") as error:
        ml.auto.layout(program, mesh, memory=1.0)
    assert error.value.peak_bytes > shared
