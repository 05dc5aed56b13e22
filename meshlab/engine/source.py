"""Where an operation comes from: the user's own file and line.

JAX keeps a traceback with every equation, through differentiation too. The user's line is the innermost frame that
lies neither in meshlab's engine nor in an installed library: for `optax` inside a step it is the line of the step.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import linecache
import os
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_MODELS = os.path.join(_PACKAGE, "models") + os.sep
# JAX's modules that call a function to trace it; frames beyond them belong to whoever called first.
_CALLERS = ("pjit.py", "custom_derivatives.py")
_LIBRARIES = tuple(f"{os.sep}{folder}{os.sep}" for folder in ("site-packages", "dist-packages"))


@dataclasses.dataclass(frozen=True)
class Source:
    """A line of the user's code.

    Attributes:
        file: the path of the file.
        line: the number of the line.
        function: the name of the function that it is in.
    """

    file: str
    line: int
    function: str

    @property
    def code(self) -> str:
        """The line's text, or "" where it cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def target(self) -> str | None:
        """The name that the line assigns to, where it is one plain assignment."""
        return _target(self.code)

    def __str__(self):
        folder, file = os.path.split(self.file)
        if os.path.basename(folder).startswith("ipykernel_"):
            # A notebook's cell has a made-up file name, which tells nobody anything.
            file = "cell" if self.function.startswith("<") else self.function
        return f"{file}:{self.line}"


@functools.lru_cache(maxsize=4096)
def _target(code: str) -> str | None:
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Assign) and isinstance(tree.body[0].targets[0], ast.Name):
        return tree.body[0].targets[0].id
    return None


@functools.lru_cache(maxsize=4096)
def _rank(file: str) -> int:
    """0: the user's own, 1: an installed library, 2: meshlab's engine or Python's own launchers."""
    if file.startswith(_MODELS):
        return 0
    if file.startswith(_PACKAGE + os.sep) or file.startswith("<frozen"):
        return 2
    if any(folder in file for folder in _LIBRARIES):
        return 1
    return 0


def source_of(equation: Any, inside_call: bool = False) -> Source | None:
    """Returns the user's line that a jaxpr equation comes from.

    Args:
        equation: of a jaxpr.
        inside_call: whether it lies in the jaxpr of a call such as `jit`. JAX keeps those for the next call, with the
            lines of the first one: only frames inside the called function are this call's own.

    Returns:
        The line, or None where there is none.
    """
    traceback = equation.source_info.traceback
    if traceback is None:
        return None
    for frame in traceback.frames:
        if inside_call and os.path.basename(frame.file_name) in _CALLERS:
            return None
        if _rank(frame.file_name) == 0:
            return Source(frame.file_name, frame.line_num, frame.function_name.rsplit(".", 1)[-1])
    return None


def source_of_error(error: BaseException) -> Source | None:
    """Returns the innermost of the user's lines that an error came through, or None where there is none."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _rank(code.co_filename) == 0:
            found = Source(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return found


def is_backward(equation: Any) -> bool:
    """Says whether differentiation made the equation for the backward pass."""
    return "transpose(" in str(equation.source_info.name_stack)
