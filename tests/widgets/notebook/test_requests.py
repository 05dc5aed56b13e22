"""Which request a thread's messages belong to: told by a context variable, as ipykernel keeps it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.requests import Requests
from meshlab.widgets.notebook.session import Session

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="whichever was read last")


@contextmanager
def subshell() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def read(loop: asyncio.AbstractEventLoop, request: str, work: Callable[[], None]) -> None:
    """Reads a message in a loop, as part of a request."""

    async def reading() -> None:
        REQUEST.set(request)
        work()

    asyncio.run_coroutine_threadsafe(reading(), loop).result()


def made_in_a_cell() -> Requests:
    def make() -> Requests:
        REQUEST.set("cell")
        return Requests()

    return contextvars.copy_context().run(make)


def from_a_thread(requests: Requests) -> str:
    """The request that a message of a thread belongs to."""
    seen: list[str] = []
    thread = threading.Thread(target=lambda: requests.send(lambda: seen.append(REQUEST.get())))
    thread.start()
    thread.join()
    return seen[0]


def test_what_a_thread_sends_belongs_to_the_pages_latest_message_while_its_loop_runs():
    requests = made_in_a_cell()
    assert from_a_thread(requests) == "cell"
    with subshell() as first, subshell() as second:
        read(first, "hello", requests.note)
        read(second, "drop", requests.note)
        read(first, "of another widget", lambda: None)
        assert from_a_thread(requests) == "drop"
    assert from_a_thread(requests) == "cell"


def test_what_is_sent_while_a_message_is_read_belongs_to_it():
    requests, seen = made_in_a_cell(), []
    with subshell() as loop:
        read(loop, "drop", lambda: requests.send(lambda: seen.append(REQUEST.get())))
        read(loop, "drop", lambda: requests.reopen(lambda: seen.append(REQUEST.get())))
    assert seen == ["drop", "cell"]


def test_many_threads_send_at_once():
    requests, together, seen = made_in_a_cell(), threading.Barrier(4), []

    def work() -> None:
        together.wait()
        seen.append(REQUEST.get())

    threads = [threading.Thread(target=requests.send, args=(work,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["cell"] * 4


def test_a_page_that_asks_for_the_state_is_greeted(explorer: Explorer):
    session, sent = Session(explorer), []
    session.send = lambda content, buffers=None: sent.append(content)
    assert session.get_state(["rev"]) == {"rev": 0}
    assert sent == []
    assert session.get_state()["rev"] == 0
    assert sent == [{"kind": "reopened"}]
