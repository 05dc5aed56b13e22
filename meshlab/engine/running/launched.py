"""One of the processes that `launch.py` starts: `python -m meshlab.engine.running.launched FILE ARGUMENTS`.

It joins the others, and runs the file as Python runs a script: as `__main__`, with its folder first on `sys.path`. An
exception that the file does not catch, and `sys.exit` with a status, end the process at once: on its usual way out it
would wait for the others at a barrier. When it failed is written down first. It also ends with the process that started
it, which holds a pipe open.
"""

from __future__ import annotations

import os
import pathlib
import runpy
import sys
import threading
import traceback

from ..processes import NUMBER, distributed, end_now
from .launch import FOLDER, PIPE, Notes


def main() -> None:
    """Joins, and runs the file."""
    _, file, *arguments = sys.argv
    threading.Thread(target=_end_with_supervisor, args=(int(os.environ[PIPE]),), daemon=True).start()
    try:
        distributed()
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
        _fail(1, of_transport=_is_of_transport(error))
    _notes().finished.touch()


def _notes() -> Notes:
    return Notes.of(pathlib.Path(os.environ[FOLDER]), int(os.environ[NUMBER]))


def _fail(status: int, of_transport: bool = False) -> None:
    _notes().write_failure(of_transport=of_transport)
    end_now(status)


def _is_of_transport(error: BaseException | None) -> bool:
    """Says whether an exception comes of what other processes do not answer; JAX has several types for it."""
    if error is None:
        return False
    return "Gloo" in str(error) or _is_of_transport(error.__cause__ or error.__context__)


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
