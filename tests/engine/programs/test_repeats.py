import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshlab.engine.programs.repeats import Repeat, repeats


def repeats_of(text, least=1):
    return repeats(np.array([ord(letter) for letter in text]), least)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a", []),
        ("abcd", []),
        ("abcbcbcd", [Repeat(1, 2, 3)]),
        ("aaaaa", [Repeat(0, 1, 5)]),
        ("xabacabacabacy", [Repeat(1, 4, 3)]),
        ("abcabcabcxyzwxyzw", [Repeat(0, 3, 3), Repeat(9, 4, 2)]),
        ("abcabcab", [Repeat(0, 3, 2)]),
    ],
)
def test_repeats_are_found_where_they_stand(text, expected):
    assert repeats_of(text) == expected


def test_the_shortest_period_is_taken():
    assert repeats_of("ab" * 8) == [Repeat(0, 2, 8)]


def test_what_saves_too_little_is_no_repeat():
    assert repeats_of("abcbcbcd", least=4) == [Repeat(1, 2, 3)]
    assert repeats_of("abcbcbcd", least=5) == []


def test_a_repeat_says_where_it_ends_and_what_it_saves():
    repeat = Repeat(start=10, period=4, repetitions=3)
    assert (repeat.stop, repeat.saved) == (22, 8)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 8))
def test_what_is_found_is_repeated_in_order_and_apart(items, least):
    done = 0
    for start, period, count in repeats(np.array(items, int), least):
        assert start >= done
        assert count > 1
        assert period * (count - 1) >= least
        done = start + period * count
        assert items[start:done] == items[start : start + period] * count
    assert done <= len(items)


@given(st.lists(st.integers(0, 99), min_size=3, max_size=12, unique=True), st.integers(3, 6))
def test_layers_between_other_things_are_all_found(layer, count):
    before, after = [max(layer) + 1], [max(layer) + 2]
    assert repeats(np.array(before + layer * count + after), 2) == [Repeat(1, len(layer), count)]
