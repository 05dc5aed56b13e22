"""The layout under which one device holds least at once, by the liveness convention of `liveness`.

    minimise (n + 1)·z − Σ x      z ≥ Σ bytes of what is held, for every operation;  n: the number of dims

as auto_mtf has it: least peak memory and, among equals, most dims split. The two are met one after the other, which is
the same, since Σ x ≤ n and bytes are whole.
"""

from __future__ import annotations

import numpy as np

from .ilp import METHOD, Model, scaled
from .mesh_tf_liveness import Ledger, peak_bytes
from .solution import Solution, best_of
from .space import Space
from .stopping import NEVER, Watch
from .tables import Parts, parts_of


def least_peak(ledger: Ledger, space: Space, watch: Watch = NEVER) -> Solution:
    """Finds the layout with the least peak memory.

    Args:
        ledger: the operations and tensors.
        space: the legal layouts.
        watch: whether the search is to stop.

    Raises:
        Cancelled: it was.
    """
    parts = parts_of(space, (space.free(d for d, _ in e.dims) for e in ledger.entries.values()))
    model = Model(space, parts, watch)
    costs = [model.weighed(row) for row in _moments(ledger, space, parts)]
    least, bound = model.minimise(model.greatest(costs))
    model.minimise(scaled(model.splits(), -1))
    splits = best_of(least, model.settle(), lambda found: peak_bytes(ledger, dict(found), space.axes))
    return Solution(splits, peak_bytes(ledger, dict(splits), space.axes), bound, METHOD)


def score(ledger: Ledger, solution: Solution) -> int:
    """What auto_mtf minimises."""
    return round((len(ledger.splittable) + 1) * solution.value - len(solution.splits))


def _moments(ledger: Ledger, space: Space, parts: Parts) -> np.ndarray:
    """What is held at the moments that may be the peak under some layout: bytes by part."""
    names = list(ledger.entries)
    nbytes = np.array([_column_bytes(ledger, name, space, parts) for name in names], float).reshape(len(names), -1)
    lives = ledger.lives
    present = np.zeros((lives.moments, len(names)))
    for column, name in enumerate(names):
        present[lives.first[name] : lives.gone[name], column] = 1
    return _undominated(np.unique(present @ nbytes, axis=0))


def _column_bytes(ledger: Ledger, name: str, space: Space, parts: Parts) -> list[int]:
    """A tensor's bytes on one device in the columns of the first set that holds its dims; 0 in the others."""
    entry = ledger.entries[name]
    free = space.free(d for d, _ in entry.dims)
    home = next(s for s in parts if free <= s)
    return [
        entry.on_device(dict(part), space.axes) if dims == home else 0
        for dims, given in parts.items()
        for part in given
    ]


def _undominated(rows: np.ndarray) -> np.ndarray:
    """The rows that are not, column by column, at most another row; rows are distinct."""
    kept: list[np.ndarray] = []
    for row in rows[np.argsort(-rows.sum(axis=1), kind="stable")]:
        if not any((row <= other).all() for other in kept):
            kept.append(row)
    return np.array(kept).reshape(-1, rows.shape[1])
