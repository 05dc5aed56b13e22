"""Experts around `ml.dispatch`: a shared one, a load-balancing loss, and experts that choose their tokens."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import DimError
from meshlab.models.language import moe

Batch, Seq, Embed, Ffn, Hidden = ml.dims(batch=8, seq=16, embed=16, ffn=24, hidden=32)
Routes, Experts, K = ml.dims(routes=8, experts=8, k=2)
WEIGHTS = {"router": ml.f32[Embed, Routes], "up": ml.f32[Experts, Embed, Ffn], "down": ml.f32[Experts, Ffn, Embed]}
SHARED = {"in": ml.f32[Embed, Hidden], "out": ml.f32[Hidden, Embed]}
WEIGHT = 0.01


def drawn(*like: Any, seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)

    def tensor(x):
        return ml.tensor(random.normal(size=x.shape).astype(np.float32) * 0.3, *x.dims)

    return [{name: tensor(x) for name, x in each.items()} if isinstance(each, dict) else tensor(each) for each in like]


def routed(params, x, factor=8.0):
    shares = ml.softmax(ml.dot(x, params["router"], Embed), Routes)
    weights, choice = ml.top_k(shares, Routes, K)
    with jax.named_scope("experts"):
        rows, sent = ml.dispatch(x, choice, Experts, factor=factor)
        hidden = ml.silu(ml.ragged_dot(rows, params["up"], sent, Embed))
        return ml.combine(ml.ragged_dot(hidden, params["down"], sent, Ffn), sent, weights), shares


def arrays(tree):
    return {name: np.asarray(x.array) for name, x in tree.items()}


def plain(params, x):
    shares = jax.nn.softmax(x @ params["router"])
    weights, choice = jax.lax.top_k(shares, K.size)
    gates = (jax.nn.one_hot(choice, Experts.size) * weights[..., None]).sum(-2)
    hidden = jax.nn.silu(jnp.einsum("bse,xef->bsxf", x, params["up"]))
    return jnp.einsum("bsx,bsxf,xfe->bse", gates, hidden, params["down"]), shares


def counted(plan):
    kinds = Counter()
    for c in plan.collectives:
        kinds[c.kind, "+".join(c.axes)] += c.times if c.shape else 0
    return +kinds


def test_a_shared_expert_is_a_network_beside():
    """Each token has it; it sends nothing of its own, and splitting it changes nothing that experts send."""

    def forward(params, shared, x):
        inside = ml.silu(ml.dot(x, shared["in"], Embed))
        return routed(params, x)[0] + ml.dot(inside, shared["out"], Hidden)

    program = ml.trace(forward, WEIGHTS, SHARED, ml.f32[Batch, Seq, Embed])
    params, shared, x = drawn(WEIGHTS, SHARED, ml.f32[Batch, Seq, Embed])
    mesh = ml.mesh(data=4, tp=2)
    alone = program.plan(mesh, "batch:data experts:data")
    assert counted(alone) == {("all-to-all", "data"): 3}
    assert counted(program.plan(mesh, "batch:data experts:data hidden:tp")) == {
        ("all-to-all", "data"): 3,
        ("all-reduce", "tp"): 1,
    }
    inside = arrays(shared)
    wanted = plain(arrays(params), x.array)[0] + jax.nn.silu(x.array @ inside["in"]) @ inside["out"]
    for layout in ("batch:data experts:data", "batch:data experts:data hidden:tp", "batch:data experts:data ffn:tp"):
        plan = program.plan(mesh, layout)
        assert plan.check(params, shared, x).ok
        np.testing.assert_allclose(plan.run(params, shared, x).array, wanted, atol=1e-5)


def test_a_loss_for_balance_is_a_mean_over_all_tokens():
    """Its gradient reaches the router, and is that of one device."""

    def loss(params, x):
        y, shares = routed(params, x)
        return (y**2).mean() + WEIGHT * moe.imbalance(shares)

    def by_hand(params, x):
        y, shares = plain(params, x)
        first = jax.nn.one_hot(shares.argmax(-1), Routes.size)
        uneven = (first.mean(1) * shares.mean(1)).mean() * Routes.size**2
        return (y**2).mean() + WEIGHT * uneven

    program = ml.trace(jax.value_and_grad(loss), WEIGHTS, ml.f32[Batch, Seq, Embed])
    params, x = drawn(WEIGHTS, ml.f32[Batch, Seq, Embed], seed=1)
    value, grads = jax.value_and_grad(by_hand)(arrays(params), x.array)
    for layout in (
        "batch:data experts:data",
        "batch:data",
        {"batch": "data", "experts": "data", "@experts": {"batch": None}},
    ):
        plan = program.plan(ml.mesh(data=8), layout)
        assert plan.check(params, x).ok
        mine, found = plan.run(params, x)
        np.testing.assert_allclose(mine, value, rtol=1e-5)
        for name, grad in grads.items():
            np.testing.assert_allclose(found[name].array, grad, atol=1e-6)


def test_experts_that_choose_their_tokens_have_a_capacity():
    """Each takes as many as it has room for, so a table says where they go, and nothing is sorted."""
    Groups, Tokens, Room = ml.dims(groups=8, tokens=16, room=4)

    def forward(params, x):
        shares = ml.softmax(ml.dot(x, params["router"], Embed), Routes)
        weights, chosen = ml.top_k(shares, Tokens, Room)
        table = ml.one_hot(chosen, Tokens)
        sent = ml.dot(table, x, Tokens).rename(groups="senders", routes="experts")
        hidden = ml.silu(ml.dot(sent, params["up"], Embed))
        back = ml.dot(hidden, params["down"], Ffn).rename(senders="groups", experts="routes")
        return ml.dot(table * weights, back, Routes, Room)

    program = ml.trace(forward, WEIGHTS, ml.f32[Groups, Tokens, Embed])
    params, x = drawn(WEIGHTS, ml.f32[Groups, Tokens, Embed])
    plan = program.plan(ml.mesh(data=8), "groups:data experts:data")
    assert counted(plan) == {("all-to-all", "data"): 2}
    assert plan.check(params, x).ok
    w = arrays(params)
    shares = np.asarray(jax.nn.softmax(x.array @ w["router"]))
    wanted = np.zeros(x.array.shape)
    for group, expert in np.ndindex(8, 8):
        best = np.argsort(-shares[group, :, expert], kind="stable")[: Room.size]
        rows = np.asarray(jax.nn.silu(x.array[group, best] @ w["up"][expert])) @ w["down"][expert]
        wanted[group, best] += shares[group, best, expert][:, None] * rows
    np.testing.assert_allclose(plan.run(params, x).array, wanted, atol=1e-5)


def test_their_choice_is_none_of_tokens():
    """Numbers of tokens, one list for each expert, are refused: they have the experts' dim, and not the tokens'."""
    Room = ml.Dim("room", 4)
    chosen = ml.tensor(np.zeros((8, 4), np.int32), Experts, Room)
    (x,) = drawn(ml.f32[Batch, Seq, Embed])
    with pytest.raises(DimError, match=r"which has no dim of x.*If experts choose their tokens, send these by a table"):
        ml.dispatch(x, chosen, Experts, factor=1)
