"""One of the processes that `launch.py` starts: `python -m meshlab.engine.running.launched FILE ARGUMENTS`.

It joins the others, and runs the file as Python runs a script: as `__main__`, with its folder first on `sys.path`. An
exception that the file does not catch, and `sys.exit` with a status, end the process at once: on its usual way out it
would wait for the others at a barrier. When it failed is written down first. If it finishes the file, also by
`sys.exit()`, that is written down too, and it leaves the others: one that waits for it fails (`leaving.py`; and
`processes.STARTED`, where they were never connected). Then it waits for them at JAX's barrier, and ends without taking
JAX's back end apart: a thread of it that still waits for a process that has left would never let it end. It also ends
with the process that started it, which holds a pipe open.
"""

from __future__ import annotations

import atexit
import logging
import os
import pathlib
import runpy
import sys
import threading
import traceback

import jax

from ..processes import COORDINATOR, COUNT, NUMBER, STARTED, distributed, end_now
from .launch import FOLDER, PIPE, Notes
from .leaving import give_up_if_left, is_of_transport, leave

# Seconds between two looks at what the others have finished; and in which JAX may notice first that this process waits
# in vain: then the exception comes on the line that waits.
_LOOK, _IN_VAIN = 0.5, 2.0


def main() -> None:
    """Joins, and runs the file."""
    _, file, *arguments = sys.argv
    threading.Thread(target=_end_with_supervisor, args=(int(os.environ[PIPE]),), daemon=True).start()
    try:
        distributed()
        atexit.register(_finish, _Watch())  # so it runs after what the file registers, and before JAX waits for others
        sys.argv = [file, *arguments]
        sys.path[0] = str(pathlib.Path(file).resolve().parent)
        runpy.run_path(file, run_name="__main__")
    except SystemExit as asked:
        if asked.code is not None and asked.code != 0:
            if not isinstance(asked.code, int):
                print(asked.code, file=sys.stderr)
            _fail(asked.code & 0xFF if isinstance(asked.code, int) else 1)
    except BaseException as error:
        _print(error, file)
        _fail(1, of_transport=is_of_transport(error))


def _notes() -> Notes:
    return Notes.of(pathlib.Path(os.environ[FOLDER]), int(os.environ[NUMBER]))


def _of_others() -> list[Notes]:
    numbers = {*range(int(os.environ[COUNT]))} - {int(os.environ[NUMBER])}
    return [Notes.of(pathlib.Path(os.environ[FOLDER]), number) for number in numbers]


def _never_comes() -> int | None:
    """Returns the number of a process that has finished the file, and this one has started more steps with it."""
    here = int(os.environ[NUMBER])
    for other, count in list(STARTED.items()):
        met = Notes.of(pathlib.Path(os.environ[FOLDER]), other).started_with(here)
        if met is not None and met < count:
            return other
    return None


def _fail_in_vain(other: int) -> None:
    """Fails of what JAX's transport does not notice before half a minute: it was never connected to the other."""
    print(
        f"This process waits in vain for process {other}, which has finished the file. All processes must run the same"
        " steps, in the same order.",
        file=sys.stderr,
    )
    _fail(1, of_transport=True)


def _coordinator() -> int:
    return int(os.environ[COORDINATOR].rpartition(":")[2])


def _finish(watch: _Watch) -> None:
    watch.end()
    _notes().write_finished(STARTED)
    leave(_coordinator(), lambda: all(other.left.exists() for other in _of_others()))
    _notes().left.touch()
    jax.distributed.shutdown()
    logging.shutdown()
    end_now(0)


class _Watch:
    """A thread that looks whether another process has finished the file, and this one waits for it in vain."""

    def __init__(self):
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ends.wait(_LOOK):
            if any(other.finished.exists() for other in _of_others()) and give_up_if_left(_coordinator()):
                return
            if (other := _never_comes()) is not None:
                if not self._ends.wait(_IN_VAIN):
                    _fail_in_vain(other)
                return

    def end(self) -> None:
        """Ends it: Python must not end a thread that is inside of JAX."""
        self._ends.set()
        self._thread.join()


def _fail(status: int, of_transport: bool = False) -> None:
    _notes().write_failure(of_transport=of_transport)
    end_now(status)


def _print(error: BaseException, file: str) -> None:
    """Prints an exception's traceback from the first line of the file on, as Python does of a script."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != file:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)


def _end_with_supervisor(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(2)


if __name__ == "__main__":
    main()
