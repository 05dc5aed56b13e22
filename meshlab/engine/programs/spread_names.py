"""Names classes of axes: by the user's name, by its parts, or by one that is made up.

In a made-up name `~` shows that it is not the user's.

    heads*head      of a product, by its parts          embed.0     of a part, by its product
    ~seq            cut off `seq`                       ~1          of a class that nobody named
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..code.operations import Code
from .axis_classes import Classes

Names = tuple[str | None, ...]


class Part(NamedTuple):
    """A factor of a dim, which is split by those of the dim's mesh axes that the factors before it leave.

    Attributes:
        dim: the user's.
        before: the product of the factors before it.
        size: its own.
    """

    dim: str
    before: int
    size: int


# What an axis that is no dim is made of, major first.
Parts = tuple[Part, ...]


def spread(classes: Classes, nodes: list[tuple[int, ...]], code: Code) -> tuple[tuple[Names, ...], dict[str, Parts]]:
    """Returns the name of every axis, and for each derived name the dims' factors that it is made of."""
    called: dict[int, str] = {root: seed.name for root, seed in classes.given.items() if classes.find(root) == root}
    made_of: dict[str, Parts] = {}
    for root, name in list(called.items()):
        for position, leaf in enumerate(leaves if len(leaves := classes.leaves(root)) > 1 else ()):
            part = called.setdefault(leaf, f"{name}.{position}")
            if part == f"{name}.{position}":
                before = math.prod(classes.sizes[other] for other in leaves[:position])
                made_of[part] = (Part(name, before, classes.sizes[leaf]),)
    # By name, what it is called after: itself, or for a made-up one the name that it was cut off.
    stems, numbers = {name: name for name in called.values()}, itertools.count(1)

    def name_of(root: int) -> str:
        known = called.get(root)
        if known is None:
            leaves = classes.leaves(root)
            if len(leaves) > 1:
                named = [name_of(leaf) for leaf in leaves]
                known = "*".join(named)
                if parts := product(named, [classes.sizes[leaf] for leaf in leaves], made_of):
                    made_of[known] = parts
            else:
                known = _made_up(root, classes, called, stems) or f"~{next(numbers)}"
            called[root] = known
        return known

    names = []
    for value, shape in enumerate(code.shapes):
        row = zip(shape, nodes[value], strict=True)
        names.append(tuple([None if size == 1 else name_of(classes.find(node)) for size, node in row]))
    return tuple(names), made_of


def product(names: Sequence[str], sizes: Sequence[int], made_of: Mapping[str, Parts]) -> Parts:
    """Returns what the product of some axes is made of, up to the first axis for which that is not known.

    Args:
        names: of the axes, major first.
        sizes: of the axes.
        made_of: what is known of names that are no dims.
    """
    parts: list[Part] = []
    for name, size in zip(names, sizes, strict=True):
        own = made_of.get(name) or (() if "~" in name or "." in name else (Part(name, 1, size),))
        if not own:
            break
        parts += own
    return tuple(parts)


def _made_up(root: int, classes: Classes, called: Mapping[int, str], stems: dict[str, str]) -> str | None:
    """Makes up a name after the nearest class that has one, of those that this was cut off or is a slice of."""
    waiting, seen = deque([root]), {root}
    while waiting:
        node = waiting.popleft()
        stem = stems.get(called.get(node, ""))
        if stem:
            break
        neighbours = dict.fromkeys(classes.find(other) for other in classes.hints.get(node, ()))
        waiting.extend(other for other in neighbours if other not in seen)
        seen.update(neighbours)
    else:
        return None
    names = itertools.chain([f"~{stem}"], (f"~{stem}_{number}" for number in itertools.count(2)))
    name = next(name for name in names if name not in stems)
    stems[name] = stem
    return name
