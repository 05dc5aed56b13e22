"""Renames the dims of a program that is traced already.

program.rename({"~seq": "kv"})                      the axis cut off `seq` is a dim of its own, for layouts to address
program.rename({"~seq": "kv", "~seq_2": "kv"})       several are one dim, where no operation has two of them
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from ..argument_checks import mapping
from ..errors import DimError, closest, listed, shown
from ..tensors.dims import NAME_RULE, Dim, is_name, name_of, proper
from .program import Program, analysis
from .spread_names import product

Renamed = TypeVar("Renamed", bound=Program)


@analysis
def made_up(program: Program) -> dict[str, int]:
    """Lists the names that nobody gave, with their sizes, in order; see `Program.made_up`."""
    sizes = _sizes(program).items()
    return {name: size for name, size in sizes if name.startswith("~") and "*" not in name and size > 1}


def renamed(program: Renamed, names: Mapping[str, str] | None, keywords: Mapping[str, str]) -> Renamed:
    """Returns a program with other names; see `Program.rename`."""
    if keywords:
        given = ", ".join(f"{old}={shown(new)}" for old, new in keywords.items())
        write = ", ".join(f'"{old}": "{new}"' for old, new in keywords.items())
        raise DimError(f"rename() was given {given}; give a dict of names: program.rename({{{write}}}).")
    names = _read(program, names)
    sizes = _sizes(program)
    known = {part for name in sizes for part in (name, *name.split("*"))}
    problems = [f"`{old}` is not a name of this program.{closest(old, known)}" for old in names if old not in known]
    problems += [f"`{new}`: {NAME_RULE}.{proper(new)}" for new in names.values() if not is_name(new)]
    result = _with(program, names, sizes)
    problems += _not_one(result, names, sizes) if not problems else []
    if problems:
        raise DimError("Invalid rename(): " + " ".join(dict.fromkeys(problems)))
    return result


def _read(program: Program, names: Any) -> dict[str, str]:
    """Reads the old names and the new ones, given as names or as dims; refuses a dim of another size."""
    given = mapping("rename()", "names", names, 'program.rename({"~seq": "kv"})', DimError)
    wrong = [shown(one) for pair in given.items() for one in pair if not isinstance(one, str | Dim)]
    if wrong:
        raise DimError(f'rename() was given {", ".join(wrong)} for a name; write program.rename({{"~seq": "kv"}}).')
    sizes = _sizes(program)
    problems = [
        f"{dim} was given, and `{name_of(old)}` has size {sizes[name_of(old)]:,}."
        for old, new in given.items()
        for dim in (old, new)
        if isinstance(dim, Dim) and dim.size != sizes.get(name_of(old), dim.size)
    ]
    if problems:
        raise DimError("rename() keeps sizes: " + " ".join(problems))
    return {name_of(old): name_of(new) for old, new in given.items()}


def _not_one(program: Program, names: Mapping[str, str], sizes: Mapping[str, int]) -> Iterator[str]:
    """Yields the problems of names that become one."""
    twice = _standing_twice(program)
    for new in dict.fromkeys(names.values()):
        olds = [old for old in sizes if names.get(old, old) == new]
        text = listed(f"{old}: {sizes[old]:,}" for old in olds)
        if len({sizes[old] for old in olds}) > 1:
            yield f"{text} cannot be one dim `{new}`: their sizes differ."
        elif len(olds) > 1 and new in twice:
            yield f"{text} cannot be one dim `{new}`: two of them stand in {twice[new]}."


def _sizes(program: Program) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for value, axes in enumerate(program.names):
        sizes.update({n: size for n, size in zip(axes, program.code.shapes[value], strict=True) if n})
    return sizes


def _with(program: Renamed, names: Mapping[str, str], sizes: Mapping[str, int]) -> Renamed:
    """Returns the program with the names, valid or not."""

    def new_name(name: str) -> str:
        if name in names:
            return names[name]
        if "*" in name:
            return "*".join(new_name(part) for part in name.split("*"))
        stem, dot, part = name.partition(".")
        return names.get(stem, stem) + dot + part

    dims = {new_name(name): size for name, size in program.dims.items()}
    made_of = {
        new_name(name): tuple([part._replace(dim=new_name(part.dim)) for part in parts])
        for name, parts in program.made_of.items()
    }
    for old, new in names.items():
        if old in sizes:
            dims[new] = sizes[old]
    for name in sizes:
        parts = name.split("*")
        if len(parts) > 1 and not names.keys().isdisjoint(parts) and sizes.keys() >= {*parts}:
            made_of[new_name(name)] = product([new_name(part) for part in parts], [sizes[p] for p in parts], made_of)
    made_of = {name: parts for name, parts in made_of.items() if name not in dims}
    axes = tuple(tuple(new_name(n) if n else None for n in row) for row in program.names)
    renames = {first: new_name(last) for first, last in program.renames.items()}
    renames |= {old: new for old, new in names.items() if old not in program.renames.values()}
    printing = program.printing and _with(program.printing, names, _sizes(program.printing))
    return dataclasses.replace(program, names=axes, dims=dims, made_of=made_of, renames=renames, printing=printing)


def _standing_twice(program: Program) -> dict[str, str]:
    """Returns the dims that stand twice in a value or an operation, with the first place where each does."""
    places: dict[str, str] = {}
    for dims, where in _rows(program):
        for dim in {d for d in dims if d is not None and dims.count(d) > 1}:
            places.setdefault(dim, where)
    return places


def _rows(program: Program) -> Iterator[tuple[list[str | None], str]]:
    for argument in program.arguments:
        yield list(program.dims_of(argument.value)), f"`{argument.place}`"
    for operation, factors in program.factor_dims.items():
        where = f"`{operation.name}`" + (f" at {operation.source}" if operation.source else "")
        yield [program.dim_of(name) for _, name in factors], where
        for value in operation.outputs:
            yield list(program.dims_of(value)), where
