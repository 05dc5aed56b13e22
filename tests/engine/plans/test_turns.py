"""Loops of which only running them tells how many iterations they take are told, and have a peak on every machine."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import meshlab as ml


def converging(w, y):
    return lax.while_loop(lambda y: jnp.max(y) > 1e-3, lambda y: jnp.tanh(y @ w) * 0.9, y)


def counting(w, y):
    return lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y @ w), y)


def planned(fn, **axes):
    w, y = jax.ShapeDtypeStruct((64, 64), jnp.float32), jax.ShapeDtypeStruct((32, 64), jnp.float32)
    return ml.trace(fn, ml.named(w, "unit _"), ml.named(y, "batch unit")).plan(ml.mesh(**axes), "batch:data")


def test_a_loop_of_unknown_length_is_told_wherever_it_is_counted():
    plan = planned(converging, data=8)
    (warning,) = plan.explain().warnings
    assert "test_turns.py:16 (while) is known only when the program runs: bytes, FLOPs and time count one" in warning
    assert warning in str(plan)
    assert warning in str(plan.explain())
    assert json.loads(plan.to_json())["warnings"] == [warning]


def test_a_loop_that_counts_is_known():
    plan = planned(counting, data=8)
    assert plan.explain().warnings == ()
    assert json.loads(plan.to_json())["warnings"] == []


def in_a_batched_loop(inner):
    """Each example has its own number of outer turns, in each of which there is a loop."""

    def solve(y, start):
        def solved(y, n):
            return lax.while_loop(lambda s: s[1] < 5, lambda s: (inner(s[0]), s[1] + 1), (y, n))[0]

        return jax.vmap(solved)(y, start)

    return solve


INNER = {
    "while": lambda y: lax.while_loop(lambda v: v < 10, lambda v: v * 2.0, y),
    "scan": lambda y: lax.fori_loop(0, 3, lambda _, v: v * 2.0, y),
}


@pytest.mark.parametrize("on", [None, "v5e:2x4", "h100:1x8"])
@pytest.mark.parametrize("inner", INNER)
def test_a_loop_in_a_batched_loop_has_a_peak(inner, on):
    y, start = jax.ShapeDtypeStruct((1 << 16,), jnp.float32), jax.ShapeDtypeStruct((1 << 16,), jnp.int32)
    program = ml.trace(in_a_batched_loop(INNER[inner]), ml.named(y, "batch"), ml.named(start, "batch"))
    mesh = ml.mesh(data=8) if on is None else ml.mesh(on, data=8)
    plan = program.plan(mesh, "batch:data")
    held = y.size * 4 // 8
    # Both arguments and the result, and at most two copies of each while they are carried.
    assert 3 * held <= plan.memory.peak_bytes <= 3 * 3 * held
    assert "peak memory per device" in str(plan)
