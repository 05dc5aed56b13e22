"""The layout under which the fewest bytes are live on one device at once, by the convention of `mesh_tf_liveness`.

    minimise (n + 1)·z − Σ x      z ≥ Σ bytes of live tensors, for every operation;  n: the number of dims

as auto_mtf has it: fewest live bytes and, among equals, most dims split. The two are met one after the other, which is
the same, since Σ x ≤ n and bytes are whole.
"""

from __future__ import annotations

import numpy as np

from ..request.stopping import NEVER, Watch
from .choices import Space, Splits
from .ilp import Model, scaled
from .mesh_tf_liveness import Ledger, most_live_bytes
from .parts import Parts, parts_of
from .pulp_compat import method
from .solution import Solution, best_of


def least_live_bytes(ledger: Ledger, space: Space, watch: Watch = NEVER) -> Solution:
    def cost(splits: Splits) -> int:
        return most_live_bytes(ledger, dict(splits), space.axes)

    parts = parts_of(space, (space.free(d for d, _ in e.dims) for e in ledger.entries.values()))
    model = Model(space, parts, watch)
    costs = [model.weighed(row) for row in _moments(ledger, space, parts)]
    least, bound = model.minimise(model.greatest(costs))
    model.minimise(scaled(model.splits(), -1))
    splits = best_of(least, model.in_order(), cost)
    return Solution(splits, cost(splits), bound, method())


def score(ledger: Ledger, solution: Solution) -> int:
    """Returns the number that auto_mtf minimises."""
    return round((len(ledger.splittable) + 1) * solution.value - len(solution.splits))


def _moments(ledger: Ledger, space: Space, parts: Parts) -> np.ndarray:
    """The live bytes by part, at the moments that may have most under some layout."""
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
    first = next(s for s in parts if free <= s)
    return [
        entry.on_device(dict(part), space.axes) if dims == first else 0
        for dims, legal in parts.items()
        for part in legal
    ]


def _undominated(rows: np.ndarray) -> np.ndarray:
    """The rows that are not, column by column, at most another row; rows are distinct."""
    largest: list[np.ndarray] = []
    for row in rows[np.argsort(-rows.sum(axis=1), kind="stable")]:
        if not any((row <= other).all() for other in largest):
            largest.append(row)
    return np.array(largest).reshape(-1, rows.shape[1])
