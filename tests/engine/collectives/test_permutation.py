import itertools
import math
import random

import numpy as np
import pytest

from meshlab.engine.collectives.permutation import crossed, permutation
from meshlab.engine.specs.spec import Spec

NAMES = "wxyz"


def draw_case(chance):
    """Two specs with as many blocks on each axis, and a mesh; None where what was drawn is none."""
    mesh = tuple((name, chance.choice((2, 2, 3, 4, 4, 6, 8, 12))) for name in NAMES[: chance.randint(2, 4)])
    sizes, rank = dict(mesh), chance.choice((1, 2, 2))

    def spec():
        splits = [[] for _ in range(rank)]
        for axis in chance.sample(list(sizes), chance.randint(1, len(sizes))):
            chance.choice(splits).append(axis)
        return Spec(tuple(map(tuple, splits)))

    start, result = spec(), spec()
    pairs = zip(start.splits, result.splits, strict=True)
    alike = all(math.prod(sizes[a] for a in x) == math.prod(sizes[a] for a in y) for x, y in pairs)
    return (start, result, mesh) if alike and start != result else None


def cases(count):
    chance = random.Random(0)
    result = filter(None, (draw_case(chance) for _ in itertools.count()))
    return list(itertools.islice(result, count))


def test_what_is_crossed_on_a_small_mesh_is_crossed_on_the_real_one():
    for case in cases(1000):
        assert crossed(*case) == permutation(*case).crossed, case


def block(device, side, axes, case):
    """The number of the block that a device holds before (side 0) or after (1), of the axes that change."""
    start, result, mesh = case
    sizes = dict(mesh)
    where = dict(zip(axes, np.unravel_index(device, [sizes[a] for a in axes]), strict=True))
    changed = (pair for pair in zip(start.splits, result.splits, strict=True) if pair[0] != pair[1])
    digits = [axis for pair in changed for axis in pair[side]]
    return np.ravel_multi_index([where[a] for a in digits], [sizes[a] for a in digits])


def test_every_device_gets_the_block_that_it_needs():
    for case in cases(100):
        result = permutation(*case)
        sizes = dict(case[2])

        everyone = list(range(math.prod(sizes[a] for a in result.axes)))
        assert sorted(source for source, _ in result.pairs) == everyone
        assert sorted(target for _, target in result.pairs) == everyone
        assert all(
            block(source, 0, result.axes, case) == block(target, 1, result.axes, case)
            for source, target in result.pairs
        )


@pytest.mark.parametrize("size", [2, 1024])
def test_swapped_axes_are_crossed_both(size):
    mesh = (("x", size), ("y", size))
    assert crossed(Spec((("x",), ())), Spec((("y",), ())), mesh) == ("x", "y")
    assert crossed(Spec((("x",), ("y",))), Spec((("y",), ("x",))), mesh) == ("x", "y")


def test_the_devices_of_a_mesh_are_not_gone_through():
    """Of 2**60 that would not end."""
    start, result = Spec((("a", "b"), ("c",))), Spec((("c",), ("a", "b")))
    mesh = (("a", 2**15), ("b", 2**15), ("c", 2**30))
    assert crossed(start, result, mesh) == crossed(start, result, (("a", 2), ("b", 2), ("c", 4)))
