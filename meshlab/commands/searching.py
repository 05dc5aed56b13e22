"""Searches for a layout from a terminal: shows how far it is, and stops at Ctrl-C.

The first Ctrl-C asks the search to stop, which it does between two plans; a second one ends it at once.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from ..api.stages import Program
from ..auto.choice import Choice
from ..auto.choosing import layout
from ..auto.objective import objective_of
from ..auto.request.answer import Found
from ..auto.request.stopping import Cancelled
from ..cost.machines.units import share_text
from ..engine.specs.mesh import Mesh

# Back to the beginning of the line, and what is right of it cleared.
_CLEAR = "\r\x1b[K"


class Stopped(Exception):
    """A search that was stopped by Ctrl-C; its text says what was found until then."""


def searched(
    program: Program, mesh: Mesh, objective: str, memory: float | str | None = None, seconds: float | None = None
) -> Choice:
    """Searches for a layout, with progress on stderr where that is a terminal.

    Args:
        program: the program.
        mesh: the mesh.
        objective: what is minimised.
        memory: what may be taken: a share of a device's memory, or "60 GB"; None for the usual share.
        seconds: after so many the best so far is taken; None: never.
    """
    text, last = objective_of(objective, mesh).text, []
    options: dict[str, Any] = {} if memory is None else {"memory": memory}
    progress = _progress(sys.stderr, text) if sys.stderr.isatty() else None

    def note(found: Found):
        last[:] = [found]
        if progress is not None:
            progress(found)

    try:
        with interrupts() as cancel:
            return layout(program, mesh, objective=objective, seconds=seconds, progress=note, cancel=cancel, **options)
    except Cancelled:
        raise Stopped(f"Stopped. {_so_far(last, text)}") from None
    finally:
        if progress is not None:
            sys.stderr.write(_CLEAR)


def _so_far(last: list[Found], text: Callable[[float], str]) -> str:
    if not last or last[0].plan is None:
        return "The search found no layout that fits."
    found = last[0]
    rules = str(found.plan.layout) or "nothing sharded" if found.plan else ""
    return f"The best layout so far has {text(found.value)} (gap {share_text(found.gap)}): {rules}"


def _progress(stream: TextIO, text: Callable[[float], str]) -> Callable[[Found], None]:
    """Makes a callback that shows the answer so far, on one line of a terminal."""

    def show(found: Found):
        best = "nothing fits yet" if found.plan is None else f"best {text(found.value)}, gap {share_text(found.gap)}"
        stream.write(f"{_CLEAR}{best}; {found.plans:,} plans, {found.seconds:.0f} s")
        stream.flush()

    return show


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Turns the first Ctrl-C into an event, for as long as it lasts; the second is an exception again.

    Where Ctrl-C is ignored, as in the background, and outside of the main thread, it stays as it is.
    """
    event, before = threading.Event(), signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield event
        return

    def stop(_number: int, _frame: Any):
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
