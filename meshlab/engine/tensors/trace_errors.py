"""Says why a function cannot be traced, with the user's own line and what to write instead.

    `step` could not be traced: TracerBoolConversionError: Attempted boolean conversion of traced array …
    It was raised at train.py:12, `if loss > 0:`. Use jnp.where or jax.lax.cond for choices that depend on data.

What a function returns must be arrays alone, and what it computes with must be its own: a value that another trace left
behind has no number here. What it was given it may not change: it gets a copy, so that the change would be lost.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import Var

from ..code.source import Source, source_of, source_of_error
from ..errors import TraceError, listed, some
from ..jax_compat import Opened, call, opened
from .dims import Ragged
from .tensor import misfit
from .trees import is_tensor, placed_leaves

_SIZES = "The sizes of all arrays must be known before: give size=, or mask by jnp.where"
# What to write instead, by JAX's own errors; a derived class stands before its base.
_FIXES = (
    (jax.errors.TracerBoolConversionError, "Use jnp.where or jax.lax.cond for choices that depend on data"),
    (jax.errors.NonConcreteBooleanIndexError, _SIZES),
    (jax.errors.TracerIntegerConversionError, _SIZES),
    (jax.errors.TracerArrayConversionError, "Use jax.numpy instead of NumPy for traced values"),
    (jax.errors.ConcretizationTypeError, _SIZES),
)
# The same by what JAX says, where its error is one for several reasons.
_FIXES_BY_TEXT = {
    r"arose with the `(float|complex)` function|__format__|^int\(": "Values are unknown while a function is traced:"
    " return them, and read or print them outside the step",
    "unbound axis name": "Remove the collective: the plan inserts collectives, and the function computes"
    " on unsharded arrays",
    "keyword argument|keyword-only": "Arguments to ml.trace are positional: bind others with functools.partial",
}


def called(fn: Callable) -> str:
    """Returns the name of a function, for messages."""
    named = fn.func if isinstance(fn, functools.partial) else fn
    return getattr(named, "__name__", type(named).__name__)


def is_array(leaf: Any) -> bool:
    """Says whether a leaf is a number, or has a shape and a dtype that JAX knows."""
    if isinstance(leaf, bool | int | float | complex):
        return True
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return False
    kinds = (jnp.number, jnp.bool_, jax.dtypes.extended)
    return any(jnp.issubdtype(leaf.dtype, kind) for kind in kinds)


def is_leaf(leaf: Any) -> bool:
    return is_tensor(leaf) or is_array(leaf)


def _is_shape(leaf: Any) -> bool:
    """Says whether a leaf is a shape without data."""
    return isinstance(getattr(leaf, "array", leaf), jax.ShapeDtypeStruct)


def trace_failure(name: str, error: Exception, numbers: Mapping[str, Any]) -> str:
    """Returns the message for an error that a function raised while it was traced.

    Args:
        name: of the function.
        error: what it raised.
        numbers: the Python numbers among its arguments, by place.
    """
    source = source_of_error(error)
    # JAX asks for sizes by `int` itself; where the user's own line does it may be a value that is meant.
    text = "int(" if source and re.search(r"\bint\(", source.code) else str(error)
    fix = next((f" {fix}." for pattern, fix in _FIXES_BY_TEXT.items() if re.search(pattern, text)), "")
    fix += f" {_SIZES}." if fix and text == "int(" else ""
    fix = fix or next((f" {fix}." for kind, fix in _FIXES if isinstance(error, kind)), "")
    raised = f"{type(error).__name__}: {str(error).rstrip()}"
    static = "static arguments" in str(error)
    if static:
        raised = "`jax.jit` marks an argument as static (static_argnums, static_argnames), but here it is traced."
    if numbers and (static or fix or "concrete value" in str(error)):
        parameters = {
            place.split("/")[0]: repr(number) if "/" not in place else "…" for place, number in numbers.items()
        }
        bound = ", ".join(
            [name if name.isidentifier() else "fn", *(f"{p}={number}" for p, number in parameters.items())]
        )
        it = "are flags or sizes, close over them" if len(parameters) > 1 else "is a flag or a size, close over it"
        fix += f" Every argument is traced as data. If {listed(parameters)} {it}: functools.partial({bound}), say."
    elif static:
        fix += " Every argument of ml.trace is traced as data: close over what is static, by functools.partial."
    # What was made by `exec` has no file to read the line from.
    line = f": `{source.code}`" if source and source.code else ""
    where = f"\nIt was raised at {source}{line}." if source else ""
    return f"`{name}` could not be traced: {raised}{where}{fix}"


class LeafChange(NamedTuple):
    """One change that a function makes at a place of its arguments.

    Attributes:
        number: of the leaf that was there; None where there was none.
        gone: whether it was taken out, and nothing put in its place.
    """

    number: int | None
    gone: bool = False


def admitted(fn: Callable, names: Sequence[str], changes: dict[str, LeafChange]) -> Callable:
    """Wraps a function so that it refuses to return anything but arrays.

    Args:
        fn: the function.
        names: of its parameters.
        changes: is filled with the places at which its arguments hold another array in the end, or none. The function
            returns these arrays, and what was taken out, as well, behind its results: `refuse_lost` judges them.
    """

    @functools.wraps(fn)
    def checked(*args: Any) -> tuple[Any, list[Any]]:
        before = _leaves_by_place(names, args)
        result = fn(*args)
        leaves = placed_leaves("out", result)
        wrong = [(place, leaf) for place, leaf in leaves if not is_leaf(leaf) or _is_shape(leaf)]
        if wrong:
            results = "; ".join(f"{leaf!r} ({type(leaf).__name__}) at `{place}`" for place, leaf in wrong)
            raise TraceError(f"{_located(fn)} returns {results}: return arrays alone, with data.")
        _refuse_misfits(fn, leaves, [leaf for _, leaf in placed_leaves("", args)])
        _refuse_rows(fn, leaves)
        return result, _changed(names, args, result, before, changes)

    return checked


def _located(fn: Callable) -> str:
    """Returns the name of a function, and where it is written."""
    code = getattr(fn, "__code__", None)
    return f"`{called(fn)}`" + (f" ({Source(code.co_filename, code.co_firstlineno, called(fn))})" if code else "")


def _refuse_misfits(fn: Callable, leaves: Sequence[tuple[str, Any]], given: Sequence[Any]):
    """Refuses to return tensors with an axis for each dim, and one of another size than its dim.

    Some optimizers keep something smaller in a weight's place, of fewer axes or a single element: the rules name that.
    What an argument holds may come back.
    """
    unchanged = {(leaf.dims, leaf.array.shape) for leaf in given if is_tensor(leaf)}
    for place, leaf in leaves:
        shape = tuple(leaf.array.shape) if is_tensor(leaf) else ()
        if not shape or len(shape) != len(leaf.dims) or (leaf.dims, shape) in unchanged:
            continue
        if any(size not in (1, dim.size) for size, dim in zip(shape, leaf.dims, strict=True)):
            raise TraceError(f"{_located(fn)} returns at `{place}` {misfit(leaf)}")


def _refuse_rows(fn: Callable, leaves: Sequence[tuple[str, Any]]):
    """Refuses to return rows of `ml.dispatch`: their order depends on the layout, and results must not."""
    places = [place for place, leaf in leaves if is_tensor(leaf) and any(isinstance(dim, Ragged) for dim in leaf.dims)]
    if places:
        raise TraceError(
            f"{_located(fn)} returns at {listed(places)} rows of ml.dispatch, which each device has in an order of its"
            " own. Return the result of ml.combine, or `sent.dropped`."
        )


def _leaves_by_place(names: Sequence[str], args: Sequence[Any]) -> dict[str, Any]:
    return {place: leaf for name, arg in zip(names, args, strict=True) for place, leaf in placed_leaves(name, arg)}


def _changed(
    names: Sequence[str], args: Sequence[Any], result: Any, before: Mapping[str, Any], changes: dict[str, LeafChange]
) -> list[Any]:
    """Returns the arrays that came into the arguments or went out of them, and notes each such change by its place."""
    after, arrays = _leaves_by_place(names, args), []
    known = {id(leaf) for _, leaf in placed_leaves("out", result)}
    for number, (place, leaf) in enumerate(before.items()):
        now = after.get(place, leaf)
        if now is not leaf and id(now) not in known and is_leaf(now):
            changes[place] = LeafChange(number)
            arrays.append(now)
    if before.keys() == after.keys():
        return arrays
    numbers, returned = {place: number for number, place in enumerate(before)}, _returned(names, args, result)
    for place, leaf in {**after, **before}.items():
        if (place in before) != (place in after) and is_leaf(leaf) and not place.startswith(returned):
            changes[place] = LeafChange(numbers.get(place), place in before)
            arrays.append(leaf)
    return arrays


def _returned(names: Sequence[str], args: Sequence[Any], result: Any) -> tuple[str, ...]:
    """Returns the prefixes of places in those lists and dicts of the arguments that a function returns as they are."""
    nodes: dict[int, Any] = {}

    def is_noted(node: Any) -> bool:
        # A tuple never changes, and one that is empty stands in many places, as `None` does.
        if not isinstance(node, tuple | None):
            nodes[id(node)] = node
        return is_tensor(node)

    placed_leaves("out", result, is_noted)
    return tuple(
        f"{place}/"
        for name, arg in zip(names, args, strict=True)
        for place, node in placed_leaves(name, arg, lambda node: id(node) in nodes or is_tensor(node))
        if id(node) in nodes and not is_leaf(node)
    )


def refuse_lost(name: str, closed: Any, changes: Mapping[str, LeafChange]):
    """Refuses updates that would be lost: an argument holds a new array in the end, which is no result.

    An argument that was put at another place too, or taken out and not used, is refused as well.

    Args:
        name: of the function.
        closed: its jaxpr, with outputs behind its results: what its arguments hold in the end, where that was changed.
        changes: the places of those, as `admitted` finds them.
    """
    if not changes:
        return
    jaxpr, origin_of = opened(closed), _Seen().origin
    count = len(jaxpr.outvars) - len(changes)
    results = {origin_of(jaxpr, variable) for variable in jaxpr.outvars[:count]}
    read = {id(v) for e in jaxpr.equations for v in e.invars} | {id(v) for v in jaxpr.outvars[:count]}
    given, lost = {(variable,) for variable in jaxpr.invars}, []
    for variable, (place, change) in zip(jaxpr.outvars[count:], changes.items(), strict=True):
        origin = origin_of(jaxpr, variable)
        if change.gone:
            survives = id(variable) in read
        elif change.number is None:
            survives = origin in results and origin not in given
        else:
            survives = origin in results or origin == (jaxpr.invars[change.number],)
        lost += [] if survives else [place]
    if lost:
        raise TraceError(
            f"`{name}` modifies its arguments and does not return them, at {some(lost)}. meshlab traces pure"
            " functions, which lose such changes: return the changed values, or change a copy, dict(params) or"
            " list(params), say. Of a Flax NNX module it is the state: graph, state = nnx.split(model) before; inside,"
            " model = nnx.merge(graph, state) and, after the update, return nnx.state(model)."
        )


class _Seen:
    """Sees variables through calls that return what they are given, as `nnx.jit` returns all of its state."""

    def __init__(self):
        self.makers: dict[int, dict[Var, tuple[Any, int]]] = {}

    def origin(self, jaxpr: Opened, variable: Any) -> tuple:
        """Returns the origin of a variable: an earlier one, or one inside a call, by the path into it."""
        key = id(jaxpr.equations)
        if key not in self.makers:
            self.makers[key] = {out: (e, i) for e in jaxpr.equations for i, out in enumerate(e.outvars)}
        makers = self.makers[key]
        while isinstance(variable, Var) and variable in makers:
            equation, position = makers[variable]
            wrapped = call(equation)
            if wrapped is None:
                break
            inner = opened(wrapped)
            inside = self.origin(inner, inner.outvars[position])
            given = [outer for v, outer in zip(inner.invars, equation.invars, strict=True) if inside == (v,)]
            if not given:
                return (id(equation), *inside)
            variable = given[0]
        return (variable,) if isinstance(variable, Var) else (id(variable),)


def refuse_leaks(name: str, closed: Any):
    """Refuses values of another trace: an earlier call left them behind, or the function around has them."""
    jaxpr = opened(closed)
    for variable, constant in jaxpr.constants:
        if isinstance(constant, Tracer):
            reading = (e for e in jaxpr.equations if any(i is variable for i in e.invars))
            where = next((str(s) for e in reading if (s := source_of(e))), "an unknown line")
            raise TraceError(
                f"`{name}` computes with {variable.aval} of another trace, at {where}: it is left from"
                " an earlier call, or belongs to an enclosing function. Make it an argument."
            )
