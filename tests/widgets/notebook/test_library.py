"""plotly.js for the page: the installed wheel's, whole, or the reason why not."""

from __future__ import annotations

import base64
import gzip
import queue
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook import library


def test_the_page_gets_the_source_of_the_installed_wheel() -> None:
    ((reply, (buffer,)),) = library.library_answers({"id": "a", "kind": "library"})
    assert (reply["id"], reply["kind"]) == ("a", "library")
    assert gzip.decompress(buffer).decode() == get_plotlyjs()


def test_a_page_that_gets_no_bytes_has_it_as_text() -> None:
    reply: Any
    ((reply, buffers),) = library.library_answers({"id": "a", "kind": "library", "text": True})
    assert (reply["id"], reply["kind"], buffers) == ("a", "library", [])
    assert gzip.decompress(base64.b64decode(reply["text"])).decode() == get_plotlyjs()


def test_whether_bytes_arrive_is_answered_with_and_without_in_this_order(explorer: Explorer, monkeypatch) -> None:
    session = explorer.session
    sent: queue.Queue = queue.Queue()
    monkeypatch.setattr(type(session), "send", lambda self, content, buffers=None: sent.put((content["id"], buffers)))
    session._receive(session, {"v": 2, "kind": "bytes", "id": "d"}, [])
    assert [sent.get(timeout=60) for _ in range(2)] == [("d", [b"1"]), ("d", [])]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ImportError("plotly"), library.MISSING), (OSError("gone"), "plotly.js could not be read: OSError: gone")],
)
def test_what_fails_is_said(monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str) -> None:
    def broken() -> bytes:
        raise error

    monkeypatch.setattr(library, "compressed", broken)
    reply: Any
    ((reply, buffers),) = library.library_answers({"id": "b"})
    assert (reply["kind"], reply["reason"], reply["fix"], buffers) == ("nack", reason, library.FIX, [])


def test_the_session_sends_it_as_bytes(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    session = explorer.session
    sent: queue.Queue = queue.Queue()
    monkeypatch.setattr(type(session), "send", lambda self, content, buffers=None: sent.put((content, buffers)))
    session._receive(session, {"v": 2, "kind": "library", "id": "c"}, [])
    reply, buffers = sent.get(timeout=60)
    assert reply["id"] == "c"
    assert gzip.decompress(buffers[0]).startswith(b"/**")
