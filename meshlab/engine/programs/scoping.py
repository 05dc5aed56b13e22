"""Says where the rules of dims differ from scope to scope, and so which rules an operation has."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping

from ..code.operations import Scope

# A scope, and dims of values of operations in it.
Ruled = tuple[Scope, frozenset[str | None]]


@dataclasses.dataclass(frozen=True)
class Scoping:
    """Where the rules of dims differ from scope to scope.

    Attributes:
        numbers: for each scope with rules of its own the dims that have other axes there than without a scope, each
            with a number: equal numbers are equal axes.
    """

    numbers: tuple[tuple[Scope, tuple[tuple[str, int], ...]], ...] = ()

    @functools.cached_property
    def by_scope(self) -> Mapping[Scope, tuple[tuple[str, int], ...]]:
        return dict(self.numbers)

    def of(self, scope: Scope, dims: Collection[str | None]) -> tuple[tuple[str, int], ...]:
        """Returns which of some dims have other axes in a scope, with their numbers."""
        return tuple(one for one in self.by_scope.get(scope, ()) if one[0] in dims)
