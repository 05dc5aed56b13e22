"""Takes a whole program of JAX as it is: opens the `jit` around it, and numbers its equations.

    inside(closed)                                      the jaxpr inside `jit`, and the shardings that `jit` was given
    numbered(closed)                                    each equation is in a scope of its own: v0, v1, …
    numbers_in("jit(step)/transpose(jvp(v17))/while")   ((17,),): XLA keeps scopes in the `op_name` of what it makes

A scope is a name alone, in equations inside loops and calls too: the program stays what it was. Like `jax_compat`,
which reads single equations, this reads JAX beyond its documented surface, in all versions that are tested.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

from .jax_compat import REMAT, call, is_ruled, opened

_NUMBERED = re.compile(r"(?:^|[/(])v(\d+)(?=[/)]|$)")
# Of arrays with at most so many elements the contents are compared, of larger ones the identity.
_MOST_COMPARED = 2**22
# XLA writes several names where it has joined several operations.
_JOINED = re.compile("[;:]")


class Inside(NamedTuple):
    """A program, and what `jit` was asked for.

    Attributes:
        closed: its jaxpr.
        inputs: the sharding of each input.
        results: the sharding of each result; both are no shardings where nothing was asked for.
    """

    closed: Any
    inputs: tuple[Any, ...]
    results: tuple[Any, ...]


def inside(closed: Any) -> Inside:
    """Returns what is inside one `jit` around all of a program; without one the program itself.

    JAX hands results that are arguments around `jit`: they stay in place here. Results of `jit` that the program does
    not return (`nnx.jit` keeps them) come last.
    """
    outer = opened(closed)
    bare = Inside(closed, (None,) * len(outer.invars), (None,) * len(outer.outvars))
    if len(outer.equations) != 1 or outer.equations[0].primitive.name != "jit" or outer.constants:
        return bare
    (equation,) = outer.equations
    if not all(any(v is u for u in outer.invars) for v in equation.invars):
        return bare
    jaxpr = call(equation)
    inner: Any = getattr(jaxpr, "jaxpr", jaxpr)
    asked = {id(v): s for v, s in zip(equation.invars, equation.params["in_shardings"], strict=True)}
    made = {id(v): s for v, s in zip(equation.outvars, equation.params["out_shardings"], strict=True)}
    within = dict(zip(map(id, equation.invars), inner.invars, strict=True))
    within |= dict(zip(map(id, equation.outvars), inner.outvars, strict=True))
    returned = [*outer.outvars, *(v for v in equation.outvars if not any(v is u for u in outer.outvars))]
    invars, outvars = ([within.get(id(v), v) for v in row] for row in (outer.invars, returned))
    return Inside(
        ClosedJaxpr(inner.replace(invars=invars, outvars=outvars), getattr(jaxpr, "consts", ())),
        tuple(asked.get(id(v)) for v in outer.invars),
        tuple(made.get(id(v)) for v in returned),
    )


def of_each_device(closed: Any) -> Any:
    """Returns the closed jaxpr inside a program that is one `jax.shard_map`: what each device runs, on its shards."""
    outer = opened(closed)
    (equation,) = outer.equations
    jaxpr = equation.params["jaxpr"]
    inner: Any = getattr(jaxpr, "jaxpr", jaxpr)
    arrays = {id(v): array for v, array in outer.constants}
    pairs = list(zip(equation.invars, inner.invars, strict=True))
    within = {id(v): inside for v, inside in pairs}
    constants = [(inside, arrays[id(v)]) for v, inside in pairs if id(v) in arrays]
    return ClosedJaxpr(
        inner.replace(constvars=[v for v, _ in constants], invars=[within[id(v)] for v in outer.invars]),
        [array for _, array in constants],
    )


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yields the equations of a jaxpr, those in loops and calls too."""
    for equation in opened(jaxpr).equations:
        yield equation
        yield from within(equation)


def within(equation: Any) -> Iterator[Any]:
    """Yields the equations inside one."""
    for jaxpr in _jaxprs_of(equation):
        yield from equations(jaxpr)


def _jaxprs_of(equation: Any) -> Iterator[Any]:
    for value in equation.params.values():
        yield from filter(is_jaxpr, value if isinstance(value, tuple | list) else (value,))


def constants_in(jaxpr: Any) -> Iterator[Any]:
    """Yields the arrays that a jaxpr brings, and those inside of it."""
    yield from getattr(jaxpr, "consts", ())
    for equation in opened(jaxpr).equations:
        for one in _jaxprs_of(equation):
            yield from constants_in(one)


def numbered(closed: Any) -> Any:
    """Returns a closed jaxpr with each equation in a scope of its own number, in order, outer before inner."""
    numbers = itertools.count()

    def in_scope(equation: Any) -> Iterator[Any]:
        info = equation.source_info
        yield equation.replace(source_info=info.replace(name_stack=info.name_stack.extend(f"v{next(numbers)}")))

    return _rewritten(closed, in_scope)


def number_of(equation: Any) -> int | None:
    """Returns the number of an equation; None for one that was made since."""
    found = _NUMBERED.findall(str(equation.source_info.name_stack))
    return int(found[-1]) if found else None


def numbers_in(path: str) -> tuple[tuple[int, ...], ...]:
    """Returns the numbers of the equations that an `op_name` of HLO names, each with those around it, innermost first.

    Example:
        >>> numbers_in("jit(step)/jvp(v3)/while/body/v5/dot_general;jit(step)/v9/add")
        ((5, 3), (9,))
    """
    found = (_NUMBERED.findall(piece) for piece in _JOINED.split(path))
    return tuple(tuple(int(number) for number in reversed(numbers)) for numbers in found if numbers)


def constrained(closed: Any, shardings: Mapping[int, Sequence[Any]]) -> Any:
    """Returns a numbered jaxpr with `with_sharding_constraint` on the results of some equations, by number, in order.

    An equation that is itself such a constraint is replaced by the last one.
    """

    def with_constraints(equation: Any) -> Iterator[Any]:
        number = number_of(equation)
        wanted = shardings.get(number, ()) if number is not None else ()
        if not wanted or len(equation.outvars) != 1:
            yield equation
            return
        # Traced constraints bring variables of their own, which stand for the result without them.
        before, is_one = equation.outvars[0].aval, equation.primitive.name == "sharding_constraint"
        traced = jax.make_jaxpr(functools.partial(_held, wanted[-1:] if is_one else wanted))(before).jaxpr
        invars = equation.invars if is_one else traced.invars
        if not is_one:
            yield equation.replace(outvars=traced.invars)
        *first, last = traced.eqns
        yield from first
        yield last.replace(invars=invars if is_one else last.invars, outvars=equation.outvars)

    return _rewritten(closed, with_constraints)


def _held(shardings: Sequence[Any], value: Any) -> Any:
    for sharding in shardings:
        value = jax.lax.with_sharding_constraint(value, sharding)
    return value


def _rewritten(value: Any, change: Callable[[Any], Iterable[Any]]) -> Any:
    """Returns a jaxpr, or a parameter that holds some, with each equation changed, outer ones first."""
    if type(value) in (tuple, list):
        return type(value)(_rewritten(one, change) for one in value)
    if not is_jaxpr(value):
        return value
    inner = getattr(value, "jaxpr", value)
    equations = []
    for equation in inner.eqns:
        for one in change(equation):
            params = {name: _rewritten(param, change) for name, param in one.params.items()}
            equations.append(one.replace(params=params))
    made = inner.replace(eqns=equations)
    return made if inner is value else ClosedJaxpr(made, value.consts)


def is_jaxpr(value: Any) -> bool:
    """Says whether something is a jaxpr, closed or not."""
    return hasattr(getattr(value, "jaxpr", value), "eqns")


# --- parts of programs ------------------------------------------------------------------------------------------------


def called_in_place(
    closed: Any, opens: Callable[[Any, Mapping[Any, Any]], bool]
) -> tuple[list[Any], list[Any], dict[Any, Any]]:
    """Returns the equations of a jaxpr, with those of some calls in place of these.

    A call with a rule of its own for derivatives stays: the program may be differentiated.

    Args:
        closed: the jaxpr.
        opens: says of a call, and of the equations that made what it reads, whether the call's equations are wanted.

    Returns:
        The equations in order, the jaxpr's outputs, and its constants by their variables, those of calls too.
    """
    made: list[Any] = []
    makers: dict[Any, Any] = {}
    constants: dict[Any, Any] = {}
    # What a call made, by the call's own variables; and constants of the same contents, by each the first.
    same: dict[Any, Any] = {}
    known: dict[Hashable, Any] = {}

    def read(value: Any) -> Any:
        return value if isinstance(value, Literal) else same.get(value, value)

    def visit(jaxpr: Any, around: Any):
        for variable, array in jaxpr.constants:
            same[variable] = known.setdefault(contents(array), variable)
            constants[variable] = array
        for own in jaxpr.equations:
            info = own.source_info
            if around is not None:
                info = info.replace(name_stack=around.name_stack + info.name_stack)
            equation = own.replace(invars=list(map(read, own.invars)), source_info=info)
            inside = None if is_ruled(equation) else call(equation)
            if inside is None or not opens(equation, makers):
                made.append(equation)
                makers.update(dict.fromkeys(equation.outvars, equation))
                continue
            # JAX caches what it calls: traced again, each call has variables of its own.
            given = [v.aval for v in opened(inside).invars]
            again = opened(jax.make_jaxpr(jaxpr_as_fun(inside))(*map(_shape_of, given)))
            same.update(zip(again.invars, equation.invars, strict=True))
            visit(again, info)
            same.update(zip(equation.outvars, map(read, again.outvars), strict=True))

    outer = opened(closed)
    visit(outer, None)
    return made, list(map(read, outer.outvars)), constants


def part(equations: Sequence[Any], reads: Mapping[tuple[int, int], Any], results: Sequence[Any]) -> Part:
    """Returns a part of a program as a function.

    Args:
        equations: of the part, in order.
        reads: by equation and operand a name of what is read from outside, the same for what is the same value.
        results: what of the equations' results the function returns.
    """
    types = {name: equations[row].invars[column].aval for (row, column), name in reads.items()}
    inner = jax.make_jaxpr(lambda *values: values)(*map(_shape_of, types.values())).jaxpr
    variables = dict(zip(types, inner.invars, strict=True))
    own = []
    for row, equation in enumerate(equations):
        invars = [variables[reads[row, i]] if (row, i) in reads else v for i, v in enumerate(equation.invars)]
        own.append(equation.replace(invars=invars))
    return Part(tuple(types), jaxpr_as_fun(ClosedJaxpr(inner.replace(eqns=own, outvars=list(results)), ())))


def reading(equation: Any, reads: Sequence[Any], results: Sequence[Any]) -> Any:
    """Returns an equation of other operands, with other results."""
    return equation.replace(invars=list(reads), outvars=list(results))


def added_to_zero(addition: Any, column: int, value: Any) -> list[Any]:
    """Returns the equations that add a value to zero, where an addition stands and as one of its operands.

    The last one adds, and those before it make the zero.
    """
    *zero, total = jax.make_jaxpr(lambda term: jax.lax.full_like(term, 0) + term)(_shape_of(value.aval)).jaxpr.eqns
    operands = [total.invars[0]]
    operands.insert(column, value)
    made = [*zero, reading(addition, operands, total.outvars)]
    return [each.replace(source_info=addition.source_info) for each in made]


def concatenation(place: Any, rows: Sequence[Any]) -> Any:
    """Returns an equation that concatenates values along their first axis, and stands where another one does."""
    (made,) = jax.make_jaxpr(lambda *each: jax.lax.concatenate(each, 0))(*(_shape_of(v.aval) for v in rows)).jaxpr.eqns
    return reading(made, rows, made.outvars).replace(source_info=place.source_info)


def variables_like(values: Iterable[Any]) -> list[Any]:
    """Returns new variables of the types of others."""
    return list(jax.make_jaxpr(lambda *values: values)(*(_shape_of(v.aval) for v in values)).jaxpr.invars)


class Part(NamedTuple):
    """A part of a program.

    Attributes:
        reads: names of what it reads, in order.
        run: computes its results from the values of these.
    """

    reads: tuple[Any, ...]
    run: Callable[..., Sequence[Any]]


def placed_at(equation: Any, function: Callable[..., Any], *values: Any) -> list[Any]:
    """Computes a function of trees, in equations that stand where another one does; returns its results in a list."""
    closed = jax.make_jaxpr(function)(*values)
    own = [each.replace(source_info=equation.source_info) for each in closed.jaxpr.eqns]
    return jaxpr_as_fun(ClosedJaxpr(closed.jaxpr.replace(eqns=own), closed.consts))(*jax.tree.leaves(values))


def gradients(equation: Any) -> Any | None:
    """Returns the closed jaxpr of an equation's gradients, of what it reads and of its results' gradients.

    Returns:
        None where it has none: it reads or makes no numbers with gradients, or its rule cannot be differentiated.
    """
    run = part([equation], {(0, i): i for i in range(len(equation.invars))}, equation.outvars).run
    reads, results = ([_shape_of(v.aval) for v in row] for row in (equation.invars, equation.outvars))
    moved, made = ([i for i, each in enumerate(row) if _has_gradient(each)] for row in (reads, results))
    if not moved or not made:
        return None

    def pulled_back(given: Sequence[Any], back: Sequence[Any]) -> Any:
        def results_of(*values: Any) -> list[Any]:
            known = dict(zip(moved, values, strict=True))
            computed = run(*(known.get(i, value) for i, value in enumerate(given)))
            return [computed[i] for i in made]

        return jax.vjp(results_of, *(given[i] for i in moved))[1](list(back))

    try:
        return jax.make_jaxpr(pulled_back)(reads, [results[i] for i in made])
    except Exception:  # a rule is the user's code
        return None


def _has_gradient(like: Any) -> bool:
    return jnp.issubdtype(like.dtype, jnp.inexact)


def contents(array: Any) -> Hashable:
    """Returns what is equal for arrays of the same contents; for large ones, and what has no contents yet, itself."""
    is_known = not isinstance(array, Tracer) and not jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    if is_known and array.size <= _MOST_COMPARED:
        known = np.asarray(array)
        return str(known.dtype), known.shape, known.tobytes()
    return id(array)


class Reduced(NamedTuple):
    """An equation without some of its results.

    Attributes:
        params: its parameters then.
        reads: for each of its inputs, whether it still reads it.
    """

    params: dict[str, Any]
    reads: Sequence[bool]


def without_results(equation: Any, used: Sequence[bool]) -> Reduced | None:
    """Returns what JAX makes of a call or a rematerialised region of which some results are not used.

    Returns:
        None for other equations, or where all or none are used.
    """
    if equation.primitive.name not in ("jit", *REMAT) or all(used) or not any(used):
        return None
    jaxpr = equation.params["jaxpr"]
    inner, reads = dce_jaxpr(getattr(jaxpr, "jaxpr", jaxpr), list(used))
    made = inner if not hasattr(jaxpr, "jaxpr") else ClosedJaxpr(inner, jaxpr.consts)
    return Reduced({**equation.params, "jaxpr": made}, reads)


def _shape_of(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
