"""Checks a plan: compares its prediction with the compiled program, and its results with the unsharded function's.

Three things must be equal:

1. the bytes of every kind of collective over every set of mesh axes, predicted and read from the compiled program;
2. the bytes of arguments and outputs on a device;
3. the results, and those of the unsharded function on one device (`results.py`).

A compiler may run one collective where two were planned, because it sees that both send the same. The report names it
(`merged_collectives.py`), and it is no error: the plan is an upper bound then.

In several processes all of them check, and each compares all results: one alone would wait for the others.

Without arguments, data is drawn, unless the program is too large to run: then bytes are checked, numbers are not.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..argument_checks import function
from ..errors import RunError, shown
from ..plans.plan_data import Plan
from ..processes import is_first
from ..programs.random_arguments import MOST_DRAWN, drawn_bytes
from ..running.compiler_process import Cancel, Progress
from ..running.run import compiled
from ..tables import Totals, collective_rows, comparison, mark, note_lines
from .hlo import read_collectives, totals
from .merged_collectives import MergedCollective, merged
from .results import on_host, results
from .stored_bytes import stored_bytes


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a check; prints as a table.

    Attributes:
        predicted: payload bytes by kind and axes, as planned (in the dtype that this platform executes).
        compiled: the same, read from the compiled program.
        errors: for each output its place, its greatest error as a share of the root mean square, and the tolerance.
        memory: bytes of arguments and outputs on a device: planned, and as compiled.
        notes: remarks on the comparison.
        merged: predicted collectives of which the compiler made one; empty where the bytes are equal.
    """

    predicted: Totals
    compiled: Totals
    errors: tuple[tuple[str, float, float], ...]
    memory: tuple[tuple[int, int], tuple[int, int]]
    notes: tuple[str, ...] = ()
    merged: tuple[MergedCollective, ...] = ()

    @property
    def bytes_equal(self) -> bool:
        """Whether the compiled collectives are those predicted, but for those that the compiler merged."""
        return self.predicted == self.compiled or bool(self.merged)

    @property
    def results_equal(self) -> bool:
        """Whether the results are those of the unsharded function."""
        return all(error <= tolerance for _, error, tolerance in self.errors)

    @property
    def ok(self) -> bool:
        """Whether everything is equal."""
        return self.bytes_equal and self.results_equal and self.memory[0] == self.memory[1]

    def __str__(self):
        rows = collective_rows(self.predicted, self.compiled, self._mark) or [(f"{mark(True)} no collectives",)]
        for name, planned, compiled_bytes in zip(("arguments", "outputs"), *self.memory, strict=True):
            rows.append((f"{mark(planned == compiled_bytes)} {name}", planned, compiled_bytes))
        head = f"{mark(self.ok)} checked against the compiled program and the unsharded function"
        lines = [head, *comparison(("bytes per device", "predicted", "compiled"), rows)]
        worst = max(self.errors, key=lambda e: (e[1] > e[2], e[1]), default=None)
        if worst is not None:
            place, error, tolerance = worst
            text = f"results: largest error {error:.1e} of the RMS, at {place} (allowed {tolerance:.0e})"
            lines.append(f"  {mark(self.results_equal)} {text}")
        return "\n".join([*lines, *note_lines((*map(str, self.merged), *self.notes))])

    __repr__ = __str__

    def _mark(self, key: tuple[str, tuple[str, ...]]) -> str:
        equal = self.predicted.get(key, 0) == self.compiled.get(key, 0)
        return "≈" if not equal and key in {(m.kind, m.axes) for m in self.merged} else mark(equal)


def check(
    plan: Plan,
    args: Sequence[Any],
    progress: Callable[[Progress], Any] | None = None,
    cancel: Cancel | None = None,
    quick: bool = False,
) -> Report:
    """Checks a plan; see `Plan.check`. `quick` is for a small plan that nobody runs: it is compiled sooner."""
    stage = _Stages(f"{plan.mesh.size} device{'s' * (plan.mesh.size != 1)}", progress, cancel)
    args = on_host(args)
    stage("compiling")
    executable = compiled(plan, quick=quick)
    platform = executable.input_shardings[0][0].mesh.devices.flat[0].platform if plan.program.arguments else "cpu"
    stage("reading the compiled program")
    found = against(plan, executable.as_text(), executable.memory_analysis(), platform)
    size = drawn_bytes(plan.program)
    if args or size <= MOST_DRAWN:
        errors, said = results(plan, args, stage, quick)
    else:
        errors, said = (), (f"Bytes checked, numbers not: the arguments are {size / 2**30:,.1f} GiB.",)
    return dataclasses.replace(found, errors=errors, notes=(*found.notes, *said))


def against(plan: Plan, text: str | None, analysis: Any, platform: str) -> Report:
    """Compares a plan with a program that was compiled from it, here or elsewhere: all but the results.

    Args:
        plan: the plan.
        text: of the compiled program.
        analysis: what `memory_analysis()` says of it.
        platform: "cpu", "tpu", "gpu" or "cuda".
    """
    predicted, notes = predicted_totals(plan, platform)
    axes = plan.mesh.devices.axes
    read = read_collectives(text, axes, unknown_trips=1)
    read_totals = {(k, a or ("?",)): n for (k, a), n in totals(read).items() if n}
    together = () if predicted == read_totals else merged(plan.collectives, read, axes, executed(platform))
    memory = stored_bytes(plan, text or "", analysis, platform)
    if platform == "tpu":
        notes = (*notes, "A TPU stores arrays in tiles: bytes of arguments and outputs count whole tiles.")
    return Report(predicted, read_totals, (), memory, notes, together or ())


class _Stages:
    """Reports what a check is about to do, and ends it between any two stages."""

    def __init__(self, target: str, progress: Callable[[Progress], Any] | None, cancel: Cancel | None):
        if progress is not None:
            function("check()'s progress", progress, "progress=print", RunError)
        if cancel is not None and not callable(getattr(cancel, "is_set", None)):
            raise RunError(f"check() was given cancel={shown(cancel)}; it must be a threading.Event or similar.")
        self.target, self.cancel, self.begun = target, cancel, time.monotonic()
        self.progress = progress if is_first() else None

    def __call__(self, name: str):
        seconds = time.monotonic() - self.begun
        if self.cancel is not None and self.cancel.is_set():
            raise RunError(f"check() was cancelled after {seconds:.1f} s, before {name}.")
        if self.progress is not None:
            self.progress(Progress(name, self.target, seconds))


def predicted_totals(plan: Plan, platform: str = "cpu") -> tuple[Totals, tuple[str, ...]]:
    """Returns payload bytes by kind and axes as a platform executes them, and notes on its deviations."""
    order = list(plan.mesh.axes)
    sums: Counter = Counter()
    widened = False
    for c in plan.collectives:
        count = c.payload_bytes
        if executed(platform)(c.dtype) != c.dtype:
            count, widened = 2 * count, True
        sums[c.kind, tuple(sorted(c.axes, key=order.index))] += count * c.counted
    notes = ("XLA for CPU widens bfloat16 and float8: their bytes are counted double here.",) if widened else ()
    return {k: n for k, n in sums.items() if n}, notes


def executed(platform: str) -> Callable[[str], str]:
    """Returns a function from a dtype to the one in which a platform executes its collectives."""

    def widened(dtype: str) -> str:
        if platform != "cpu":
            return dtype
        return "float32" if dtype == "bfloat16" else "float16" if dtype.startswith("float8") else dtype

    return widened
