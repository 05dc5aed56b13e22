"""Values as Python, to be pasted: one line each, or where that is too long an entry a line.

literal({"batch": ("data",)})           '{"batch": ("data",)}'
keywords((("data", 2), ("model", 4)))   'data=2, model=4'
"""

from __future__ import annotations

import json
import keyword
import sys
from typing import Any

from jax.sharding import PartitionSpec

from ....engine.axes.axis import Axis

WIDE = 100


def keywords(pairs: Any) -> str:
    """Returns pairs of names and values as keyword arguments; names that Python keeps for itself, as a dict."""
    if any(keyword.iskeyword(name) or not name.isidentifier() for name, _ in pairs):
        return f"**{literal(dict(pairs), -WIDE)}"
    return ", ".join(f"{name}={literal(value, -WIDE)}" for name, value in pairs)


def literal(value: Any, before: int = 0) -> str:
    """Returns a value as Python: one line, or, where that is too long, one for each entry.

    Args:
        value: dicts, lists, tuples, texts, numbers, None, and `PartitionSpec`s.
        before: how many characters stand before it in its line.
    """
    if is_spec(value):
        return f"P({', '.join(map(literal, value))})"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Axis):
        return value.source
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    opening, parts, closing = _entries(value)
    line = f"{opening}{', '.join(parts)}{',' if type(value) is tuple and len(parts) == 1 else ''}{closing}"
    if before + len(line) <= WIDE or not parts:
        return line
    return "\n".join([opening, *(f"    {part},".replace("\n", "\n    ") for part in parts), closing])


def _entries(value: Any) -> tuple[str, list[str], str]:
    if type(value) is dict:
        return "{", [f"{literal(key)}: {literal(each, 8 + len(literal(key)))}" for key, each in value.items()], "}"
    if type(value) is list or type(value) is tuple:
        return "[("[type(value) is tuple], [literal(each, 8) for each in value], "])"[type(value) is tuple]
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None and imported_from(type(value)):
        fields = [f"{name}={literal(getattr(value, name), 8)}" for name in names]
        return f"{type(value).__qualname__}(", fields, ")"
    raise TypeError(f"{type(value).__qualname__} cannot be written as Python here")


def is_spec(tree: Any) -> bool:
    return isinstance(tree, PartitionSpec)


def imported_from(kind: type) -> str:
    """Returns the outermost module that has a type by its name; "" where none that is public has."""
    parts = kind.__module__.split(".")
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        if parts[length - 1].startswith("_") and name != "__main__":
            return ""
        if getattr(sys.modules.get(name), kind.__qualname__, None) is kind:
            return name
    return ""
