"""Writes a board to a file in which it is dragged without Python.

    share(explorer, "board.html")       Shared: board.html, 207 kB. 65 layouts are recorded: all that drops lead to, …

It has the layout on the board, those that have a button, and what drops lead to from there, one after the other. Where
that is more than the limit, it is what one drop leads to: thousands of layouts of a large model take an hour. Where the
file would be longer than one wants to send, the nearest stay. Equal boards give equal files.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import time as clock
from collections.abc import Callable, Iterable
from typing import Any

from ...cost.machines.units import bytes_text
from ...engine.argument_checks import whole_number
from ...engine.errors import shown
from ...engine.whole_files import write_whole
from ..documents.document import ExplorerError, path_of
from .page import page
from .record import Recorder
from .scope import Scope, scope_of

# The bytes of a file at most; from how many layouts on, and a quarter more each time, it is looked at how long it is.
LARGEST, LOOK = 3_000_000, 64
# Seconds between two tellings of how far a recording is.
OFTEN = 0.5
Tell = Callable[[int, int], Any]


@dataclasses.dataclass(frozen=True)
class Shared:
    """A board that was written to a file.

    Attributes:
        path: the file.
        bytes: of it.
        layouts: how many layouts it has.
        said: which layouts they are, in words.
    """

    path: pathlib.Path
    bytes: int
    layouts: int
    said: str

    def __repr__(self) -> str:
        return f"Shared: {self.path}, {bytes_text(self.bytes)}. {self.said}"


def share(  # noqa: PLR0917  as `Explorer.share` has them
    explorer: Any, path: Any, columns: Iterable[str], limit: int, dims: Iterable[Any] | None, stream: Any
) -> Shared:
    """Records layouts and writes them into one file, with the page's code.

    Whatever ends it before it is done, Ctrl-C say, leaves the file as it was.

    Args:
        explorer: whose board it is.
        path: the file.
        columns: see `Explorer.share`.
        limit: the same.
        dims: the same.
        stream: on which it is told how far it is, in one line; None for none.

    Returns:
        Which layouts the file has, and how long it is.
    """
    target = _writable(path)
    most = whole_number("share()", "limit", limit, least=1, error=ExplorerError)
    scope = scope_of(explorer, columns, dims, most)
    line = _Line(stream)
    try:
        recorder, count, text = recorded(explorer, scope, line.tell)
    finally:
        line.clear()
    try:
        write_whole(target, text)
    except OSError as error:
        raise ExplorerError(f"share() cannot write {shown(str(target))}: {error.strerror}.") from None
    return Shared(target, len(text.encode()), count, _said(recorder, scope, count))


def recorded(explorer: Any, scope: Scope, tell: Tell = lambda count, all_of_them: None) -> tuple[Recorder, int, str]:
    """Records the layouts of a file, as many as it has room for.

    Args:
        explorer: whose they are.
        scope: which layouts they are.
        tell: called after each with how many are recorded, and how many there are.

    Returns:
        What recorded them, how many of them there is room for, and the text of the file.
    """
    recorder, look = Recorder(explorer, scope), LOOK
    for document in scope.layouts:
        recorder.add(document)
        tell(recorder.count, len(scope.layouts))
        if recorder.count >= look:
            look += look // 4
            if len(_text(explorer, recorder, scope, recorder.count).encode()) > LARGEST:
                break
    count, text = recorder.count, _text(explorer, recorder, scope, recorder.count)
    while (length := len(text.encode())) > LARGEST and count > 1:
        count = max(1, int(0.97 * count * LARGEST / length))
        text = _text(explorer, recorder, scope, count)
    return recorder, count, text


def _text(explorer: Any, recorder: Recorder, scope: Scope, count: int) -> str:
    return page(explorer, recorder.table(count), _said(recorder, scope, count))


def _said(recorder: Recorder, scope: Scope, count: int) -> str:
    return scope.said(set(itertools.islice(recorder.numbers, count)), recorder.refused)


def _writable(path: Any) -> pathlib.Path:
    """Returns a path as one; refuses one that nothing can be written to, before anything is recorded."""
    target = path_of("share()", path)
    if target.is_dir():
        raise ExplorerError(f'share() was given the folder {shown(str(target))}; write a file: "board.html".')
    if not target.parent.is_dir():
        raise ExplorerError(
            f"share() cannot write {shown(str(target))}: there is no folder {shown(str(target.parent))}."
        )
    return target


class _Line:
    """A line that says how far a recording is, once it takes long."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._next, self._long = clock.monotonic() + OFTEN, 0

    def tell(self, count: int, all_of_them: int) -> None:
        if self._stream is None or clock.monotonic() < self._next:
            return
        self._next = clock.monotonic() + OFTEN
        self._write(f"recorded {count:,} of {all_of_them:,} layouts; Ctrl-C stops, and writes nothing")

    def clear(self) -> None:
        if self._long:
            self._write("")
            self._stream.write("\r")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{text.ljust(self._long)}")
        self._stream.flush()
        self._long = len(text)
