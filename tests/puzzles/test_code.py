"""Puzzles of code: functions that are right at every size pass, and those that are right in part do not."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab import puzzles
from meshlab.puzzles import Unsolved


def right(q, k, v):
    return ml.dot(ml.softmax(ml.dot(q, k, "head"), "kv"), v, "kv")


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
    "products written out": (lambda q, k, v: (ml.softmax((q * k).sum("head"), "kv") * v).sum("kv"), "as many elements"),
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


def test_a_grader_sees_an_assertion_with_a_hint():
    with pytest.raises(Unsolved, match="(?s)numbers differ.*\nHint: "):
        puzzles.C01.check(WRONG["zeros"][0], strict=True)


def test_it_says_what_it_is_given():
    assert "q[batch seq heads head], k[batch kv heads head]" in str(puzzles.C01)
