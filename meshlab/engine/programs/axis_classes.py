"""Classes of axes say which axes of a program's values are one dim, and of which factors a dim is the product.

A union-find, with two things on top.

*Products.* A reshape merges axes or splits one, so an axis may be a product of others, major first:

    [batch, seq, heads, head] → [batch, seq, 64]       the class of the last axis has the parts (heads, head)

Two classes that are joined are joined part by part; where they are cut otherwise, the parts are cut further, as far as
the sizes divide.

*Rows.* The axes of one value must be different dims, and so must those of one operation: each is a row, in which a
class stands at most once. A join that would break this is refused, and there the name is cut: in self-attention queries
and keys come from the same sequence, but a score has both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

# How many places of one name a message lists.
_MOST_PLACES = 3


@dataclasses.dataclass(frozen=True)
class Seed:
    """A name that the user gave to an axis, and where."""

    value: int
    axis: int
    name: str
    where: str


class Classes:
    """The classes of all axes, which are nodes: numbers in the order in which they were added."""

    def __init__(self):
        self.parents: list[int] = []
        self.sizes: list[int] = []
        self.rows: list[set[int]] = []
        # By root: the parts of a product, the user's name, and the classes that may lend theirs.
        self.parts: dict[int, tuple[int, ...]] = {}
        self.given: dict[int, Seed] = {}
        self.hints: dict[int, list[int]] = {}
        # The errors of two names of one axis, by the pair of them; and the line that is being read.
        self.problems: dict[frozenset[str], str] = {}
        # Where each name was given: the same one in several places.
        self.wheres: dict[str, dict[str, None]] = {}
        self.line: Callable[[], str] = str

    def add(self, size: int, rows: set[int]) -> int:
        """Adds an axis that stands in some rows; returns its node."""
        self.parents.append(len(self.parents))
        self.sizes.append(size)
        self.rows.append(rows)
        return len(self.parents) - 1

    def find(self, node: int) -> int:
        parents = self.parents
        while parents[node] != node:
            parents[node] = node = parents[parents[node]]
        return node

    def leaves(self, node: int) -> list[int]:
        """Returns the roots of the classes that a class is the product of, major first; itself if it is no product."""
        root = self.find(node)
        parts = self.parts.get(root)
        return [leaf for part in parts for leaf in self.leaves(part)] if parts else [root]

    def enter(self, node: int, row: int):
        root = self.find(node)
        for leaf in self.leaves(root) if root in self.parts else (root,):
            self.rows[leaf].add(row)

    def name(self, node: int, seed: Seed):
        """Gives a class the user's name; two names of one class are a problem."""
        self.wheres.setdefault(seed.name, {})[seed.where] = None
        known = self.given.setdefault(self.find(node), seed)
        self._note_clash(known, seed)

    def join(self, a: int, b: int) -> bool:
        """Joins two classes of one size, unless a row would then have one class twice; returns whether they are one."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        if a not in self.parts and b not in self.parts:
            return self._join_leaves(a, b)
        if not self.align([a], [b]):
            self.hint(a, b)
            return False
        parts = self.parts[a]
        self.unite(a, b)
        self.parts[self.find(a)] = parts
        return True

    def align(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Joins two lists of classes of one product, part by part, cutting where one ends inside another.

        Returns:
            Whether all parts were joined; if sizes do not divide, or a row would have a part twice, none is.
        """
        pairs = self._paired(left, right)
        refused = [(a, b) for a, b in pairs or () if not self._may_join(a, b)]
        for a, b in refused:
            self.hint(self.find(a), self.find(b))
        if pairs is None or refused:
            return False
        # A part may stand twice among the pairs: then joining one of them may forbid the next.
        return all([self._join_leaves(self.find(a), self.find(b)) for a, b in pairs])

    def _paired(self, left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]] | None:
        """Pairs the parts of both sides, cut to equal sizes; None where sizes do not divide."""
        waiting = [leaf for node in reversed(left) for leaf in reversed(self.leaves(node))]
        others = [leaf for node in reversed(right) for leaf in reversed(self.leaves(node))]
        pairs = []
        while waiting and others:
            a, b = waiting.pop(), others.pop()
            small, large = sorted((a, b), key=lambda node: self.sizes[node])
            if self.sizes[large] % self.sizes[small]:
                return None
            if self.sizes[large] != self.sizes[small]:
                first, rest = self._cut(large, self.sizes[small])
                (waiting if large == a else others).append(rest)
                large = first
            pairs.append((small, large))
        return pairs

    def _cut(self, leaf: int, major: int) -> tuple[int, int]:
        """Makes a class a product of a major part of a size, and the rest."""
        first = self.add(major, set(self.rows[leaf]))
        rest = self.add(self.sizes[leaf] // major, set(self.rows[leaf]))
        self.parts[leaf] = (first, rest)
        return first, rest

    def _may_join(self, a: int, b: int) -> bool:
        a, b = self.find(a), self.find(b)
        return a == b or self.rows[a].isdisjoint(self.rows[b])

    def _join_leaves(self, a: int, b: int) -> bool:
        if a == b:
            return True
        known, other = self.given.get(a), self.given.get(b)
        if known and other and known.name != other.name:
            self._note_clash(known, other)
            return False
        if not self._may_join(a, b):
            self.hint(a, b)
            return False
        self.unite(a, b)
        return True

    def unite(self, a: int, b: int):
        """Joins two roots of one size into one class, whichever rows they are in."""
        root, gone = (a, b) if a < b else (b, a)
        known, other = self.given.get(root), self.given.pop(gone, None)
        if known and other:
            self._note_clash(known, other)
        elif other:
            self.given[root] = other
        self.parts.pop(gone, None)
        if gone in self.hints:
            self.hints.setdefault(root, []).extend(self.hints.pop(gone))
        # The larger set takes up the smaller one.
        large, small = self.rows[root], self.rows[gone]
        if len(large) < len(small):
            large, small = small, large
        large |= small
        self.rows[root], self.rows[gone] = large, set()
        self.parents[gone] = root

    def hint(self, node: int, other: int):
        """Notes that a class is cut off another or made of it: where nothing names one, the other lends its."""
        self.hints.setdefault(self.find(node), []).append(other)
        self.hints.setdefault(self.find(other), []).append(node)

    def _places(self, seed: Seed, known: Seed, other: Seed) -> str:
        """Lists where a name was given: all places, if both were given in one and this elsewhere too."""
        alike = known.where == other.where
        return " and ".join(list(self.wheres.get(seed.name, [seed.where]))[:_MOST_PLACES]) if alike else seed.where

    def _note_clash(self, known: Seed, other: Seed):
        if known.name != other.name:
            line = self.line()
            text = " and ".join(
                f"`{seed.name}` (named at {self._places(seed, known, other)})" for seed in (known, other)
            )
            self.problems.setdefault(frozenset((known.name, other.name)), text + (f", in {line}" if line else ""))
