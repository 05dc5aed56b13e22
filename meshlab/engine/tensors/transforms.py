"""Transforms functions of named tensors as JAX does those of arrays: `scan`, `vmap`, `checkpoint`.

Each of JAX's transforms that maps over an axis takes that axis off the arrays, and does not know that tensors have
dims as well. These take off both, and put both back:

    >>> import meshlab as ml
    >>> Layers, Embed = ml.dims(layers=3, embed=2)
    >>> scales = ml.tensor([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]], Layers, Embed)
    >>> def layer(x, scale):
    ...     return x * scale, x.sum()
    >>> ml.scan(layer, ml.tensor([1.0, 1.0], Embed), scales, Layers)
    (f32[embed=2]([6. 1.]), f32[layers=3]([2. 2. 3.]))

A scan over layers keeps the program as long as one layer. Under `checkpoint` only what enters a layer is saved for the
backward pass, and the rest is rematerialised. Gradients, `jax.jit` and optimizers need nothing of their own here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from .. import argument_checks
from ..errors import DimError, shown
from . import dim_lists
from . import tensor as named
from .dims import Dim, name_of
from .tensor import Tensor
from .trees import is_tensor

_keystr = jax.tree_util.keystr


def scan(
    function: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    xs: Any,
    dim: Dim | str,
    *,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Applies a function to each slice along a dim, one after the other: `jax.lax.scan` for named tensors.

    Args:
        function: (carry, slice of xs) -> (carry, y); the carry keeps its structure and its dims.
        carry: a tree of tensors, numbers and arrays.
        xs: a tree of tensors that have `dim`, anywhere among their dims, or None. An array without names has it first.
        dim: what to go along; without `xs`, a `Dim`, since a name has no size.
        reverse: whether to start at the end.
        unroll: how many slices one iteration of the loop takes.

    Returns:
        The last carry, and the ys with `dim` in front.

    Raises:
        DimError: something in `xs` lacks `dim`, the carry came back different, or a `y` has `dim` already.

    Example:
        x, _ = ml.scan(ml.checkpoint(layer), x, params["layers"], Layers)
    """
    argument_checks.function("scan", function, "ml.scan(layer, carry, xs, Layers)", DimError)
    argument_checks.takes("scan", function, 2, "the carry and one slice of xs: lambda carry, x: (carry, y)", DimError)
    argument_checks.flag("scan", "reverse", reverse, DimError)
    if not isinstance(unroll, bool):
        argument_checks.whole_number("scan", "unroll", unroll, 1, DimError)
    for name, value in (("carry", carry), ("xs", xs)):
        argument_checks.numeric(f"scan's {name}", value)
    leaves, tree = jax.tree_util.tree_flatten_with_path(xs, is_leaf=is_tensor)
    dim = _sized("scan", dim, [leaf for _, leaf in leaves])
    slices = [_in_front(_keystr(path), leaf, dim) for path, leaf in leaves]

    def body(carry, arrays):
        parts = [_stripped(leaf, array, dim) for (_, leaf), array in zip(leaves, arrays, strict=True)]
        result = function(carry, jax.tree.unflatten(tree, parts))
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise DimError(f"scan's function returned {shown(result)}; it must return a pair: (carry, y).")
        after, ys = result
        argument_checks.numeric("scan's result", result)
        return _same_carry(carry, after), ys

    carry, ys = lax.scan(body, carry, slices, length=dim.size, reverse=reverse, unroll=unroll)
    return _map_tensors(_marked, carry), _restored("scan", ys, dim)


def vmap(function: Callable[..., Any], dim: Dim | str) -> Callable[..., Any]:
    """Makes a function work on each slice along a dim: `jax.vmap` for named tensors.

    Args:
        function: what it is given lacks `dim`.
        dim: what to go along. Arguments that do not have it are the same for every slice.

    Returns:
        A function of the same arguments, whose tensors may have `dim` anywhere; its results have `dim` in front.

    Raises:
        DimError: when called, if no argument has `dim`, or a result of `function` has it already.

    Example:
        norms = ml.vmap(lambda g: ml.sqrt((g * g).sum()), Batch)(gradients)    # [batch]
    """
    argument_checks.function("vmap", function, "ml.vmap(function, Batch)", DimError)
    name_of(dim, "vmap")

    def mapped(*args: Any) -> Any:
        argument_checks.takes("vmap", function, len(args), "what the mapped function was called with", DimError)
        leaves, tree = argument_checks.flat("vmap's argument", args, is_tensor)
        size = _sized("vmap", dim, leaves)
        places = [place for place, leaf in enumerate(leaves) if _has(leaf, size)]
        if not places:
            raise DimError(f"vmap was asked to go along `{size.name}`, and no argument has this dim.")

        def one(*arrays):
            parts = list(leaves)
            for place, array in zip(places, arrays, strict=True):
                parts[place] = _stripped(leaves[place], array, size)
            result = function(*jax.tree.unflatten(tree, parts))
            argument_checks.numeric("vmap's result", result)
            return result

        at = tuple(dim_lists.find("vmap", leaves[place].dims, size) for place in places)
        arrays = [named.array_of("vmap", leaves[place]) for place in places]
        return _restored("vmap", jax.vmap(one, in_axes=at)(*arrays), size)

    return mapped


def checkpoint(function: Callable[..., Any], *, policy: Callable[..., bool] | None = None) -> Callable[..., Any]:
    """Makes a function rematerialise its intermediate values in the backward pass: `jax.checkpoint`.

    It takes no axis off anything, and so is JAX's own; it stands here that there be one place to look.

    Args:
        function: of tensors, numbers and arrays.
        policy: which values to keep all the same, from `jax.checkpoint_policies`; None keeps none.

    Returns:
        A function of the same arguments and results.
    """
    argument_checks.function("checkpoint", function, "ml.checkpoint(layer)", DimError)
    if policy is not None:
        argument_checks.function(
            "checkpoint's policy", policy, "policy=jax.checkpoint_policies.dots_saveable", DimError
        )

    @functools.wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        result = function(*args, **named)
        argument_checks.numeric("checkpoint's result", result)
        return result

    rematerialised = jax.checkpoint(checked, policy=policy)

    @functools.wraps(function)
    def checkpointed(*args: Any, **named: Any) -> Any:
        for number, value in enumerate(args):
            argument_checks.numeric(f"checkpoint's argument {number}", value)
        for name, value in named.items():
            argument_checks.numeric(f"checkpoint's argument `{name}`", value)
        return rematerialised(*args, **named)

    return checkpointed


def _has(x: Any, dim: Dim) -> bool:
    return isinstance(x, Tensor) and dim.name in dim_lists.names(x.dims)


def _map_tensors(function: Callable[[Tensor], Any], tree: Any) -> Any:
    """Applies a function to the tensors of a tree, and leaves the rest."""
    return jax.tree.map(lambda x: function(x) if isinstance(x, Tensor) else x, tree, is_leaf=is_tensor)


def _marked(x: Tensor) -> Any:
    """Returns the tensor, its names marked anew; without dims, the scalar."""
    return named.result(x.array, x.dims)


def _sized(what: str, dim: Dim | str, leaves: list[Any]) -> Dim:
    """Returns the dim with its size, which all tensors must agree on."""
    name = name_of(dim, what)
    alike = [x for leaf in leaves if isinstance(leaf, Tensor) for x in leaf.dims if x.name == name]
    if isinstance(dim, Dim):
        alike.insert(0, dim)
    if not alike:
        text = f"{what} was asked to go along `{name}`, and no argument has this dim."
        fix = f' Without xs, give a dim with its size: ml.Dim("{name}", 12), say.' if not leaves else ""
        raise DimError(text + (fix if what == "scan" else ""))
    dim_lists.agree(what, alike)
    return alike[0]


def _in_front(path: str, x: Any, dim: Dim) -> Any:
    """Returns the array of a slice-wise argument of `scan`, with the dim as its first axis."""
    if not isinstance(x, Tensor):
        if np.shape(x)[:1] == (dim.size,):
            return x
        raise DimError(
            f"scan goes along {dim}, and the first axis of xs{path}, an array of shape {np.shape(x)} without names, "
            "is not that. Give it names, or let the function close over it."
        )
    if not _has(x, dim):
        raise DimError(
            f"scan goes along {dim}, and xs{path} of {dim_lists.show(x.dims)} does not have this dim. "
            "If it is the same in every iteration, it is not part of xs: let the function close over it."
        )
    rest = dim_lists.without(x.dims, [dim_lists.find("scan", x.dims, dim)])
    return named.expand(named.array_of("scan", x), x.dims, (dim, *rest))


def _stripped(x: Any, array: Any, dim: Dim) -> Any:
    """Returns one slice of `x`: the array as the transform gives it, and the dims without `dim`."""
    if not isinstance(x, Tensor):
        return array
    dims = dim_lists.without(x.dims, [dim_lists.find("A transform", x.dims, dim)])
    return Tensor(array, dims) if dims else array


def _restored(what: str, tree: Any, dim: Dim) -> Any:
    """Returns the results of a transform, with the axis that it has put in front named."""

    def restore(x: Any) -> Any:
        if not isinstance(x, Tensor):
            # A number inside is a tensor without dims, so outside it has this one.
            return named.result(x, (dim,)) if np.ndim(x) == 1 else x
        if _has(x, dim):
            raise DimError(
                f"{what} goes along `{dim.name}`, and the function returned {dim_lists.show(x.dims)}, which has it. "
                "Each slice has lost this dim; rename the dim that the function made."
            )
        return named.result(x.array, (dim, *x.dims))

    return jax.tree.map(restore, tree, is_leaf=is_tensor)


def _same_carry(before: Any, after: Any) -> Any:
    """Returns the new carry with its axes in the order of the old one; refuses another structure or other dims."""
    old, old_tree = jax.tree_util.tree_flatten_with_path(before, is_leaf=is_tensor)
    new, new_tree = jax.tree.flatten(after, is_leaf=is_tensor)
    if old_tree != new_tree:
        raise DimError(
            f"The function of scan was given the carry {old_tree} and returned {new_tree}; the carry must keep its"
            " tree."
        )
    return jax.tree.unflatten(
        old_tree, [_same_dims(_keystr(path), x, y) for (path, x), y in zip(old, new, strict=True)]
    )


def _same_dims(path: str, before: Any, after: Any) -> Any:
    """Returns one value of the new carry with its axes in the order of the old one."""
    has, wants = (dim_lists.show(x.dims) if isinstance(x, Tensor) else "no dims" for x in (after, before))
    if set(getattr(after, "dims", ())) != set(getattr(before, "dims", ())):
        raise DimError(
            f"The function of scan was given a carry{path} of {wants} and returned {has}; "
            "the dims of a carry must stay the same. Start with all the dims, or sum the new ones away."
        )
    array = getattr(before, "array", before)
    old, new = getattr(array, "dtype", None), getattr(after, "dtype", None)
    if None not in (old, new) and old != new and not getattr(array, "weak_type", False):
        raise DimError(
            f"The function of scan was given a carry{path} of {old} and returned {new}; the dtype of a carry must stay"
            f" the same. Start with {new}, or return it as it was: y.astype(jnp.{old})."
        )
    if not isinstance(after, Tensor):
        return after
    array = named.expand(named.array_of("scan", after), after.dims, before.dims)
    return Tensor(array, before.dims)
