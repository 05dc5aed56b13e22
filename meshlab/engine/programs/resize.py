"""Traces the function of a program again, with its arguments resized.

program.resize(batch=128)      every axis of an argument that is `batch`, or merges it, gets the new size

What the function computes follows by itself. An axis that was cut off the dim and is as long (`~seq`) follows as well.
A function that closes over a size cannot be traced at another one; the error names the line, and how it is written so
that it can. Its dims are not given other sizes behind its back: JAX keeps what it has traced of functions inside it by
the shapes of their arguments, so that one that computes with `Rows.size` would go on with the old size, unnoticed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax

from ..argument_checks import is_whole
from ..code.operations import walk
from ..code.source import Source, source_of_error
from ..errors import DimError, MeshlabError, TraceError, closest, listed, shown
from ..tensors.dims import Dim
from ..tensors.named_arrays import Merged, NamedArray
from ..tensors.tensor import Tensor
from .closed_over import closed_over
from .program import Program
from .rename import made_up, renamed

Resized = TypeVar("Resized", bound=Program)


def resized(program: Resized, sizes: Mapping[str, Any], others: Sequence[Any] = ()) -> Resized:
    """Returns the program with dims of other sizes; see `Program.resize`."""
    if others:
        raise DimError(f"resize() was given {shown(others[0])}; give sizes by name: program.resize(batch=128).")
    axes = [_names(program, number) for number in range(len(program.arguments))]
    known = check_sizes(program, sizes)
    changed = {name: size for name, size in sizes.items() if size != known[name]}
    if not changed:
        return program
    factors = {name: (known[name], size) for name, size in changed.items()}
    for name, (old, new) in list(factors.items()):
        factors.update((each, (old, new)) for each in _cut_off(program, name, old, axes) if each not in factors)
    leaves = [_leaf(program, number, row, factors) for number, row in enumerate(axes)]
    try:
        again = program.again(*jax.tree.unflatten(program.structure, leaves), carry=program.carry)
        names = {old: new for old, new in program.renames.items() if any(old in row for row in again.names)}
        again = renamed(again, names, {}) if names else again
    except MeshlabError as error:
        raise TraceError(_failure(program, changed, error)) from error
    wrong = [name for name, size in changed.items() if (dict(again.dims) | made_up(again)).get(name) != size]
    if wrong:
        raise TraceError(
            f"The function was traced again, and {listed(wrong)} has a different size there than the size given."
        )
    return again


def check_sizes(program: Program, sizes: Mapping[str, Any]) -> dict[str, int]:
    """Refuses sizes of dims that no argument has, and invalid ones, before anything is traced.

    Returns:
        The sizes of all dims, those with names that were made up as well.
    """
    if not sizes:
        raise DimError("resize() was given no size; write program.resize(batch=128).")
    known, problems = dict(program.dims) | made_up(program), []
    axes = (name for number in range(len(program.arguments)) for name in _names(program, number))
    there = {part for name in axes if name for part in _parts(name)}
    for name, size in sizes.items():
        if name not in known:
            near = closest(name, program.dims) or f" Its dims are {listed(program.dims)}."
            problems.append(f"`{name}` is not a dim of this program.{near}")
        elif not is_whole(size) or size < 1:
            problems.append(f"`{name}` was given the size {shown(size)}; a size must be an integer of at least 1.")
        elif name not in there:
            problems.append(f"`{name}` is not a dim of an argument: its size follows{_followed(program, name)}.")
        elif any(f"{name}.0" == part for part in there):
            problems.append(f"`{name}` is split in an argument, and it is unknown how to resize its parts.")
    if problems:
        raise DimError("Invalid sizes: " + " ".join(problems))
    return known


def _followed(program: Program, name: str) -> str:
    """Returns where a dim's size comes from: another dim that is renamed so, with the line; or the function."""
    for operation in walk(program.code.block):
        if operation.name == "rename":
            pairs = zip(operation.params["before"], operation.params["after"], strict=True)
            for before, after in pairs:
                if after and before != after and _present(program, after) == name:
                    return f" `{_present(program, before)}`, which is renamed at {operation.source}: resize that one"
    return " from others in the function"


def _parts(name: str) -> list[str]:
    return name.split("*")


def _names(program: Program, number: int) -> list[str | None]:
    """Returns the present name of each axis of an argument: what it was given, or else what the rules gave it."""
    argument, given = program.arguments[number], program.named[number]
    row = program.names[argument.value]
    if given is None:
        return list(row)

    def present(name: Any) -> str:
        return "*".join(program.renames.get(part, part) for part in _parts(str(name)))

    return [present(name) if name else known for name, known in zip(given, row, strict=True)]


def _cut_off(program: Program, dim: str, long: int, axes: list[list[str | None]]) -> Iterator[str]:
    """Yields the made-up names of arguments' axes that were cut off a dim and are as long."""
    for argument, row in zip(program.arguments, axes, strict=True):
        shape = program.code.shapes[argument.value]
        for name, size in zip(row, shape, strict=True):
            if name and size == long and re.fullmatch(rf"~{re.escape(dim)}(_\d+)?", name):
                yield name


def _leaf(program: Program, number: int, row: list[str | None], factors: Mapping[str, tuple[int, int]]) -> Any:
    """Returns an argument's template in its new shape, with the names that it was given."""
    template, given = program.templates[number], program.named[number]
    array = template.array if isinstance(template, Tensor) else template

    def size_of(name: str | None, size: int) -> int:
        parts = [factors[part] for part in _parts(name or "") if part in factors]
        return size // math.prod(old for old, _ in parts) * math.prod(new for _, new in parts)

    shape = tuple(size_of(name, size) for name, size in zip(row, array.shape, strict=True))
    resized_array = jax.ShapeDtypeStruct(shape, array.dtype)
    if isinstance(template, Tensor):
        dims = tuple(Dim(d.name, size_of(_present(program, d.name), d.size)) for d in template.dims)
        like = Tensor(jax.ShapeDtypeStruct(tuple(d.size for d in dims), array.dtype), dims)
        # The state of some optimizers does not fit its dims.
        return jax.tree.unflatten(jax.tree.structure(like), [resized_array])
    if given is None:
        return resized_array

    def name_of(name: Any) -> Any:
        if not isinstance(name, Merged):
            return name
        parts = [(part, size and size_of(_present(program, part), size)) for part, size in name.parts]
        return Merged(tuple(parts))

    return NamedArray(resized_array, tuple(map(name_of, given)))


def _present(program: Program, name: str) -> str:
    return program.renames.get(name, name)


def _failure(program: Program, sizes: Mapping[str, int], error: MeshlabError) -> str:
    """Returns the message for a function that cannot be traced at other sizes, with the user's line, and what helps."""
    asked = ", ".join(f"{name}={size:,}" for name, size in sizes.items())
    source = _innermost(error)
    line = f" at {source}" + (f", `{source.code}`" if source.code else "") if source else ""
    return (
        f"The program cannot be resized to {asked}: its function was traced again, with its arguments resized, and"
        f" failed{line}: it closes over a size there, or another dim must be resized with it. {error}"
        f"{_instead(program, sizes)}"
    )


def _instead(program: Program, sizes: Mapping[str, int]) -> str:
    """Says how a function that closes over dims is written so that these can have other sizes; "" where it does not."""
    held = {variable: dim for variable, dim in closed_over(program.fn).items() if dim.name in sizes}
    if not held:
        return ""
    of = " and ".join(f"`{variable}` ({dim})" for variable, dim in held.items())
    names = ", ".join(dict.fromkeys(f'"{dim.name}"' for dim in held.values()))
    given = ", ".join(dict.fromkeys(f"{dim.name}={sizes[dim.name]}" for dim in held.values()))
    passed = ", ".join(dict.fromkeys(f"{dim.name}={dim.name}" for dim in held.values()))
    variables = "".join(f"{variable}, " for variable in held).rstrip() if len(held) == 1 else ", ".join(held)
    called = getattr(program.fn, "__name__", "step")
    return (
        f"\nThe function closes over {of}. Where it names a dim of its arguments, the name does as well: {names}. Or"
        f" make the program from its sizes, and make it again:\n"
        f"    def build({given}):\n"
        f"        {variables} = ml.dims({passed})\n"
        f"        def {called}(...): ...\n"
        f"        return ml.trace({called}, ...)\n"
        f"    program = build({given})"
    )


def _innermost(error: BaseException | None) -> Source | None:
    """Returns the line at the root of an error, which another may have wrapped."""
    source = None
    while error is not None:
        source = source_of_error(error) or source
        error = error.__cause__
    return source
