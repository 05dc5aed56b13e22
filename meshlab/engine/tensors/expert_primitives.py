"""Makes primitives of what sends tokens to experts and back (`experts.py`), with their gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..own_primitives import several_primitive
from .experts import Place, Routing, Shape, collect, ragged, ragged_grad, route, send, weigh


def _batched(
    primitive: Callable[[], Any], deeper: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[..., tuple[list[Any], list[int]]]:
    """Returns what `vmap` makes of a primitive: a new axis in front of all operands."""

    def batched(arrays: Sequence[Any], axes: Sequence[int | None], **params: Any) -> tuple[list[Any], list[int]]:
        size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
        front = [
            jnp.broadcast_to(array, (size, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
            for array, axis in zip(arrays, axes, strict=True)
        ]
        results = primitive().bind(*front, **deeper(params))
        return results, [0] * len(results)

    return batched


def _how_deeper(params: dict[str, Any]) -> dict[str, Any]:
    return params | {"how": params["how"].mapped()}


def _stack_deeper(params: dict[str, Any]) -> dict[str, Any]:
    return params | {"stacked": params["stacked"] + 1}


def _run_route(choice: Any, *, how: Routing, places: Shape) -> list[Any]:
    return route(how, Place(how.experts), choice, places)


def _route_shapes(choice: Any, *, how: Routing, places: Shape) -> list[tuple[Shape, Any]]:
    rows = (*choice.shape[: how.stacked], *places), jnp.int32
    return [(choice.shape, choice.dtype), rows, rows]


def _run_send(x: Any, choice: Any, order: Any, *weights: Any, how: Routing, repeated: bool) -> list[Any]:
    return [send(how, Place(how.experts), repeated, x, (choice, order), weights=weights[0] if weights else None)]


def _send_shapes(
    x: Any, choice: Any, order: Any, *weights: Any, how: Routing, repeated: bool
) -> list[tuple[Shape, Any]]:
    return [((*order.shape, *x.shape[how.stacked + how.items + (not repeated) :]), x.dtype)]


def _run_collect(rows: Any, choice: Any, order: Any, *, how: Routing, summed: bool) -> list[Any]:
    return [collect(how, Place(how.experts), summed, rows, (choice, order))]


def _collect_shapes(rows: Any, choice: Any, order: Any, *, how: Routing, summed: bool) -> list[tuple[Shape, Any]]:
    tokens = choice.shape[:-1] if summed else choice.shape
    return [((*tokens, *rows.shape[how.stacked + 2 :]), rows.dtype)]


def _run_weigh(rows: Any, choice: Any, order: Any, weights: Any, *, how: Routing) -> list[Any]:
    return weigh(how, Place(how.experts), rows, (choice, order), weights)


def _weigh_shapes(rows: Any, choice: Any, order: Any, weights: Any, *, how: Routing) -> list[tuple[Shape, Any]]:
    rest = rows.shape[how.stacked + 2 :]
    return [((*choice.shape[:-1], *rest), rows.dtype), ((*choice.shape, *rest), rows.dtype)]


def _run_pair(each: Any, cotangent: Any, *, how: Routing) -> list[Any]:
    k = how.stacked + how.items
    product = each * jnp.expand_dims(cotangent, k)
    return [jnp.sum(product, tuple(range(k + 1, each.ndim)))]


def _pair_shapes(each: Any, cotangent: Any, *, how: Routing) -> list[tuple[Shape, Any]]:
    return [(each.shape[: how.stacked + how.items + 1], each.dtype)]


def _run_ragged(rows: Any, weights: Any, ids: Any, *, inner: int, transposed: bool, stacked: int, factor: float):
    return [ragged(rows, weights, ids, inner=inner, transposed=transposed, stacked=stacked)]


def _ragged_shapes(rows: Any, weights: Any, ids: Any, *, inner: int, transposed: bool, stacked: int, factor: float):
    axes = weights.shape[stacked + 1 :]
    return [((*ids.shape, *(axes[: len(axes) - inner] if transposed else axes[inner:])), rows.dtype)]


def _run_ragged_grad(rows: Any, cotangent: Any, ids: Any, *, stacked: int, factor: float) -> list[Any]:
    return [ragged_grad(stacked, rows, cotangent, ids)]


def _ragged_grad_shapes(rows: Any, cotangent: Any, ids: Any, *, stacked: int, factor: float):
    axes = (*rows.shape[stacked + 2 :], *cotangent.shape[stacked + 2 :])
    return [((*ids.shape[: stacked + 1], *axes), rows.dtype)]


route_p = several_primitive(
    "route_experts",
    _run_route,
    _route_shapes,
    _batched(lambda: route_p, _how_deeper),
)
send_p = several_primitive(
    "send_experts",
    _run_send,
    _send_shapes,
    _batched(lambda: send_p, _how_deeper),
)
collect_p = several_primitive(
    "collect_experts",
    _run_collect,
    _collect_shapes,
    _batched(lambda: collect_p, _how_deeper),
)
weigh_p = several_primitive(
    "weigh_experts",
    _run_weigh,
    _weigh_shapes,
    _batched(lambda: weigh_p, _how_deeper),
)
pair_p = several_primitive(
    "pair_experts",
    _run_pair,
    _pair_shapes,
    _batched(lambda: pair_p, _how_deeper),
)
ragged_p = several_primitive(
    "ragged_experts",
    _run_ragged,
    _ragged_shapes,
    _batched(lambda: ragged_p, _stack_deeper),
)
ragged_grad_p = several_primitive(
    "ragged_experts_grad",
    _run_ragged_grad,
    _ragged_grad_shapes,
    _batched(lambda: ragged_grad_p, _stack_deeper),
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def sent(how: Routing, repeated: bool, x: Any, choice: Any, order: Any) -> Any:
    """Returns `send` on one device, with its gradient."""
    return send_p.bind(x, choice, order, how=how, repeated=repeated)[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def collected(how: Routing, summed: bool, rows: Any, choice: Any, order: Any) -> Any:
    """Returns `collect` on one device, with its gradient."""
    return collect_p.bind(rows, choice, order, how=how, summed=summed)[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def weighed(how: Routing, rows: Any, choice: Any, order: Any, weights: Any) -> Any:
    """Returns the first result of `weigh` on one device, with its gradient."""
    return weigh_p.bind(rows, choice, order, weights, how=how)[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def multiplied(factor: float, inner: int, rows: Any, weights: Any, ids: Any) -> Any:
    """Returns `ragged`, with its gradient."""
    return ragged_p.bind(rows, weights, ids, inner=inner, transposed=False, stacked=0, factor=factor)[0]


def _sent_backward(how: Routing, repeated: bool, kept: tuple[Any, Any], cotangent: Any) -> tuple[Any, None, None]:
    return collected(how, repeated, cotangent, *kept), None, None


def _collected_backward(how: Routing, summed: bool, kept: tuple[Any, Any], cotangent: Any) -> tuple[Any, None, None]:
    return sent(how, summed, cotangent, *kept), None, None


def _weighed(how: Routing, *given: Any) -> tuple[Any, tuple[Any, ...]]:
    out, each = weigh_p.bind(*given, how=how)
    return out, (*given[1:], each)


def _weighed_backward(how: Routing, kept: tuple[Any, ...], cotangent: Any) -> tuple[Any, None, None, Any]:
    choice, order, weights, each = kept
    of_weights = pair_p.bind(each, cotangent, how=how)[0].astype(weights.dtype)
    # Weighed where it is sent, so that no array has a row for each choice.
    return send_p.bind(cotangent, choice, order, weights, how=how, repeated=True)[0], None, None, of_weights


def _multiplied_backward(factor: float, inner: int, kept: tuple[Any, ...], cotangent: Any) -> tuple[Any, Any, None]:
    rows, weights, ids = kept
    outer = cotangent.ndim - ids.ndim
    back = ragged_p.bind(cotangent, weights, ids, inner=outer, transposed=True, stacked=0, factor=factor)[0]
    return back, ragged_grad_p.bind(rows, cotangent, ids, stacked=0, factor=factor)[0], None


sent.defvjp(lambda how, repeated, x, *kept: (sent(how, repeated, x, *kept), kept), _sent_backward)
collected.defvjp(lambda how, summed, x, *kept: (collected(how, summed, x, *kept), kept), _collected_backward)
weighed.defvjp(_weighed, _weighed_backward)
multiplied.defvjp(lambda factor, inner, *given: (multiplied(factor, inner, *given), given), _multiplied_backward)
