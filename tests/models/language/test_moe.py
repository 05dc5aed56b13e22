"""A mixture of experts routes as published, whatever the mesh, and is sent by all-to-alls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models.language import moe
from tests.models import plain

SMALL = moe.Config()
LOSSES = {"top2": moe.loss, "switch": moe.switch_loss, "dropless": moe.dropless_loss}
LAYOUTS = ("batch:data", "batch:data heads:model experts:model vocab:model", "batch:data heads:model ffn:model")


def raw_choices(shares, choices, room):
    """Which experts each token of one sequence chooses, and which have room for it, token by token: [seq, experts]."""
    shares = np.asarray(shares)
    order = np.argsort(-shares, axis=-1, kind="stable")[:, :choices]
    taken, roomy = np.zeros(shares.shape[1], int), np.zeros(shares.shape, bool)
    for choice in range(choices):
        for token, expert in enumerate(order[:, choice]):
            if taken[expert] < room:
                roomy[token, expert] = True
                taken[expert] += 1
    chosen = np.zeros(shares.shape, bool)
    np.put_along_axis(chosen, order, True, -1)
    return chosen, roomy


def on_the_host(choose, shares):
    """Applies a function of numpy to each sequence; it has no gradient."""
    shape = jax.ShapeDtypeStruct(shares.shape, bool)
    both = lambda batch: tuple(np.stack(x) for x in zip(*map(choose, batch), strict=True))  # noqa: E731
    return jax.pure_callback(both, (shape, shape), jax.lax.stop_gradient(shares))


def raw_moe(choices, drops):
    def raw_loss(params, tokens, targets):
        x, balances = params["embedding"][tokens], []
        length, experts = tokens.shape[1], params["layers"]["router"].shape[-1]
        room = min(length, -(-5 * choices * length // (4 * experts))) if drops else length
        for w in plain.layers_of(params["layers"]):
            x = x + plain.grouped(plain.norm(x, w["attention_norm"], 1e-5), w, 1_000_000.0)
            y = plain.norm(x, w["ffn_norm"], 1e-5)
            shares = jax.nn.softmax(y @ w["router"])
            chosen, roomy = on_the_host(lambda each: raw_choices(each, choices, room), shares)
            gates = shares / ((shares * chosen).sum(-1, keepdims=True) if choices > 1 else 1.0) * roomy
            hidden = jax.nn.silu(jnp.einsum("bse,xef->bsxf", y, w["gate"])) * jnp.einsum("bse,xef->bsxf", y, w["up"])
            x = x + jnp.einsum("bsx,bsxf,xfe->bse", gates, hidden, w["down"])
            first = jax.nn.one_hot(shares.argmax(-1), experts)
            balances.append((first.mean(1) * shares.mean(1)).sum(-1).mean() * experts)
        logits = plain.norm(x, params["norm"], 1e-5) @ params["head"]
        return plain.nll(logits, targets) + 0.01 * sum(balances) / len(balances)

    return raw_loss


@pytest.mark.parametrize(("name", "choices"), [("top2", 2), ("switch", 1), ("dropless", 2)])
def test_it_equals_plain_jax(name, choices):
    numbers = plain.numbers(moe.init, moe.inputs, SMALL, SMALL.vocab)
    plain.same(LOSSES[name], raw_moe(choices, name != "dropless"), *numbers)


def test_tokens_that_find_no_room_are_dropped():
    """Five tokens for expert 0, room for two: the first two stay, whoever else is there."""
    Batch, Seq, Routes, Room = ml.dims(batch=2, seq=5, routes=4, capacity=2)
    shares = np.full((2, 5, 4), 0.1, np.float32)
    shares[0, :, 0] = 0.7
    shares[1, :, 3] = 0.7
    places = moe.places(moe.choose(ml.tensor(shares, Batch, Seq, Routes), 1), Room)
    assert places.dims == (Batch, Seq, Routes, Room)
    for sequence, expert in ((0, 0), (1, 3)):
        placed = np.argwhere(places.array[sequence] > 0).tolist()
        assert placed == [[0, expert, 0], [1, expert, 1]]


def test_second_choices_come_after_all_first_ones():
    Batch, Seq, Routes, Room = ml.dims(batch=1, seq=3, routes=2, capacity=3)
    shares = ml.tensor(np.array([[[0.6, 0.4], [0.2, 0.8], [0.3, 0.7]]], np.float32), Batch, Seq, Routes)
    places = moe.places(moe.choose(shares, 2), Room).array[0]
    np.testing.assert_allclose(places[0], [[0.6, 0, 0], [0, 0, 0.4]], atol=1e-6)
    np.testing.assert_allclose(places[1], [[0, 0.2, 0], [0.8, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(places[2], [[0, 0, 0.3], [0, 0.7, 0]], atol=1e-6)


def test_balance_is_one_where_all_experts_are_asked_equally():
    even = np.tile(0.1 + 0.6 * np.eye(4, dtype=np.float32), (2, 4, 1))
    one_sided = np.tile(np.eye(4, dtype=np.float32)[0], (2, 16, 1))
    for shares, wanted in ((even, 1.0), (one_sided, 4.0)):
        assert np.isclose(moe.imbalance(ml.tensor(shares, "batch", "seq", "routes")), wanted)


def test_it_has_the_published_number_of_parameters():
    assert plain.count(moe.init, moe.Config.mixtral_8x7b()) == 46_702_792_704


def test_scanned_and_unrolled_are_one_model():
    plain.looped(moe.loss, moe.init, moe.inputs, SMALL, SMALL.vocab)


@pytest.mark.parametrize("name", ["top2", "dropless"])
def test_layouts_train_it(name):
    plain.trains(LOSSES[name], moe.init, moe.inputs, SMALL, *LAYOUTS, checked=LAYOUTS[1])


def test_tokens_stay_where_groups_lie_with_the_batch():
    program = plain.step_of(moe.loss, moe.init, moe.inputs, SMALL)
    kinds = {c.kind for c in program.plan(plain.MESH, "batch:data groups:data").collectives}
    assert kinds == {"all-reduce"}


@pytest.mark.parametrize(("name", "room"), [("top2", 10), ("switch", 5)])
def test_experts_beside_the_batch_are_reached_by_all_to_alls(name, room):
    program = plain.descent_of(LOSSES[name], moe.init, moe.inputs, SMALL)
    plan = program.plan(ml.mesh(data=4), "batch:data experts:data")
    sent = [c for c in plan.collectives if c.kind == "all-to-all"]
    assert {c.payload_bytes for c in sent} == {2 * 4 * room * 16 * 4}
    # There and back: forward, recomputed, and backward.
    assert sum(c.times for c in sent) == 3 * 2 * SMALL.layers
    plain.verified(plan)
