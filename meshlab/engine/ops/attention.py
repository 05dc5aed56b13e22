"""Attention of queries to keys, as one operation: its scores are in no array, so both dims of positions may be sharded.

>>> import meshlab as ml
>>> q = ml.tensor([[1.0, 0.0]], "seq", "depth")
>>> k = ml.tensor([[1.0, 0.0], [1.0, 0.0]], "kv", "depth")
>>> v = ml.tensor([[2.0, 0.0], [4.0, 0.0]], "kv", "depth")
>>> ml.attention(q, k, v, "seq", "kv")
f32[seq=1, depth=2]([[3. 0.]])

Of arrays without names, in a module of Flax say, the axes are those of `jax.nn.dot_product_attention`
(`array_attention.py`).
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike

from ..argument_checks import flag, number, whole_number
from ..errors import DimError
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.attention import Attention, attend
from ..tensors.dim_lists import Dims
from ..tensors.dims import Dim, name_of
from ..tensors.dtypes import promoted, short_name
from ..tensors.tensor import Tensor
from .array_attention import attend_arrays


def attention(
    q: Tensor | ArrayLike,
    k: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    query: Dim | str,
    key: Dim | str,
    *,
    over: Dim | str | None = None,
    causal: bool = False,
    window: int | None = None,
    bias: Tensor | ArrayLike | None = None,
    query_segments: Tensor | ArrayLike | None = None,
    key_segments: Tensor | ArrayLike | None = None,
    scale: float | None = None,
) -> Any:
    """Returns softmax(q · k) · v, over the keys, block by block: no array has both dims of positions.

    So a layout may put both on one mesh axis. `seq:a` alone gathers keys and values, `kv:a` alone joins what each
    device finds among its keys (flash decoding), and `seq:a kv:a` sends keys and values around a ring of devices.

    Arrays without names are [..., positions, heads, depth], as of `jax.nn.dot_product_attention`; q may have a
    multiple of the heads of k. There `query` and `key` say what positions are called under `ml.trace`,
    the positions of keys from here on. A bias is [..., heads, query, key], with axes of size 1 where it is the same
    for all.

    Args:
        q: [..., query, over]; has more dims than the keys where several queries share their heads.
        k: [..., key, over], with dims of `q` beside.
        v: [..., key, value]: the dims of `k`, with another or the same for `over`.
        query: the dim of the queries' positions.
        key: the dim of the keys' positions, another one: `k.rename(seq="kv")`.
        over: the dim that scores are summed over; the last of `q`.
        causal: whether a query attends only to keys at and before its position.
        window: a query attends to keys less than this far from it.
        bias: added to the scores; [any of their dims].
        query_segments: [..., query], integers: a query attends to keys of its own segment (packed documents).
        key_segments: [..., key], the same of the keys.
        scale: what scores are multiplied by; one over the square root of the size of `over`.

    Returns:
        The dims of `q`, with v's own dim for `over`, and the dtype of q, k and v together; an array, of arrays.

    Raises:
        DimError: a dim is missing, or stands where it cannot; or arrays do not fit one another.

    Example:
        out = ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), Seq, "kv", causal=True)
    """
    _segments(query_segments, key_segments)
    given = {"bias": bias, "query_segments": query_segments, "key_segments": key_segments}
    how = {
        "causal": flag("attention", "causal", causal, DimError),
        "window": None if window is None else whole_number("attention", "window", window, 1, DimError),
        "scale": None if scale is None else float(number("attention", "scale", scale)),
    }
    if all(map(_is_plain, (q, k, v))) and not any(isinstance(x, Tensor) for x in given.values()):
        return attend_arrays((q, k, v), query, key, {**given, **how, "over": over})
    arrays, dims = _floats(q, k, v)
    return _attend(arrays, _Dims.of(dims, query, key, over), given, how)


def _attend(arrays: Sequence[Any], found: _Dims, given: Mapping[str, Any], how: Mapping[str, Any]) -> Tensor:
    """Returns what queries get by attending to keys, with names."""
    extras = {name: named.operand("attention", x, name) for name, x in given.items() if x is not None}
    scale = found.depth.size**-0.5 if how["scale"] is None else how["scale"]
    letters = found.letters({name: has for name, (_, has) in extras.items()})
    attention = Attention(*letters, **{**how, "scale": scale})
    out = tuple(found.value if dim == found.depth else dim for dim in found.q)
    return named.result(attend(attention, *arrays, *(array for array, _ in extras.values())), out)


def _is_plain(x: Any) -> bool:
    """Whether something is an array without names."""
    return not isinstance(x, Tensor) and len(getattr(x, "shape", ())) > 0 and hasattr(x, "dtype")


def _floats(*tensors: Any) -> tuple[list[Any], list[Dims]]:
    """Returns the arrays of q, k and v, of one dtype, and the dims of each."""
    pairs = [named.operand("attention", x, name) for x, name in zip(tensors, "qkv", strict=True)]
    dims = [has for _, has in pairs]
    dim_lists.agree("attention", *dims)
    arrays = promoted("attention", [array for array, _ in pairs])
    if not jnp.issubdtype(arrays[0].dtype, jnp.floating):
        raise DimError(f"attention was given q, k and v of {short_name(arrays[0].dtype)}; it takes floats.")
    return arrays, dims


@dataclasses.dataclass(frozen=True)
class _Dims:
    """The dims of q, k and v, and which of them is what."""

    q: Dims
    k: Dims
    v: Dims
    query: Dim
    key: Dim
    depth: Dim
    value: Dim

    @classmethod
    def of(cls, dims: Sequence[Dims], query: Dim | str, key: Dim | str, over: Dim | str | None) -> _Dims:
        """Finds them; refuses what does not fit, all of it at once."""
        q, k, v = dims
        at_query = q[dim_lists.find("attention", q, query)]
        if name_of(key) not in dim_lists.names(k) and at_query in k:
            write = f'k.rename({at_query.name}="{name_of(key)}")'
            raise DimError(
                f"attention was given k{dim_lists.show(k)}, which has no dim `{name_of(key)}`: queries and keys have"
                f" different dims of positions. Write {write}, and the same for v."
            )
        at_key = k[dim_lists.find("attention", k, key)]
        depth = q[dim_lists.find("attention", q, over)] if over is not None else q[-1]
        shared = [dim for dim in k if dim not in (at_key, depth)]
        own = [dim for dim in v if dim not in (*shared, at_key)]
        problems = [
            f"{say} {dim_lists.show(found)}"
            for say, found in (
                ("q and k have both the dim of the other's positions; rename one:", [d for d in (at_key,) if d in q]),
                ("k has no dim of the queries' positions, but it has", [d for d in (at_query,) if d in k]),
                ("q and k are summed over a dim of both, and k lacks", [depth] if depth not in k else []),
                ("k has dims that q has not:", [d for d in shared if d not in q]),
                ("v lacks dims of k:", [d for d in (*shared, at_key) if d not in v]),
                ("v has one dim of its own, and not", own if len(own) != 1 else []),
                ("v has the dim of the queries' positions:", [d for d in (at_query,) if d in v]),
            )
            if found
        ]
        if len(own) == 0:
            problems.append("v has one dim of its own, and it has none")
        if problems:
            has = ", ".join(f"{n}{dim_lists.show(d)}" for n, d in zip("qkv", dims, strict=True))
            raise DimError(f"attention was given {has}: {'; '.join(problems)}.")
        return cls(q, k, v, at_query, at_key, depth, own[0])

    def letters(self, extras: Mapping[str, Dims]) -> tuple[Any, ...]:
        """Returns the first fields of `Attention`: a letter for each dim, and v's own apart."""
        dims = dict.fromkeys((*self.q, self.key))
        letter = dict(zip(dims, string.ascii_lowercase, strict=False))
        own = string.ascii_lowercase[len(dims)]
        q, k = ("".join(letter[dim] for dim in side) for side in (self.q, self.k))
        v = "".join(own if dim == self.value else letter[dim] for dim in self.v)
        axes = {name: "".join(letter[dim] for dim in self._fitting(name, has)) for name, has in extras.items()}
        segments = (axes["query_segments"], axes["key_segments"]) if "key_segments" in axes else None
        return q, k, v, letter[self.query], letter[self.key], letter[self.depth], own, axes.get("bias"), segments

    def _fitting(self, name: str, has: Dims) -> Dims:
        """Returns the dims of the bias or of segments; refuses what they cannot have."""
        shared = [dim for dim in self.k if dim in self.q and dim != self.depth]
        fits = {
            "bias": [*(dim for dim in self.q if dim != self.depth), self.key],
            "query_segments": [*shared, self.query],
            "key_segments": [*shared, self.key],
        }
        if wrong := [dim for dim in has if dim not in fits[name]]:
            raise DimError(
                f"attention was given {name} of {dim_lists.show(has)}; its dims are among"
                f" {dim_lists.show(fits[name])}, so not {dim_lists.show(wrong)}."
            )
        return has


def _segments(query: Any, key: Any) -> None:
    """Refuses segments of one side alone, or that are no integers."""
    if (query is None) != (key is None):
        given, missing = ("query", "key") if key is None else ("key", "query")
        raise DimError(f"attention was given {given}_segments and no {missing}_segments; it takes both or neither.")
    for name, x in (("query_segments", query), ("key_segments", key)):
        if x is not None and not jnp.issubdtype(dtype := jnp.result_type(getattr(x, "array", x)), jnp.integer):
            raise DimError(f"attention was given {name} of {short_name(dtype)}; they are integers.")
