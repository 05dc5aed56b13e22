"""Names: what is summed over is named, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    "Write attend(q, k, v). For each query it returns a weighted mean of the values. The weights are the softmax, over"
    " the keys, of the products of the query with each key, without scaling.",
    _attend,
    _arrays,
    ("batch", "seq", "kv", "heads", "head"),
    (
        "ml.dot(q, k, …) lists the dims that are summed: which do queries and keys share, and the weights lack?",
        "ml.softmax(scores, dim) divides along one dim: that of the keys.",
        "weights = ml.softmax(ml.dot(q, k, 'head'), 'kv'); then one more ml.dot, summed over 'kv'.",
    ),
)


def dims(function: Callable[..., Any], *types: Any) -> str:
    """Returns the dims of a function's result, with spaces between: those of its traced program."""
    program = ml.trace(function, *types)
    return " ".join(map(str, next(value for value in program.values if value.place == "out").dims))


def _projected() -> str:
    Batch, Seq, Embed, Hidden = ml.dims(batch=2, seq=5, embed=3, hidden=4)
    return dims(lambda x, up: ml.dot(x, up, "embed"), ml.f32[Batch, Seq, Embed], ml.f32[Embed, Hidden])


def _compared() -> str:
    Batch, Embed = ml.dims(batch=2, embed=3)
    return dims(lambda x, y: ml.dot(x, y, "embed"), ml.f32[Batch, Embed], ml.f32[Batch, Embed])


def _scored() -> str:
    q, k, _ = _arrays()
    return dims(lambda q, k: ml.dot(q, k, "head"), q, k)


PUZZLES = (C01,)
QUESTIONS = (
    Question(
        "1a",
        'x is [batch seq embed], up is [embed hidden]: which dims has ml.dot(x, up, "embed")',
        _projected,
        because="`embed` is summed. `seq` is not named anywhere: it rides along, as `batch` does.",
    ),
    Question(
        "1b",
        'x and y are both [batch embed]: which dims has ml.dot(x, y, "embed")',
        _compared,
        because="`embed` is summed. Both have `batch`, and it stays once: row by row, each with its own partner.",
    ),
    Question(
        "1c",
        'q is [batch seq heads head], k is [batch kv heads head]: which dims has ml.dot(q, k, "head")',
        _scored,
        because="`head` is summed. `batch` and `heads` are in both and stay once, `seq` and `kv` are in one each.",
    ),
)
