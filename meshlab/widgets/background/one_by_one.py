"""Actions that run one after the other in the background, of each who asks the latest.

    background = Background()
    background.follow(panel, lambda: draw(first))
    background.follow(panel, lambda: draw(second))      the first has not begun: it is left out

A board that changes ten times a second asks ten times for what follows from it, and needs the last. An action that
fails is reported as a thread's error is, and those that wait behind it run all the same: the costs on a board are not
lost with the name of another layout.
"""

from __future__ import annotations

import sys
import threading
import time as clock
from collections.abc import Callable
from typing import Any

# Seconds before the background begins: drawing comes first, since two threads at once take longer for both, and a next
# drop in that time takes the place of this one.
AHEAD = 0.1


class Background:
    """Runs actions one after the other, in a thread that ends when there are no more."""

    def __init__(self):
        self._wanted: dict[Any, Callable[[], Any]] = {}
        self._idle: dict[Any, Callable[[], Any]] = {}
        self._busy = False
        self._lock = threading.Lock()

    def follow(self, who: Any, action: Callable[[], Any], idle: bool = False) -> None:
        """Has an action run soon, in place of one that `who` asked for before and that has not begun.

        Args:
            who: asks for it.
            action: the action.
            idle: whether it waits until there is no other.
        """
        with self._lock:
            (self._idle if idle else self._wanted)[who] = action
            if not self._busy:
                threading.Thread(target=self._work, name="meshlab-costs", daemon=True).start()
                self._busy = True

    def _work(self):
        while True:
            clock.sleep(AHEAD)
            with self._lock:
                actions = self._wanted or self._idle
                if not actions:
                    self._busy = False
                    return
                action = actions.pop(next(iter(actions)))
            try:
                action()
            except BaseException:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
