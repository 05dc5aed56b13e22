"""Finds who sends to whom in a collective-permute, which reshards a value into as many blocks as before.

    axis over x  →  axis over y     on 2 × 2: device (0, 1) holds block 0 and needs block 1, so it swaps with (1, 0)

Devices that hold what they need keep it. Of the others, the first that holds a block sends it to the first that needs
it, and so on. Which mesh axes are crossed must be known for every move that is considered, on meshes of any size, so it
is found on a small mesh that is like the real one. Who sends to whom is worked out when a plan is compiled.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..specs.spec import Axes, Spec

MeshShape = tuple[tuple[str, int], ...]
Pairs = list[tuple[Axes, Axes]]


class Permutation(NamedTuple):
    """Says which device sends its block to which.

    Attributes:
        crossed: the mesh axes that blocks cross.
        axes: all mesh axes over which devices are counted, in the order of the mesh.
        pairs: (source, target) devices.
    """

    crossed: Axes
    axes: Axes
    pairs: tuple[tuple[int, int], ...]


@functools.lru_cache(maxsize=4096)
def crossed(start: Spec, result: Spec, mesh: MeshShape) -> Axes:
    """Returns the mesh axes that blocks cross; how long it takes does not depend on the number of devices."""
    return permutation(start, result, _small(start, result, mesh)).crossed


def permutation(start: Spec, result: Spec, mesh: MeshShape) -> Permutation:
    """Returns the permutation that reshards a value to a spec with as many blocks on each of its axes."""
    changed = _changed(start, result)
    axes = _used(changed, mesh)
    where = dict(zip((a for a, _ in axes), np.indices([n for _, n in axes]).reshape(len(axes), -1), strict=True))
    sizes = dict(axes)

    def blocks(splits: list[Axes]) -> np.ndarray:
        number = np.zeros(next(iter(where.values())).size, int)
        for axis in itertools.chain(*splits):
            number = number * sizes[axis] + where[axis]
        return number

    current, needed = blocks([a for a, _ in changed]), blocks([b for _, b in changed])
    source = np.where(current == needed, np.arange(current.size), -1)
    open_sources, open_targets = (current != needed).nonzero()[0], (source < 0).nonzero()[0]
    by_block = open_sources[np.argsort(current[open_sources], kind="stable")]
    source[open_targets[np.argsort(needed[open_targets], kind="stable")]] = by_block
    over = tuple(a for a, _ in axes if (where[a] != where[a][source]).any())
    return Permutation(over, tuple(a for a, _ in axes), tuple((int(s), t) for t, s in enumerate(source)))


def _changed(start: Spec, result: Spec) -> Pairs:
    """Returns the splits before and after, of those axes of the value that change."""
    return [(a, b) for a, b in zip(start.splits, result.splits, strict=True) if a != b]


def _used(changed: Pairs, mesh: MeshShape) -> MeshShape:
    return tuple((a, n) for a, n in mesh if any(a in split for pair in changed for split in pair))


def _small(start: Spec, result: Spec, mesh: MeshShape) -> MeshShape:
    """Returns the smallest mesh like this one: numbers of blocks compare there as they do here.

    Blocks are numbered axis by axis, so where one block ends in the numbers of another is all that matters. The tests
    hold it against the real mesh.
    """
    changed = _changed(start, result)
    used = _used(changed, mesh)
    wanted = _order(changed, dict(used))
    exponents = sorted(itertools.product(range(1, 5), repeat=len(used)), key=sum) if len(used) <= 6 else ()
    small = (tuple((a, 2**e) for (a, _), e in zip(used, powers, strict=True)) for powers in exponents)
    return next((shape for shape in small if _order(changed, dict(shape)) == wanted), used)


def _order(changed: Pairs, sizes: Mapping[str, int]) -> list[int]:
    """Compares the numbers of blocks, of each first part of a split with each of its other side."""
    before, after = (
        [[math.prod(sizes[a] for a in pair[side][: i + 1]) for i in range(len(pair[side]))] for pair in changed]
        for side in (0, 1)
    )
    pairs = zip(before, after, strict=True)
    return [(u > v) - (u < v) for first, second in pairs for u in first for v in second]
