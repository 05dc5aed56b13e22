"""Renaming the dims of a program that is traced already.

program.rename({"~seq": "kv"})        what was cut off `seq` is a dim of its own now, that layouts can address
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import DimError, closest

if TYPE_CHECKING:
    from .program import Program


def renamed(program: Program, names: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields of a program in which names stand, with new ones; see `Program.rename`."""
    sizes: dict[str, int] = {}
    for value, axes in enumerate(program.names):
        sizes.update({n: size for n, size in zip(axes, program.code.shapes[value], strict=True) if n})
    known = {part for name in sizes for part in (name, *name.split("*"))}
    problems = [f"`{old}` is no name of this program.{closest(old, known)}" for old in names if old not in known]
    problems += [
        f"`{new}` is taken already."
        for old, new in names.items()
        if new in known - set(names) or list(names.values()).count(new) > 1
    ]
    problems += [
        f"`{new}` is no name: use letters, digits and underscores." for new in names.values() if not new.isidentifier()
    ]
    if problems:
        raise DimError("rename() cannot be: " + " ".join(dict.fromkeys(problems)))

    def told(name: str) -> str:
        if name in names:
            return names[name]
        if "*" in name:
            return "*".join(told(part) for part in name.split("*"))
        stem, dot, part = name.partition(".")
        return names.get(stem, stem) + dot + part

    dims = {told(name): size for name, size in program.dims.items()}
    majors = {told(name): (told(dim), limit) for name, (dim, limit) in program.majors.items()}
    for old, new in names.items():
        if old in sizes:
            dims[new] = sizes[old]
    for name in sizes:
        first = name.split("*")[0]
        if "*" in name and first in names and name not in program.majors and first in sizes:
            majors[told(name)] = (told(first), sizes[first])
    axes = tuple(tuple(told(n) if n else None for n in found) for found in program.names)
    return {"names": axes, "dims": dims, "majors": majors}
