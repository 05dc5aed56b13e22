"""Sends tokens to experts and back, sorted by expert: what `ml.dispatch`, `ml.ragged_dot` and `ml.combine` are made of.

    choice[batch seq k]                  →  ids[experts rows], order[experts rows]      `route`
    x[batch seq embed]                   →  rows[experts rows embed]                     `send`
    rows[experts rows embed] · w[experts embed ffn]  →  [experts rows ffn]               `ragged`
    rows[experts rows embed]             →  [batch seq k embed], or their sum            `collect`, `weigh`

Rows stand behind each other in the order of their experts, through all places of a device: an expert that many tokens
choose takes places of the next. So their order depends on which experts a device has, and only what knows it may read
them: `ids`, the number of each row's expert among those of its device, and `order`, where each row stood when it
arrived; empty places come last, with numbers from the number of all places on. Every device keeps as many places for
each device that sends to it; what finds none is dropped.

Each of them is the gradient of another: `send` and `collect` of each other, `send` times weights of `weigh`, `ragged`
of itself, and of the matrices `ragged_grad`; of the weights of choices it is `pair`, each row times the cotangent of
its token. They run on one device here; `rules/experts.py` exchanges between devices, and `expert_primitives.py` makes
primitives of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Shape = tuple[int, ...]
# The experts of each token, and how rows were sorted.
Known = tuple[Any, Any]
# How many rows are sent to each device, and come from each.
Counts = tuple[Any, Any] | None


@dataclasses.dataclass(frozen=True)
class Routing:
    """Says how tokens go to experts.

    Attributes:
        experts: how many there are.
        room: places of each, on average: as many as a factor of the even share.
        factor: how many places there are for each choice of a token.
        items: the axes of tokens.
        stacked: the axes of `vmap` in front.
    """

    experts: int
    room: int
    factor: float
    items: int
    stacked: int = 0

    @classmethod
    def of(cls, experts: int, choices: int, factor: float, items: int) -> Routing:
        """Returns how so many choices go to experts, with places for the choices times a factor, rounded up."""
        room = math.ceil(factor * choices / experts)
        return cls(experts, room, experts * room / choices, items)

    def factor_of(self, room: int) -> float:
        """Returns the factor of the fewest digits that gives each expert this many places."""
        choices = round(self.experts * self.room / self.factor)
        most = self.experts * room / choices
        # Rounded down: with one that is too large by its last digit there would be one place more.
        short = (math.floor(most * 10**digits) / 10**digits for digits in range(16))
        return next(each for each in (*short, most) if Routing.of(self.experts, choices, each, self.items).room == room)

    def mapped(self) -> Routing:
        return dataclasses.replace(self, stacked=self.stacked + 1)


class Place:
    """Where rows of some experts are sent from and to: here, one device has them all.

    Attributes:
        sources: how many devices send to one.
        experts: how many experts a device has.
    """

    sources = 1

    def __init__(self, experts: int):
        self.experts = experts

    def home(self, choice: Any) -> Any:
        """Returns to which of the devices that this one exchanges with each choice goes; `sources` for none of them."""
        return jnp.where((choice >= 0) & (choice < self.experts), 0, 1)

    def exchange(self, x: Any, full: Counts = None) -> Any:
        """Sends each device its part along the second axis; returns what came from each.

        Args:
            x: [stack, sources * places, ...]
            full: [stack, sources] twice, how many of its places are full at the start of each part that is sent, and of
                each that comes; the others hold zeros. None where that is not known.
        """
        return x


@dataclasses.dataclass(frozen=True)
class _Sent:
    """Which items go where: of a stack of lists of items.

    Attributes:
        item: [stack, sources * places], the number of the item in each place.
        is_taken: whether an item is there.
        slot: [stack, items], the place of each item.
        is_kept: whether it has found one.
        full: [stack, sources], how many places in front of each device are taken.
    """

    item: Any
    is_taken: Any
    slot: Any
    is_kept: Any
    full: Any


def _sent(place: Place, choice: Any, places: int) -> _Sent:
    """Gives items their places in front of each device, first come first served.

    Args:
        place: where they are sent.
        choice: [stack, items], the expert of each.
        places: how many a device has, for all that send to it.
    """
    each, sources, count = places // place.sources, place.sources, choice.shape[1]
    home = place.home(choice)
    by_home = jnp.argsort(home, axis=1, stable=True)
    counts = jnp.sum(home[:, :, None] == jnp.arange(sources + 1), axis=1, dtype=jnp.int32)
    starts = jnp.cumsum(counts, axis=1) - counts
    at = jnp.arange(sources * each)
    to, number = at // max(each, 1), at % max(each, 1)
    rank = jnp.take(starts, to, axis=1) + number
    item = jnp.take_along_axis(by_home, jnp.minimum(rank, count - 1), axis=1)
    number_of = _inverse(by_home) - jnp.take_along_axis(starts, home, axis=1)
    is_kept = (home < sources) & (number_of < each)
    slot = jnp.where(is_kept, home * each + number_of, 0)
    full = jnp.minimum(counts[:, :sources], each)
    return _Sent(item, number < jnp.take(counts, to, axis=1), slot, is_kept, full)


def _inverse(order: Any) -> Any:
    """Returns where each number stands in a permutation, one for each of a stack."""
    numbers = jnp.broadcast_to(jnp.arange(order.shape[1], dtype=order.dtype), order.shape)
    put = lambda one, numbers: jnp.zeros_like(one).at[one].set(numbers, unique_indices=True)  # noqa: E731
    return jax.vmap(put)(order, numbers)


def _taken(array: Any, index: Any) -> Any:
    """Returns elements of an array, [stack, items, ...], by number, one list for each of the stack."""
    return jax.vmap(lambda one, index: jnp.take(one, index, axis=0, mode="clip"))(array, index)


def _flat(array: Any, how: Routing, axes: int) -> Any:
    """Returns an array [stack, items, rest] of one that has several axes of the stack, of items, and others."""
    stack, items = array.shape[: how.stacked], array.shape[how.stacked : how.stacked + axes]
    return array.reshape(math.prod(stack), math.prod(items), -1)


def _filled(array: Any, places: int, value: Any) -> Any:
    """Returns an array with places at its end that nobody sends to."""
    missing = places - array.shape[1]
    around = [(0, 0)] * array.ndim
    around[1] = (0, missing)
    return jnp.pad(array, around, constant_values=value) if missing else array


def _arrived(order: Any, sources: int) -> tuple[Any, Any]:
    """Returns where each row stood when it arrived, and how many came from each device: [stack, sources]."""
    count = order.shape[1]
    is_row, each = order < count, max(count // sources, 1)
    source = jnp.where(is_row, order // each, sources)
    came = jnp.sum(source[:, :, None] == jnp.arange(sources), axis=1, dtype=jnp.int32)
    return jnp.where(is_row, order, order - count), came


def route(how: Routing, place: Place, choice: Any, places: Shape) -> list[Any]:
    """Returns the choice itself, the number of each row's expert among those of its device, and how rows were sorted.

    Args:
        how: the routing.
        place: where items are sent.
        choice: [*stack, *tokens, k], the experts of each token.
        places: how many experts a device has, and places of each.
    """
    choices = _flat(choice, how, how.items + 1)[..., 0]
    count = math.prod(places)
    sent = _sent(place, choices, count)
    expert = jnp.take_along_axis(choices, sent.item, axis=1).astype(jnp.int32) % place.experts
    arrived = place.exchange(jnp.where(sent.is_taken, expert, how.experts))
    arrived = _filled(arrived, count, how.experts)
    order = jnp.argsort(arrived, axis=1, stable=True).astype(jnp.int32)
    ids = jnp.take_along_axis(arrived, order, axis=1)
    order = jnp.where(ids < how.experts, order, order + count)
    shape = (*choice.shape[: how.stacked], *places)
    return [choice, ids.reshape(shape), order.reshape(shape)]


def send(how: Routing, place: Place, repeated: bool, x: Any, known: Known, *, weights: Any = None) -> Any:
    """Returns rows of tokens, or of their choices, in the order of their experts, zeros where there is none.

    Args:
        how: the routing.
        place: where items are sent.
        repeated: whether all choices of a token send the same.
        x: [*stack, *tokens, ...], with k behind the tokens if not repeated.
        known: the choice and the order, as `route` returns them.
        weights: [*stack, *tokens, k], what each row is multiplied by; 1 by default.
    """
    choice, order = known
    k, count = choice.shape[-1], math.prod(order.shape[how.stacked :])
    choices = _flat(choice, how, how.items + 1)[..., 0]
    items = _flat(x, how, how.items if repeated else how.items + 1)
    rest = x.shape[how.stacked + how.items + (not repeated) :]
    sent = _sent(place, choices, count)
    rows = _taken(items, sent.item // k if repeated else sent.item)
    if weights is not None:
        rows = rows * _taken(_flat(weights, how, how.items + 1), sent.item).astype(rows.dtype)
    order_of, came = _arrived(order.reshape(len(rows), count), place.sources)
    rows = place.exchange(jnp.where(sent.is_taken[..., None], rows, jnp.zeros_like(rows)), (sent.full, came))
    rows = _taken(_filled(rows, count, 0), order_of)
    return rows.reshape(*order.shape, *rest)


def collect(how: Routing, place: Place, summed: bool, rows: Any, known: Known) -> Any:
    """Returns the rows of each choice of each token, or their sum; zeros where it was dropped.

    Args:
        how: the routing.
        place: where items are sent.
        summed: whether a token gets the sum over its choices.
        rows: [*stack, experts, rows, ...].
        known: the choice and the order, as `route` returns them.
    """
    choice, order = known
    count, rest = math.prod(order.shape[how.stacked :]), rows.shape[how.stacked + 2 :]
    choices = _flat(choice, how, how.items + 1)[..., 0]
    sent = _sent(place, choices, count)
    order_of, came = _arrived(order.reshape(len(choices), count), place.sources)
    arrived = _taken(_flat(rows, how, 2), _inverse(order_of))
    back = place.exchange(arrived[:, : count // place.sources * place.sources], (came, sent.full))
    items = _taken(_filled(back, max(back.shape[1], 1), 0), sent.slot)
    items = jnp.where(sent.is_kept[..., None], items, jnp.zeros_like(items)).reshape(*choice.shape, *rest)
    return items.sum(choice.ndim - 1) if summed else items


def weigh(how: Routing, place: Place, rows: Any, known: Known, weights: Any) -> list[Any]:
    """Returns the sum of each token's rows, each times its weight, and the rows themselves, as `collect`."""
    each = collect(how, place, False, rows, known)
    return [jnp.sum(each * beside(weights, each), weights.ndim - 1, dtype=each.dtype), each]


def beside(weights: Any, each: Any) -> Any:
    """Returns weights of the dtype of rows, and with as many axes."""
    return weights.astype(each.dtype).reshape(*weights.shape, *(1,) * (each.ndim - weights.ndim))


def ragged(rows: Any, weights: Any, ids: Any, *, inner: int, transposed: bool, stacked: int) -> Any:
    """Returns each row times the matrix of its expert; zeros where there is no row.

    Args:
        rows: [*stack, experts, rows, *inner].
        weights: [*stack, experts, *inner, *outer].
        ids: [*stack, experts, rows].
        inner: the axes that are summed over: the last of the rows.
        transposed: whether they are the last of the weights too, and not the first behind the experts.
        stacked: the axes in front.
    """
    axes = weights.shape[stacked + 1 :]
    cut = len(axes) - inner if transposed else inner
    outer = axes[:cut] if transposed else axes[cut:]
    flat = weights.reshape(-1, weights.shape[stacked], math.prod(axes[:cut]), math.prod(axes[cut:]))
    flat = jnp.swapaxes(flat, 2, 3) if transposed else flat
    count = math.prod(ids.shape[stacked:])

    def one(arrays: Sequence[Any]) -> Any:
        rows, weights, ids = arrays
        made = lax.ragged_dot(rows, weights, _counts(ids, len(weights)))
        return jnp.where((ids < len(weights))[:, None], made, jnp.zeros_like(made))

    given = rows.reshape(len(flat), count, -1), flat, ids.reshape(len(flat), count)
    return _each(one, given).reshape(*ids.shape, *outer)


def ragged_grad(stacked: int, rows: Any, cotangent: Any, ids: Any) -> Any:
    """Returns for each expert the sum over its rows of the row times its cotangent: the gradient of the weights."""
    experts, count = ids.shape[stacked], math.prod(ids.shape[stacked:])
    inner, outer = rows.shape[stacked + 2 :], cotangent.shape[stacked + 2 :]
    numbers = lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=(((0,), (0,)), ((), ())), lhs_ragged_dimensions=[0], rhs_group_dimensions=[]
    )

    def one(arrays: Sequence[Any]) -> Any:
        rows, cotangent, ids = arrays
        return lax.ragged_dot_general(rows, cotangent, _counts(ids, experts), numbers)

    stack = math.prod(ids.shape[:stacked])
    given = (rows.reshape(stack, count, -1), cotangent.reshape(stack, count, -1), ids.reshape(stack, count))
    return _each(one, given).reshape(*ids.shape[: stacked + 1], *inner, *outer)


def _counts(ids: Any, experts: int) -> Any:
    return jnp.sum(ids[:, None] == jnp.arange(experts), axis=0, dtype=jnp.int32)


def _each(function: Callable[[Sequence[Any]], Any], arrays: Sequence[Any]) -> Any:
    """Returns a function of each of a stack, stacked."""
    if len(arrays[0]) == 1:
        return function([array[0] for array in arrays])[None]
    return lax.map(function, tuple(arrays))
