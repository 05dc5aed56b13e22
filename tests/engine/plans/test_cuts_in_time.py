"""In an iteration a block is a smaller value, which devices share as they like: as long as it keeps its elements."""

from __future__ import annotations

import collections
import re

import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.models.zoo import models

Batch, Groups, Rows, Routes, Experts, Out = ml.dims(batch=8, groups=8, rows=4, routes=4, experts=4, out=2)
Tokens = ml.Dim("tokens", 32)
MICRO = ml.mesh(data=2, micro=ml.serial(2))
LAYOUT = "batch:data+micro groups:micro experts:data"


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["moe", "moe_sgd", "moe_switch"])
def test_experts_share_the_axis_of_the_batch_in_micro_batches(name: str) -> None:
    """As without micro-batches, each of half as many bytes and twice as often; gradients are reduced once."""
    program = next(model for model in models() if model.name == name).trace()
    plan, whole = program.plan(MICRO, LAYOUT), program.plan(ml.mesh(data=2), "batch:data experts:data")
    assert plan.check().ok

    def exchanged(plan):
        found = collections.Counter()
        for each in plan.collectives:
            if each.kind == "all-to-all":
                found[each.payload_bytes] += each.times
        return found

    blocks, batch = exchanged(plan), exchanged(whole)
    assert len(batch) >= 1
    assert blocks == {size // 2: 2 * times for size, times in batch.items()}


@pytest.mark.parametrize(
    "layout",
    [LAYOUT, "batch:data+micro groups:micro experts:data out:model", "batch:data+model+micro groups:model+micro"],
)
def test_a_block_is_exchanged_and_comes_back(layout: str) -> None:
    def routed(x, w):
        here = ml.relu(x).rename(batch="groups", routes="experts")
        there = ml.relu(ml.dot(here, w, Rows)).rename(groups="batch", experts="routes")
        return there.sum("batch"), there

    program = ml.trace(routed, ml.f32[Batch, Routes, Rows], ml.f32[Experts, Rows, Out])
    plan = program.plan(ml.mesh(data=2, model=2, micro=ml.serial(2)), layout)
    assert any(each.times == 2 for each in plan.collectives)
    assert plan.check().ok


def beside_another(x, y):
    return (ml.relu(x).rename(batch="groups") * y).sum("groups")


def beside_its_number(x, _y):
    number = ml.Tensor(jnp.arange(8, dtype=jnp.float32), (Groups,))
    return (ml.relu(x).rename(batch="groups") * number).sum("groups")


def returned(x, _y):
    return ml.relu(x).rename(batch="groups")


@pytest.mark.parametrize("function", [beside_another, beside_its_number, returned])
def test_what_a_block_meets_is_cut_alike(function) -> None:
    program = ml.trace(function, ml.f32[Batch, Rows], ml.f32[Groups, Rows])
    plan = program.plan(MICRO, "batch:data+micro groups:micro")
    assert plan.check().ok
    assert plan.collectives


def in_fours(x):
    fours = ml.unmerge(ml.relu(x).rename(batch="groups"), Groups, ml.dims(fours=2, four=4))
    return ml.square(fours.sum("four")).sum("fours")


def beside_tokens(x, y):
    return (ml.merge(ml.relu(x), (Batch, Rows), Tokens) * y).sum("tokens")


@pytest.mark.parametrize(
    ("function", "arguments", "told"),
    [
        (in_fours, [ml.f32[Batch, Rows]], r"`reshape` at .* needs to know where .* of `micro` lie, .* over `data`"),
        (
            beside_tokens,
            [ml.f32[Batch, Rows], ml.f32[Tokens]],
            r"`mul` at \S+ meets blocks of `micro` with other elements: cut from shards over `data` and from the whole",
        ),
    ],
)
def test_a_block_that_was_cut_elsewhere_is_refused(function, arguments, told: str) -> None:
    program = ml.trace(function, *arguments)
    with pytest.raises(ml.LayoutError, match=told):
        program.plan(MICRO, {"batch": "data+micro", "groups?": "micro", "tokens?": "micro"})


def test_what_goes_round_a_loop_is_cut_alike() -> None:
    """A carry that begins as zeros, and comes out of an exchange."""

    def steps(x, w):
        def step(total, weights):
            here = ml.relu(total + x).rename(batch="groups", routes="experts")
            return ml.dot(here, weights, Rows).rename(groups="batch", experts="routes", out="rows"), None

        total, _ = ml.scan(step, x * 0.0, w, "layers")
        return total.sum("batch")

    weights = ml.f32[ml.dims(layers=3, experts=4, rows=4, out=4)]
    plan = ml.trace(steps, ml.f32[Batch, Routes, Rows], weights).plan(MICRO, LAYOUT)
    assert {each.times for each in plan.collectives if each.kind == "all-to-all"} == {6}
    assert plan.check().ok


def test_causes_in_an_iteration_speak_of_devices_alone() -> None:
    def routed(x, w):
        here = ml.relu(x).rename(batch="groups", routes="experts")
        there = ml.relu(ml.dot(here, w, Rows)).rename(groups="batch", experts="routes")
        return there.sum("batch")

    program = ml.trace(routed, ml.f32[Batch, Routes, Rows], ml.f32[Experts, Rows, Out])
    there, back = (each for each in program.plan(MICRO, LAYOUT).collectives if each.kind == "all-to-all")
    # Said by the dims and the line: a rename computes nothing, and `ml.attention` makes some that no line has.
    for cause, to, needed, given in (
        (there.because, "`batch` becomes `groups` and `routes` becomes `experts`", "routes", "batch"),
        (back.because, "`groups` becomes `batch` and `experts` becomes `routes`", "groups", "experts"),
    ):
        swap = f"this needs `{needed}` split over `data`, but it has `{given}` split over it: the split moves"
        assert re.fullmatch(
            rf"{to} at \S*test_cuts_in_time\.py:\d+: {swap} from `{given}` to `{needed}` here\..*", cause
        ), cause
