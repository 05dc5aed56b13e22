"""Attention of plain arrays, laid out as `jax.nn.dot_product_attention` takes them: [..., positions, heads, depth].

For modules of Flax and Equinox, whose arrays have no names: `ml.attention` says what the two axes of positions are
called, so that a layout can address both, and the other axes keep the names that the rules find. Outside of `ml.trace`
names change nothing.
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DimError, shown
from ..tensors.attention import Attention, attend
from ..tensors.dims import NAME_RULE, Dim, is_name, name_of
from ..tensors.dtypes import promoted, short_name
from ..tensors.marks import Names, mark_names, mark_rename

# Positions, heads and depth; in front of them there are as many axes as one likes.
_LAST = 3
_QUERY, _KEY, _HEADS, _GROUP, _DEPTH, _VALUE = "uvwxyz"
_LAYOUT = "[..., positions, heads, depth]"


def attend_arrays(arrays: Sequence[Any], query: Dim | str, key: Dim | str, options: Mapping[str, Any]) -> Any:
    """Returns what queries get by attending to keys, of arrays; see `ops.attention.attention`.

    Args:
        arrays: q, k and v.
        query: what the queries' positions are called.
        key: what the keys' positions are called.
        options: the keywords of `ml.attention`.

    Raises:
        DimError: the arrays do not fit one another.
    """
    q, k, v = promoted("attention", [jnp.asarray(array) for array in arrays])
    _check((q, k, v), (query, key), options)
    front = string.ascii_lowercase[: q.ndim - _LAST]
    groups = q.shape[-2] // k.shape[-2]
    heads = _HEADS + _GROUP if groups > 1 else _HEADS
    extras = {name: options[name] for name in _EXTRAS if options[name] is not None}
    letters = _Letters(front, heads, dict(zip(front, q.shape, strict=False)) | _sizes(q, k, groups))
    given = {name: letters.aligned(name, jnp.asarray(array)) for name, array in extras.items()}
    axes = {name: has for name, (_, has) in given.items()}
    how = Attention(
        front + _QUERY + heads + _DEPTH,
        front + _KEY + _HEADS + _DEPTH,
        front + _KEY + _HEADS + _VALUE,
        _QUERY,
        _KEY,
        _DEPTH,
        _VALUE,
        axes.get("bias"),
        (axes["query_segments"], axes["key_segments"]) if "key_segments" in axes else None,
        causal=options["causal"],
        window=options["window"],
        scale=q.shape[-1] ** -0.5 if options["scale"] is None else float(options["scale"]),
    )
    q = mark_names(q, _names(q, name_of(query)))
    k, v = (mark_rename(array, _names(array, None), _names(array, name_of(key))) for array in (k, v))
    split = q.reshape(*q.shape[:-2], k.shape[-2], groups, q.shape[-1]) if groups > 1 else q
    out: Any = attend(how, split, k, v, *(array for array, _ in given.values()))
    return out.reshape(*q.shape[:-1], v.shape[-1])


_EXTRAS = ("bias", "query_segments", "key_segments")


def _names(array: Any, positions: str | None) -> Names:
    return (*(None,) * (array.ndim - _LAST), positions, None, None)


def _sizes(q: Any, k: Any, groups: int) -> dict[str, int]:
    return {_QUERY: q.shape[-3], _KEY: k.shape[-3], _HEADS: k.shape[-2], _GROUP: groups}


@dataclasses.dataclass(frozen=True)
class _Letters:
    """The letters of the axes in front and of the heads, and the size of each."""

    front: str
    heads: str
    sizes: Mapping[str, int]

    def aligned(self, name: str, array: jax.Array) -> tuple[jax.Array, str]:
        """Returns the bias or segments without axes of size 1, with a letter for each axis that is left."""
        whole = {
            "bias": self.front + self.heads + _QUERY + _KEY,
            "query_segments": self.front + _QUERY,
            "key_segments": self.front + _KEY,
        }[name]
        shape = array.shape
        if name == "bias" and len(self.heads) > 1 and len(shape) >= _LAST:
            # Heads of the queries are those of the keys, and within each a group.
            parts = (1, 1) if shape[-3] == 1 else (self.sizes[_HEADS], self.sizes[_GROUP])
            array = jnp.reshape(array, (*shape[:-3], *parts, *shape[-2:]))
        axes = whole[len(whole) - array.ndim :]
        ones = [i for i, size in enumerate(array.shape) if size == 1]
        return jnp.squeeze(array, ones), "".join(letter for i, letter in enumerate(axes) if i not in ones)


def _check(arrays: Sequence[Any], positions: Sequence[Dim | str], options: Mapping[str, Any]):
    """Refuses arrays that do not fit one another, and names that cannot be; all of it at once."""
    q, k, _ = arrays
    has = ", ".join(f"{name}{list(array.shape)}" for name, array in zip("qkv", arrays, strict=True))
    if not jnp.issubdtype(q.dtype, jnp.floating):
        raise DimError(f"attention was given q, k and v of {short_name(q.dtype)}; it takes floats.")
    if any(array.ndim < _LAST for array in arrays):
        raise DimError(f"attention was given {has}; arrays without names are {_LAYOUT}. Or name them: ml.tensor(q, …).")
    shapes = [array.shape for array in arrays]
    problems = [
        text
        for text, wrong in (
            ("q, k and v have different axes in front of positions", len({shape[:-3] for shape in shapes}) > 1),
            ("k and v have different positions or heads", shapes[1][-3:-1] != shapes[2][-3:-1]),
            ("q and k have different depths", q.shape[-1] != k.shape[-1]),
            ("the heads of q are not a multiple of the heads of k", q.shape[-2] % max(k.shape[-2], 1) != 0),
        )
        if wrong
    ]
    problems += [
        f"the size of {name} is {dim} and the array has {array.shape[-3]}"
        for name, dim, array in zip(("query", "key"), positions, (q, k), strict=True)
        if isinstance(dim, Dim) and dim.size != array.shape[-3]
    ]
    problems += [f"{shown(dim)} is not a name: {NAME_RULE}" for dim in positions if not is_name(_text(dim))]
    if len(set(map(_text, positions))) == 1:
        problems.append(f"queries and keys both have positions called `{_text(positions[0])}`; call those of keys `kv`")
    if options["over"] is not None:
        problems.append("over= is for tensors; of arrays it is the last axis")
    problems += _wrong_extras(q, k, options)
    if problems:
        raise DimError(f"attention was given {has}: {'; '.join(problems)}. Arrays are {_LAYOUT}.")


def _text(dim: Dim | str) -> str:
    return dim.name if isinstance(dim, Dim) else dim


def _wrong_extras(q: Any, k: Any, options: Mapping[str, Any]) -> list[str]:
    """Returns what of the bias and the segments does not fit the scores."""
    front, queries, keys = q.shape[:-_LAST], q.shape[-3], k.shape[-3]
    wanted = {
        "bias": (*front, q.shape[-2], queries, keys),
        "query_segments": (*front, queries),
        "key_segments": (*front, keys),
    }
    problems = []
    for name, whole in wanted.items():
        if options[name] is None:
            continue
        shape = np.shape(options[name])
        pairs = zip(shape[::-1], whole[::-1], strict=False)
        if len(shape) > len(whole) or any(size not in (1, right) for size, right in pairs):
            problems.append(f"{name} has the shape {list(shape)}, which does not fit {list(whole)}")
    return problems
