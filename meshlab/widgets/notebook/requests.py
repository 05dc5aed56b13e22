"""Which request of a notebook the messages of a thread belong to.

ipykernel 7.4 reads what a page sends to a widget in the subshell in whose request the widget last sent something. A
thread of one's own belongs to no request, so that whichever was read last counts: after a reload of the page that is
one of a subshell that is gone, and nothing that the page sends is read any more. So what a thread sends is sent in the
context of a request whose loop still runs: that of the page's latest message, or else of the cell that made the widget.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable


class Requests:
    """The requests of one widget: that of the cell that made it, and the latest of its page."""

    def __init__(self):
        self._made = contextvars.copy_context()
        self._latest = self._made
        self._loop: asyncio.AbstractEventLoop | None = None

    def note(self) -> None:
        """Takes note of the request that is being read: a message of the page."""
        self._loop, self._latest = _running(), contextvars.copy_context()

    def send(self, work: Callable[[], None]) -> None:
        """Sends something: in the request that is being read, and from a thread in one that is still there."""
        if _running() is not None:
            work()
            return
        lives = self._loop is not None and self._loop.is_running()
        # A context is entered by one thread at a time.
        (self._latest if lives else self._made).copy().run(work)

    def reopen(self, work: Callable[[], None]) -> None:
        """Sends something in the request of the cell: what the page sends next is read by the kernel's own loop."""
        self._made.copy().run(work)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
