"""A heap with gaps: what it cannot be smaller than, and where XLA's two orders differ."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from meshlab.cost.peak_memory.pack_heap import packed


def heap(*buffers):
    """Of buffers that are given as (from, to, bytes)."""
    return packed(*map(np.array, zip(*buffers, strict=True)))


def least(buffers):
    """The smallest heap that there is: of all orders, each buffer at the lowest place where it fits."""

    def stacked(order):
        there = []
        for start, end, size in order:
            bottom = 0
            for low, high, since, until in sorted(there):
                if since < end and until > start:
                    if low - bottom >= size:
                        break
                    bottom = max(bottom, high)
            there.append((bottom, bottom + size, start, end))
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


@pytest.mark.parametrize(
    ("buffers", "expected"),
    [
        pytest.param([(0, 3, 4), (0, 9, 3), (3, 9, 3)], 7, id="largest first"),
        pytest.param([(0, 9, 2), (0, 4, 3), (4, 9, 4)], 6, id="longest lived first"),
        pytest.param([(1, 6, 5), (0, 1, 3), (0, 3, 3)], 8, id="into a gap"),
        pytest.param([(1, 4, 4), (5, 9, 1), (1, 6, 4), (6, 7, 6)], 8, id="of two alike the longer lived first"),
        pytest.param([(6, 11, 3), (0, 4, 7), (3, 8, 6), (6, 11, 6)], 15, id="of two as long the larger first"),
        pytest.param([(5, 6, 7), (3, 8, 6), (0, 4, 2), (2, 4, 6)], 14, id="how long, not until when"),
    ],
)
def test_where_xlas_orders_find_the_smallest_heap(buffers, expected):
    assert heap(*buffers) == least(buffers) == expected


BUFFERS = st.tuples(st.integers(0, 6), st.integers(1, 5), st.integers(1, 9)).map(lambda b: (b[0], b[0] + b[1], b[2]))


@hypothesis.given(st.lists(BUFFERS, min_size=1, max_size=5))
def test_a_heap_is_no_smaller_than_it_can_be(buffers):
    predicted = heap(*buffers)
    assert least(buffers) <= predicted <= sum(size for *_, size in buffers)
    assert heap(*((start, end, 3 * size) for start, end, size in buffers)) == 3 * predicted
