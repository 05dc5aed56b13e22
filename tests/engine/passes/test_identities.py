"""An operation that returns its operand is that operand: gathered once, in the plan and in the compiled program."""

import jax.numpy as jnp
import pytest

import meshlab as ml

A, B = ml.dims(a=8, b=4)
SAME = {
    "transposed twice": lambda x: x.T.T,
    "an axis of size 1 that comes and goes": lambda x: x[:, None].squeeze(1),
    "an axis of size 1 that moves": lambda x: x[:, None].transpose(1, 0, 2).squeeze(0),
    "times ones": lambda x: x * jnp.ones_like(x),
    "plus zeros": lambda x: x + jnp.zeros_like(x),
    "minus zeros": lambda x: x - jnp.zeros(x.shape),
    "to the first": lambda x: x**1.0,
    "broadcast and sliced": lambda x: jnp.broadcast_to(x[None], (1, *x.shape))[0],
}
# XLA knows these too: the plan counts two, and the report says that one was run.
NAMED = {
    "negated twice": lambda x: jnp.negative(-x),
    "a sum over one": lambda x: x[:, None].sum(1),
    "a maximum over one": lambda x: x[:, None].max(1),
    "padded with nothing": lambda x: jnp.pad(x, 0),
    "the same either way": lambda x: jnp.where(x > 0, x, x),
    "the greater of itself": lambda x: jnp.maximum(x, x),
}
OTHER = {
    "negated": lambda x: -x,
    "two axes that change places": lambda x: x[:, None].transpose(2, 1, 0).squeeze(1).reshape(x.shape),
    "zeros minus it": lambda x: jnp.zeros(x.shape) - x,
    "doubled and halved": lambda x: jnp.tanh(x) * 1.0,
}


def gathers(function, merged=0):
    program = ml.trace(lambda x: (ml.tensor(function(x.array), A, B), x), ml.f32[A, B])
    plan = program.plan(ml.mesh(x=4), {"x": {"a": "x"}})
    report = plan.check()
    assert report.ok, report
    assert len(report.merged) == merged, report
    return [c.kind for c in plan.collectives]


@pytest.mark.parametrize("name", SAME)
def test_an_identity_is_its_operand(name):
    assert gathers(SAME[name]) == ["all-gather"]


@pytest.mark.parametrize("name", NAMED)
def test_an_identity_that_only_the_compiler_knows_is_named(name):
    assert gathers(NAMED[name], merged=1) == ["all-gather", "all-gather"]


@pytest.mark.parametrize("name", OTHER)
def test_what_only_looks_like_one_is_another_value(name):
    assert gathers(OTHER[name]) == ["all-gather", "all-gather"]
