"""How far attention is from float64, however it is split: at most twice as far as the plain form in float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml

from .test_attention import SEGMENTS, Batch, Seq, drawn, off, step

KEYS = ml.Dim("kv", Seq.size)
LAYOUTS = (None, "seq:a", "kv:a", "seq:a kv:a", "seq:zigzag(a) kv:zigzag(a)")
# What scores are multiplied by, and whether some queries attend to nothing.
CASES = {"as they are": (1, False), "scores × 100": (100, False), "masked rows": (1, True), "both": (100, True)}
# Of a document that no key is in: its queries attend to nothing.
NOBODY = np.where(SEGMENTS == 1, 7, SEGMENTS).astype(np.int32)


def whole(q, k, v, queries, keys):
    """The loss of the plain form; a query that attends to nothing gets zeros."""
    at = np.arange(Seq.size)
    shown = (queries[:, :, None] == keys[:, None]) & (at[:, None] >= at)
    shown = shown[:, :, None, None]
    scores = jnp.einsum("bshgd,bthd->bshgt", q, k) / np.sqrt(q.shape[-1])
    weights = jax.nn.softmax(jnp.where(shown, scores, -1e30), -1) * shown.any(-1, keepdims=True)
    return (jnp.einsum("bshgt,bthd->bshgd", weights, v) ** 2).sum()


def attended(q, k, v, queries, keys):
    return step(q, k, v, causal=True, query_segments=queries, key_segments=keys)


@pytest.mark.parametrize("case", CASES)
def test_errors_are_those_of_the_plain_form(case: str):
    times, nobody = CASES[case]
    queries = NOBODY if nobody else SEGMENTS
    q, k, v = (x.array * scale for x, scale in zip(drawn(), (times**0.5, times**0.5, 1), strict=True))
    gradients = jax.value_and_grad(whole, argnums=(0, 1, 2))
    with jax.enable_x64(True):
        value, right = gradients(*(np.asarray(x, np.float64) for x in (q, k, v)), queries, SEGMENTS)
        value, right = float(value), [np.asarray(x) for x in right]
    of_plain, plain = gradients(q, k, v, queries, SEGMENTS)
    arguments: list[Any] = [ml.tensor(x, *t.dims) for x, t in zip((q, k, v), drawn(), strict=True)]
    arguments += [ml.tensor(queries, Batch, Seq), ml.tensor(SEGMENTS, Batch, KEYS)]
    program = ml.trace(attended, *arguments)
    for layout in LAYOUTS:
        got, found = program.plan(ml.mesh(a=4), layout).run(*arguments)
        # One number, of which the plain form's error may be small by luck.
        assert abs(float(got) - value) <= 2 * abs(float(of_plain) - value) + 4e-6 * abs(value), layout
        for mine, theirs, exact in zip(found, plain, right, strict=True):
            assert off(mine.array, exact) <= 2 * off(theirs, exact), layout
        # The gradient of what attends to nothing.
        assert (np.asarray(found[0].array)[queries == 7] == 0).all(), layout
