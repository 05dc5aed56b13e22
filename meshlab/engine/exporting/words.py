"""How each primitive is written: as an operator of Python, or as the function of `jax.lax` that makes it.

    add a b                                  a + b
    reduce_sum[axes=(0,)] a                  lax.reduce_sum(a, (0,))
    psum[axes=('model',)] a                  lax.psum(a, ("model",))

Most primitives have the name of their function, and their parameters those of its arguments: these are read off the
function. `_WORDS` lists the others. What is written is traced again (`compared.py`), so a parameter that no argument
says is not dropped in silence.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.operations import Literal, Operation
from ..collectives import kinds
from ..jax_compat import generator
from .contractions import Dims, contraction
from .expressions import Expression, call, infix, keyword, prefix, sequence, text
from .values import Unwritable, dtype_word, literal

Operands = Sequence[Expression]
Word = Callable[[Operation, Operands], Expression]


_INFIX = {
    "add": "+",
    "add_any": "+",
    "sub": "-",
    "mul": "*",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "and": "&",
    "or": "|",
    "xor": "^",
}
_PREFIX = {"neg": "-", "not": "~"}
# The functions whose primitive has another name.
_CALLED = {
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "not": "bitwise_not",
    "add_any": "add",
    "reduce_scatter": "psum_scatter",
    "psum_invariant": "psum",
    "all_gather_invariant": "all_gather",
}
# The arguments that are called otherwise than the primitive's parameter.
_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "psum": {"axis_name": "axes"},
    "pmax": {"axis_name": "axes"},
    "pmin": {"axis_name": "axes"},
    "all_gather": {"axis": "all_gather_dimension"},
}
# The primitives whose operands come as one sequence, and those for which one operand alone comes as it is.
_SEQUENCES = frozenset(("concatenate", "stack"))
_TREES = frozenset(("optimization_barrier",))
# The kind of each collective.
COLLECTIVES = {
    "psum": kinds.ALL_REDUCE,
    "psum_invariant": kinds.ALL_REDUCE,
    "pmax": kinds.ALL_REDUCE,
    "pmin": kinds.ALL_REDUCE,
    "all_gather": kinds.ALL_GATHER,
    "all_gather_invariant": kinds.ALL_GATHER,
    "reduce_scatter": kinds.REDUCE_SCATTER,
    "all_to_all": kinds.ALL_TO_ALL,
    "ppermute": kinds.COLLECTIVE_PERMUTE,
}


def axes_of(operation: Operation) -> tuple[str, ...]:
    """Returns the mesh axes that a collective sends over."""
    named: Any = operation.params.get("axes", operation.params.get("axis_name"))
    return (named,) if isinstance(named, str) else tuple(named)


def written(operation: Operation, operands: Operands, dims: Sequence[Dims] = ()) -> Expression:
    """Returns what makes an operation's results.

    Args:
        operation: the operation; no loop, and no branches.
        operands: its inputs.
        dims: the dims of its inputs, where they are known.

    Raises:
        Unwritable: JAX has no public function for it.
    """
    name = operation.name
    floats = all(jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in operation.equation.outvars)
    arrays = [not isinstance(value, Literal) for value in operation.inputs]
    if any(arrays) and (sign := "/" if name == "div" and floats else _INFIX.get(name)):
        return infix(sign, *operands)
    if name in _PREFIX and all(arrays):
        return prefix(_PREFIX[name], *operands)
    if name == "dot_general" and (einsum := contraction(operation, operands, dims)) is not None:
        return einsum
    return _WORDS.get(name, _generic)(operation, operands)


def _generic(operation: Operation, operands: Operands) -> Expression:
    """Returns the call of the function of `jax.lax` that has the primitive's name."""
    name = _CALLED.get(operation.name, operation.name.replace("-", "_"))
    where = "lax" if hasattr(lax, name) else "lax.linalg"
    function: Any = getattr(lax if where == "lax" else lax.linalg, name, None)
    if function is None or not inspect.isfunction(inspect.unwrap(function)):
        raise Unwritable(f"the primitive `{operation.name}`, for which jax.lax has no function")
    is_sequence = operation.name in _SEQUENCES or (operation.name in _TREES and len(operands) > 1)
    given = (sequence(*operands),) if is_sequence else tuple(operands)
    renamed, params = _ARGUMENTS.get(name, {}), operation.params
    arguments, count, more = [], 0, False
    for argument in inspect.signature(inspect.unwrap(function)).parameters.values():
        if count < len(given):
            count = len(given) if argument.kind is argument.VAR_POSITIONAL else count + 1
            continue
        value = params.get(renamed.get(argument.name, argument.name), argument.default)
        if value is argument.empty:
            raise Unwritable(f"the primitive `{operation.name}`: jax.lax.{name} also needs `{argument.name}`")
        if _is_default(value, argument.default):
            more = True
            continue
        if argument.name == "axis_name" and len(value) == 1 and not isinstance(value, str):
            (value,) = value
        plain = argument.default is argument.empty and not more and argument.kind is not argument.KEYWORD_ONLY
        arguments.append(literal(value) if plain else keyword(argument.name, literal(value)))
    return call(f"{where}.{name}", *given, *arguments)


def _is_default(value: Any, default: Any) -> bool:
    are_ones = default is None and isinstance(value, tuple) and set(value) == {1}
    return value is default or are_ones or (type(value) is type(default) and value == default)


def _of_shape(operation: Operation) -> Expression:
    return literal(tuple(operation.equation.outvars[0].aval.shape))


def _dtype(operation: Operation) -> Expression:
    return text(dtype_word(operation.equation.outvars[0].aval.dtype))


def _select(operation: Operation, operands: Operands) -> Expression:
    which, *cases = operands
    if len(cases) == 2:
        return call("lax.select", which, *reversed(cases))
    return call("lax.select_n", which, *cases)


def _broadcast(operation: Operation, operands: Operands) -> Expression:
    if isinstance(operation.inputs[0], Literal):
        return call("lax.full", _of_shape(operation), text(operands[0].text), _dtype(operation))
    return _generic(operation, operands)


def _iota(operation: Operation, _operands: Operands) -> Expression:
    shape, dimension = operation.params["shape"], operation.params["dimension"]
    if len(shape) == 1:
        return call("lax.iota", _dtype(operation), literal(shape[0]))
    return call("lax.broadcasted_iota", _dtype(operation), literal(shape), literal(dimension))


def _dynamic_slice(operation: Operation, operands: Operands) -> Expression:
    array, *starts = operands
    sizes = literal(tuple(operation.params["slice_sizes"]))
    return call("lax.dynamic_slice", array, sequence(*starts), sizes, *_negative(operation))


def _dynamic_update_slice(operation: Operation, operands: Operands) -> Expression:
    array, update, *starts = operands
    return call("lax.dynamic_update_slice", array, update, sequence(*starts), *_negative(operation))


def _negative(operation: Operation) -> list[Expression]:
    """Returns the argument by which JAX does not count negative indices from the end, where that is asked for."""
    asked = operation.params.get("allow_negative_indices", True)
    return [] if asked is True else [keyword("allow_negative_indices", literal(asked))]


def _slice(operation: Operation, operands: Operands) -> Expression:
    """Returns a slice; by its axis where only one is cut."""
    shape, params = operation.equation.invars[0].aval.shape, operation.params
    starts, stops, strides = (params[name] for name in ("start_indices", "limit_indices", "strides"))
    is_plain = strides is None or set(strides) <= {1}
    cut = [axis for axis, size in enumerate(shape) if (starts[axis], stops[axis]) != (0, size)]
    if len(cut) == 1 and is_plain:
        (axis,) = cut
        return call(
            "lax.slice_in_dim", *operands, literal(starts[axis]), literal(stops[axis]), keyword("axis", literal(axis))
        )
    more = [] if is_plain else [literal(tuple(strides or ()))]
    return call("lax.slice", *operands, literal(tuple(starts)), literal(tuple(stops)), *more)


def _extreme(operation: Operation, operands: Operands) -> Expression:
    (axis,) = operation.params["axes"]
    index = text(dtype_word(operation.params["index_dtype"]))
    return call(f"lax.{operation.name}", *operands, literal(axis), index)


_WINDOWS = {
    "reduce_window_sum": ("0.0", "lax.add"),
    "reduce_window_max": ("-jnp.inf", "lax.max"),
    "reduce_window_min": ("jnp.inf", "lax.min"),
}


def _window(operation: Operation, operands: Operands) -> Expression:
    """Returns a reduction over windows: JAX takes the sum's, the maximum's and the minimum's apart by their start."""
    (start, function), params = _WINDOWS[operation.name], operation.params
    dtype = operation.equation.outvars[0].aval.dtype
    if not jnp.issubdtype(dtype, jnp.floating):
        raise Unwritable(f"the primitive `{operation.name}` of {dtype}")
    names = "window_dimensions", "window_strides", "padding"
    rest = [keyword(n, literal(params[n])) for n in ("base_dilation", "window_dilation") if set(params[n]) != {1}]
    return call(
        "lax.reduce_window", *operands, text(start), text(function), *(literal(params[n]) for n in names), *rest
    )


def _drawn(function: str, *names: str) -> Word:
    """Returns the word of a function of `jax.random`."""

    def word(operation: Operation, operands: Operands) -> Expression:
        return call(f"jax.random.{function}", *operands, *(literal(operation.params[n]) for n in names))

    return word


def _bits(operation: Operation, operands: Operands) -> Expression:
    width, shape = operation.params["bit_width"], operation.params["shape"]
    if operation.equation.invars[0].aval.shape:
        raise Unwritable("the primitive `random_bits` of several keys")
    return call("jax.random.bits", *operands, literal(tuple(shape)), text(f"jnp.uint{width}"))


def _wrapped(operation: Operation, operands: Operands) -> Expression:
    dtype = operation.equation.outvars[0].aval.dtype
    name = generator(dtype)
    if not isinstance(name, str):
        raise Unwritable(f"keys of the dtype {dtype}")
    return call("jax.random.wrap_key_data", *operands, keyword("impl", literal(name)))


def _threefry(_operation: Operation, operands: Operands) -> Expression:
    return call("threefry2x32_p.bind", *operands)


_WORDS: Mapping[str, Word] = {
    "select_n": _select,
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "argmax": _extreme,
    "argmin": _extreme,
    **dict.fromkeys(_WINDOWS, _window),
    "random_unwrap": _drawn("key_data"),
    "random_wrap": _wrapped,
    "random_fold_in": _drawn("fold_in"),
    "random_split": _drawn("split", "shape"),
    "random_bits": _bits,
    "threefry2x32": _threefry,
}
