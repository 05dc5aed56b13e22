"""Finds the dims that a function closes over, itself or in the functions that it calls.

    closed_over(step)           {"Rows": Dim("rows", 28), "Hidden": Dim("hidden", 1024)}

Such a dim keeps its size when a function is traced again with arguments of other sizes.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..tensors.dims import Dim


def closed_over(fn: Callable) -> dict[str, Dim]:
    """Returns the dims by the variables that hold them; of functions, those of the same file are gone through."""
    found: dict[str, Dim] = {}
    waiting, seen = [fn], set()
    while waiting:
        plain = _plain(waiting.pop())
        if plain is None or plain.__code__ in seen:
            continue
        seen.add(plain.__code__)
        for name, value in _variables(plain):
            if isinstance(value, Dim):
                found.setdefault(name, value)
            elif (inner := _plain(value)) is not None and inner.__globals__ is plain.__globals__:
                waiting.append(inner)
    return found


def _plain(value: Any) -> types.FunctionType | None:
    """Returns the function inside wrappers and partial ones; None of what is none."""
    while isinstance(value, functools.partial):
        value = value.func
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, types.FunctionType) else None


def _variables(fn: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields what a function finds outside itself, and the functions inside it with it: (name, value)."""
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    outside: Mapping[str, Any] = fn.__globals__ | {name: cell.cell_contents for name, cell in cells if _is_full(cell)}
    for name in dict.fromkeys(_names(fn.__code__)):
        if name in outside:
            yield name, outside[name]


def _is_full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:  # it is assigned later
        return False
    return True


def _names(code: types.CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
