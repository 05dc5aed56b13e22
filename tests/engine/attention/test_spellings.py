"""Spellings of attention with arrays: which are made one operation, which are left, and when."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.attention.recognise import around, unnamed_keys
from meshlab.engine.attention.scores import scores_of
from meshlab.engine.errors import LayoutError

pytestmark = pytest.mark.share(2, of="file")

SEQ, HEADS, DEPTH, EMBED = 32, 4, 8, 16
CP = ml.mesh(cp=4)
RING = "seq:cp kv:cp"


def drawn(*shape: int):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), "float32")


# --- spellings --------------------------------------------------------------------------------------------------------

AT = np.arange(SEQ)


def by_hand(q, k, v):
    scores = jnp.einsum("bshd,bthd->bhst", q, k) * DEPTH**-0.5
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    return jnp.einsum("bhst,bthd->bshd", weights / weights.sum(-1, keepdims=True), v)


def without_a_maximum(q, k, v):
    weights = jnp.exp(jnp.einsum("bshd,bthd->bhst", q, k) / jnp.sqrt(DEPTH))
    return jnp.einsum("bhst,bthd->bshd", weights / weights.sum(-1, keepdims=True), v)


def jaxs_own(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def masked(mask: Any, hidden: float = -1e9):
    def attend(q, k, v):
        at = jnp.arange(q.shape[1])
        scores = jnp.where(mask(at[:, None], at), jnp.einsum("bshd,bthd->bhst", q / 3, k), hidden)
        return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)

    return attend


def with_a_bias(q, k, v):
    at = jnp.arange(q.shape[1])
    bias = jnp.where(at[:, None] < at, -1e9, 0.0)
    scores = jnp.einsum("bshd,bthd->bhst", q, k) * 0.5 + bias
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


def keys_first(q, k, v):
    scores = jnp.einsum("bthd,bshd->bths", k, q)
    return jnp.einsum("bths,bthd->bhsd", jax.nn.softmax(scores, axis=1), v).swapaxes(1, 2)


SPELLINGS = {
    "by hand": by_hand,
    "without a maximum": without_a_maximum,
    "JAX's own": jaxs_own,
    "a mask": masked(lambda i, j: i >= j),
    "a mask of what is hidden": masked(lambda i, j: ~(j > i)),
    "a difference": masked(lambda i, j: i - j >= 0, -jnp.inf),
    "a window": masked(lambda i, j: (i >= j) & (i - j < 5)),
    "a window to both sides": masked(lambda i, j: abs(i - j) < 5),
    "a bias of positions": with_a_bias,
    "keys first": keys_first,
}


def program_of(attend: Any, wrap: Any = lambda f: f) -> ml.Program:
    def step(q, k, v):
        return jax.value_and_grad(lambda *qkv: (wrap(attend)(*qkv) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)

    q, k = (
        ml.named(jax.ShapeDtypeStruct((2, SEQ, HEADS, DEPTH), "float32"), f"batch {s} heads head")
        for s in ("seq", "kv")
    )
    return ml.trace(step, q, k, k)


@pytest.mark.share(4)
@pytest.mark.parametrize("spelled", SPELLINGS)
def test_spellings_are_one_operation(spelled: str):
    plan = program_of(SPELLINGS[spelled]).plan(CP, RING)
    assert {c.kind for c in plan.collectives if c.shape} == {"collective-permute"}
    # A window makes the ring shorter.
    turns = 1 if spelled == "a window" else 3
    assert sum(c.times for c in plan.collectives if c.shape) == 6 * turns + 2
    report = plan.check()
    assert report.ok, report


@pytest.mark.parametrize("policy", ["dots_saveable", "nothing_saveable"])
def test_what_is_kept_and_what_is_computed_again(policy: str):
    again = lambda f: jax.checkpoint(f, policy=getattr(jax.checkpoint_policies, policy))  # noqa: E731
    plan = program_of(by_hand, again).plan(CP, RING)
    assert {c.kind for c in plan.collectives if c.shape} == {"collective-permute"}
    assert plan.check().ok


@pytest.mark.parametrize("attend", [by_hand, jaxs_own])
def test_a_loop_that_keeps_its_scores_for_the_backward_pass(attend):
    def loss(weights, x):
        def layer(x, w):
            q, k, v = jnp.einsum("bse,cehd->cbshd", x, w[:3])
            return x + jnp.einsum("bshd,ehd->bse", attend(q, k, v), w[3]), None

        return (jax.lax.scan(layer, x, weights)[0] ** 2).mean()

    weights, x = drawn(3, 4, EMBED, HEADS, DEPTH) * 0.2, drawn(2, SEQ, EMBED)
    named = ml.named(weights, "layers _ embed heads head"), ml.named(x, "batch seq embed")
    program = ml.trace(jax.value_and_grad(loss), *named)
    program = program.rename(dict.fromkeys(unnamed_keys(program), "kv"))
    plan = program.plan(CP, RING)
    # Forward, and again in the backward pass, which keeps no scores.
    assert sum(c.times for c in plan.collectives if c.kind == "collective-permute") == 3 * (8 * 4 - 6)
    report = plan.check(weights, x)
    assert report.ok, report


def with_a_learned_bias(q, k, v):
    bias = q[0, :, 0, 0][:, None] * k[0, :, 0, 0]
    scores = jnp.einsum("bshd,bthd->bhst", q, k) + bias
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


def with_dropout(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k))
    kept = jax.random.bernoulli(jax.random.key(0), 0.9, weights.shape)
    return jnp.einsum("bhst,bthd->bshd", jnp.where(kept, weights, 0), v)


def over_the_queries(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k), axis=2)
    return jnp.einsum("bhst,bthd->bshd", weights, v)


def not_normalised(q, k, v):
    weights = jnp.exp(jnp.einsum("bshd,bthd->bhst", q, k))
    return jnp.einsum("bhst,bthd->bshd", weights / 7, v)


def with_a_cap(q, k, v):
    scores = 5 * jnp.tanh(jnp.einsum("bshd,bthd->bhst", q, k) / 5)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


def with_its_own_gradient(q, k, v):
    """Its backward pass doubles what comes back to the scores."""
    scores = jnp.einsum("bshd,bthd->bhst", q, k)
    doubled = 2 * scores - jax.lax.stop_gradient(scores)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(doubled), v)


def in_documents(q, k, v):
    """A mask of blocks, which the first and the last positions alone do not show."""
    return masked(lambda i, j: (i >= j) & (i // 8 == j // 8))(q, k, v)


def hidden_from_some(q, k, v):
    return masked(lambda i, j: i > j)(q, k, v)


def in_whole_numbers(q, k, v):
    """Scores are rounded to whole numbers, which no gradient passes."""
    scores = jnp.einsum("bshd,bthd->bhst", q, k).astype("int32")
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores.astype("float32")), v)


def in_eight_bits(q, k, v):
    scores = jnp.einsum("bshd,bthd->bhst", q, k).astype("float8_e5m2")
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores.astype("float32")), v)


def rounded(q, k, v):
    scores = jax.lax.reduce_precision(jnp.einsum("bshd,bthd->bhst", q, k), 5, 2)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


def of_rounded_keys(q, k, v):
    """Its backward pass multiplies by the keys as they were."""

    def weights_of(q, k):
        return jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k.astype("int8").astype("float32")))

    @jax.custom_vjp
    def attend(q, k, v):
        return jnp.einsum("bhst,bthd->bshd", weights_of(q, k), v)

    def backward(kept, cotangent):
        q, k, v = kept
        weights, of_weights = weights_of(q, k), jnp.einsum("bshd,bthd->bhst", cotangent, v)
        of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True))
        of_q, of_k = jnp.einsum("bhst,bthd->bshd", of_scores, k), jnp.einsum("bhst,bshd->bthd", of_scores, q)
        return of_q, of_k, jnp.einsum("bhst,bshd->bthd", weights, cotangent)

    attend.defvjp(lambda q, k, v: (attend(q, k, v), (q, k, v)), backward)
    return attend(q, k, v)


def behind_a_barrier(q, k, v):
    """The mask is the second of two that pass it."""
    at = jnp.arange(q.shape[1])
    _, mask = jax.lax.optimization_barrier((at[:, None] >= at, at[:, None] // 8 >= at // 8))
    scores = jnp.where(mask, jnp.einsum("bshd,bthd->bhst", q, k), -1e9)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


OTHERS = (
    in_whole_numbers,
    in_eight_bits,
    rounded,
    of_rounded_keys,
    behind_a_barrier,
    with_a_learned_bias,
    with_dropout,
    over_the_queries,
    not_normalised,
    with_a_cap,
    with_its_own_gradient,
    in_documents,
    hidden_from_some,
)


@pytest.mark.parametrize("attend", OTHERS, ids=lambda f: f.__name__)
def test_what_is_not_attention_is_left_and_refused_with_its_line(attend):
    program = program_of(attend)
    with pytest.raises(LayoutError, match=r"cannot both be on `cp`.*test_spellings\.py:\d+"):
        program.plan(CP, RING)
    assert "kv" not in {key for _, key in around(program)}


def test_returned_weights_are_refused():
    def attend(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k))
        return jnp.einsum("bhst,bthd->bshd", weights, v), weights

    q, k = (ml.named(drawn(2, SEQ, HEADS, DEPTH), f"batch {s} heads head") for s in ("seq", "kv"))
    with pytest.raises(LayoutError, match="cannot both be on `cp`"):
        ml.trace(attend, q, k, k).plan(CP, RING)


# --- when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout", [None, "seq:cp", "kv:cp", "heads:cp", "seq:cp kv:data", {"seq": "cp", "*": {"kv": "cp"}}]
)
def test_programs_plan_as_they_stand_until_both_are_on_one_axis(layout):
    program = program_of(by_hand)
    plan = program.plan(ml.mesh(cp=4, data=2), layout)
    assert plan.program is program


def test_rules_by_scope_decide_where_the_scores_are():
    def core(q, k, v):
        with jax.named_scope("core"):
            return by_hand(q, k, v)

    program, mesh = program_of(core), ml.mesh(ring=2, ulysses=4)
    ulysses = {"seq": "ulysses", "kv": "ulysses", "@core": {"seq": None, "kv": None, "heads": "ulysses"}}
    plan = program.plan(mesh, ulysses)
    assert {c.kind for c in plan.collectives if c.shape} == {"all-to-all"}
    assert scores_of(plan.program)
    usp = ml.layouts.context_parallel(program, mesh, kind="usp", context=("ring", "ulysses"))
    plan = program.plan(mesh, usp)
    assert not scores_of(plan.program)
    assert {c.kind for c in plan.collectives if c.shape} == {"collective-permute", "all-to-all"}
    assert plan.check().ok


def test_refusals_know_of_it():
    program = program_of(by_hand)
    assert program.refusals(CP, "seq:cp")["kv"]["cp"] is None
    assert program_of(with_a_cap).refusals(CP, "seq:cp")["kv"]["cp"] is not None
    # From a ring a dim can be taken away again.
    assert program.refusals(CP, RING)["heads"]["cp"] is not None
