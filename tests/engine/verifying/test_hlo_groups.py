"""Replica groups mean the same in each of XLA's notations, and the same axes of the user's mesh."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshlab.engine.errors import RunError
from meshlab.engine.verifying.hlo_groups import axes_of_groups, axes_of_pairs, read_groups

CUBE = {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("printed", "groups"),
    [
        ("{}", [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("{{0,1},{2,3},{4,5},{6,7}}", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("[2,4]<=[8]", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("[4,2]<=[2,4]T(1,0)", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("[2,4]<=[2,2,2]T(1,0,2)", [[0, 1, 4, 5], [2, 3, 6, 7]]),
        ("mesh['x'=2,'one'=1,'y'=4] {'x'}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh['x'=2,'y'=4] {'y','x'}", [[0, 4, 1, 5, 2, 6, 3, 7]]),
        ("mesh['x'=2,'y'=4] {'y':(1)2}", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ("mesh['x'=2,'y'=4] {'x','y':(2)2}", [[0, 1, 4, 5], [2, 3, 6, 7]]),
        ("mesh['x'=8] {'x':(2)2}", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ("mesh['x'=8] {'x':(1)2,'x':(4)2}", [[0, 1, 4, 5], [2, 3, 6, 7]]),
        ("mesh['x'=2,'y'=2,'z'=2], device_ids=(0,2,4,6,1,3,5,7) {'z'}", [[0, 2], [4, 6], [1, 3], [5, 7]]),
        ("mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'y'}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh[x=2,y=4] {x}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh['x'=2,'y'=4] {}", [[0], [1], [2], [3], [4], [5], [6], [7]]),
    ],
)
def test_notations(printed, groups):
    assert read_groups(printed, 8).tolist() == groups


@pytest.mark.parametrize(
    "printed",
    [
        "{0,1}",
        "{{0,1},{2}}",
        "[2,4]<=[9]",
        "[2,4]<[8]",
        "mesh['x'=8] 'x'",
        "mesh['x'=8] {'y'}",
    ],
)
def test_unknown_notations(printed):
    with pytest.raises(RunError, match="in an unknown notation"):
        read_groups(printed, 8)


@pytest.mark.parametrize(
    "printed", ["{{0,1}}", "[1,4]<=[4]", "{{0,1,2,3},{4,5,6,6}}", "mesh['x'=4] {'x'}", "mesh['x'=8] {'x':(3)2}"]
)
def test_groups_hold_each_device_once(printed):
    with pytest.raises(RunError, match=r"do not contain each of the mesh's 8 devices once\. Was the program compiled"):
        read_groups(printed, 8)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_every_set_of_axes_is_recognised(sizes, data):
    axes = {f"axis{place}": size for place, size in enumerate(sizes)}
    chosen = data.draw(st.permutations(list(axes)).map(lambda names: names[: data.draw(st.integers(0, len(names)))]))
    inner = ",".join(f"'{name}'" for name in chosen)
    mesh = ",".join(f"'{name}'={size}" for name, size in axes.items())
    groups = read_groups(f"mesh[{mesh}] {{{inner}}}", int(np.prod(sizes)))
    shuffled = groups[np.random.default_rng(0).permutation(len(groups))]
    assert axes_of_groups(shuffled, axes) == tuple(name for name in axes if name in chosen and axes[name] > 1)


@given(st.data())
def test_pairs_are_recognised(data):
    along = data.draw(st.sets(st.sampled_from(list(CUBE)), min_size=1))
    shift = data.draw(st.integers(1, 2 ** len(along) - 1))
    pairs = []
    for device in itertools.product(range(2), repeat=3):
        number = int("".join(str(i) for name, i in zip(CUBE, device, strict=True) if name in along), 2)
        moved = iter(f"{(number + shift) % 2 ** len(along):0{len(along)}b}")
        target = [int(next(moved)) if name in along else i for name, i in zip(CUBE, device, strict=True)]
        pairs.append((int("".join(map(str, device)), 2), int("".join(map(str, target)), 2)))
    printed = "{" + ",".join(f"{{{source},{target}}}" for source, target in pairs) + "}"
    changed = {name for s, t in pairs for place, name in enumerate(CUBE) if (s ^ t) >> (2 - place) & 1}
    assert axes_of_pairs(printed, CUBE) == tuple(name for name in CUBE if name in changed)


def test_irregular_groups_have_no_axes():
    assert axes_of_groups(np.array([[0, 3], [1, 2]]), {"a": 2, "b": 2}) is None
    assert axes_of_groups(np.array([[0, 1], [2, 3]]), {"a": 4}) is None


def test_pairs_that_cannot_be():
    with pytest.raises(RunError, match=r"pairs `\[0,1\]` of a collective-permute cannot be read"):
        axes_of_pairs("[0,1]", CUBE)
    with pytest.raises(RunError, match=r"pairs `\{\{0,1\},\{2\}\}` of a collective-permute cannot be read"):
        axes_of_pairs("{{0,1},{2}}", CUBE)
    with pytest.raises(RunError, match="names device 8; the mesh has the devices 0 to 7"):
        axes_of_pairs("{{0,8}}", CUBE)
