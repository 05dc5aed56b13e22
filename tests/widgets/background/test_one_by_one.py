"""What runs in the background: one after the other, the latest of each who asks, and all of them whatever fails."""

from __future__ import annotations

import threading

import pytest

from meshlab.widgets.background.one_by_one import Background


class Held:
    """An action that begins, and ends when it is let; then it may fail."""

    def __init__(self, error: Exception | None = None):
        self.begun, self.go_on, self._error = threading.Event(), threading.Event(), error

    def __call__(self) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        if self._error is not None:
            raise self._error


def test_of_each_who_asks_the_latest_runs_and_what_is_idle_comes_last() -> None:
    background, first, ran, ended = Background(), Held(), list[str](), threading.Event()
    background.follow("first", first)
    assert first.begun.wait(60)
    background.follow("idle", ended.set, idle=True)
    background.follow("costs", lambda: ran.append("left out"))
    background.follow("name", lambda: ran.append("name"))
    background.follow("costs", lambda: ran.append("costs"))
    first.go_on.set()
    assert ended.wait(60)
    assert ran == ["costs", "name"]


@pytest.mark.parametrize("idle", [False, True])
def test_what_waits_behind_an_action_that_fails_runs(monkeypatch: pytest.MonkeyPatch, idle: bool) -> None:
    """A drop's costs were lost with the name of a layout that failed before them: the board was pending for ever."""
    failures: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    background, error, ended = Background(), ValueError("no name"), threading.Event()
    fails = Held(error)
    background.follow("name", fails, idle=idle)
    assert fails.begun.wait(60)
    background.follow("costs", ended.set)
    fails.go_on.set()
    assert ended.wait(60)
    assert [each.exc_value for each in failures] == [error]
    assert [each.thread and each.thread.name for each in failures] == ["meshlab-costs"]
