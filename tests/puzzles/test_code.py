"""Puzzles of code: functions that are right at every size pass, and those that are right in part do not."""

from __future__ import annotations

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab import puzzles
from meshlab.puzzles import Unsolved
from meshlab.puzzles.play import code


@pytest.fixture(autouse=True)
def same_draws(monkeypatch):
    """Sizes are drawn anew by each check, and here the same ones in each run."""
    monkeypatch.setattr(code, "_CHANCE", np.random.default_rng(0))


def right(q, k, v):
    return ml.dot(ml.softmax(ml.dot(q, k, "head"), "kv"), v, "kv")


def written_out(q, k, v):
    return (ml.softmax((q * k).sum("head"), "kv") * v).sum("kv")


def in_a_loop(q, k, v):
    """One product after the other: no array is larger than the weights."""
    sizes = [*q.dims[:2], *k.dims[1:3]]
    nothing = ml.tensor(jnp.zeros([dim.size for dim in sizes]), *sizes)
    add = lambda total, pair: (total + pair[0] * pair[1], None)  # noqa: E731
    return ml.dot(ml.softmax(ml.scan(add, nothing, (q, k), "head")[0], "kv"), v, "kv")


def again_and_again(q, k, v):
    """Right, after as many turns as its numbers say."""
    more = lambda state: (state[0] < 3) & (state[1].max() < 1e9)  # noqa: E731
    turn = lambda state: (state[0] + 1, right(q, k, v).array)  # noqa: E731
    return ml.tensor(jax.lax.while_loop(more, turn, (0, jnp.zeros(q.shape)))[1], *q.dims)


def in_numpy(q, k, v):
    """Python is called back, where nobody counts."""

    def attend(q, k, v):
        scores = np.exp(np.einsum("bshd,bthd->bsht", q, k))
        return np.einsum("bsht,bthd->bshd", scores / scores.sum(-1, keepdims=True), v).astype(np.float32)

    type_ = jax.ShapeDtypeStruct(q.shape, jnp.float32)
    return ml.tensor(jax.pure_callback(attend, type_, q.array, k.array, v.array), *q.dims)


def test_what_is_right_passes():
    assert puzzles.C01.check(right)
    assert "C01: solved" in str(puzzles.C01.check(right))


WRONG = {
    "zeros": (lambda q, k, v: right(q, k, v) * 0, "numbers differ"),
    "its argument": (lambda q, k, v: q, "numbers differ"),
    "a mean": (lambda q, k, v: right(q, k, v) * 0 + v.mean("kv"), "numbers differ"),
    "along the queries": (lambda q, k, v: ml.dot(ml.softmax(ml.dot(q, k, "head"), "seq"), v, "kv"), "numbers differ"),
    "scaled": (lambda q, k, v: ml.dot(ml.softmax(ml.dot(q, k, "head") / 8**0.5, "kv"), v, "kv"), "numbers differ"),
    "as large as here": (lambda q, k, v: right(q, k, v) if q.shape[1] == 6 else q, "numbers differ"),
    "no number": (lambda q, k, v: right(q, k, v) * float("nan"), "numbers differ"),
    "small": (lambda q, k, v: right(q, k, v) if max(q.shape) < 10 else q, "numbers differ"),
    "products written out": (written_out, "as many elements"),
    "written out elsewhere": (lambda q, k, v: (right if q.shape[1] == 6 else written_out)(q, k, v), "as many elements"),
    "products in a loop": (in_a_loop, "as many elements"),
    "a loop of unknown length": (again_and_again, "runs is known only when it runs"),
    "a callback": (in_numpy, "nobody counts what is done at test_code.py:"),
    "the end of Python": (lambda q, k, v: sys.exit(0), "it ends Python"),
    "a size written down": (lambda q, k, v: ml.tensor(right(q, k, v).array.reshape(2, 6, 4, 8), *q.dims), "SIZE"),
    "done twice": (lambda q, k, v: right(q, k, v) + 0 * right(k.rename(kv="seq"), k, v), "as many FLOPs"),
    "another dim": (lambda q, k, v: right(q, k, v).mean("seq"), "but f32[batch=2, seq=6, heads=4, head=8]"),
    "no array": (lambda q, k, v: 3, "returns what is asked for"),
    "a misspelt dim": (lambda q, k, v: ml.dot(q, k, "hed"), "Did you mean `head`"),
    "too few arguments": (lambda q, k: q, "3 arguments were given"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_does_not(name):
    function, because = WRONG[name]
    answer = puzzles.C01.check(function)
    assert not answer
    assert because in str(answer)


def test_nobody_knows_the_sizes_beforehand():
    answers = [dataclasses.replace(puzzles.C01, written=code.Written()).check(right) for _ in range(2)]
    assert all(answers)
    sizes = [text for answer in answers for _, text in answer.rows if text.startswith("is right at ")]
    assert len({*sizes}) == len(sizes) == 4


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(12))
def test_what_is_right_passes_at_all_sizes(monkeypatch, seed):
    """However the sizes are drawn; copies of the arguments, and a softmax by hand, are no more work."""
    monkeypatch.setattr(code, "_CHANCE", np.random.default_rng(seed))

    def by_hand(q, k, v):
        scores = ml.dot(q * 1.0, k * 1.0, "head")
        weights = ml.exp(scores - scores.max("kv"))
        return ml.dot(weights, v * 1.0, "kv") / weights.sum("kv")

    assert puzzles.C01.check(right)
    assert puzzles.C01.check(by_hand)


def test_what_cannot_be_closed_is_named_on_the_page():
    """Whoever has the product has its answers; docs/puzzles.md says so."""
    assert puzzles.C01.check(puzzles.C01.reference)


def test_a_grader_sees_an_assertion_with_a_hint():
    with pytest.raises(Unsolved, match="(?s)numbers differ.*\nHint: "):
        puzzles.C01.check(WRONG["zeros"][0], strict=True)


def test_it_says_what_it_is_given():
    assert "q[batch seq heads head], k[batch kv heads head]" in str(puzzles.C01)
