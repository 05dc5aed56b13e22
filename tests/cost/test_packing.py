"""A heap with gaps: what it cannot be smaller than, and where XLA's two orders differ."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from meshlab.cost.packing import packed


def heap(*buffers):
    """Of buffers that are given as (from, to, bytes)."""
    return packed(*map(np.array, zip(*buffers, strict=True)))


def least(buffers):
    """The smallest heap that there is: of all orders, each buffer at the lowest place where it fits."""

    def stacked(order):
        there = []
        for begin, end, size in order:
            bottom = 0
            for low, high, since, until in sorted(there):
                if since < end and until > begin:
                    if low - bottom >= size:
                        break
                    bottom = max(bottom, high)
            there.append((bottom, bottom + size, begin, end))
        return max(high for _, high, _, _ in there)

    return min(map(stacked, itertools.permutations(buffers)))


def test_the_example_of_the_module():
    assert heap((0, 6, 4), (3, 10, 3), (6, 9, 2)) == 7


def test_nothing_takes_nothing():
    assert packed(np.array([0]), np.array([0]), np.array([8])) == 0
    assert packed(np.array([0]), np.array([4]), np.array([0])) == 0


def test_what_follows_lies_where_the_other_lay_and_what_meets_it_beside():
    assert heap((0, 4, 8), (4, 8, 8)) == 8
    assert heap((0, 5, 8), (4, 8, 8)) == 16


def test_a_buffer_goes_where_the_smallest_gap_has_room():
    """Of gaps of 4 and of 2 bytes it takes that of 2, so that the next finds 4."""
    long = [(0, 9, 10), (0, 1, 4), (0, 9, 9), (0, 1, 2), (0, 9, 8)]
    assert heap(*long, (2, 9, 2), (3, 8, 4)) == heap(*long) == 33


@pytest.mark.parametrize(
    ("buffers", "expected"),
    [
        pytest.param([(0, 3, 4), (0, 9, 3), (3, 9, 3)], 7, id="largest first"),
        pytest.param([(0, 9, 2), (0, 4, 3), (4, 9, 4)], 6, id="longest lived first"),
    ],
)
def test_the_better_of_two_orders_counts(buffers, expected):
    assert heap(*buffers) == least(buffers) == expected


BUFFERS = st.tuples(st.integers(0, 6), st.integers(1, 5), st.integers(1, 9)).map(lambda b: (b[0], b[0] + b[1], b[2]))


@hypothesis.given(st.lists(BUFFERS, min_size=1, max_size=5))
def test_a_heap_is_no_smaller_than_it_can_be(buffers):
    found = heap(*buffers)
    assert least(buffers) <= found <= sum(size for *_, size in buffers)
    assert heap(*((begin, end, 3 * size) for begin, end, size in buffers)) == 3 * found
