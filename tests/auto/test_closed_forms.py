"""Optima that are known in closed form, found by the search over any program: Alpa's tests of its own solver.

`playground/auto_sharding_solver` of https://github.com/alpa-projects/alpa states programs, meshes of four devices as
4 x 1 and 1 x 4, and the optimum by a formula: an all-reduce of V bytes among n devices costs alpha + beta 2 (n-1)/n V,
with alpha = beta = 1. Its costs have hundredths on top, by which its solver breaks ties; ours need none.

Two objectives have that cost. "traffic" is beta's part alone, the bytes that a device sends. "time" is all of it on a
machine that computes in no time and sends a byte a second, behind a second of latency.
"""

from __future__ import annotations

import functools
import itertools

import jax
import pytest

import meshlab as ml
from meshlab.auto.brute_force import priced_layouts

MESHES = ({"a": 4, "b": 1}, {"a": 1, "b": 4})
# What a device sends for each byte of an array that four devices add up.
SENT = 2 * (4 - 1) / 4
ALPHA = 1.0
# Computes in no time.
SENDING = ml.Hardware.of(
    "sending", flops={"f32": 1e30}, memory=1e9, bandwidth=1e30, network=ml.Switch.of(4, egress=1.0, base=ALPHA)
)


@functools.cache
def perceptron(batch: int, width: int, layers: int = 2) -> ml.Program:
    """Gradient descent on a perceptron without activation functions, all layers equally wide, as Alpa has it."""
    Batch, *Widths = ml.dims(batch=batch, **{f"width{number}": width for number in range(layers + 1)})

    def loss(weights, x, y):
        for Width, weight in zip(Widths, weights, strict=False):
            x = ml.dot(x, weight, Width)
        return ml.square(x - y).mean()

    def step(weights, x, y):
        return jax.tree.map(lambda w, g: w - g, weights, jax.grad(loss)(weights, x, y))

    weights = [ml.f32[pair] for pair in itertools.pairwise(Widths)]
    return ml.trace(step, weights, ml.f32[Batch, Widths[0]], ml.f32[Batch, Widths[-1]])


@functools.cache
def attention(embed: int) -> ml.Program:
    """Attention with biases and a mask, forward alone, as Alpa has it."""
    sizes = {"batch": 4, "seq": 128, "embed": embed, "heads": 16, "head": embed // 16}
    Batch, Seq, Embed, Heads, Head = ml.dims(**sizes)

    def forward(weights, x, mask):
        query, key, value = (ml.dot(x, weights[name], Embed) + weights[f"{name}_bias"] for name in "qkv")
        hidden = ml.where(mask > 0, 0.0, -1e10).rename(seq="keys")
        scores = ml.softmax(ml.dot(0.125 * query, key.rename(seq="keys"), Head) + hidden, "keys")
        read = ml.dot(scores, value.rename(seq="keys"), "keys")
        return ml.dot(read, weights["out"], Heads, Head) + weights["out_bias"]

    weights = {name: ml.f32[Embed, Heads, Head] for name in "qkv"} | {"out": ml.f32[Heads, Head, Embed]}
    weights |= {f"{name}_bias": ml.f32[Heads, Head] for name in "qkv"} | {"out_bias": ml.f32[Embed,]}
    return ml.trace(forward, weights, ml.f32[Batch, Seq, Embed], ml.f32[Batch, Seq])


def long_axis(sizes: dict[str, int]) -> str:
    """The axis with more than one device."""
    return max(sizes, key=sizes.__getitem__)


def whole_peak(program: ml.Program) -> int:
    """The peak of the plan that splits nothing."""
    return program.plan(ml.mesh(SENDING, a=4), {}).memory.donated.peak_bytes


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_two_layers_of_much_data_all_reduce_both_weights(sizes):
    choice = ml.auto.layout(perceptron(1024, 128), ml.mesh(**sizes), objective="traffic")
    assert str(choice.layout) == f"batch:{long_axis(sizes)}"
    assert choice.proof.value == 2 * SENT * (128 * 128 * 4)
    assert choice.proof.gap == 0


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_two_wide_layers_all_reduce_one_activation(sizes):
    choice = ml.auto.layout(perceptron(128, 1024), ml.mesh(**sizes), objective="traffic")
    assert str(choice.layout) == f"width1:{long_axis(sizes)}"
    assert choice.proof.value == SENT * (128 * 1024 * 4)
    assert choice.proof.gap == 0


@pytest.mark.parametrize(
    ("batch", "width", "sent"),
    [
        # Of much data every weight's gradient.
        (1024, 128, 12 * SENT * (128 * 128 * 4)),
        # Of wide layers an activation behind every second one: six forward, and five backward.
        (128, 1024, 11 * SENT * (128 * 1024 * 4)),
    ],
)
def test_twelve_layers(batch, width, sent):
    choice = ml.auto.layout(perceptron(batch, width, layers=12), ml.mesh(a=4), objective="traffic")
    assert choice.proof.value == sent


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_attention_whose_result_is_whole_all_reduces_it(sizes):
    """Alpa forces the result to be replicated, and makes all-gathers cost 1e8.

    Here that is said of dims: none of the result's may be split, for there is no other way to make it whole again than
    to gather it. Without a word about it each device has its own sequences, and nothing is sent.
    """
    program, mesh, axis = attention(512), ml.mesh(**sizes), long_axis(sizes)
    forbidden = dict.fromkeys(("batch", "seq", "embed"), axis)
    choice = ml.auto.layout(program, mesh, objective="traffic", forbid=forbidden)
    assert choice.proof.value == SENT * (4 * 128 * 512 * 4)
    assert str(choice.layout) == f"heads:{axis}"
    (only,) = choice.plan.collectives
    assert only.kind == "all-reduce"
    assert ml.auto.layout(program, mesh, objective="traffic").proof.value == 0


def test_attention_on_two_axes_all_reduces_what_a_row_has():
    choice = ml.auto.layout(attention(2048), ml.mesh(a=4, b=4), objective="traffic")
    assert choice.proof.value == SENT * (4 * 128 * 2048 * 4) / 4


@pytest.mark.parametrize("sizes", MESHES, ids=str)
@pytest.mark.parametrize(
    ("batch", "width", "times", "each"),
    [(1024, 128, 2, 128 * 128 * 4), (128, 1024, 1, 128 * 1024 * 4)],
    ids=["much data", "wide layers"],
)
def test_latency_and_bytes_are_the_seconds_of_what_only_sends(sizes, batch, width, times, each):
    """A machine that computes in no time would do everything everywhere, and send nothing: Alpa has no such choice,
    for its products must be split. Here memory must have no room for it. Which of three widths is split is all the
    same then: what is left undivided takes no time.
    """
    program = perceptron(batch, width)
    cap = (whole_peak(program) - 1) / SENDING.memory_bytes
    choice = ml.auto.layout(program, ml.mesh(SENDING, **sizes), objective="time", memory=cap, exact=True)
    assert choice.proof.value == pytest.approx(times * (ALPHA + SENT * each), rel=1e-12)
    assert [(c.kind, c.payload_bytes) for c in choice.plan.collectives] == [("all-reduce", each)] * times
    free = ml.auto.layout(program, ml.mesh(SENDING, **sizes), objective="time", exact=True)
    assert str(free.layout) == ""
    assert free.proof.value < 1e-12


@pytest.mark.parametrize(("batch", "width"), [(1024, 128), (128, 1024)])
def test_on_it_every_layout_takes_its_latencies_and_its_bytes(batch, width):
    program, mesh = perceptron(batch, width), ml.mesh(SENDING, a=4)
    prices = list(priced_layouts(program, mesh))
    assert len(prices) > 10
    for price in prices:
        plan = program.plan(mesh, price.layout)
        latencies = sum(collective.times for collective in plan.collectives)
        assert price.seconds == pytest.approx(latencies * ALPHA + plan.wire_bytes, rel=1e-12, abs=1e-12)


def test_attention_in_seconds():
    """Stored whole, the result is cheaper to gather, each device with its own sequences, than to add up over heads."""
    program, mesh = attention(512), ml.mesh(SENDING, a=4)
    cap = (program.plan(mesh, {}).memory.donated.peak_bytes - 1) / SENDING.memory_bytes
    whole, result = {"out": {"batch": None, "seq": None, "embed": None}}, 4 * 128 * 512 * 4
    gathered = ml.auto.layout(program, mesh, memory=cap, exact=True, pin=whole)
    assert gathered.layout.rules == {"batch": ("a",)}
    assert gathered.proof.value == pytest.approx(ALPHA + SENT / 2 * result)
    forbidden = {"batch": "a", "seq": "a", "embed": "a"}
    added = ml.auto.layout(program, mesh, memory=cap, exact=True, pin=whole, forbid=forbidden)
    assert added.layout.rules == {"heads": ("a",)}
    assert added.proof.value == pytest.approx(ALPHA + SENT * result)
