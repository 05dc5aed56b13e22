"""Garbage collection is off within every pause, whatever thread it is of, and as before after the last."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from meshlab.engine.gc_pause import PAUSES, no_collection, paused


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def test_collection_is_off_within_and_on_after() -> None:
    gc.enable()
    with no_collection():
        assert not gc.isenabled()
        with no_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_pause_that_ends_first_does_not_end_the_other() -> None:
    gc.enable()
    PAUSES.begin()
    with no_collection():
        PAUSES.end()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_where_it_was_off_it_stays_off() -> None:
    gc.disable()
    with no_collection():
        pass
    assert not gc.isenabled()


def test_an_error_ends_a_pause() -> None:
    gc.enable()
    with pytest.raises(KeyError), no_collection():
        raise KeyError
    assert gc.isenabled()


def test_an_iterator_works_in_pauses_and_collection_is_on_where_its_items_are_used() -> None:
    gc.enable()
    within = []

    def items() -> Iterator[int]:
        for item in range(3):
            within.append(gc.isenabled())
            yield item

    assert [(item, gc.isenabled()) for item in paused(items())] == [(0, True), (1, True), (2, True)]
    assert within == [False] * 3
    assert gc.isenabled()
