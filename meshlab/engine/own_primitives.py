"""Makes primitives of our own: how JAX runs, differentiates, maps and lowers them; and says what each computes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

# By the name of each primitive, what it computes.
_RUNS: dict[str, Callable] = {}


def expanded(equation: Any) -> Any | None:
    """Returns what an equation of a primitive of ours computes, as a jaxpr; None for one of JAX's own."""
    run = _RUNS.get(equation.primitive.name)
    if run is None:
        return None
    return jax.make_jaxpr(functools.partial(run, **equation.params))(*(v.aval for v in equation.invars))


def linear_primitive(name: str, run: Callable, transpose: Callable, batch: Callable) -> Primitive:
    """Makes a linear primitive of one operand, whose result has the operand's shape and dtype.

    Args:
        name: what it is called in a jaxpr.
        run: what it computes, in JAX: of the operand, and of its parameters by name.
        transpose: its parameters, for the cotangent: of its parameters.
        batch: its parameters for `vmap`: of its parameters, and of the position of the new axis in the operand.
    """
    primitive = Primitive(name)
    _RUNS[name] = run
    primitive.def_impl(run)
    primitive.def_abstract_eval(lambda operand, **params: operand)
    ad.deflinear2(primitive, lambda cotangent, _, **params: [primitive.bind(cotangent, **transpose(params))])

    def batched(operands: Any, axes: Any, **params: Any) -> tuple[Any, int]:
        return primitive.bind(*operands, **batch(params, axes[0])), axes[0]

    batching.primitive_batchers[primitive] = batched
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=False))
    return primitive


def several_primitive(name: str, run: Callable, shapes: Callable, batch: Callable) -> Primitive:
    """Makes a primitive of several operands and results.

    Args:
        name: what it is called in a jaxpr.
        run: what it computes, in JAX: of the operands, and of its parameters by name; a list.
        shapes: the shape and dtype of each result: of the operands' abstract values, and of its parameters.
        batch: what `vmap` makes of it, as `jax.interpreters.batching` takes it.
    """
    primitive = Primitive(name)
    primitive.multiple_results = True
    _RUNS[name] = run
    primitive.def_impl(run)

    def results(*operands: Any, **params: Any) -> list[Any]:
        return [
            operands[0].update(shape=shape, dtype=dtype, weak_type=False)
            for shape, dtype in shapes(*operands, **params)
        ]

    primitive.def_abstract_eval(results)
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=True))
    return primitive
