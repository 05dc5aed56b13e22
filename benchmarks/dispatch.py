"""What a call of a plan costs beyond the call of a program by `jax.jit`: `python -m benchmarks.dispatch`.

Both take and return the same trees of tensors, which lie where they should on 8 simulated devices; each is multiplied
by a number, so that nothing is sent. A call is timed until it returns, not until the devices are done, by the clock of
its own thread: what else runs on the machine, the devices' threads included, is not in it. The two take turns in one
process, five calls each, and in every round the other begins. A figure is the median of 101 rounds; beside it is what
the plan takes more than `jax.jit`, which shards by `in_shardings` as the plan does, in microseconds and as a ratio. A
busy machine makes both sides slower, for others' data are in the processor's cache: compare ratios then.

With "a batch from the host" one of the arrays comes from NumPy in each call, as batches do, and both sides place it;
what is promised is for arrays that lie where they should.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

import meshlab as ml

ROUNDS, CALLS = 101, 5
COUNTS = (1, 4, 20, 40, 200)
# What is promised: microseconds over `jax.jit` for up to 20 arrays, and for each array beyond.
MOST, EACH = 100.0, 3.0


@dataclasses.dataclass(frozen=True)
class Case:
    """Median microseconds of a call: the plan's, and those of `jax.jit`.

    Attributes:
        arrays: how many arrays are given.
        from_host: whether one of them comes from NumPy.
        plan: of `plan.run`.
        jit: of the program that `jax.jit` makes of the same function.
    """

    arrays: int
    from_host: bool
    plan: float
    jit: float

    @property
    def beyond(self) -> float:
        """How many more the plan takes."""
        return self.plan - self.jit

    @property
    def promised(self) -> float:
        """How many more it may take, where all arrays lie where they should."""
        return math.inf if self.from_host else MOST + EACH * max(0, self.arrays - 20)

    @property
    def holds(self) -> bool:
        """Whether it takes no more than that."""
        return self.beyond <= self.promised


def measure(counts: Sequence[int] = COUNTS, rounds: int = ROUNDS) -> list[Case]:
    """Returns the cases, each for so many arrays.

    Args:
        counts: how many arrays a call is given.
        rounds: how often each side is called.
    """
    ml.simulate(8)
    return [_case(count, from_host, rounds) for count in counts for from_host in (False, True)]


def _case(count: int, from_host: bool, rounds: int) -> Case:
    rows, cols = ml.dims(rows=64, cols=32)

    def scale(tensors: dict[str, Any], by: Any) -> dict[str, Any]:
        return {name: tensor * by for name, tensor in tensors.items()}

    names = [f"w{number}" for number in range(count)]
    plan = ml.trace(scale, {name: ml.f32[rows, cols] for name in names}, ml.f32[cols]).plan(
        ml.mesh(data=2, model=4), "rows:data cols:model"
    )
    inputs, outputs = plan.shardings
    jitted = jax.jit(scale, in_shardings=inputs, out_shardings=outputs)
    host = np.ones(32, np.float32)
    batch = ml.tensor(host if from_host else jax.device_put(host, inputs[1]), cols)
    tensors = plan.run({name: np.ones((64, 32), np.float32) for name in names}, host)
    plan_times, jit_times = _in_turns([lambda: plan.run(tensors, batch), lambda: jitted(tensors, batch)], rounds)
    return Case(count + 1, from_host, float(np.median(plan_times)), float(np.median(jit_times)))


def _in_turns(calls: Sequence[Callable[[], Any]], rounds: int) -> list[list[float]]:
    """Returns the microseconds of each call, which take turns."""
    for call in (*calls, *calls, *calls):
        jax.block_until_ready(call())
    times: list[list[float]] = [[] for _ in calls]
    for number in range(rounds):
        for position in range(len(calls))[:: 1 if number % 2 else -1]:
            start = time.thread_time_ns()
            results = [calls[position]() for _ in range(CALLS)]
            times[position].append((time.thread_time_ns() - start) / 1000 / CALLS)
            jax.block_until_ready(results)
    return times


def table(cases: Sequence[Case]) -> str:
    """Returns the cases as a table, in microseconds."""
    rows: list[tuple[str, ...]] = [
        ("arrays", "a batch from the host", "plan.run", "jax.jit", "more", "ratio", "promised")
    ]
    for case in cases:
        promise = "" if case.from_host else f"{case.promised:.0f} {'kept' if case.holds else 'BROKEN'}"
        times = (f"{time:.0f}" for time in (case.plan, case.jit, case.beyond))
        host = "yes" if case.from_host else ""
        rows.append((str(case.arrays), host, *times, f"{case.plan / case.jit:.2f}", promise))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)).rstrip() for row in rows)


if __name__ == "__main__":
    print(table(measure()))
