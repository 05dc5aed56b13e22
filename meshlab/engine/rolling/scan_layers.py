"""Computes a function whose layers are a Python loop as scans over the layers' stacked arrays.

    def step(params, x): ...  for w in params["layers"]: x = layer(x, w)  ...

    ml.scan_layers(step)(ml.stack_layers(params), x)        the results of `step(params, x)`, stacked in the same way

The function is traced on the layers apart, as it is written, and its equations are rolled up (`roll.py`). They keep
their lines; a scan has the line of its first equation that has one. So a step has two scans, whatever the number of
layers, and compiles as fast as one that was written so.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from ..code.source import source_of
from ..errors import TraceError
from ..jax_compat import needed
from ..jax_programs import called_in_place, part, placed_at
from ..tensors.trace_errors import called
from .equation_kinds import joins_rows, multiplies, numbers_of
from .loops import Family, Loop, Number, Rows
from .roll import Group, Single, Total, Unit, roll
from .rows import has_rows, rows_apart
from .stacked import apart, like_stacked, stacked_dim, stacked_tree

# What to do where other layers become a scan.
_STACK_LESS = (
    " Stack only the layers of the loop: {**others, **ml.stack_layers(blocks)} where they are numbered keys of a dict,"
    ' and {**others, "blocks": ml.stack_layers(blocks)} where they are a list.'
)


@dataclasses.dataclass(frozen=True, eq=False)
class _Standin:
    """Stands in a tree for an array: an argument, with its layer if it is of one, or a result's variable or family."""

    value: Any
    shape: tuple[int, ...]
    dtype: Any
    layer: int | None = None

    def of_layer(self, layer: int) -> _Standin:
        return _Standin(self.value, self.shape[1:], self.dtype, layer)

    @property
    def abstract(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.shape, self.dtype)


def scan_layers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that computes the layers of a Python loop as scans over their stacked arrays.

    Args:
        function: of trees of arrays or tensors. It runs its layers in a Python loop over a list, a tuple or numbered
            keys, or over the rows of arrays, and may differentiate and update them: a loss, or a whole train step.

    Returns:
        A function of the same arguments, with layers stacked by `stack_layers`, or as they are if layers are rows
        of arrays. Its results are the results of `function`, with layers stacked in the same way.

    Raises:
        TraceError: when the function is called without stacked layers, or its layers cannot become a scan: they do
            not all compute the same.

    Example:
        program = ml.trace(ml.scan_layers(step), ml.stack_layers(params), x, y)
    """

    @functools.wraps(function)
    def scanned(*args: Any) -> Any:
        arrays, structure = jax.tree.flatten(args)
        types = map(jax.typeof, arrays)
        whole = jax.tree.unflatten(structure, [_Standin(i, t.shape, t.dtype) for i, t in enumerate(types)])
        is_like = like_stacked(whole, _Standin.of_layer)
        leaves, inner = jax.tree.flatten(apart(whole, _Standin.of_layer))
        given = jax.tree.unflatten(inner, [leaf.abstract for leaf in leaves])
        closed, results = jax.make_jaxpr(function, return_shape=True)(*given)
        return _Evaluation(function, closed, leaves, arrays).results(results, stacked_dim(args), is_like)

    return scanned


class _Evaluation:
    """Computes a rolled program.

    Attributes:
        values: by variable.
        stacks: by family, stacked along the first axis.
        rows: the families of rows of arrays, with these.
    """

    def __init__(self, function: Callable, closed: Any, leaves: Sequence[_Standin], arrays: Sequence[Any]):
        self.function = function
        self.values: dict[Any, Any] = {}
        self.stacks: dict[Family, Any] = {}
        self.place: dict[Any, tuple[Family, int]] = {}
        of_argument: dict[int, dict[int, Any]] = {}
        for variable, leaf in zip(closed.jaxpr.invars, leaves, strict=True):
            if leaf.layer is None:
                self.values[variable] = arrays[leaf.value]
            else:
                of_argument.setdefault(leaf.value, {})[leaf.layer] = variable
        self.rows: dict[Family, Any] = {}
        arguments = set(self.values)
        for argument, variables in of_argument.items():
            # JAX has the keys of a dict in the order of texts, `block_10` before `block_2`.
            self.keep(tuple(variables[layer] for layer in sorted(variables)), arrays[argument])
        closed = needed(closed, [True] * len(closed.jaxpr.outvars))
        equations, self.outputs, constants = called_in_place(closed, self.opens)
        self.values.update(constants)
        if not of_argument:
            equations, self.rows = self.in_rows(equations, arguments)
        self.rolled = roll(equations, self.outputs, [*self.stacks, *self.rows])
        if not self.rolled.loops:
            first = next((each for each in self.rolled.units if self.multiplies_one_layer(each)), None)
            self.refuse("" if first is None else _of_one_layer(first.first))
        read = [each for unit in self.rolled.units for each in unit.reads_around()]
        families = [each for each in read if isinstance(each, tuple)]
        self.wanted = {
            v for v in (*self.outputs, *read, *(v for f in families for v in f)) if not isinstance(v, Literal)
        }
        for unit in self.rolled.units:
            self.compute(unit)

    def in_rows(self, equations: Sequence[Any], arguments: Collection[Any]) -> tuple[list[Any], dict[Family, Any]]:
        """Returns the program with layers that are rows of its arguments, and their families with the arrays."""
        found = rows_apart(equations, {v for v in self.outputs if not isinstance(v, Literal)}, arguments)
        if not found[1]:
            raise TraceError(
                f"`{called(self.function)}` was given no stacked layers: give it ml.stack_layers(params), or read all"
                ' rows of arrays that are stacked already, `params["w"][i]`.'
            )
        self.place.update((row, (family, index)) for family in found[1] for index, row in enumerate(family))
        return found

    def refuse(self, why: str):
        """Refuses a function whose layers are no scan."""
        raise TraceError(
            f"The layers of `{called(self.function)}` cannot become a scan: they must all compute the same, and pass"
            f" their results on from one to the next.{why}"
        )

    def multiplies_one_layer(self, unit: Unit) -> bool:
        equation = unit.first
        return isinstance(unit, Single) and multiplies(equation) and any(map(self.is_of_one_layer, equation.invars))

    def is_of_one_layer(self, value: Any) -> bool:
        """Says whether a value is of a layer's weights, which are stacked."""
        if isinstance(value, Literal) or value in self.values or value not in self.place:
            return False
        family, _ = self.place[value]
        return not isinstance(self.rolled.families.get(family), Loop)

    def is_in_a_loop(self, equation: Any) -> bool:
        """Says whether some loop reads the layers of which an equation reads one."""
        read = {each for unit in self.rolled.units if isinstance(unit, Loop) for each in unit.reads_around()}
        return any(self.place[v][0] in read for v in equation.invars if self.is_of_one_layer(v))

    def keep(self, family: Family, stack: Any):
        self.stacks[family] = stack
        for index, value in enumerate(family):
            self.place.setdefault(value, (family, index))

    def opens(self, call: Any, makers: Mapping[Any, Any]) -> bool:
        """Says whether a call reads arguments of several layers, or what was made of each, so that they are inside."""
        if not self.stacks:
            return has_rows(call)
        variables = [v for v in call.invars if not isinstance(v, Literal)]
        if len({self.place[v][1] for v in variables if v in self.place}) > 1:
            return True
        made = [makers[v] for v in variables if v in makers]
        fewest = min(map(len, self.stacks))
        return len(made) >= fewest and max(np.bincount(numbers_of(made))) >= fewest

    def results(self, shapes: Any, dim: str, is_like: Callable[[Sequence[Any]], bool]) -> Any:
        """Returns the results, with layers stacked that the program has stacked, or that are like the arguments'."""
        structure = jax.tree.structure(shapes)
        pairs = zip(self.outputs, jax.tree.leaves(shapes), strict=True)
        outputs = jax.tree.unflatten(structure, [_Standin(value, like.shape, like.dtype) for value, like in pairs])

        def is_family(layers: Sequence[Any]) -> bool:
            rows = zip(*(jax.tree.leaves(layer) for layer in layers), strict=True)
            return is_like(layers) or any(tuple(each.value for each in row) in self.rolled.families for row in rows)

        def put(row: Sequence[_Standin]) -> _Standin:
            return dataclasses.replace(row[0], value=tuple(each.value for each in row))

        return jax.tree.map(lambda each: self.read(each.value), stacked_tree(outputs, dim, put, is_family))

    def read(self, value: Any, at: Any = None) -> Any:
        """Returns the value of a variable or a literal, or the stack of a family; made at an equation, or the last."""
        at = at or self.rolled.units[-1].first
        if isinstance(value, Number):
            value = value.literal
        if isinstance(value, Literal):
            return jnp.asarray(value.val, jax.typeof(value.val).dtype)
        if isinstance(value, tuple) and value in self.rows:
            return self.read(self.rows[value], at)
        if isinstance(value, tuple):
            if value not in self.stacks:
                values = [self.read(each, at) for each in value]
                (stack,) = placed_at(at, lambda *each: jnp.stack(each), *values)
                self.keep(value, stack)
            return self.stacks[value]
        value = self.rolled.same.get(value, value)
        if value not in self.values:
            family, index = self.place[value]
            layer = functools.partial(jax.lax.index_in_dim, index=index, keepdims=False)
            (self.values[value],) = placed_at(at, layer, self.read(family, at))
        return self.values[value]

    def compute(self, unit: Unit):
        if isinstance(unit, Loop):
            self.loop(unit)
        elif isinstance(unit, Group):
            self.group(unit)
        elif isinstance(unit, Total):
            terms, stacks = ([self.read(each, unit.first) for each in row] for row in (unit.others, unit.families))
            (self.values[unit.first.outvars[0]],) = placed_at(unit.first, _sum_of, terms, stacks)
        else:
            equation = unit.first
            if self.multiplies_one_layer(unit):
                self.refuse(_of_one_layer(equation) + ("" if self.rows or self.is_in_a_loop(equation) else _STACK_LESS))
            if joins_rows(equation) and (rows := tuple(equation.invars)) in self.rolled.families:
                squeezed = functools.partial(jnp.squeeze, axis=1)
                (self.values[equation.outvars[0]],) = placed_at(equation, squeezed, self.read(rows, equation))
                return
            reads = {(0, i): v for i, v in enumerate(equation.invars) if not isinstance(v, Literal)}
            inner = part([equation], reads, equation.outvars)
            made = inner.run(*(self.read(each, equation) for each in inner.reads))
            self.values.update(zip(equation.outvars, made, strict=True))

    def group(self, unit: Group):
        """Computes one equation of all layers at once."""
        reads = {(0, i): read for i, read in enumerate(unit.operands) if read is not None}
        inner = part([unit.first], reads, unit.first.outvars)
        axes = [0 if isinstance(each, tuple) else None for each in inner.reads]
        made = jax.vmap(inner.run, in_axes=axes)(*(self.read(each, unit.first) for each in inner.reads))
        for family, stack in zip(unit.made(), made, strict=True):
            self.keep(family, stack)

    def loop(self, loop: Loop):
        """Computes a loop as a scan."""
        for family, rows in loop.rows.items():
            cut = functools.partial(_rows_of, rows, len(family))
            (stack,) = placed_at(loop.first, cut, self.read(rows.array, loop.first))
            self.keep(family, stack)
        made = {f: place for f, place in loop.made() if self.wanted.intersection(f)}
        carried = {f: carry for f, carry in loop.carried_in() if f in self.wanted}
        rows, carries = loop.iterations[0], list(loop.carries)
        results = [rows[row].outvars[column] for row, column in (*loop.carries.values(), *made.values())]
        inner = part(rows, {at: read for at, read in loop.reads.items() if read is not None}, results)

        def scanned(shared: Sequence[Any], start: Sequence[Any], slices: Sequence[Any]) -> Any:
            def iteration(carry: Sequence[Any], layer: Sequence[Any]) -> Any:
                known = dict(zip(loop.constants, shared, strict=True))
                known.update(zip(loop.slices, layer, strict=True))
                known.update(zip(carries, carry, strict=True))
                computed = inner.run(*(known[each] for each in inner.reads))
                came_in = [known[carry] for carry in carried.values()]
                return tuple(computed[: len(carry)]), (*computed[len(carry) :], *came_in)

            length = len(loop.iterations)
            return jax.lax.scan(iteration, tuple(start), tuple(slices), length=length, reverse=loop.reverse)

        shared, slices = ([self.read(each, loop.first) for each in row] for row in (loop.constants, loop.slices))
        start = [self.read(carry[0], loop.first) for carry in carries]
        computed = placed_at(loop.first, scanned, shared, start, slices)
        last = [loop.iterations[-1][row].outvars[column] for row, column in loop.carries.values()]
        self.values.update(zip(last, computed, strict=False))
        for family, stack in zip((*made, *carried), computed[len(last) :], strict=True):
            self.keep(family, stack)


def _of_one_layer(equation: Any) -> str:
    place = f"`{equation.primitive.name}` at {source_of(equation) or 'an unknown line'}"
    return f" {place} reads the weights of one layer alone."


def _rows_of(rows: Rows, count: int, array: Any) -> Any:
    end = rows.start + rows.step * (count - 1) + 1
    return jnp.expand_dims(jax.lax.slice_in_dim(array, rows.start, end, rows.step), 1)


def _sum_of(terms: Sequence[Any], stacks: Sequence[Any]) -> Any:
    return functools.reduce(jnp.add, (*terms, *(stack.sum(0) for stack in stacks)))
