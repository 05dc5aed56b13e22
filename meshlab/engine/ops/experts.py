"""Sends tokens to the experts that they choose, and brings back what these make of them.

>>> import meshlab as ml
>>> Tokens, Embed, K, Experts = ml.dims(tokens=2, embed=1, k=1, experts=2)
>>> x = ml.tensor([[1.0], [2.0]], Tokens, Embed)
>>> rows, sent = ml.dispatch(x, ml.tensor([[1], [0]], Tokens, K), Experts, factor=1)
>>> ml.combine(ml.ragged_dot(rows, ml.tensor([[10.0], [100.0]], Experts, "embed"), sent, "embed"), sent)
f32[tokens=2]([100.  20.])
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from ..argument_checks import number
from ..errors import DimError, shown
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dim_lists import Dims
from ..tensors.dims import Dim, Ragged, is_name
from ..tensors.dtypes import promoted, short_name
from ..tensors.expert_primitives import collected, multiplied, route_p, weighed
from ..tensors.expert_primitives import sent as send
from ..tensors.experts import Routing
from ..tensors.tensor import Tensor


@dataclasses.dataclass(frozen=True)
class Sent:
    """Where `ml.dispatch` has sent tokens: `ml.ragged_dot` and `ml.combine` take it.

    Attributes:
        choice: the expert of each choice of each token, [..., k].
        ids: the number of each row's expert, [experts, rows]; as many as there are experts where there is no row.
        order: how rows were sorted, [experts, rows].
        how: the routing.
    """

    choice: Tensor
    ids: Tensor
    order: Tensor
    how: Routing

    @property
    def dropped(self) -> jax.Array:
        """How many choices of tokens found no place: a number. Their tokens get zeros for them."""
        arrived = (self.ids < self.how.experts).astype(jnp.int32).sum()
        return math.prod(self.choice.shape) - arrived


jax.tree_util.register_dataclass(Sent, ["choice", "ids", "order"], ["how"])


def dispatch(x: Tensor, choice: Tensor, experts: Dim, *, factor: float, rows: str = "rows") -> tuple[Tensor, Sent]:
    """Sends tokens to the experts that they choose: rows, sorted by expert.

    With tokens and experts on one mesh axis, `batch:data experts:data`, this is an all-to-all, and `ml.combine` is
    another. With the experts alone on it each device takes the rows of its own experts of all tokens.

    Each of n devices has places for `factor / n` of all choices, the same number for each device that sends to it; what
    finds none is dropped, later tokens first (`sent.dropped` says how many). Nothing is dropped with a factor of n.

    Args:
        x: [..., embed]: tokens.
        choice: [..., k]: for each token the numbers of its experts, as `ml.top_k` gives them; one more dim than the
            tokens have, or none where each has one expert. Numbers of no expert are dropped.
        experts: the dim of the experts, that of their weights. Shares of tokens have another of its size.
        factor: how many places there are for each choice of a token; at least 1.
        rows: what to call the dim of the places.

    Returns:
        [experts, rows, embed], in which each device has its own order, and where they were sent.

    Raises:
        DimError: a dim is missing, or stands where it cannot; the factor is below 1.

    Example:
        shares, choice = ml.top_k(ml.softmax(logits, "routes"), "routes", ml.Dim("k", 2))
        here, sent = ml.dispatch(x, choice, Experts, factor=2)
        hidden = ml.silu(ml.ragged_dot(here, w["up"], sent, Embed))
        y = ml.combine(ml.ragged_dot(hidden, w["down"], sent, Ffn), sent, shares)
    """
    array, has = named.operand("dispatch", x, "x")
    chosen, of_choice = named.operand("dispatch", choice, "choice")
    factor, (tokens, k, rest) = _checked(has, (chosen, of_choice), experts, factor, rows)
    order = (*tokens, *k)
    count = math.prod(dim.size for dim in order)
    how = Routing.of(experts.size, count, factor, len(tokens))
    chosen = named.expand(chosen, of_choice, order) if k else named.expand(chosen, of_choice, order)[..., None]
    places = (Ragged(experts.name, experts.size), Ragged(rows, how.room))
    choices, ids, sorted_by = route_p.bind(chosen.astype(jnp.int32), how=how, places=(experts.size, how.room))
    choices = named.result(choices if k else choices[..., 0], order)
    sent = Sent(choices, named.result(ids, places), named.result(sorted_by, places), how)
    made = send(how, True, named.expand(array, has, (*tokens, *rest)), *_numbers(sent))
    return named.result(made, (*places, *rest)), sent


def _checked(
    x: Dims, choice: tuple[Any, Dims], experts: Any, factor: Any, rows: Any
) -> tuple[float, tuple[Dims, Dims, Dims]]:
    """Returns the factor, and the dims of tokens, of their choices and of what is sent; refuses what does not fit."""
    chosen, has = choice
    dim_lists.agree("dispatch", x, has)
    k = tuple(dim for dim in has if dim not in x)
    tokens = tuple(dim for dim in has if dim in x)
    rest = tuple(dim for dim in x if dim not in tokens)
    of_experts = experts.name if isinstance(experts, Dim) else experts
    names = {dim.name for dim in (*x, *has)}
    problems = [
        text
        for text, wrong in (
            (f"experts={shown(experts)}, which is not a dim with a size", not isinstance(experts, Dim)),
            (f"`{of_experts}` for the experts, which tokens or choices have: rename theirs", of_experts in names),
            (f"rows={shown(rows)}, which names no new dim", not is_name(rows) or rows in {*names, of_experts}),
            (f"choice{dim_lists.show(has)}, which has more than one dim that x has not", len(k) > 1),
            (
                f"choice{dim_lists.show(has)}, which has no dim of x{dim_lists.show(x)}{_chosen_by(experts, has)}",
                not tokens,
            ),
            (f"choice of {short_name(chosen.dtype)}; they are integers", not jnp.issubdtype(chosen.dtype, jnp.integer)),
            (f"factor={shown(factor)}; it is a number, 1 or more", not _is_factor(factor)),
        )
        if wrong
    ]
    if problems:
        raise DimError(f"dispatch was given {'; '.join(problems)}.")
    return float(number("dispatch", "factor", factor)), (tokens, k, rest)


def _chosen_by(experts: Any, has: Dims) -> str:
    """What to write where experts choose their tokens; "" where they do not."""
    if experts not in has:
        return ""
    return " (If experts choose their tokens, send these by a table, ml.one_hot, and not by ml.dispatch)"


def _is_factor(factor: Any) -> bool:
    return isinstance(factor, int | float) and not isinstance(factor, bool) and 1 <= factor < math.inf


def _numbers(sent: Sent) -> tuple[Any, Any]:
    """Returns the choices, with an axis for k, and the order of rows."""
    choice = named.array_of("dispatch", sent.choice)
    return (choice if choice.ndim > sent.how.items else choice[..., None]), named.array_of("dispatch", sent.order)


def ragged_dot(rows: Tensor, weights: Tensor, sent: Sent, *summed: Dim | str) -> Tensor:
    """Multiplies each row by the matrix of its expert.

    Args:
        rows: [experts, rows, ...], of `ml.dispatch`.
        weights: [experts, ...], with the dims to be summed over.
        sent: where the rows were sent.
        summed: dims of both; at least one.

    Returns:
        [experts, rows, ...] with the other dims of the weights.
    """
    array, has = _rows("ragged_dot", rows, sent)
    matrix, dims = named.operand("ragged_dot", weights, "weights")
    places, rest = has[:2], has[2:]
    whole = Dim(places[0].name, places[0].size)
    over = tuple(rest[dim_lists.find("ragged_dot", rest, dim)] for dim in summed)
    own = tuple(dim for dim in dims if dim.name != places[0].name and dim not in over)
    problems = [
        text
        for text, wrong in (
            ("no dims to sum over", not summed),
            (f"rows{dim_lists.show(has)}, which keep dims that are not summed over", set(rest) != set(over)),
            (
                f"weights{dim_lists.show(dims)} without `{places[0].name}`",
                whole not in dims,
            ),
            (f"weights{dim_lists.show(dims)}, which lack what is summed over", not set(over) <= set(dims)),
            ("a dim twice", len(set(over)) != len(over)),
        )
        if wrong
    ]
    if problems:
        raise DimError(f"ragged_dot was given {'; '.join(problems)}.")
    dim_lists.agree("ragged_dot", rest, own)
    over = tuple(dim for dim in dims if dim in over)
    array, matrix = promoted("ragged_dot", [array, matrix])
    array = named.expand(array, has, (*places, *over))
    matrix = named.expand(matrix, dims, (whole, *over, *own))
    made = multiplied(sent.how.factor, len(over), array, matrix, named.array_of("ragged_dot", sent.ids))
    return named.result(made, (*places, *own))


def combine(rows: Tensor, sent: Sent, weights: Tensor | None = None) -> Any:
    """Brings rows back to the tokens that they came from, and adds up the rows of each token's choices.

    Args:
        rows: [experts, rows, ...], of `ml.dispatch` or `ml.ragged_dot`.
        sent: where they were sent.
        weights: [..., k], what the row of each choice is multiplied by; 1 by default.

    Returns:
        [..., embed]: the tokens' dims, and the rows' own. A choice that was dropped adds nothing.
    """
    array, has = _rows("combine", rows, sent)
    choice, rest = sent.choice.dims, has[2:]
    tokens, k = choice[: sent.how.items], choice[sent.how.items :]
    if weights is None:
        return named.result(collected(sent.how, True, array, *_numbers(sent)), (*tokens, *rest))
    factor, dims = named.operand("combine", weights, "weights")
    factor = jnp.asarray(factor)
    if wrong := [dim for dim in dims if dim not in choice]:
        raise DimError(
            f"combine was given weights of {dim_lists.show(dims)}; their dims are among {dim_lists.show(choice)}, so"
            f" not {dim_lists.show(wrong)}."
        )
    factor = named.expand(factor, dims, choice)
    if dims != choice:
        factor = jnp.broadcast_to(factor, dim_lists.sizes(choice))
    weight = factor if k else factor[..., None]
    return named.result(weighed(sent.how, array, *_numbers(sent), weight), (*tokens, *rest))


def _rows(what: str, rows: Tensor, sent: Sent) -> tuple[Any, Dims]:
    """Returns rows with their places in front; refuses what `sent` does not know."""
    array, has = named.operand(what, rows, "rows")
    if not isinstance(sent, Sent):
        raise DimError(f"{what} was given {shown(sent)} for `sent`; it takes what ml.dispatch returns.")
    places = sent.ids.dims
    if not set(places) <= set(has):
        raise DimError(
            f"{what} was given rows of {dim_lists.show(has)}; ml.dispatch has sent them as {dim_lists.show(places)}."
        )
    order = (*places, *(dim for dim in has if dim not in places))
    return named.expand(array, has, order), order
