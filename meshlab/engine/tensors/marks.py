"""A mark is an identity operation that writes dim names into a jaxpr.

A jaxpr knows shapes, not names. A mark is a primitive that returns its operand as it is and carries, in its
parameters, what meshlab wants to know about it. It costs nothing: it lowers to no operation at all.

    >>> import jax, jax.numpy as jnp
    >>> jax.make_jaxpr(lambda x: mark_names(x, ("batch", "hidden")))(jnp.zeros((2, 3))).jaxpr.eqns[0].primitive
    dim_names

Marks survive what JAX does to a program. Under `jax.grad` the same mark stands on the cotangent, so that gradients
have names too; under `scan`, `checkpoint` and `jit` it stays where it is; under `vmap` the new axis has no name
(`None`), until `meshlab.vmap` names it. The parameter is called `names`, since `dims` is taken by JAX's batching.

There are three. `name_p` says what the axes are called. `rename_p` says that from here on they are called otherwise,
which is where data may move. `tag_p` says that this value has a place of its own, which layouts can address.
"""

from __future__ import annotations

from typing import Any

import jax

from ..own_primitives import linear_primitive

Names = tuple[str | None, ...]


def _with_gap(names: Names, axis: int) -> Names:
    return (*names[:axis], None, *names[axis:])


def _identity(operand: Any, **_params: Any) -> Any:
    return operand


name_p = linear_primitive(
    "dim_names",
    _identity,
    transpose=lambda params: params,
    batch=lambda params, axis: {"names": _with_gap(params["names"], axis)},
)
rename_p = linear_primitive(
    "rename",
    _identity,
    transpose=lambda params: {"before": params["after"], "after": params["before"]},
    batch=lambda params, axis: {key: _with_gap(names, axis) for key, names in params.items()},
)
tag_p = linear_primitive("tag", _identity, transpose=lambda params: params, batch=lambda params, _: params)


def mark_names(array: jax.Array, names: Names) -> jax.Array:
    """Returns the array, its axes named in the jaxpr; `None` leaves an axis unnamed."""
    return name_p.bind(array, names=tuple(names))


def mark_rename(array: jax.Array, before: Names, after: Names) -> jax.Array:
    """Returns the array, its axes called `before` up to here and `after` from here on."""
    return rename_p.bind(array, before=tuple(before), after=tuple(after))


def mark_tag(array: jax.Array, tag: str) -> jax.Array:
    """Returns the array, known to layouts as the place `tag`; so is its cotangent."""
    return tag_p.bind(array, tag=tag)
