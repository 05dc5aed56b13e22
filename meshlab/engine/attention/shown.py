"""Finds which keys each query attends to, where a mask is computed of positions alone.

    arange(seq) >= arange(kv)                            causal
    tril(ones), a comparison of `iota`s that are added to and selected by, in any spelling

A mask is evaluated at positions of queries and keys, as it stands in the program: at all of up to 2048 positions, of
more at the first, the last and some between. One that depends on an argument (padding, segments) is none of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..code.operations import Code, Input, Literal, Operation

# So many positions are looked at, at most: of each end, and evenly between.
_MOST, _END = 2048, 512
# The role of an axis: whose positions it counts.
QUERY, KEY = "query", "key"
Roles = Sequence[str | None]

_COMPUTED: Mapping[str, Any] = {
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
}
_SAME = ("dim_names", "copy", "rename", "tag", "optimization_barrier", "stop_gradient")


@dataclasses.dataclass(frozen=True)
class Shown:
    """Which keys a query attends to: as the fields of `Attention` of the same names."""

    causal: bool = False
    window: int | None = None

    def at(self, query: Any, key: Any) -> Any:
        """Whether a query attends to a key, by their positions."""
        yes = np.ones(np.broadcast_shapes(np.shape(query), np.shape(key)), bool)
        if self.causal:
            yes &= query >= key
        return yes if self.window is None else yes & (abs(query - key) < self.window)


class _UnknownMaskError(Exception):
    """A mask depends on more than positions."""


class Masks:
    """Reads the masks of a program.

    Attributes:
        code: the program's.
        makers: the operation that makes each value.
        source: returns where a value that comes into a region or a loop is made.
    """

    def __init__(self, code: Code, makers: Mapping[int, Operation], source: Callable[[int], int]):
        self.code, self.makers, self.source = code, makers, source

    def shown(self, mask: Input, roles: Roles, sizes: tuple[int, int], true: bool = True) -> Shown | None:
        """Returns which keys a mask shows; None where that is no property of positions, or none of `Shown`.

        Args:
            mask: says which scores count.
            roles: whose positions each axis counts.
            sizes: how many queries and keys there are.
            true: what the mask is where a score counts.
        """
        queries, keys = map(_positions, sizes)
        try:
            whole = self._at(mask, roles, queries[:, None], keys[None])
            last = self._at(mask, roles, np.asarray([[sizes[0] - 1]]), np.arange(sizes[1])[None])
        except _UnknownMaskError:
            return None
        whole = np.broadcast_to(np.asarray(whole, bool) == true, (len(queries), len(keys)))
        count = int(np.broadcast_to(np.asarray(last, bool) == true, (1, sizes[1])).sum())
        options = [Shown(), Shown(causal=True)]
        # A query that sees no key at all gets zeros from the operation, and something else from a softmax.
        options += [Shown(True, count), Shown(False, count)] if count > max(sizes[0] - sizes[1], 0) else []
        return next((one for one in options if (one.at(queries[:, None], keys[None]) == whole).all()), None)

    def _at(self, value: Input, roles: Roles, query: Any, key: Any) -> Any:
        """A value at positions, of an array whose axes have these roles."""
        if isinstance(value, Literal):
            return np.asarray(value.value)
        value = self.source(value)
        operation = self.makers.get(value)
        if operation is None:
            raise _UnknownMaskError
        name, inputs, params = operation.name, operation.inputs, operation.params
        if name == "iota":
            role = roles[params["dimension"]]
            if role is None and self.code.shapes[value][params["dimension"]] != 1:
                raise _UnknownMaskError
            return {QUERY: query, KEY: key, None: np.zeros((1, 1), int)}[role]
        if name == "convert_element_type":
            return np.asarray(self._at(inputs[0], roles, query, key)).astype(params["new_dtype"])
        if name in _COMPUTED:
            return _COMPUTED[name](*(self._at(i, roles, query, key) for i in inputs))
        if name == "select_n" and len(inputs) == 3:
            which, no, yes = (self._at(i, roles if self.code.shape_of(i) else (), query, key) for i in inputs)
            return np.where(np.asarray(which, bool), yes, no)
        return self._at(inputs[0], self._before(operation, roles), query, key)

    def _before(self, operation: Operation, roles: Roles) -> Roles:
        """The roles of the axes of what an operation moves."""
        params, before = operation.params, self.code.shape_of(operation.inputs[0]) if operation.inputs else ()
        if operation.name in _SAME:
            return roles
        if operation.name == "broadcast_in_dim" and len(operation.inputs) == 1:
            return [
                roles[axis] if size != 1 else None
                for axis, size in zip(params["broadcast_dimensions"], before, strict=True)
            ]
        if operation.name == "transpose":
            return [roles[params["permutation"].index(axis)] for axis in range(len(before))]
        if operation.name in ("reshape", "squeeze", "expand_dims"):
            after = self.code.shapes[operation.outputs[0]]
            long = [role for role, size in zip(roles, after, strict=True) if size != 1]
            if [size for size in before if size != 1] == [size for size in after if size != 1]:
                rest = iter(long)
                return [next(rest) if size != 1 else None for size in before]
        raise _UnknownMaskError


def _positions(size: int) -> Any:
    if size <= _MOST:
        return np.arange(size)
    between = np.linspace(0, size - 1, _MOST - 2 * _END, dtype=int)
    return np.unique([*range(_END), *between, *range(size - _END, size)])
