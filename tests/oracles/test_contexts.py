"""Steps with context parallelism that others have measured: predicted in their order."""

import pathlib

import pytest

import meshlab as ml
from benchmarks import contexts

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "accuracy.md"


@pytest.mark.nightly
def test_slower_layouts_are_predicted_to_be_slower():
    pairs = list(contexts.judged())
    assert len(pairs) == 41
    assert len(contexts.wrong()) <= 0.1 * len(pairs)


@pytest.mark.nightly
def test_the_page_shows_what_is_predicted_today():
    """If not: python -m benchmarks.contexts docs/accuracy.md."""
    assert contexts.SECTION.read(PAGE) == contexts.table()


def test_balance_is_predicted_to_save_what_it_can():
    """Measured 1.48 times; the last device attends to 1.98 times the mean."""
    slow, fast = (contexts.predicted(262_144, "all-gather", balanced) for balanced in (False, True))
    assert 1.48 < slow / fast < 2


def test_what_a_ring_sends_ahead_is_hidden_where_attention_takes_longer():
    program, mesh = contexts.attention(262_144), ml.mesh("v5p:4x4x4", context=64)
    for layout, most in (("seq:context kv:context", 0.6), ("seq:zigzag(context) kv:zigzag(context)", 0.8)):
        time = program.plan(mesh, layout).time
        assert time.exposed < most * sum(time.communication.values())
        assert time.lower <= time.estimate <= time.upper
