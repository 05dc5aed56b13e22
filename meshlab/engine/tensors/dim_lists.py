"""Finds, unites and removes dims in lists of them. No arrays here.

Every operation on named tensors asks the same three questions, and they are answered here with the same words:
which axis is meant by a dim (`find`), whether two operands agree on a dim's size (`agree`), and which dims a result has
that broadcasts by name (`union`).

    >>> from meshlab.engine.tensors.dims import dims
    >>> Batch, Hidden = dims(batch=2, hidden=3)
    >>> find("dot", (Batch, Hidden), "hidden")
    1
    >>> show(union("add", (Batch,), (Hidden, Batch)))
    '[hidden=3, batch=2]'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import DimError, closest, listed, shown
from .dims import Dim, Ragged, name_of

Dims = tuple[Dim, ...]


def show(dims: Iterable[Dim]) -> str:
    """Returns dims as they stand in messages: `[batch=100, hidden=1024]`."""
    return "[" + ", ".join(map(str, dims)) + "]"


def names(dims: Iterable[Dim]) -> tuple[str, ...]:
    return tuple(dim.name for dim in dims)


def sizes(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Returns the sizes of dims: the shape of an array that has them."""
    return tuple(dim.size for dim in dims)


def distinct(what: str, dims: Sequence[Dim]) -> Dims:
    """Returns the dims; refuses a name that appears twice among them."""
    if not isinstance(dims, tuple | list) or not all(isinstance(dim, Dim) for dim in dims):
        raise DimError(f"{what} was given the dims {shown(dims)}; they must be a tuple of ml.Dim, one for each axis.")
    for position, dim in enumerate(dims):
        if dim.name in names(dims[:position]):
            raise DimError(f"{what} has the dim `{dim.name}` twice: {show(dims)}. Give one of them another name.")
    return tuple(dims)


def agree(what: str, *groups: Iterable[Dim]) -> None:
    """Refuses two dims of one name and different sizes."""
    known: dict[str, Dim] = {}
    for dim in (dim for group in groups for dim in group):
        if known.setdefault(dim.name, dim) != dim:
            if known[dim.name].size == dim.size:
                raise DimError(
                    f"{what} met rows that are sorted along `{dim.name}` and an array that is not. Rows meet arrays of"
                    " experts in ml.ragged_dot, and tokens once they are back from ml.combine."
                )
            raise DimError(
                f"{what} met two sizes of the dim `{dim.name}`: {known[dim.name]} and {dim}. "
                "Within a program a name has one size; give one of them another name."
            )


def find(what: str, dims: Dims, dim: Dim | str) -> int:
    """Returns the axis that a dim, or its name, stands for; refuses one that is missing or has another size."""
    if not isinstance(dim, Dim | str):
        has = f"it has {listed(names(dims))}" if dims else "it has none"
        raise DimError(
            f"{what} was given {shown(dim)} for a dim of {show(dims)}; dims are given one by one, by name: {has}."
        )
    name = name_of(dim)
    for axis, candidate in enumerate(dims):
        if candidate.name == name:
            if isinstance(candidate, Ragged):
                raise DimError(
                    f"{what} was asked for the dim `{name}` of {show(dims)}, along which rows are sorted by expert, in"
                    " an order of each device's own. Bring them back first: ml.combine(rows, sent)."
                )
            agree(what, [candidate], [dim] if isinstance(dim, Dim) else [])
            return axis
    near = closest(name, names(dims))
    if len(parts := name.replace(",", " ").split()) > 1:
        near = " Dims are given one by one: " + ", ".join(map(repr, parts)) + "."
    raise DimError(f"{what} was asked for the dim `{name}` of {show(dims)}, which has no such dim.{near}")


def find_all(what: str, dims: Dims, wanted: Sequence[Dim | str]) -> tuple[int, ...]:
    """Returns the axes of several dims, none of them listed twice; without any, all axes."""
    axes = tuple(find(what, dims, dim) for dim in wanted)
    if len(set(axes)) != len(axes):
        raise DimError(f"{what} was given a dim twice: {', '.join(f'`{name_of(dim)}`' for dim in wanted)}.")
    return axes if wanted else tuple(range(len(dims)))


def union(what: str, *groups: Dims) -> Dims:
    """Returns the dims of a result that broadcasts by name.

    Those of the first group, then the new ones of the next; but where the first is a subsequence of the next, the
    next, so that `bias + x` has the order of `x`.
    """
    agree(what, *groups)
    result: Dims = ()
    for group in groups:
        in_both = tuple(dim for dim in group if dim in result)
        result = group if in_both == result else result + tuple(dim for dim in group if dim not in result)
    return result


def without(dims: Dims, removed: Iterable[int]) -> Dims:
    """Returns the dims that are left when some axes are taken off."""
    gone = set(removed)
    return tuple(dim for axis, dim in enumerate(dims) if axis not in gone)
