"""Sameness of runs: a layout changes where numbers are worked out and none of them: all runs have the same losses.

    same(run, reference, program).text      "✓ same losses as run 1, to 1e-6"

Runs are compared with the first that had no layout, which is the function as it was written, or else with the first.
Losses are held against each other as `plan.check()` holds results (`engine/verifying/check.py`): devices add up in
another order, and each addition rounds, so floats may differ by 2e-4 in 32 bits. A loss is one number, and what it is
held against is the root mean square of the reference's losses: near its end a training has losses that are rounding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from ....engine.running.rounding import narrowest
from ....engine.verifying.results import TOLERANCE
from ...state.runs import Run


@dataclasses.dataclass(frozen=True)
class Sameness:
    """How the losses of a run compare with those of its reference.

    Attributes:
        reference: the number of the run that it is compared with.
        steps: how many steps both have taken.
        error: the greatest difference so far, as a share of the root mean square of the reference's losses.
        tolerance: what rounding explains of it.
        differs_from: the first step, from 1, that is further apart; None where none is.
        losses: of the run and of its reference, at that step or the last.
    """

    reference: int
    steps: int
    error: float
    tolerance: float
    differs_from: int | None
    losses: tuple[float, float]

    @property
    def text(self) -> str:
        if self.differs_from is not None:
            mine, other = self.losses
            digits = next(n for n in range(3, 18) if f"{mine:.{n}g}" != f"{other:.{n}g}" or n == 17)
            numbers = f"{mine:.{digits}g} against {other:.{digits}g}"
            return f"✕ differs from run {self.reference} from step {self.differs_from:,} on: {numbers}"
        if self.error == 0:
            return f"✓ exactly the losses of run {self.reference}"
        return f"✓ same losses as run {self.reference}, to {_rounded_up(self.error)}"


def _rounded_up(error: float) -> str:
    """Returns a power of ten that an error is not above: `1e-6`."""
    return f"1e{int(np.ceil(np.log10(error)))}"


def reference_of(runs: Iterable[Run]) -> Run | None:
    """Returns the run that all others are compared with; None where no run has a loss yet."""
    with_losses = [run for run in runs if run.losses]
    unsplit = (run for run in with_losses if not run.document.layout.to_dict())
    return next(unsplit, with_losses[0] if with_losses else None)


def tolerance_of(program: Any) -> float:
    """Returns how far apart losses may be by rounding, as a share of their root mean square."""
    return TOLERANCE[narrowest(program)]


def same(run: Run, reference: Run | None, program: Any) -> Sameness | None:
    """Compares the losses of a run with those of its reference.

    Args:
        run: the run.
        reference: from `reference_of`.
        program: the program that both run; its narrowest float says how much is rounded.

    Returns:
        The comparison; None for the reference itself, or where there is nothing to compare yet.
    """
    if reference is None or run.number == reference.number:
        return None
    steps = min(len(run.losses), len(reference.losses))
    if steps == 0:
        return None
    mine, other = np.asarray(run.losses[:steps]), np.asarray(reference.losses[:steps])
    apart = _apart(mine, other)
    tolerance = tolerance_of(program)
    beyond = np.flatnonzero(apart > tolerance)
    at = int(beyond[0]) if beyond.size else steps - 1
    first = at + 1 if beyond.size else None
    return Sameness(reference.number, steps, float(apart.max()), tolerance, first, (float(mine[at]), float(other[at])))


def _apart(mine: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns how far apart losses are; what is no number is equal to its like only."""
    finite = other[np.isfinite(other)]
    scale = float(np.sqrt(np.mean(finite**2))) if finite.size else 1.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(mine - other) / (scale or 1.0)
    alike = (mine == other) | (np.isnan(mine) & np.isnan(other))
    return np.where(alike, 0.0, np.where(np.isfinite(apart), apart, np.inf))
