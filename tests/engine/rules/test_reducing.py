"""Reductions by a function of one's own, and operations without operands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.api.explain import warnings
from tests.engine.small_programs import X2Y2, X4


@pytest.mark.parametrize(
    ("reduced", "sent"),
    [
        (lambda x: lax.reduce(x, jnp.uint32(0), lax.bitwise_xor, (1,)), 8 * 4),
        (lambda x: lax.reduce(x, jnp.uint32(5), lax.bitwise_xor, (1,)), 8 * 4 * 4),
        (lambda x: lax.reduce(x, jnp.uint32(0), lambda a, b: a | (b + 1), (1,)), 8 * 4 * 4),
        (lambda x: lax.reduce((x, x), (jnp.uint32(0),) * 2, lambda a, b: (a[0] + b[1], a[1] ^ b[0]), (1,)), 8 * 4 * 4),
    ],
)
def test_reductions_by_a_function_of_ones_own(reduced, sent):
    """Kept dims stay split; reduced ones are joined where the start changes nothing if it comes again."""
    x = np.random.default_rng(6).integers(0, 2**31, (8, 16)).astype(np.uint32)
    program = ml.trace(lambda x: reduced(x.array), ml.u32[ml.dims(a=8, b=16)])
    sharded, joined = program.plan(X4, "a:x"), program.plan(X4, "b:x")
    assert sharded.check(x).ok
    assert not sharded.collectives
    assert not warnings(sharded)
    report = joined.check(x)
    assert report.ok, report
    assert [(c.kind, c.payload_bytes) for c in joined.collectives] == [("all-gather", sent)]
    assert program.plan(X2Y2, "a:y b:x").check(x).ok
    padded = ml.trace(lambda x: reduced(x.array), ml.u32[ml.dims(a=7, b=13)])
    assert padded.plan(X2Y2, "a:y b:x", pad=True).check(x[:7, :13]).ok


def test_what_is_empty_is_made_anywhere():
    """JAX makes scalars of any content in gradients of branches; nobody need hear of them."""

    def fn(x, w):
        def loss(w):
            branches = (lambda x: jnp.sin(x @ w).sum()), (lambda x: (x @ w).max())
            return lax.cond(x.sum() > 0, *branches, x)

        return jax.grad(loss)(w), lax.empty((8, 8), jnp.float32) * 0 + x

    x, w = ml.named(jnp.ones((8, 8)), "a b"), ml.named(jnp.ones((8, 6)), "b c")
    program = ml.trace(fn, x, w)
    for layout in ("", "a:x", "b:x", "a:x b:y", "c:x"):
        plan = program.plan(X2Y2, layout)
        assert not warnings(plan)
        report = plan.check()
        assert report.ok, f"{layout}: {report}"
