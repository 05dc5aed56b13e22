"""Reads the names of arguments' axes: those that are given, and those that come along with arrays.

    names={"params/w1": "embed hidden", "x": P("batch", None)}      by places, or globs over them
    names={"variables": nn.get_partition_spec(variables)}           a tree of such, as Flax writes it
    nn.with_logical_partitioning(init, ("embed", "mlp"))            the metadata of Flax's boxes, and of NNX variables

A mesh axis is the name of no dim: where one stands, as in the specs of shardings, the axis has no name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import PartitionSpec

from ...engine import globs
from ...engine.code.operations import Code
from ...engine.errors import DimError, TraceError, closest, shown
from ...engine.programs.naming import Naming, name_axes
from ...engine.tensors.trees import is_tensor, placed_leaves
from .errors import OwnError

AxisNames = tuple[str | None, ...]
# The names of an argument's axes, and where they were given, by its value.
Given = dict[int, tuple[tuple[Any, ...], str]]
# The metadata of an NNX variable that names its axes, by Flax's versions.
_METADATA = ("out_sharding", "sharding_names", "sharding")


class Array(NamedTuple):
    """A leaf of a tree: its place, itself or its shape, and the names that come with its axes."""

    place: str
    leaf: Any
    named: AxisNames | None


def arrays(name: str, tree: Any) -> list[Array]:
    """Returns the arrays of a tree, each with its place under a name; what boxes an array in linen has its place."""
    leaves = placed_leaves(name, tree, is_leaf=lambda node: is_tensor(node) or _boxes(node))
    return [
        Array(place if is_tensor(leaf) or _is_linen(leaf) else inner, one, _fitting(_axis_names(leaf), one))
        for place, leaf in leaves
        for inner, one in placed_leaves(place, leaf, is_leaf=lambda _: False)
    ]


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array, or the shape of one."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _boxes(node: Any) -> bool:
    """Whether a node of a tree is an array with metadata, of Flax linen or NNX (`nnx.Param`)."""
    return _is_linen(node) or (callable(getattr(node, "get_metadata", None)) and len(jax.tree.leaves(node)) == 1)


def _is_linen(node: Any) -> bool:
    """Whether a node of a tree is an array with a name for each axis, as linen boxes them (`nn.Partitioned`)."""
    return isinstance(getattr(node, "names", None), tuple) and is_array(getattr(node, "value", None))


def _axis_names(leaf: Any) -> AxisNames | None:
    if is_tensor(leaf):
        return tuple(dim.name for dim in leaf.dims)
    if not _boxes(leaf):
        return None
    metadata = {"sharding": leaf.names} if _is_linen(leaf) else leaf.get_metadata()
    found = next((metadata[key] for key in _METADATA if metadata.get(key)), None)
    found = getattr(found, "spec", found)  # of a NamedSharding
    return _of_entries(found) if isinstance(found, tuple | PartitionSpec) else None


def _of_entries(entries: Iterable[Any]) -> AxisNames:
    return tuple(entry if isinstance(entry, str) else None for entry in entries)


def _fitting(names: AxisNames | None, array: Any) -> AxisNames | None:
    return names if names is not None and len(names) == len(array.shape) else None


def naming(code: Code, given: Given, along: Given) -> Naming:
    """Names by what is given, and by what comes along with arrays as far as it fits that and the program.

    Raises:
        OwnError: what is given does not fit the program.
    """
    try:
        plain = name_axes(code, given)
    except (DimError, TraceError) as error:
        raise OwnError(f"The names that were given do not fit the program: {error}") from error
    further = [(value, names) for value, names in along.items() if value not in given]
    return _with(code, given, further, plain)[1]


def _with(code: Code, given: Given, further: Sequence[Any], named: Naming) -> tuple[Given, Naming]:
    """Adds as many names as fit, earlier ones first."""
    if not further:
        return given, named
    with contextlib.suppress(DimError, TraceError):
        every = given | dict(further)
        return every, name_axes(code, every)
    if len(further) == 1:
        return given, named
    half = len(further) // 2
    kept, named = _with(code, given, further[:half], named)
    return _with(code, kept, further[half:], named)


def coming_along(code: Code, places: Sequence[str], named: Sequence[AxisNames | None], mesh: Collection[str]) -> Given:
    """Returns the names that come with arguments."""
    arguments = zip(code.block.inputs, named, places, strict=False)
    return {value: (_no_mesh_axes(one, mesh), f"`{place}`") for value, one, place in arguments if one is not None}


def given(code: Code, places: Sequence[str], names: Mapping[str, Any], mesh: Collection[str]) -> Given:
    """Returns the names that are given to arguments.

    Args:
        code: the program.
        places: of its arguments.
        names: by places or globs over them: text, a spec, or a tree of these below a place.
        mesh: its axes.

    Raises:
        OwnError: a glob matches no argument, or an argument has another number of axes.
    """
    found: Given = {}
    for glob, dims in _by_place(names):
        matching = [i for i, place in enumerate(places) if globs.matches(place, glob)]
        if not matching:
            raise OwnError(f"names has {shown(glob)}, which matches no argument.{closest(glob, places)}")
        for position in matching:
            value, place = code.block.inputs[position], places[position]
            found[value] = _no_mesh_axes(_of_rank(dims, len(code.shapes[value]), place), mesh), f"`{place}`"
    return found


def _by_place(names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for place, tree in names.items():
        yield from placed_leaves(place, tree, is_leaf=lambda node: isinstance(node, str | PartitionSpec))


def _of_rank(dims: Any, rank: int, place: str) -> AxisNames:
    """Returns the names of so many axes; a spec may be shorter."""
    if isinstance(dims, PartitionSpec):
        names = _of_entries(dims) + (None,) * (rank - len(dims))
    elif isinstance(dims, str):
        names = tuple(None if dim == "_" else dim for dim in dims.split())
    else:
        raise OwnError(f"names gives `{place}` {shown(dims)}: write its dims, 'embed hidden', or a PartitionSpec.")
    if len(names) != rank:
        raise OwnError(f"names gives `{place}` {len(names)} dims, {shown(dims)}, but it has {rank} axes.")
    return names


def _no_mesh_axes(names: AxisNames, mesh: Collection[str]) -> AxisNames:
    return tuple(None if name in mesh else name for name in names)
