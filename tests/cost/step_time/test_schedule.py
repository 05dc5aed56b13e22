"""What overlaps with what: collectives ahead of a loop's turn, links, and scores that are computed anew."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.cost.step_time.links import links_of
from meshlab.engine.planning.steps import Compute, Move

IDEAL = ml.hardware("v5e").ideal
BATCH, EMBED, FFN, LAYERS = ml.dims(batch=4096, embed=1024, ffn=1024, layers=8)
WEIGHTS = {"up": ml.bf16[LAYERS, EMBED, FFN], "down": ml.bf16[LAYERS, FFN, EMBED]}


def blocks(x, w):
    """Feed-forward blocks in a loop; what goes from turn to turn is a place."""

    def turn(x, w):
        return ml.tag(ml.dot(ml.relu(ml.dot(x, w["up"], "embed")), w["down"], "ffn"), "residual"), None

    return ml.scan(turn, x, w, "layers")[0]


def products(x, y, used):
    """Gradients of weights, say, of every turn; `used`: they are also summed up from turn to turn."""

    def turn(total, xy):
        g = ml.tag(ml.dot(*xy, "batch"), "grads")
        return (total + g.astype(ml.f32).sum() if used else total + 1.0), g

    return ml.scan(turn, jnp.float32(0), (x, y), "layers")


def times(function, args, layout, **axes):
    """As it is, and with what can be fetched ahead."""
    time = ml.trace(function, *args).plan(ml.mesh(IDEAL, **axes), layout).time
    return time, time.given(prefetch=True)


def all_but_one_turn_hidden(time):
    """Nothing waits for what is sent, or computed, but in one turn: the first waits for its weights, say."""
    turns = LAYERS.size
    return max(time.compute, time.communication["data"]) * (turns - 1) / turns + time.estimate / turns


def test_a_loop_of_one_turn_has_nothing_to_fetch_ahead():
    one = ml.Dim("layers", 1)
    weights = {"up": ml.bf16[one, EMBED, FFN], "down": ml.bf16[one, FFN, EMBED]}
    layout = {"batch": "data", "w/*": {"embed": "data"}}
    time, ahead = times(blocks, (ml.bf16[BATCH, EMBED], weights), layout, data=4)
    assert ahead.estimate == time.estimate > time.lower


def test_weights_are_fetched_ahead_and_then_hide_behind_whole_turns():
    args = ml.bf16[BATCH, EMBED], WEIGHTS
    time, ahead = times(blocks, args, {"batch": "data", "w/*": {"embed": "data"}}, data=4)
    assert set(time.communication) == {"data"}
    assert ahead.estimate < time.estimate
    assert ahead.estimate == pytest.approx(all_but_one_turn_hidden(time))


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param({"ffn": "model"}, id="sums of activations"),
        pytest.param(
            {"ffn": "model"} | {name: {"batch": "model"} for name in ("residual", "x", "out")},
            id="gathers of activations",
        ),
    ],
)
def test_what_a_turn_makes_is_not_fetched_ahead(layout):
    time, ahead = times(blocks, (ml.bf16[BATCH, EMBED], WEIGHTS), layout, model=4)
    assert time.communication["model"] > 0
    assert ahead.estimate == time.estimate > time.lower


def test_gradients_are_reduced_during_the_next_turn_if_nothing_else_reads_them():
    args = ml.bf16[LAYERS, BATCH, EMBED], ml.bf16[LAYERS, BATCH, FFN]
    layout = {"batch": "data", "grads": {"embed": "data"}, "out/1": {"embed": "data"}}
    time, ahead = times(functools.partial(products, used=False), args, layout, data=4)
    assert [(c.kind, c.times) for c in time.scenario.plan.collectives] == [("reduce-scatter", 8)]
    assert ahead.estimate < time.estimate
    assert ahead.estimate == pytest.approx(all_but_one_turn_hidden(time))
    time, ahead = times(functools.partial(products, used=True), args, layout, data=4)
    assert ahead.estimate == time.estimate


def test_collectives_over_other_links_run_at_once_and_over_the_same_in_turn():
    """Two gathers for one product each: along two axes of a torus, or behind one switch."""
    A, B, C = ml.dims(a=4096, b=4096, c=64)

    def both(x, y):
        return x * 1.0, y * 1.0

    args, layout = (ml.bf16[A, C], ml.bf16[B, C]), {"x": {"a": "p"}, "y": {"b": "q"}}
    torus, node = (
        ml.trace(both, *args, carry={}).plan(ml.mesh(machine, p=2, q=2), layout).time
        for machine in (IDEAL, ml.hardware("h100").ideal)
    )
    for time in (torus, node):
        assert set(time.communication) == {"p", "q"}
    one, other = torus.communication.values()
    assert torus.lower == pytest.approx(max(one, other, torus.compute))
    assert node.lower == pytest.approx(max(sum(node.communication.values()), node.compute))
    assert torus.exposed < sum(torus.communication.values()) * 0.75
    assert node.exposed == pytest.approx(sum(node.communication.values()))


def test_what_comes_behind_a_loop_waits_for_the_links_that_it_uses():
    """A gather whose operand is there from the first is not sent meanwhile: each turn needs the same link."""

    def step(x, w, other):
        return blocks(x, w), ml.dot(other, other, "embed")

    args = ml.bf16[BATCH, EMBED], WEIGHTS, ml.bf16[ml.Dim("rows", 8192), EMBED]
    layout = {"ffn": "model", "other": {"rows": "model"}}
    time = ml.trace(step, *args).plan(ml.mesh(IDEAL, model=4), layout).time
    assert [c.kind for c in time.scenario.plan.collectives] == ["all-reduce", "all-gather"]
    assert time.estimate == pytest.approx(time.upper)


def test_the_links_of_mesh_axes():
    folded = ml.mesh("v5e:2*4x4", data=8, model=4).on
    assert [links_of(folded, axis) for axis in ("data", "model")] == [{"network", 1}, {0}]
    chips = ml.mesh("v7x:2x2x1", data=4, model=2).on
    assert [links_of(chips, axis) for axis in ("data", "model")] == [{0, 1}, {"chip"}]
    nodes = ml.mesh("h100", a=2, b=16, c=1).on
    assert [links_of(nodes, axis) for axis in ("a", "b", "c")] == [{"network"}, {"node", "network"}, frozenset()]


def test_scores_that_are_computed_anew_take_their_time():
    """Seven products of scores where a program that keeps them has six: with the seconds of their operations."""
    b, h, q, k, d = ml.dims(b=4, h=8, q=2048, k=2048, d=128)

    def loss(x, y, z):
        return ml.square(ml.dot(ml.softmax(ml.dot(x, y, d), k), z, k)).sum()

    args = ml.bf16[b, h, q, d], ml.bf16[b, h, k, d], ml.bf16[b, h, k, d]
    program = ml.trace(lambda *a: jax.value_and_grad(loss, argnums=(0, 1, 2))(*a), *args)
    flash = program.plan(ml.mesh(IDEAL, x=1)).time.given(attention="flash")
    one = 2 * 4 * 8 * 2048 * 2048 * 128
    assert flash.flops == 7 * one
    assert flash.compute_bound == pytest.approx(7 * one / 197e12)
    assert flash.estimate == flash.compute


def test_a_sum_is_sent_while_what_does_not_wait_for_it_is_computed():
    """The plan asks for it where it is read, behind another one that is made later; the links are free before."""
    wide = ml.Dim("wide", 2048)

    def step(x, y, z, w):
        early = ml.dot(x, y, "batch")
        late = ml.relu(ml.dot(z, w, "batch"))
        return ml.relu(early), late

    args = ml.bf16[BATCH, EMBED], ml.bf16[BATCH, FFN], ml.bf16[BATCH, FFN], ml.bf16[BATCH, wide]
    plan = ml.trace(step, *args).plan(ml.mesh(IDEAL, data=4), "batch:data")
    asked = [step.value for step in plan.steps if isinstance(step, Move)]
    outputs = [step.operation.outputs[0] for step in plan.steps if isinstance(step, Compute)]
    assert [outputs.index(value) for value in asked] == [1, 0]
    early, late = sorted(seconds for step, _, seconds in plan.time.spent.rows if isinstance(step, Move))
    assert early < late
    kernels = [seconds for step, _, seconds in plan.time.spent.rows if isinstance(step, Compute)]
    # Two products, the later sum, and the function that waits for it; the earlier sum hides behind the second product.
    assert plan.time.estimate < sum(kernels) + late + early / 2


def slower(part):
    """A machine whose kernels take so much longer beside a collective."""
    machine = ml.hardware("h100").ideal
    return dataclasses.replace(machine, efficiency=ml.Efficiency.of(overlap=part))


def independent(x, y, w):
    """A sum over the batch, and a product that does not wait for it."""
    return ml.dot(x, y, "batch"), ml.dot(y, w, "ffn")


@pytest.mark.parametrize("part", [0.0, 0.25, 1.0])
def test_kernels_take_longer_beside_a_collective(part):
    args = ml.bf16[BATCH, EMBED], ml.bf16[BATCH, FFN], ml.bf16[FFN, ml.Dim("out", 8192)]
    free, slow = (
        ml.trace(independent, *args).plan(ml.mesh(slower(p), data=4), "batch:data").time for p in (None, part)
    )
    hidden = free.upper - free.estimate
    assert hidden > 0
    assert slow.estimate == pytest.approx(free.estimate + hidden * part / (1 + part))
    assert slow.lower <= slow.estimate <= slow.upper == free.upper
    assert slow.compute == free.compute
    assert slow.spent.spans[-1].end <= slow.estimate


def test_kernels_take_longer_beside_what_is_fetched_ahead():
    """As long as each turn computes for longer than its weights take; in the first turn some waits anyway."""
    layout = {"batch": "data", "w/*": {"embed": "data"}}
    args = ml.bf16[ml.Dim("batch", 1 << 18), EMBED], WEIGHTS
    free, slow = (
        ml.trace(blocks, *args).plan(ml.mesh(slower(p), data=4), layout).time.given(prefetch=True) for p in (None, 0.25)
    )
    hidden = (free.compute + free.communication["data"] - free.estimate) / 1.25
    assert slow.estimate == pytest.approx(free.estimate + 0.25 * hidden, rel=1e-3)
    assert free.estimate < slow.estimate < slow.upper


def test_a_sweep_over_machines_has_what_each_of_them_reaches():
    """Kernels that are known and that are not, slower beside a collective and not."""
    program = ml.trace(independent, ml.bf16[BATCH, EMBED], ml.bf16[BATCH, FFN], ml.bf16[FFN, ml.Dim("out", 8192)])
    machines = ["h100", "a100", "v100", "v5e"]
    plans = [program.plan(ml.mesh(machine, data=4), "batch:data") for machine in machines]
    swept = ml.sweep(plans[0], on=machines, out=[1024, 8192])
    assert swept.estimate[:, 1].tolist() == pytest.approx([plan.time.estimate for plan in plans])


def test_halves_are_exchanged_while_others_are_computed() -> None:
    """The queries enter zig-zag order while keys are projected; what enters last is waited for."""
    Seq, Embed, Heads, Head = ml.dims(seq=65_536, embed=2048, heads=8, head=128)

    def attend(x, w):
        q, k, v = (ml.dot(x, w[name], Embed) for name in "qkv")
        return ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), "seq", "kv", causal=True)

    weights = dict.fromkeys("qkv", ml.bf16[Embed, Heads, Head])
    program = ml.trace(attend, ml.bf16[Seq, Embed], weights)
    spent = program.plan(ml.mesh("v5p:2x2x2", cp=8), "seq:zigzag(cp) kv:zigzag(cp)").time.spent
    computed = [span for span in spent.spans if span.kind == "compute"]
    exchanged = [
        span for span in spent.spans if span.kind != "compute" and (ran := span.step.computes) and ran.name == "zigzag"
    ]

    def is_beside(span) -> bool:
        return any(one.begin < span.end and one.end > span.begin for one in computed)

    assert len(exchanged) == 8
    assert any(map(is_beside, exchanged))
    assert not all(map(is_beside, exchanged))
