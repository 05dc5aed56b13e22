"""Puts garbage collection off while meshlab is imported, and while tracing, planning and costing run.

A program and a plan make tens of thousands of objects that stay. Python would look for garbage among them again and
again, and now and then among the millions of a traced program: half a second for nothing. So it looks when they are
made. Pauses nest and may overlap in several threads: collection is on again after the last of them, where it was.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


class Pauses:
    def __init__(self):
        self._lock, self._count, self._enabled = threading.Lock(), 0, False

    def begin(self) -> None:
        """Puts garbage collection off until `end` was called as often."""
        with self._lock:
            if self._count == 0:
                self._enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._enabled:
                gc.enable()


PAUSES = Pauses()


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Puts garbage collection off until the end, where it was on."""
    PAUSES.begin()
    try:
        yield
    finally:
        PAUSES.end()


def paused(items: Iterator[T]) -> Iterator[T]:
    """Yields what an iterator yields; garbage collection is put off while it works on the next."""
    while True:
        with no_collection():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item
