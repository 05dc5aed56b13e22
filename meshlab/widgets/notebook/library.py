"""plotly.js for the page, from the wheel that is installed: never from a network, and so of the version that is tested.

    library_answers({"id": "a", "kind": "library"})     [({"id": "a", "kind": "library", ...}, [<1.5 MB of gzip>])]

A page asks for it once, in idle time, however many boards it shows (`js/src/plotly.ts`). Compressed it is a third as
long, which also keeps it below what a Jupyter server lets pass in a second. Importing Plotly's module and compressing
take 0.3 s the first time, so the session does that in a thread of its own.

Some notebooks, Colab among them, take the bytes from a message, or lose the message that has some. So a page asks first
whether bytes arrive: it is answered twice, with a byte and then without, and knows by whichever it hears first. Where
none arrive it asks for text. It never waits for what may not come.
"""

from __future__ import annotations

import base64
import functools
import gzip
import time
from collections.abc import Mapping
from typing import Any

from .protocol import LibraryAnswerView, NackView

# What a page asks here.
QUESTIONS = ("bytes", "library")

MISSING = "The charts need plotly.js, from the package plotly, which is not installed in the kernel's environment."
FIX = "Run `pip install 'plotly>=6.1'` there, and show the Explorer again."


@functools.cache
def compressed() -> bytes:
    """Returns the source of plotly.js, compressed."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    return gzip.compress(get_plotlyjs().encode(), compresslevel=6, mtime=0)


def library_answers(message: Mapping[str, Any]) -> list[tuple[LibraryAnswerView | NackView, list[bytes]]]:
    """Returns the answers to a page that asks for plotly.js, or whether bytes arrive; each with its buffers."""
    asked: Any = message.get("id")  # what the page sends has one
    now = time.time()
    reply: LibraryAnswerView = {"id": asked, "now": now, "kind": "library"}
    if message.get("kind") == "bytes":
        return [(reply, [b"1"]), (reply, [])]
    try:
        if message.get("text"):
            return [({**reply, "text": base64.b64encode(compressed()).decode()}, [])]
        return [(reply, [compressed()])]
    except ImportError:
        return [({"id": asked, "now": now, "kind": "nack", "reason": MISSING, "fix": FIX, "code": "plotly"}, [])]
    except Exception as error:  # shown on the board, where an exception would be swallowed
        reason = f"plotly.js could not be read: {type(error).__name__}: {error}"
        return [({"id": asked, "now": now, "kind": "nack", "reason": reason, "fix": FIX, "code": "error"}, [])]
