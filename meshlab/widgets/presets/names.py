"""What the layouts of a board are called: worked out once for each, and in the background where that takes long.

    names.of(document)                  waits
    names.soon(document, tell)          (True, name) if it is known or quick; else (False, None), and `tell` follows

A name takes a few plans at most, which are milliseconds of most programs; a drop waits for no more than that.
"""

from __future__ import annotations

import threading
import time as clock
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from ...layouts.naming import Named
from ..background.one_by_one import Background
from ..background.quiet import QUIET

KEPT = 256
# Seconds that a drop waits for a name, and those that the first takes for each operation of a program.
PATIENCE, EACH = 0.01, 8e-6

Key = TypeVar("Key", bound=Hashable)


class Names(Generic[Key]):
    """The names of layouts.

    Args:
        work: names the layout of a document; its own errors come through.
        operations: of the program.
    """

    def __init__(self, work: Callable[[Key], Named | None], operations: int):
        self._work = work
        self.expect(operations)
        self._known: dict[Key, Named | None] = {}
        self._lock = threading.Lock()

    def expect(self, operations: int) -> None:
        """Guesses how long a name takes in a program of so many operations."""
        self._took = operations * EACH

    def of(self, key: Key) -> Named | None:
        """Returns the name of a layout, and waits for it."""
        if key not in self._known:
            begin = clock.thread_time()
            name = self._work(key)
            self._took = clock.thread_time() - begin
            with self._lock:
                while len(self._known) >= KEPT:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = name
        return self._known[key]

    def soon(
        self, key: Key, background: Background, tell: Callable[[], Any], aside: bool = False
    ) -> tuple[bool, Named | None]:
        """Returns whether the name is known, and the name; what is not known follows, and then `tell` is called.

        Args:
            key: the layout.
            background: where it is worked out.
            tell: is called then.
            aside: whether it is that of a layout beside the one on the board, which comes first.
        """
        if key in self._known or self._took < PATIENCE:
            return True, self.of(key)

        def work() -> None:
            if aside:
                QUIET.wait()
            self.of(key)
            tell()

        background.follow((self, key) if aside else self, work, idle=aside)
        return False, None
