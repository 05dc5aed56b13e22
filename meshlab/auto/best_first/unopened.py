"""The points of a search of which nothing is known but their first bounds, in the order in which they are opened."""

from __future__ import annotations

import math

import numpy as np


class Unopened:
    """The points of what is computed of which no node is made yet, in the order of their bounds.

    Args:
        bounds: of all points, an array with an axis for each mesh axis.
        out: the points that are never opened, since they cannot fit.
        promise: what each may cost, where that is known: another order in which to open them.
    """

    def __init__(self, bounds: np.ndarray, out: np.ndarray, promise: np.ndarray | None = None):
        self._bounds, self._promise = bounds, promise
        self._left = np.ones(bounds.size, bool)
        self.keep_out(out)

    @property
    def bound(self) -> float:
        """The least bound of them; infinite where all are open."""
        return self._least(self._by_bound, self._bounds)

    @property
    def promised(self) -> float:
        """The least that one of them may cost; infinite where that is not known, or all are open."""
        return math.inf if self._promise is None else self._least(self._by_promise, self._promise)

    def pop(self, promising: bool = False) -> tuple[int, ...]:
        """Opens the one with the least bound, or that may cost least, and returns its place in the array."""
        order = self._by_promise if promising else self._by_bound
        self._left[order[-1]] = False
        return tuple(map(int, np.unravel_index(order.pop(), self._bounds.shape)))

    def keep_out(self, out: np.ndarray):
        """Changes which points are never opened; those that are open stay so."""
        left = np.flatnonzero(self._left & ~out.ravel())
        self._by_bound = self._sorted(left, self._bounds)
        self._by_promise = [] if self._promise is None else self._sorted(left, self._promise)

    @staticmethod
    def _sorted(points: np.ndarray, costs: np.ndarray) -> list[int]:
        """Returns points in the order of what they cost, the least last."""
        return points[np.argsort(costs.flat[points], kind="stable")][::-1].tolist()

    def _least(self, order: list[int], costs: np.ndarray) -> float:
        while order and not self._left[order[-1]]:
            order.pop()
        return float(costs.flat[order[-1]]) if order else math.inf
