"""Quiet: nobody is at any board of this process just now, so that what nobody waits for may be done.

    with QUIET.disturbed():     a board was heard, and is answered
        ...
    QUIET.wait()                returns when none has been heard for a while

Python runs one thread at a time. A thread that computes gives way when it is asked to, but lets each step of a
message's way wait for 5 ms (`sys.getswitchinterval`), of which a drop has a dozen: a drop beside the advice of two
other boards took four times as long as without. Python's search for garbage takes half a second where a program has
15,000 operations, and gives way to nobody: it is put off as well.
"""

from __future__ import annotations

import contextlib
import threading
import time as clock
from collections.abc import Iterator

from ...engine.gc_pause import PAUSES, Pauses

# Seconds; between two messages of a hand that moves a chip there are fewer.
LONG = 0.3


class Quiet:
    """When a board was heard last.

    Args:
        pauses: of garbage collection.
    """

    def __init__(self, pauses: Pauses = PAUSES):
        self._lock, self._heard, self._disturbed, self._pauses = threading.Lock(), -LONG, False, pauses
        self._answering = 0  # how many messages

    @contextlib.contextmanager
    def disturbed(self) -> Iterator[None]:
        """Puts garbage collection off while a message of a board is answered, and until it is quiet again."""
        with self._lock:
            self._answering += 1
            if not self._disturbed:
                self._disturbed = True
                self._pauses.begin()
                threading.Thread(target=self._resume, name="meshlab-quiet", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._answering -= 1
                self._heard = clock.monotonic()

    def wait(self) -> None:
        """Waits until no board has been heard for a while."""
        while (left := self._left()) > 0:
            clock.sleep(left)

    def _left(self) -> float:
        """Returns for how many seconds it is not quiet yet, as far as is known."""
        return LONG if self._answering else self._heard + LONG - clock.monotonic()

    def _resume(self) -> None:
        while True:
            self.wait()
            with self._lock:
                if self._left() <= 0:
                    self._disturbed = False
                    self._pauses.end()
                    return


QUIET = Quiet()
