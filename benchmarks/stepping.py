"""How long a compiled step takes: the plan as it is lowered here, against XLA's own partitioner.

Both run the same program in the same layout on the same 8 simulated devices: every model of the zoo, data-parallel,
tensor-parallel, both, and fully sharded (FSDP), where that is legal. XLA's partitioner is told the spec of every value
(`plan.xla()`), so that it has no choice but where and how to move them. Nothing is donated.

The two take turns, and in every round the other one begins: whatever else the machine does meets both. A time is the
median of 21, with the order statistics that hold the true median at 95 of 100. A ratio is ours through XLA's, so less
than 1 is faster; its interval is a bootstrap over rounds, which stay pairs. The geometric mean is over all cases; its
interval is a bootstrap over cases and, within each, rounds: it says what another such set of cases would give.

Simulated devices share this machine's cores and memory. Their times say what the programs cost to run, their
collectives' hand-shakes included; they do not say what links between real devices would.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import meshlab as ml
from meshlab.models import zoo

STEPS = 21
RESAMPLES = 2000
# The dims of the zoo's models over which work is split, those over which positions are, and the one over which
# parameters are stored, where there.
_WORK = ("hidden", "hidden_odd", "ffn", "d_ff", "inner", "heads", "vocab", "hidden1", "hidden_1", "channels_1")
_SPACE = ("height", "rows")
_STORED = ("embed", "d_model", "io", "hidden", "hidden1", "channels_1")


@dataclasses.dataclass(frozen=True)
class Race:
    """Measured seconds of one case, in rounds: the plan's, and those of XLA's partitioner."""

    what: str
    ours: tuple[float, ...]
    xla: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Our median through XLA's: less than 1 is faster."""
        return float(np.median(self.ours) / np.median(self.xla))

    def resampled(self, random: np.random.Generator) -> np.ndarray:
        """Returns ratios of rounds drawn with replacement."""
        rounds = random.integers(0, len(self.ours), (RESAMPLES, len(self.ours)))
        ours, xla = (np.median(np.asarray(side)[rounds], axis=1) for side in (self.ours, self.xla))
        return ours / xla


def layouts(program: ml.Program) -> Iterator[tuple[str, ml.Mesh, Any]]:
    """Yields a name, a mesh of 8 devices and a layout for each way to split a program that is legal for it."""
    line, square = ml.mesh(data=8), ml.mesh(data=2, model=4)
    work: dict[str, Any] = {}
    for dim in _WORK:
        work |= {dim: "model"} if _legal(program, square, work | {dim: "model"}) else {}
    space = {dim: "model" for dim in _SPACE if dim in program.dims}
    stored = {dim: "data" for dim in [d for d in _STORED if d in program.dims][:1]}
    storage = {f"{name}/*": stored for name in ("params", "opt_state") if name in program.parameters and stored}
    for name, mesh, layout, known in (
        ("data", line, {"batch": "data"}, True),
        ("tensor", square, work, work),
        ("data, tensor", square, {"batch": "data"} | work, work),
        ("data, space", square, {"batch": "data"} | space, space),
        ("FSDP", line, {"batch": "data"} | storage, storage),
    ):
        if known and _legal(program, mesh, layout):
            yield name, mesh, layout


def _legal(program: ml.Program, mesh: ml.Mesh, layout: dict[str, Any]) -> bool:
    try:
        program.plan(mesh, layout)
    except ml.LayoutError:
        return False
    return True


def steps_of_the_zoo() -> list[zoo.Model]:
    """Returns the largest model of each program: the step of training, where there is one."""
    return list({model.program: model for model in zoo.models()}.values())


def measure(models: Sequence[zoo.Model] | None = None, steps: int = STEPS) -> list[Race]:
    """Returns the times of all models under all their layouts.

    Args:
        models: what to run; without any, one model of each program of the zoo.
        steps: how often each side of a case runs.
    """
    ml.simulate(8)
    races = []
    for model in steps_of_the_zoo() if models is None else models:
        program, data = model.trace(), model.data(0)
        for name, mesh, layout in layouts(program):
            races.append(_race(f"{model.name}: {name}", program.plan(mesh, layout), data, steps))
        jax.clear_caches()
    return races


def _race(what: str, plan: ml.Plan, data: tuple[Any, ...], steps: int) -> Race:
    """Runs the two sides of one case in turns."""
    ours, xla = plan.compile(), plan.xla().compiled
    arrays = jax.device_put(jax.tree.leaves(data), list(ours.input_shardings[0]))

    def seconds(executable: Any) -> float:
        start = time.perf_counter()
        jax.block_until_ready(executable(*arrays))
        return time.perf_counter() - start

    for executable in (ours, xla) * 2:
        seconds(executable)
    gc.collect()
    rounds = []
    for number in range(steps):
        first, second = (ours, xla) if number % 2 else (xla, ours)
        times = {first: seconds(first), second: seconds(second)}
        rounds.append((times[ours], times[xla]))
    mine, others = zip(*rounds, strict=True)
    return Race(what, mine, others)


def median_interval(seconds: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Returns the measured times between which the true median lies, with at least this confidence.

    Args:
        seconds: measured times; of fewer than 6 no two hold the median at 95 of 100, and the outermost are returned.
        confidence: between 0 and 1.
    """
    count, ordered = len(seconds), sorted(seconds)
    # How likely it is that at most 0, 1, 2, ... of the times are less than the median.
    chances = itertools.accumulate(math.comb(count, below) / 2**count for below in range(count))
    rank = sum(chance <= (1 - confidence) / 2 for chance in chances)
    low = max(rank, 1) - 1
    return ordered[low], ordered[count - 1 - low]


def geometric_mean(races: Sequence[Race]) -> tuple[float, float, float]:
    """Returns the geometric mean of all ratios, and the interval that holds 95 of 100 of its resamples."""
    random = np.random.default_rng(0)
    logs = np.log([race.resampled(random) for race in races])
    cases = random.integers(0, len(races), (RESAMPLES, len(races)))
    means = logs[cases, np.arange(RESAMPLES)[:, None]].mean(axis=1)
    low, high = np.exp(np.quantile(means, (0.025, 0.975)))
    return math.exp(np.mean([math.log(race.ratio) for race in races])), float(low), float(high)


def table(races: Sequence[Race]) -> str:
    """Returns the races as a table, in milliseconds, the geometric mean of their ratios last."""
    random = np.random.default_rng(0)
    rows: list[tuple[str, ...]] = [("a compiled step", "n", "ours", "95%", "XLA's", "95%", "ours / XLA's", "95%")]
    for race in races:
        sides = (cell for side in (race.ours, race.xla) for cell in _cells(side))
        low, high = np.quantile(race.resampled(random), (0.025, 0.975))
        rows.append((race.what, str(len(race.ours)), *sides, f"{race.ratio:.2f}", f"{low:.2f} to {high:.2f}"))
    mean, low, high = geometric_mean(races)
    rows.append(("geometric mean", str(len(races)), "", "", "", "", f"{mean:.2f}", f"{low:.2f} to {high:.2f}"))
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        f"{name:<{first}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, others, strict=True))
        for name, *cells in rows
    )


def _cells(seconds: Sequence[float]) -> tuple[str, str]:
    low, high = (f"{1000 * time:.1f}" for time in median_interval(seconds))
    return f"{1000 * float(np.median(seconds)):.1f} ms", f"{low} to {high}"
