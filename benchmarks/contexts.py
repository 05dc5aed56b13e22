"""Published times of context parallelism, gathered, around a ring and as USP, held against the order that is predicted.

    python -m benchmarks.contexts                   prints the table
    python -m benchmarks.contexts docs/accuracy.md   writes it between the marks of that page

Two pull requests of MaxText time Llama-3-8B on 64 chips of TPU v5p, in the order of positions
(https://github.com/AI-Hypercomputer/maxtext/pull/4836) and balanced (https://github.com/AI-Hypercomputer/maxtext/pull/4893).
What differs between their rows is attention; so a layer's attention is planned, forward and backward, as one operation
under each layout, and the rows of one length and balance are compared pair by pair: is the one that was slower
predicted to be slower?
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Iterator

import jax

import meshlab as ml
from benchmarks.pages import Section
from meshlab.cost.machines.units import seconds_text

SECTION = Section("contexts")
# The seconds of a step by length: without balance, and balanced.
KINDS = "all-gather", "ring", "usp 16 × 4", "usp 8 × 8", "usp 32 × 2"
MEASURED = {
    65_536: ((1.31, 1.68, 1.31, 1.44, 1.65), (1.09, 1.42, 1.04, 1.20, 1.38)),
    131_072: ((4.03, 4.63, 4.02, 4.05, 4.52), (2.98, 3.71, 2.88, 2.93, 3.49)),
    262_144: ((14.33, 15.35, 13.92, 13.65, 14.72), (9.71, 10.78, 9.50, 9.34, 10.24)),
}
# Pairs whose times differ by less are not judged.
APART = 0.05


@dataclasses.dataclass(frozen=True)
class Row:
    """One published step.

    Attributes:
        length: positions of the sequence.
        balanced: whether each device attends to as much.
        kind: one of `KINDS`.
        measured: seconds of the step.
        predicted: seconds of one layer's attention, forward and backward.
    """

    length: int
    balanced: bool
    kind: str
    measured: float
    predicted: float


@functools.cache
def attention(length: int) -> ml.Program:
    """Returns the attention of a layer of Llama-3-8B, forward and backward."""
    seq, heads, group, head = ml.dims(seq=length, heads=8, group=4, head=128)

    def core(q, k, v):
        with jax.named_scope("core"):
            return ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), "seq", "kv", causal=True)

    def step(q, k, v, cotangent):
        out, back = jax.vjp(core, q, k, v)
        return out, back(cotangent)

    queries, keys = ml.bf16[seq, heads, group, head], ml.bf16[seq, heads, head]
    return ml.trace(step, queries, keys, keys, queries)


def predicted(length: int, kind: str, balanced: bool) -> float:
    """Returns the seconds of a layer's attention."""
    program = attention(length)
    if kind.startswith("usp"):
        ring, heads = map(int, kind.removeprefix("usp ").split(" × "))
        mesh, axes = ml.mesh("v5p:4x4x4", ring=ring, heads=heads), ("ring", "heads")
    else:
        mesh, axes = ml.mesh("v5p:4x4x4", context=64), "context"
    name = {"all-gather": "gather", "ring": "ring"}.get(kind, "usp")
    layout = ml.layouts.context_parallel(program, mesh, kind=name, context=axes, balanced=balanced)
    return float(program.plan(mesh, layout).time.estimate)


@functools.cache
def rows() -> tuple[Row, ...]:
    """Returns all published rows."""
    return tuple(
        Row(length, balanced, kind, seconds, predicted(length, kind, balanced))
        for length, both in MEASURED.items()
        for balanced, times in zip((False, True), both, strict=True)
        for kind, seconds in zip(KINDS, times, strict=True)
    )


def judged() -> Iterator[tuple[Row, Row]]:
    """Yields the pairs of one length and balance whose measured times are apart, the faster first."""
    for one, other in itertools.combinations(rows(), 2):
        if (one.length, one.balanced) == (other.length, other.balanced):
            fast, slow = sorted((one, other), key=lambda row: row.measured)
            if slow.measured >= fast.measured * (1 + APART):
                yield fast, slow


def wrong() -> list[tuple[Row, Row]]:
    """Returns the judged pairs that are predicted in the other order."""
    return [(fast, slow) for fast, slow in judged() if fast.predicted >= slow.predicted]


def table() -> str:
    """Returns the section: how many pairs are in order, the rows, and the pairs that are not."""
    count, off = len(list(judged())), wrong()
    lines = [
        f"Of {count} pairs of one length and balance whose measured steps are at least {APART:.0%} apart,"
        f" {count - len(off)} ({(count - len(off)) / count:.0%}) are predicted in the measured order.",
        "",
        "| positions | balanced | kind | measured step | predicted attention of a layer |",
        "| ---: | --- | --- | ---: | ---: |",
    ]
    lines += [
        f"| {row.length:,} | {'yes' if row.balanced else 'no'} | {row.kind} | {row.measured:.2f} s"
        f" | {seconds_text(row.predicted)} |"
        for row in rows()
    ]
    pairs = (
        f"{fast.kind} before {slow.kind} ({fast.length:,}{', balanced' * fast.balanced}: {fast.measured:.2f} and"
        f" {slow.measured:.2f} s, predicted {seconds_text(fast.predicted)} and {seconds_text(slow.predicted)})"
        for fast, slow in off
    )
    return "\n".join([*lines, "", f"In the other order: {'; '.join(pairs) or 'none'}."])


if __name__ == "__main__":
    SECTION.write_or_print(table(), sys.argv[1:])
