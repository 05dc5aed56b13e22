"""Puts garbage collection off while meshlab is imported, and while tracing and planning run.

A program and a plan make tens of thousands of objects that stay. Python would look for garbage among them again and
again, and now and then among the millions of a traced program: a tenth of a second for nothing. So it looks when they
are made.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Puts garbage collection off until the end, where it was on."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
