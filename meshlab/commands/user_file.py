"""Finds the program of a user's file: `step.py`, or `step.py:name`.

The file is imported, not run as `__main__`, with its folder first on `sys.path` as Python has it for a script. What it
prints goes wherever the caller has sent stdout. An exception of its own is told with its traceback, from its first line
on: it is the user's, and no fault of an argument.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ..api.stages import Program
from ..engine.errors import closest, shown, some
from .exits import UsageError
from .words import read_text

DEFAULT = "program"


class UserCodeError(UsageError):
    """An exception of the user's own file; its text is the traceback."""


def program_of(path: Path, name: str | None) -> tuple[str, Program]:
    """Imports a file, and returns its program with its name.

    Args:
        path: the file.
        name: of a `Program`, or of a function of no arguments that returns one; None: `program`, or the only `Program`
            that there is.

    Returns:
        The name as it is told, `step.py:program`, and the program.
    """
    known = _names(path, "meshlab plan")
    name = name or _only(path, known)
    value = _named(path, name, known)
    program = _guarded(path, value) if callable(value) and not isinstance(value, Program) else value
    if not isinstance(program, Program):
        returned = "returned" if callable(value) else "is"
        raise UsageError(
            f"`{name}` of {path} {returned} {shown(program)}, which is not a program: make one with ml.trace(step,"
            " ...), or return it from a function of no arguments."
        )
    return f"{path.name}:{name}", program


def value_of(path: Path, name: str, asked: str) -> Any:
    """Imports a file, and returns what a function of it returns, which takes no arguments; or any other value."""
    value = _named(path, name, _names(path, asked))
    return _guarded(path, value) if inspect.isfunction(value) else value


def _names(path: Path, asked: str) -> dict[str, Any]:
    """The public names of a file."""
    read_text(path, asked)
    module = _guarded(path, lambda: _imported(path))
    return {key: value for key, value in vars(module).items() if not key.startswith("_")}


def _named(path: Path, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise UsageError(f"{path} has no `{name}`.{closest(name, known)} {_found(known)}")
    return known[name]


def _guarded(path: Path, work: Callable[[], Any]) -> Any:
    """Runs code of a user's file; what it raises becomes a `UserCodeError`."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        raise UserCodeError(_told(path, error)) from None


def _told(path: Path, error: BaseException) -> str:
    """The traceback of an error, from the first line of the file on: the frames before it tell nothing."""
    file, frames = str(path.resolve()), error.__traceback__
    while frames is not None and str(Path(frames.tb_frame.f_code.co_filename).resolve()) != file:
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames)).rstrip()
    return f"{path} raises {type(error).__name__}:\n{text}"


def _imported(path: Path) -> ModuleType:
    """Imports a file under a name that no other module has."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"meshlab_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file.")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _only(path: Path, known: Mapping[str, Any]) -> str:
    """The name of the program of a file that names none: `program`, or that of the only one."""
    programs = {id(value): key for key, value in known.items() if isinstance(value, Program)}
    if DEFAULT in known:
        return DEFAULT
    if len(programs) == 1:
        return next(iter(programs.values()))
    what = f"{len(programs)} programs" if programs else "no `program`, and no other program"
    raise UsageError(f"{path} has {what}. {_found(known)} Name one: {path.name}:NAME.")


def _found(known: Mapping[str, Any]) -> str:
    """The names of a file, in words: its programs, else all that can be called."""
    programs = [name for name, value in known.items() if isinstance(value, Program)]
    if programs:
        return f"Its programs are {some(programs)}."
    functions = [name for name, value in known.items() if callable(value)]
    return f"Its functions are {some(functions)}; `program = ml.trace(step, ...)` makes a program."
