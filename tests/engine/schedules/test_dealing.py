"""Layers that are stored in order are dealt to the stages in turn, in rounds in which each sends one chunk."""

import pytest

import meshlab as ml
from meshlab.engine.schedules.dealing import dealt, rounds


@pytest.mark.parametrize(("stages", "chunks"), [(2, 2), (4, 2), (4, 3), (8, 2), (3, 4), (8, 4), (2, 8)])
def test_each_stage_gets_its_parts(stages, chunks):
    schedule = ml.Schedule.of("interleaved", stages, 2 * stages, chunks)
    turns = rounds(schedule)
    assert len(turns) == chunks
    assert dealt(range(stages * chunks), schedule) == [list(parts) for parts in schedule.parts]
    for each in turns:
        senders, receivers = zip(*each.pairs, strict=True)
        assert sorted(senders) == sorted(receivers) == list(range(stages))
        assert each.back.back == each


def test_one_chunk_a_stage_is_dealt_already():
    assert rounds(ml.Schedule.of("1f1b", 4, 8)) == ()
