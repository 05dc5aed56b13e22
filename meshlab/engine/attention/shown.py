"""Finds which keys each query attends to, where a mask is computed of positions alone.

    arange(seq) >= arange(kv)                            causal
    tril(ones), a comparison of `iota`s that are added to and selected by, in any spelling

All that `ml.attention` knows depends on how far a key is from a query. So a mask is computed at each distance, with its
own operations and dtypes; of a query that is added or compared on the way only the factor is known. A mask that depends
on more (padding, segments, documents, single positions) is none of these, and neither is one of an argument.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..code.computed import computed
from ..code.operations import Code, Input, Literal, Operation
from ..rules import ELEMENTWISE, TRAITS
from .kept import kept

# The role of an axis: whose positions it counts.
QUERY, KEY = "query", "key"
Roles = Sequence[str | None]
# Whole numbers up to here are exact in floats of 64 bits.
_EXACT = 2.0**53


@dataclasses.dataclass(frozen=True)
class Shown:
    """Which keys a query attends to: as the fields of `Attention` of the same names."""

    causal: bool = False
    window: int | None = None

    def at(self, distance: Any) -> Any:
        """Whether a query attends to a key, by how far it is behind it."""
        yes = np.ones(np.shape(distance), bool)
        if self.causal:
            yes &= distance >= 0
        return yes if self.window is None else yes & (abs(distance) < self.window)


class _UnknownMaskError(Exception):
    """A mask depends on more than distances."""


@dataclasses.dataclass(frozen=True)
class _Values:
    """The elements of an array of queries and keys: `factor · query + rest`, both at each distance, or everywhere."""

    factor: Any
    rest: Any

    @property
    def of_distance(self) -> bool:
        """Whether elements depend on the distance alone."""
        return not np.any(self.factor)


class _Distances:
    """How far queries are behind keys, and where.

    Attributes:
        each: all distances.
        first, last: the first and the last query with a key at each of them.
    """

    def __init__(self, queries: int, keys: int):
        self.each = np.arange(1 - keys, queries)
        self.first = np.maximum(self.each, 0)
        self.last = np.minimum(self.each + keys, queries) - 1

    def checked(self, values: _Values, dtype: Any) -> _Values:
        """Returns elements as a dtype holds them; refuses those whose factors it would round or overflow."""
        factor, rest = np.broadcast_arrays(*(np.asarray(each, float) for each in (values.factor, values.rest)))
        if jnp.issubdtype(dtype, jnp.integer):
            low, high = jnp.iinfo(dtype).min, jnp.iinfo(dtype).max
        elif jnp.issubdtype(dtype, jnp.floating):
            high = 2.0 ** (jnp.finfo(dtype).nmant + 1)
            low = -high
        else:
            raise _UnknownMaskError
        wraps = values.of_distance and jnp.issubdtype(dtype, jnp.integer)
        low, high = (-_EXACT, _EXACT) if wraps else (max(low, -_EXACT), min(high, _EXACT))
        ends = np.stack([factor * at + rest for at in (self.first, self.last)])
        if (factor % 1).any() or (rest % 1).any() or ends.min() < low or ends.max() > high:
            raise _UnknownMaskError
        if wraps:
            return _Values(0, rest.astype("int64").astype(dtype))
        return values


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
        """Returns which keys a mask shows; None where that is no property of distances, or none of `Shown`.

        Args:
            mask: says which scores count.
            roles: whose positions each axis counts.
            sizes: how many queries and keys there are.
            true: what the mask is where a score counts.
        """
        queries, keys = sizes
        distances = _Distances(queries, keys)
        try:
            values = self._at(mask, roles, distances)
        except _UnknownMaskError:
            return None
        if not values.of_distance:
            return None
        whole = np.broadcast_to(np.asarray(values.rest).astype(bool) == true, distances.each.shape)
        # The last query has its keys at the last distances.
        count = int(whole[queries - 1 :].sum())
        options = [Shown(), Shown(causal=True)]
        # A query that sees no key at all gets zeros from the operation, and something else from a softmax.
        options += [Shown(True, count), Shown(False, count)] if count > max(queries - keys, 0) else []
        return next((one for one in options if (one.at(distances.each) == whole).all()), None)

    def _at(self, value: Input, roles: Roles, distances: _Distances) -> _Values:
        """The elements of an array whose axes have these roles."""
        if isinstance(value, Literal):
            return _Values(0, np.asarray(value.value))
        value = self.source(value)
        operation = self.makers.get(value)
        if operation is None:
            raise _UnknownMaskError
        if operation.name == "iota":
            return self._counted(value, operation.params["dimension"], roles, distances)
        if operation.name in ELEMENTWISE:
            shapes = map(self.code.shape_of, operation.inputs)
            operands = [
                self._at(each, roles if shape else (), distances)
                for each, shape in zip(operation.inputs, shapes, strict=True)
            ]
            return self._combined(operation, operands, distances)
        before = kept(operation, value)
        if before is None:
            raise _UnknownMaskError
        return self._at(before, self._before(operation, before, roles), distances)

    def _counted(self, value: int, axis: int, roles: Roles, distances: _Distances) -> _Values:
        role, dtype = roles[axis], self.code.dtypes[value]
        if role == QUERY:
            return distances.checked(_Values(1, 0), dtype)
        if role == KEY:
            return distances.checked(_Values(1, -distances.each), dtype)
        if self.code.shapes[value][axis] != 1:
            raise _UnknownMaskError
        return _Values(0, np.zeros((), dtype))

    def _combined(self, operation: Operation, operands: Sequence[_Values], distances: _Distances) -> _Values:
        """What an elementwise operation makes of elements."""
        dtype = self.code.dtypes[operation.outputs[0]]
        rests = [operand.rest for operand in operands]
        if all(operand.of_distance for operand in operands):
            return _Values(0, computed(operation, rests))
        if operation.name == "convert_element_type":
            return distances.checked(operands[0], dtype)
        moving = frozenset(place for place, operand in enumerate(operands) if not operand.of_distance)
        together = next((each for each in TRAITS[operation.name].linear(operation) if moving <= each), None)
        if together is not None:
            factors = [each.factor if place in together else each.rest for place, each in enumerate(operands)]
            return distances.checked(_Values(*(_exactly(operation, each) for each in (factors, rests))), dtype)
        if len(operands) == 2 and jnp.issubdtype(dtype, jnp.bool_) and np.all(operands[0].factor == operands[1].factor):
            # A comparison of what is as far from the query on both sides.
            return _Values(0, _exactly(operation, rests))
        raise _UnknownMaskError

    def _before(self, operation: Operation, value: Input, roles: Roles) -> Roles:
        """The roles of the axes of what an operation moves."""
        params, before = operation.params, self.code.shape_of(value)
        if operation.name == "broadcast_in_dim" and len(operation.inputs) == 1:
            return [
                roles[axis] if size != 1 else None
                for axis, size in zip(params["broadcast_dimensions"], before, strict=True)
            ]
        if operation.name == "transpose":
            return [roles[params["permutation"].index(axis)] for axis in range(len(before))]
        if TRAITS[operation.name].kind == "bitcast":
            after = self.code.shapes[operation.outputs[0]]
            long = [role for role, size in zip(roles, after, strict=True) if size != 1]
            if [size for size in before if size != 1] == [size for size in after if size != 1]:
                rest = iter(long)
                return [next(rest) if size != 1 else None for size in before]
            raise _UnknownMaskError
        if len(before) == len(roles):
            return roles
        raise _UnknownMaskError


def _exactly(operation: Operation, operands: Sequence[Any]) -> Any:
    """What an operation makes of whole numbers, whatever its dtype could hold."""
    booleans = [variable.aval.dtype == bool for variable in operation.equation.invars]
    return computed(operation, operands, [bool if is_one else float for is_one in booleans])
