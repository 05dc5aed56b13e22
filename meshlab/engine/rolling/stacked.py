"""Layers that are alike, in a list or under numbered keys, as one tree of arrays stacked along a first axis.

    {"embed": e, "layers": [{"w": w0}, {"w": w1}]}      {"embed": e, "layers": Stacked({"w": [w0 w1]})}
    {"Block_0": {"w": w0}, "Block_1": {"w": w1}}        {"Block": Stacked({"w": [w0 w1]})}
    {"blocks": {0: {"w": w0}, 1: {"w": w1}}}            {"blocks": Stacked({"w": [w0 w1]})}
    {"block_0/q": {"w": w0}, "block_1/q": {"w": w1}}    {"block": Stacked({"q": {"w": [w0 w1]}})}, Haiku's paths

`Stacked` is a pytree, so that gradients and optimizers take it; its arrays have the places `layers/w` and `Block/w`.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import DimError, TraceError, shown
from ..tensors.dims import Dim, is_name
from ..tensors.named_arrays import NamedArray
from ..tensors.tensor import Tensor
from ..tensors.trees import Unplaced
from .static_fields import static_difference

# A key with a number at its end.
_NUMBERED = re.compile(r"(?P<name>.*?)_?(?P<number>\d+)")
# A path whose first numbered part is not its last.
_PATH = re.compile(r"(?P<name>[^/]*?(?:/[^/]*?)*?)_?(?P<number>\d+)/(?P<rest>.*)")


@dataclasses.dataclass(frozen=True, eq=False)
class Stacked:
    """Layers as one tree.

    Attributes:
        layers: a tree like that of each layer, with stacked arrays.
        keys: of the layers, where they are the values of a dict; None for a list or tuple. A layer that is spread over
            several paths has a tuple of pairs: the rest of each path, and the whole.
        container: the type of the list, tuple or dict; None where the dict may have more than these layers.
    """

    layers: Any
    keys: tuple[Any, ...] | None = None
    container: type | None = list

    def contained(self, layers: Sequence[Any]) -> Any:
        """Returns the list, tuple or dict of layers that were taken apart."""
        if self.keys is not None and isinstance(self.keys[0], tuple):
            each = zip(self.keys, layers, strict=True)
            return {whole: layer[rest] for pairs, layer in each for rest, whole in pairs}
        held = layers if self.keys is None else dict(zip(self.keys, layers, strict=True))
        return held if self.container is None else self.container(held)


jax.tree_util.register_pytree_with_keys(
    Stacked,
    lambda node: (((Unplaced(), node.layers),), (node.keys, node.container)),
    lambda kept, children: Stacked(next(iter(children)), *kept),
)

Leaf = Any
Put = Callable[[Sequence[Any]], Any]
Take = Callable[[Any, int], Any]


def is_leaf(node: Any) -> bool:
    return isinstance(node, Tensor | NamedArray)


def stack_layers(tree: Any, dim: str = "layers") -> Any:
    """Stacks the arrays of layers that are alike, wherever a tree has a list, a tuple or numbered keys of them.

    Args:
        tree: a tree of arrays, abstract arrays, tensors or named arrays, such as parameters or an optimizer's state;
            or a tuple of several trees.
        dim: the name of the first axis of stacked tensors and named arrays.

    Returns:
        The tree, in which the layers of each list, and of the numbered keys of each dict, are one tree of stacked
        arrays. Layers are alike if they have the same trees, shapes, dtypes and dims. `unstack_layers` takes them
        apart.

    Raises:
        TraceError: no layers are alike.
        DimError: `dim` is not a name.

    Example:
        program = ml.trace(ml.scan_layers(step), ml.stack_layers(params), x, y)
    """
    if not is_name(dim):
        raise DimError(f"stack_layers() was given the dim {shown(dim)}; give a name, such as 'layers'.")
    stacked = stacked_tree(tree, dim, _stack)
    if not any(map(_is_stacked, jax.tree.leaves(stacked, is_leaf=_is_stacked))):
        raise TraceError(
            "stack_layers() found no layers that are alike: a list, a tuple or numbered keys (`block_0`, or 0) of"
            f" trees with the same shapes, dtypes and dims.{_unlike(tree)}"
        )
    return stacked


def _unlike(tree: Any) -> str:
    """Says why the layers of a tree that have the same arrays are not alike; "" where there are no such layers."""

    def layers_in(node: Any) -> Iterator[Sequence[Any]]:
        entries = _entries(node)
        if type(node) in (list, tuple):
            yield node
        yield from ([entries[key] for key in keys] for keys in _numbered(entries).values())
        for child in jax.tree.leaves(node, is_leaf=lambda other: other is not node):
            if child is not node and not is_leaf(node):
                yield from layers_in(child)

    for layers in layers_in(tree):
        if len(layers) > 1 and len({_kind(layer)[1] for layer in layers}) == 1:
            differences = (static_difference(layers[0], layer) for layer in layers[1:])
            if said := next(filter(None, differences), ""):
                return f" Some have the same arrays; they differ in the static field {said}. All must have equal ones."
    return ""


def unstack_layers(tree: Any) -> Any:
    """Takes apart what `stack_layers` stacked, in any tree: parameters, gradients, results of a step."""
    return apart(tree, _slice)


def stacked_dim(tree: Any) -> str:
    """Returns the name of the axis along which tensors of a tree are stacked."""
    nodes = jax.tree.leaves(tree, is_leaf=_is_stacked)
    tensors = (leaf for n in nodes if _is_stacked(n) for leaf in jax.tree.leaves(n, is_leaf=is_leaf) if is_leaf(leaf))
    return next((leaf.dims[0].name for leaf in tensors), "layers")


def like_stacked(tree: Any, take: Take) -> Callable[[Sequence[Any]], bool]:
    """Returns what says whether layers are like those that are stacked in a tree, and as many.

    Args:
        tree: a tree with stacked layers.
        take: takes a layer's array out of a stacked one.
    """
    nodes = filter(_is_stacked, jax.tree.leaves(tree, is_leaf=_is_stacked))
    known = [(len(layers), _kind(layers[0])) for layers in (_layers_of(node, take) for node in nodes)]
    return lambda layers: any(count == len(layers) and kind == _kind(layers[0]) for count, kind in known)


def _is_stacked(node: Any) -> bool:
    return isinstance(node, Stacked)


def stacked_tree(tree: Any, dim: str, put: Put, wanted: Callable[[Sequence[Any]], bool] = lambda layers: True) -> Any:
    """Returns a tree with layers that are alike stacked.

    Args:
        tree: the tree.
        dim: the name of the new axis.
        put: makes one array of those of the layers.
        wanted: says whether layers are stacked.
    """

    def node_of(layers: Sequence[Any], keys: tuple[Any, ...] | None, container: type | None) -> Stacked:
        structure = jax.tree.structure(layers[0], is_leaf=is_leaf)
        rows = zip(*(jax.tree.leaves(layer, is_leaf=is_leaf) for layer in layers), strict=True)
        return Stacked(jax.tree.unflatten(structure, [_put(row, dim, put) for row in rows]), keys, container)

    def visit(node: Any) -> Any:
        is_sequence = type(node) is list or (type(node) is tuple and node is not tree and not _are_arrays(node))
        if is_sequence and _alike(node) and wanted(node):
            return node_of(node, None, type(node))
        entries = _entries(node)
        instead: dict[Any, dict[str, Stacked]] = {}
        for name, paths in _spread(entries).items():
            layers = [{rest: entries[whole] for rest, whole in pairs} for pairs in paths]
            if name and name not in entries and _alike(layers) and wanted(layers):
                every = [whole for pairs in paths for _, whole in pairs]
                instead |= {**{key: {} for key in every}, every[0]: {name: node_of(layers, paths, None)}}
        for name, keys in _numbered({key: entries[key] for key in entries if key not in instead}).items():
            layers = [entries[key] for key in keys]
            is_all = not name and len(keys) == len(entries)
            if (is_all or (name and name not in entries)) and _alike(layers) and wanted(layers):
                if is_all:
                    return node_of(layers, keys, type(node))
                instead |= {**{key: {} for key in keys}, keys[0]: {name: node_of(layers, keys, None)}}
        if instead:
            made: dict[Any, Any] = {}
            for key, value in entries.items():
                made |= instead[key] if key in instead else {key: visit(value)}
            return type(node)(made)
        return _one_level_down(node, visit)

    return visit(tree)


def apart(tree: Any, take: Take) -> Any:
    """Returns a tree with stacked layers taken apart.

    Args:
        tree: the tree.
        take: takes a layer's array out of a stacked one.
    """

    def visit(node: Any) -> Any:
        if isinstance(node, Stacked):
            return node.contained(_layers_of(node, take))
        entries = _entries(node)
        among = {key for key, value in entries.items() if _is_stacked(value) and value.container is None}
        if among:
            made: dict[Any, Any] = {}
            for key, value in entries.items():
                made |= value.contained(_layers_of(value, take)) if key in among else {key: visit(value)}
            return type(node)(made)
        return _one_level_down(node, visit)

    return visit(tree)


def _layers_of(node: Stacked, take: Take) -> list[Any]:
    leaves, structure = jax.tree.flatten(node.layers, is_leaf=is_leaf)
    count = _count(leaves[0])
    return [jax.tree.unflatten(structure, [_taken(leaf, at, take) for leaf in leaves]) for at in range(count)]


def _one_level_down(node: Any, visit: Callable[[Any], Any]) -> Any:
    """Returns a node of any kind with its children visited; a leaf as it is."""
    children, structure = jax.tree.flatten(node, is_leaf=lambda other: other is not node)
    if is_leaf(node) or (len(children) == 1 and children[0] is node):
        return node
    return jax.tree.unflatten(structure, [visit(child) for child in children])


def _entries(node: Any) -> Mapping[Any, Any]:
    """Returns the children of a dict by their keys, also of a library's own, such as Flax's `State`; none of others."""
    if type(node) is dict:
        return node
    # A `defaultdict` cannot be made of its entries alone.
    if not isinstance(node, Mapping) or isinstance(node, collections.defaultdict):
        return {}
    children, _ = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda other: other is not node)
    return {path[0].key: child for path, child in children if path and isinstance(path[0], jax.tree_util.DictKey)}


def _numbered(node: Mapping[Any, Any]) -> dict[str, tuple[Any, ...]]:
    """Returns the keys of a dict that end in a number, by what stands before it, in the order of these numbers.

    Keys that are numbers, such as 0 or "0", have nothing before them.
    """
    found: dict[str, dict[int, Any]] = {}
    for key in node:
        if type(key) is int:
            found.setdefault("", {})[key] = key
        elif isinstance(key, str) and (match := _NUMBERED.fullmatch(key)):
            found.setdefault(match["name"], {})[int(match["number"])] = key
    return {name: tuple(keys[number] for number in sorted(keys)) for name, keys in found.items()}


def _spread(node: Mapping[Any, Any]) -> dict[str, tuple[Any, ...]]:
    """Returns the paths with a number before their last part, by what stands before it: of each number, as pairs."""
    found: dict[str, dict[int, list[tuple[str, str]]]] = {}
    for key in node:
        if isinstance(key, str) and (match := _PATH.fullmatch(key)):
            found.setdefault(match["name"], {}).setdefault(int(match["number"]), []).append((match["rest"], key))
    return {name: tuple(tuple(sorted(of[number])) for number in sorted(of)) for name, of in found.items()}


def _are_arrays(layers: Sequence[Any]) -> bool:
    return all(jax.tree_util.all_leaves([layer], is_leaf=is_leaf) for layer in layers)


def _alike(layers: Sequence[Any]) -> bool:
    kinds = [_kind(layer) for layer in layers]
    return len(kinds) > 1 and bool(kinds[0][1]) and all(kind == kinds[0] for kind in kinds)


def _kind(layer: Any) -> tuple[Any, tuple[Any, ...]]:
    leaves, structure = jax.tree.flatten(layer, is_leaf=is_leaf)
    return structure, tuple(map(_kind_of, leaves))


def _kind_of(leaf: Any) -> tuple[Any, ...]:
    names = leaf.dims if isinstance(leaf, Tensor) else leaf.names if isinstance(leaf, NamedArray) else None
    array = leaf.array if is_leaf(leaf) else leaf
    return names, getattr(array, "shape", None), getattr(array, "dtype", None)


def _put(leaves: Sequence[Any], dim: str, put: Put) -> Any:
    first = leaves[0]
    if not is_leaf(first):
        return put(leaves)
    array = put([leaf.array for leaf in leaves])
    if isinstance(first, NamedArray):
        return NamedArray(array, (dim, *first.names))
    return _tensor(array, (Dim(dim, len(leaves)), *first.dims))


def _taken(leaf: Any, index: int, take: Take) -> Any:
    if not is_leaf(leaf):
        return take(leaf, index)
    array = take(leaf.array, index)
    return NamedArray(array, leaf.names[1:]) if isinstance(leaf, NamedArray) else _tensor(array, leaf.dims[1:])


def _tensor(array: Any, dims: Sequence[Dim]) -> Any:
    """Returns a tensor of anything: what JAX puts into trees has no shape."""
    shape = tuple(dim.size for dim in dims)
    like = Tensor(jax.ShapeDtypeStruct(shape, jnp.float32), tuple(dims))
    return jax.tree.unflatten(jax.tree.structure(like), [array])


def _count(leaf: Any) -> int:
    return (leaf.array if is_leaf(leaf) else leaf).shape[0]


def _stack(arrays: Sequence[Any]) -> Any:
    if any(isinstance(array, jax.ShapeDtypeStruct) for array in arrays):
        return jax.ShapeDtypeStruct((len(arrays), *arrays[0].shape), arrays[0].dtype)
    return jnp.stack(arrays)


def _slice(array: Any, index: int) -> Any:
    return (
        jax.ShapeDtypeStruct(array.shape[1:], array.dtype) if isinstance(array, jax.ShapeDtypeStruct) else array[index]
    )
