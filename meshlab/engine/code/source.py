"""Finds the user's own file and line that an operation comes from.

JAX keeps a traceback with every equation, through differentiation too, from the operation out to the function that was
traced. The user's line is the innermost frame that lies neither in meshlab's engine, nor in Python's own modules, nor
in an installed library: for `optax` inside a step it is the line of the step.

The jaxpr of a function under `jit` is kept for the next call. Its equations name lines of that function and of what it
calls, which are right for every caller, unless JAX traced it while it differentiated something else: then they name the
lines of whoever was differentiated first. `names_own_lines` tells them apart.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import linecache
import os
import pathlib
import sys
import sysconfig
import traceback
from typing import Any

from ..jax_compat import columns, defined_at, function_name, innermost, opened, was_made_in

_PACKAGE = str(pathlib.Path(os.path.abspath(__file__)).parents[2])
# What of it is read as the user's own: models and programs of puzzles are functions as users write them.
_READ = tuple(os.path.join(_PACKAGE, *folder) + os.sep for folder in (("models",), ("puzzles", "course")))
_LIBRARIES = tuple(f"{os.sep}{folder}{os.sep}" for folder in ("site-packages", "dist-packages"))
# Libraries in whatever folder: one may be installed from a checkout.
_KNOWN = ("jax", "jaxlib", "flax", "optax", "equinox")
_PYTHON = tuple({sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib")})


# A part of a line, in bytes: where it begins, and where it ends.
Columns = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Source:
    """A line of the user's code.

    Attributes:
        file: its file.
        line: its number there.
        function: that it is in.
        columns: the parts of the line that run what is asked about, one in the other: where each begins and ends.
    """

    file: str
    line: int
    function: str
    columns: tuple[Columns, ...] = dataclasses.field(default=(), compare=False, repr=False)

    @property
    def code(self) -> str:
        """The line's text, or "" where it cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def target(self) -> str | None:
        """The name that the line assigns to, where it is one plain assignment."""
        return _target(self.code)

    @property
    def assigned(self) -> frozenset[Columns]:
        """The parts of the line that make all of what it assigns, or of an item of that: `tanh(x)` of `y = [tanh(x)]`.

        Of `y = tanh(x @ w)` the product makes `x @ w` alone, and is not `y`.
        """
        return _assigned(linecache.getline(self.file, self.line)).intersection(self.columns)

    def __str__(self):
        return f"{_place(self.file, self.function)}:{self.line}"


def raised_at(error: BaseException) -> Source | None:
    """Returns the user's innermost line of an error's traceback; None where all of it is of libraries."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [Source(code.co_filename, line, code.co_name) for code, line in frames if _rank(code.co_filename) == 0]
    return own[-1] if own else None


@functools.lru_cache(maxsize=4096)
def _place(path: str, function: str) -> str:
    """Returns the name that a function's file is shown by."""
    folder, file = os.path.split(path)
    if os.path.basename(folder).startswith("ipykernel_"):
        # A notebook's cell has a made-up file name, which tells nobody anything.
        return "cell" if function.startswith("<") else function
    return file


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
def _assigned(line: str) -> frozenset[Columns]:
    """Returns the parts of a line of code that make what it assigns, or an item of it."""
    code = line.strip()
    if _target(code) is None:
        return frozenset()
    indent = len(line) - len(line.lstrip())
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Assign)
    waiting, found = [statement.value], []
    while waiting:
        node = waiting.pop()
        found.append((indent + node.col_offset, indent + (node.end_col_offset or 0)))
        waiting += _items(node)
    return frozenset(found)


def _items(node: ast.expr) -> list[ast.expr]:
    """Returns the items of what displays and comprehensions make, and what conditions choose from."""
    if isinstance(node, ast.List | ast.Tuple):
        return node.elts
    if isinstance(node, ast.Dict):
        return node.values
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return [node.elt]
    if isinstance(node, ast.DictComp):
        return [node.value]
    return [node.body, node.orelse] if isinstance(node, ast.IfExp) else []


@functools.lru_cache(maxsize=4096)
def _rank(file: str) -> int:
    """Returns 0 for the user's own, 1 for a library or a module of Python, 2 for meshlab's engine or a launcher."""
    if file.startswith(_READ):
        return 0
    if file.startswith(_PACKAGE + os.sep) or file.startswith("<frozen"):
        return 2
    if any(folder in file for folder in _LIBRARIES) or file.startswith((*_PYTHON, *_known_folders())):
        return 1
    return 0


def _known_folders() -> list[str]:
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _KNOWN]
    return [os.path.dirname(file) + os.sep for file in files if file]


def source_of(equation: Any) -> Source | None:
    frame = innermost(equation, _is_users)
    if frame is None:
        return None
    parts = columns(equation, frame.file, frame.line)
    return Source(frame.file, frame.line, frame.function, parts)


@functools.lru_cache(maxsize=4096)
def _is_users(file: str) -> bool:
    return _rank(file) == 0


def names_own_lines(jaxpr: Any) -> bool | None:
    """Says whether the equations of a jaxpr name lines of the function that it is the trace of.

    Such a function's frame is in their tracebacks. Where it is in none of them, they were made under the traceback of
    something else, and kept.

    Args:
        jaxpr: of a call, or of a loop's body.

    Returns:
        Whether the lines are its own, or None where JAX does not know the function's own line.
    """
    place = defined_at(jaxpr)
    if place is None:
        return None
    return any(was_made_in(equation, *place) for equation in opened(jaxpr).equations)


def own_function(jaxpr: Any) -> str:
    """Returns the name of the user's function that a jaxpr is the trace of; "" where it is of a library."""
    place = defined_at(jaxpr)
    return function_name(jaxpr) if place is not None and _is_users(place[0]) else ""


def source_of_error(error: BaseException) -> Source | None:
    """Returns the innermost of the user's lines that an error came through, or None where there is none."""
    source, traceback = None, error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _rank(code.co_filename) == 0:
            source = Source(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return source
