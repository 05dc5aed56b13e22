"""Makes a batch axis of one along which each index reads or writes its own row.

    logits[jnp.arange(batch), labels]                          one score of each row
    zeros.at[jnp.arange(batch)[:, None], experts].set(weights)

JAX writes the rows among the indices, as if any row could be asked for, and a shard of rows would be looked up. As a
batch axis, which is what `vmap` makes of the same, it runs through.

This runs before axes are named, so that the rows have one name in the array, the indices and the slices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from ..code.operations import Block, Code, Input, Operation
from ..jax_compat import changed
from .find_rolls import number
from .rewrites import concatenation

# What gathers and scatters call their axes: without a window, counted along by indices, of a batch (array and indices).
_GATHER = "collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims"
_SCATTER = (
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "operand_batching_dims",
    "scatter_indices_batching_dims",
)
_FIELDS = {lax.GatherDimensionNumbers: _GATHER, lax.ScatterDimensionNumbers: _SCATTER}


class _Row(NamedTuple):
    """Names a column of indices, the axis of the array that it counts along, and the same axis of the indices."""

    column: int
    array: int
    indices: int


def batch_rows(code: Code) -> Code:
    """Returns the same code with rows of their own as batch axes; operations that this makes dead are left in it."""
    rewriter = _Rewriter(code)
    block = rewriter.block(code.block)
    return dataclasses.replace(code, block=block, shapes=tuple(rewriter.shapes), dtypes=tuple(rewriter.dtypes))


class _Rewriter:
    """Holds the state of one walk: the operation that makes each value, and all values so far."""

    def __init__(self, code: Code):
        self.shapes, self.dtypes = list(code.shapes), list(code.dtypes)
        self.producers: dict[int, Operation] = {}

    def block(self, block: Block) -> Block:
        operations: list[Operation] = []
        for original in block.operations:
            blocks = tuple(map(self.block, original.blocks))
            operation = dataclasses.replace(original, blocks=blocks) if blocks else original
            rows = self.rows(operation)
            operations += self.batched(operation, rows) if rows else [operation]
            self.producers.update(dict.fromkeys(operation.outputs, operation))
        return Block(block.inputs, tuple(operations), block.outputs)

    def rows(self, operation: Operation) -> list[_Row]:
        """Returns the columns of a gather's or scatter's indices that count rows, if others remain."""
        numbers = operation.params.get("dimension_numbers")
        columns = self.maker(operation.inputs[1]) if type(numbers) in _FIELDS else None
        if columns is None or columns.name != "concatenate":
            return []
        one, counted, _, taken = (getattr(numbers, field) for field in _FIELDS[type(numbers)])
        array, indices = (variable.aval.shape for variable in operation.equation.invars[:2])
        if columns.params["dimension"] != len(indices) - 1 or len(columns.inputs) != len(counted):
            return []
        found = []
        for column, (value, axis) in enumerate(zip(columns.inputs, counted, strict=True)):
            own = self.counts(value)
            if own is not None and axis in one and own not in taken and indices[own] == array[axis]:
                found.append(_Row(column, axis, own))
        # One axis of the indices cannot be two of the array: that is its diagonal.
        axes = [row.indices for row in found]
        found = [row for row in found if axes.count(row.indices) == 1]
        return found if len(found) < len(counted) else []

    def maker(self, value: Input) -> Operation | None:
        """Returns the operation that makes a value; None for arguments and literals."""
        return self.producers.get(value) if isinstance(value, int) else None

    def counts(self, value: Input) -> int | None:
        """Returns the axis along which a value counts 0, 1, 2, …; None where it is anything else."""
        made = self.maker(value)
        along = self._along(made) if made is not None else None
        if made is None or along is None:
            return None
        result = made.equation.outvars[0].aval
        # A float rounds large numbers, and an integer of few bits begins anew.
        exact = jnp.issubdtype(result.dtype, jnp.integer) and result.shape[along] - 1 <= jnp.iinfo(result.dtype).max
        return along if exact else None

    def _along(self, made: Operation) -> int | None:
        """Returns the axis along which an operation's result counts, if its dtype can."""
        if made.name == "iota":
            return made.params["dimension"]
        if made.name == "select_n" and self._asks_for_negative(made.inputs[0], made.inputs[1]):
            return self.counts(made.inputs[1])
        own = self.counts(made.inputs[0]) if made.name in ("broadcast_in_dim", "convert_element_type") else None
        if own is None or made.name != "broadcast_in_dim":
            return own
        there = made.params["broadcast_dimensions"][own]
        before, after = (atom.aval.shape for atom in (made.equation.invars[0], made.equation.outvars[0]))
        return there if before[own] == after[there] else None

    def _asks_for_negative(self, predicate: Input, value: Input) -> bool:
        """Says whether a predicate asks which elements of a value are negative, as JAX does of every index."""
        made = self.maker(predicate)
        if made is None or made.name != "lt" or made.inputs[0] != value:
            return False
        return number(made.inputs[1], self.producers) == 0

    def batched(self, operation: Operation, rows: list[_Row]) -> list[Operation]:
        """Returns the operation over a batch of rows, behind one that joins the other columns of its indices."""
        columns = self.maker(operation.inputs[1])
        assert columns is not None, "it counts rows"
        remaining = [i for i in range(len(columns.inputs)) if i not in {row.column for row in rows}]
        value, variable = columns.inputs[remaining[0]], columns.equation.invars[remaining[0]]
        joined = []
        if len(remaining) > 1:
            value = len(self.shapes)
            joined = [concatenation(columns, remaining, value)]
            variable = joined[0].equation.outvars[0]
            self.shapes.append(tuple(variable.aval.shape))
            self.dtypes.append(variable.aval.dtype)
        numbers = _batching(operation.params["dimension_numbers"], rows)
        # What was sorted with the rows need not be without them.
        params = operation.params | {"dimension_numbers": numbers, "indices_are_sorted": False}
        equation = operation.equation
        equation = changed(equation, invars=[equation.invars[0], variable, *equation.invars[2:]], params=params)
        inputs = (operation.inputs[0], value, *operation.inputs[2:])
        return [*joined, dataclasses.replace(operation, equation=equation, inputs=inputs)]


def _batching(numbers: Any, rows: Iterable[_Row]) -> Any:
    """Returns the axes of a gather or scatter with the rows' axes as batch axes."""
    one, counted, array, indices = _FIELDS[type(numbers)]
    axes = {row.array for row in rows}
    pairs = [*zip(getattr(numbers, array), getattr(numbers, indices), strict=True), *(row[1:] for row in rows)]
    changes = {
        one: tuple(axis for axis in getattr(numbers, one) if axis not in axes),
        counted: tuple(axis for axis in getattr(numbers, counted) if axis not in axes),
        array: tuple(axis for axis, _ in sorted(pairs)),
        indices: tuple(axis for _, axis in sorted(pairs)),
    }
    return numbers._replace(**changes)
