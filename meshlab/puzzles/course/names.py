"""Names: what is summed over is named, and nothing else is."""

from __future__ import annotations

import meshlab as ml

from ..play.code import CodePuzzle
from ..play.question import Question


def _attend(q, k, v):
    weights = ml.softmax(ml.dot(q, k, "head"), "kv")
    return ml.dot(weights, v, "kv")


def _arrays() -> tuple:
    Batch, Seq, Kv, Heads, Head = ml.dims(batch=2, seq=6, kv=6, heads=4, head=8)
    keys = ml.f32[Batch, Kv, Heads, Head]
    return ml.f32[Batch, Seq, Heads, Head], keys, keys


C01 = CodePuzzle(
    "C01",
    "The core of attention",
    "Write attend(q, k, v): for each query the weighted mean of the values, the weights a softmax over the keys of the"
    " products of query and keys.",
    _attend,
    _arrays,
    ("batch", "seq", "kv", "heads", "head"),
    (
        "ml.dot(q, k, …) lists the dims that are summed: which do queries and keys share, and the weights lack?",
        "ml.softmax(scores, dim) divides along one dim: that of the keys.",
        "weights = ml.softmax(ml.dot(q, k, 'head'), 'kv'); what is left is one more ml.dot, summed over 'kv'.",
    ),
)

PUZZLES = (C01,)
QUESTIONS: tuple[Question, ...] = ()
