"""What nobody waits for is done while nobody is at a board."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from meshlab.engine.gc_pause import Pauses
from meshlab.widgets.background import quiet
from meshlab.widgets.background.quiet import LONG, Quiet


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that goes on only when somebody sleeps."""
    now = [100.0]
    monkeypatch.setattr(quiet.clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(quiet.clock, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_it_waits_until_no_board_was_heard_for_a_while(clock: list[float]) -> None:
    never = Quiet()
    never.wait()
    assert clock == [100.0]
    heard = Quiet()
    with heard.disturbed():
        clock[0] = 200.0
    heard.wait()
    assert clock[0] >= 200.0 + LONG


def test_a_long_answer_is_no_quiet(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    board, naps, sleep = Quiet(Counted()), [], time.sleep

    def nap(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            return sleep(seconds)
        naps.append(seconds)
        clock[0] += seconds
        if len(naps) == 3:
            answering.close()

    with contextlib.ExitStack() as answering:
        answering.enter_context(board.disturbed())
        monkeypatch.setattr(quiet.clock, "sleep", nap)
        board.wait()
    assert naps == pytest.approx([LONG] * 4)


class Counted(Pauses):
    """Pauses that are counted, and leave the garbage of other tests alone."""

    count = 0

    def begin(self) -> None:
        self.count += 1

    def end(self) -> None:
        self.count -= 1


def test_garbage_is_not_looked_for_until_it_is_quiet() -> None:
    before, pauses = set(threading.enumerate()), Counted()
    board = Quiet(pauses)
    with board.disturbed(), board.disturbed():
        assert pauses.count == 1
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert pauses.count == 0
