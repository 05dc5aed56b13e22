"""Tracing: from a function and the shapes of its arguments to a `Program`.

    program = ml.trace(step, params, ml.f32[Batch, Rows, Cols], ml.i32[Batch])

The function is traced as a whole, after differentiation, optimizer and all, on shapes alone: nothing is computed, no
memory is taken, and a model of 405 billion parameters is traced on a laptop.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ..engine.argument_checks import function
from ..engine.code.flatten import flatten
from ..engine.code.operations import Code, Input, walk
from ..engine.errors import MeshlabError, TraceError, closest, listed, shown
from ..engine.gc_pause import no_collection
from ..engine.jax_compat import has_effects, needed, opened
from ..engine.jax_prints import printed
from ..engine.passes.fold import fold
from ..engine.passes.normalize import normalize
from ..engine.passes.own_rows import batch_rows
from ..engine.passes.prints import Printing, without_prints
from ..engine.passes.split_constants import split_constants
from ..engine.programs.gradients import with_gradients
from ..engine.programs.naming import Naming, name_axes
from ..engine.programs.values import Argument
from ..engine.tensors.abstract import AbstractDtype
from ..engine.tensors.dims import Dim
from ..engine.tensors.named_arrays import AxisName, NamedArray
from ..engine.tensors.tensor import Tensor
from ..engine.tensors.trace_errors import (
    LeafChange,
    admitted,
    called,
    is_array,
    refuse_leaks,
    refuse_lost,
    trace_failure,
)
from ..engine.tensors.trees import is_tensor, placed_leaves
from .carrying import Dims, found_carried, given_carried, tree_of
from .stages import Program, Result

Leaf = tuple[str, Any, tuple[AxisName, ...] | None]
# The places of what is printed, in the program that returns it.
PRINTS = "jax.debug.print"


def trace(
    fn: Callable[..., Result], *args: object, carry: Mapping[str, int] | None = None, **keywords: object
) -> Program[Result]:
    """Traces a function into a program: its jaxpr, with a dim name on every axis of every value.

    Args:
        fn: a plain function of named tensors (and JAX arrays), returning any tree of them.
        *args: for each parameter of `fn` a tree of tensors, abstract (`ml.f32[Batch, Hidden]`) or concrete.
        carry: which output is the next call's argument: `{"params": 1}` says that output 1 is the next `params`. Such
            outputs are stored as that argument is. By default an argument is carried where exactly one output has its
            tree, shapes, dtypes and dims, or all of these except axes that one of the two leaves unnamed.
        **keywords: nothing: arguments are positional.

    Returns:
        The `Program`.

    Raises:
        TraceError: the function cannot be traced, or changes its arguments; a leaf is not an array, names meet, or
            `carry` names what is not there.
        DimError: a dim has two sizes.
    """
    function("ml.trace", fn, "ml.trace(step, params, x)", TraceError)
    if keywords:
        given = ", ".join(f"{name}={shown(value)}" for name, value in keywords.items())
        near = closest(next(iter(keywords)), ["carry"])
        raise TraceError(
            f"ml.trace was given {given}; its arguments are positional: bind others with functools.partial.{near}"
        )
    with no_collection():
        return _traced(fn, args, carry)


def _traced(fn: Callable, args: tuple[Any, ...], carry: Mapping[str, int] | None) -> Program:
    names = _parameter_names(fn, len(args))
    by_parameter = {name: _leaves(name, arg) for name, arg in zip(names, args, strict=True)}
    leaves = [leaf for group in by_parameter.values() for leaf in group]
    structure = jax.tree.structure(args, is_leaf=is_tensor)
    closed, shapes = _jaxpr(fn, names, structure, leaves)
    flat, printing = without_prints(flatten(closed))
    code = split_constants(batch_rows(fold(flat)))
    _refuse_what_cannot_be_split(fn, code)
    given = {i: (dims, f"argument `{place}`") for i, (place, _, dims) in enumerate(leaves) if dims is not None}
    naming = name_axes(code, given)
    outputs = [place for place, _, _ in _leaves("out", shapes)]
    if not outputs:
        raise TraceError(f"`{called(fn)}` returns nothing: it must end with `return` and its results.")
    _refuse_shared_places(code, names, [place for place, _, _ in leaves], outputs)
    owners = [name for name, group in by_parameter.items() for _ in group]
    places = [*(place for place, _, _ in leaves), *outputs]
    stored = _stored(naming, dict(zip(places, (*code.block.inputs[: len(leaves)], *code.block.outputs), strict=True)))
    trees = _trees(dict(zip(names, args, strict=True)), shapes, stored)
    carried = found_carried(code, *trees) if carry is None else given_carried(fn, *trees, carry)
    traced = Program(
        fn=fn,
        code=code,
        names=naming.names,
        dims=naming.dims,
        made_of=naming.made_of,
        cuts=naming.cuts,
        parameters=tuple(names),
        arguments=tuple(Argument(leaves[i][0], i, owner) for i, owner in enumerate(owners)),
        outputs=tuple(outputs),
        carries=carried.carries,
        uncertain=carried.uncertain,
        structure=structure,
        templates=tuple(_like(leaf, _abstract(leaf)) for _, leaf, _ in leaves),
        out_shapes=shapes,
        named=tuple(dims for _, _, dims in leaves),
        again=functools.partial(trace, fn),
        unmerged=code,
    )
    return _finished(dataclasses.replace(traced, printing=_printing(traced, printing, given) if printing else None))


def _finished(traced: Program) -> Program:
    """Returns a program with its gradients marked, in normal form."""
    program = with_gradients(traced)
    return dataclasses.replace(program, code=normalize(program.unmerged, program.merge_names))


def _printing(traced: Program, printing: Printing, given: Any) -> Program:
    """Returns the program that returns what is printed too: the results of the function, and a tuple of arrays."""
    code = split_constants(batch_rows(fold(printing.code)))
    naming, values = name_axes(code, given), code.block.outputs[len(traced.outputs) :]
    outputs = (*traced.outputs, *(f"{PRINTS}/{i}" for i in range(len(values))))
    program = dataclasses.replace(
        traced,
        code=code,
        names=naming.names,
        dims=naming.dims,
        made_of=naming.made_of,
        cuts=naming.cuts,
        outputs=outputs,
        out_shapes=(traced.out_shapes, (0,) * len(values)),
        unmerged=code,
        prints=printing.prints,
    )
    return _finished(program)


def _jaxpr(fn: Callable, names: list[str], structure: Any, leaves: list[Leaf]) -> tuple[Any, Any]:
    """Returns the jaxpr of a function of the leaves' arrays, without dead equations, and the tree of its outputs."""
    # Under its own name and those of its parameters, so that JAX's own messages speak of them.
    arguments = jax.tree.unflatten(structure, [_like(leaf, _abstract(leaf)) for _, leaf, _ in leaves])
    changes: dict[str, LeafChange] = {}
    try:
        closed, (shapes, _) = jax.make_jaxpr(admitted(fn, names, changes), return_shape=True)(*arguments)
    except MeshlabError as error:
        if not (meant := _meant_shapes(names, structure, leaves)):
            raise
        raise type(error)(f"{error}{meant}") from error
    except Exception as error:
        numbers = {place: leaf for place, leaf, _ in leaves if isinstance(leaf, bool | int | float | complex)}
        raise TraceError(trace_failure(called(fn), error, numbers) + _meant_shapes(names, structure, leaves)) from error
    refuse_leaks(called(fn), closed)
    refuse_lost(called(fn), closed, changes)
    results = len(opened(closed).outvars) - len(changes)
    return needed(closed, [True] * results + [False] * len(changes)), shapes


def _meant_shapes(names: list[str], structure: Any, leaves: list[Leaf]) -> str:
    """Hints, where tracing failed, at arguments that are sizes alone: they are traced as so many numbers."""
    args = jax.tree.unflatten(structure, [leaf for _, leaf, _ in leaves])
    meant = [
        f"`{name}` was given as {shown(arg)}: for an array of that shape, write ml.f32[Batch, …]."
        for name, arg in zip(names, args, strict=True)
        if isinstance(arg, tuple | list) and arg and all(type(size) is int and size > 0 for size in arg)
    ]
    return "".join(f" {text}" for text in meant)


def _like(leaf: Any, array: Any) -> Any:
    """Puts an array in the place of a leaf: in a tensor of the same dims, if the leaf is one."""
    return jax.tree.unflatten(jax.tree.structure(leaf), [array]) if isinstance(leaf, Tensor) else array


def _refuse_shared_places(code: Code, names: list[str], arguments: list[str], outputs: list[str]):
    """Refuses places of two values: a parameter called like an output, a tag like either, a key that holds a `/`."""
    tags = {op.params["tag"] for op in walk(code.block) if op.name == "tag"}
    taken = [f"parameter `{n}`" for n in names if n == "out"]
    taken += [f"tag `{t}`" for t in sorted(tags) if t in names or t == "out"]
    twice = [place for places in (arguments, outputs) for place, count in Counter(places).items() if count > 1]
    taken += [f"two arrays at `{place}` (a key that holds `/`)" for place in twice]
    if taken:
        raise TraceError(
            f"{' and '.join(taken)} would share a place with another value: layouts address parameters by name, outputs"
            " as `out/...` and tags by tag. Give it another name."
        )


# Primitives by which a function says itself what each device does; layouts alone do.
_BY_HAND = ("shard_map", "reshard", "xla_pmap", "custom_partitioning")


def _refuse_what_cannot_be_split(fn: Callable, code: Code):
    """Refuses a program that has effects beside its results, or says by hand which device computes what."""
    problems = []
    for operation in walk(code.block):
        where = f"`{operation.name}` at {operation.source or 'an unknown line'}"
        if operation.name in _BY_HAND:
            problems.append(f"{where} already says what each device does; pass the function without it to ml.trace")
        elif (text := printed(operation.equation)) is not None:
            why = (
                "prints shards (partitioned=True), but a plan prints whole values"
                if text.of_shards
                else "is inside a `while` or a `cond`, which cannot return what it prints"
            )
            problems.append(f"{where} {why}")
        elif has_effects(operation.equation) and not operation.blocks:
            problems.append(
                f"{where} has a side effect; do that outside the step, on its results or on what plan.watch returns"
            )
    if problems:
        raise TraceError(f"`{called(fn)}` cannot be laid out: " + "; ".join(dict.fromkeys(problems)) + ".")


def _parameter_names(fn: Callable, count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return [f"arg{i}" for i in range(count)]
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), None)
    required = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if count < len(required) or (count > len(positional) and rest is None):
        keywords = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
        bound = f" {listed(keywords)} {'is' if len(keywords) == 1 else 'are'} keyword-only: bind by functools.partial."
        raise TraceError(
            f"`{called(fn)}` takes ({', '.join(positional)}) but {count} arguments were given to ml.trace: "
            f"give one tree of tensors for each parameter.{bound if keywords else ''}"
        )
    return positional[:count] + [f"{rest}{i}" for i in range(count - len(positional))]


def _leaves(name: str, tree: Any) -> list[Leaf]:
    """Lists the leaves of one argument: (place, leaf, names); a Tensor is one leaf.

    A Tensor whose array does not fit its dims (some optimizers reshape their state) is named by the rules instead.
    """
    leaves, wrong = [], []
    for place, leaf in placed_leaves(name, tree):
        if isinstance(leaf, Tensor):
            shape = tuple(leaf.array.shape)
            fits = shape == tuple(d.size for d in leaf.dims)
            leaves.append((place, leaf, tuple(d.name for d in leaf.dims) if fits else None))
        elif isinstance(leaf, NamedArray):
            leaves.append((place, leaf.array, leaf.names))
        elif is_array(leaf):
            leaves.append((place, leaf, None))
        else:
            shape = isinstance(leaf, Dim | AbstractDtype)
            fix = "; write a shape as ml.f32[Batch, Embed]" if shape else ""
            wrong.append(f"`{place}` is {shown(leaf)} ({type(leaf).__name__}){fix}")
    if wrong:
        raise TraceError(
            f"ml.trace needs tensors or arrays, but {'; '.join(wrong)}. Close over values that are not arrays, or"
            " leave them out."
        )
    return leaves


def _abstract(leaf: Any) -> Any:
    array = leaf.array if isinstance(leaf, Tensor) else leaf
    if isinstance(array, bool | int | float | complex):
        return jax.ShapeDtypeStruct((), jax.dtypes.result_type(array))
    return jax.ShapeDtypeStruct(np.shape(array) if not hasattr(array, "shape") else array.shape, array.dtype)


def _stored(naming: Naming, values: Mapping[str, Input]) -> dict[str, tuple[Input, Dims]]:
    """Returns for each place its value, and the dims of its axes; None for an axis that no layout can address."""
    majors = [name for name, parts in naming.made_of.items() if parts[0].before == 1]
    known, names = {*naming.dims, *majors}, naming.names
    return {
        place: (value, tuple(n if n in known else None for n in names[value]) if isinstance(value, int) else ())
        for place, value in values.items()
    }


def _trees(args: Mapping[str, Any], shapes: Any, stored: Mapping[str, tuple[Input, Dims]]) -> tuple[list, list]:
    """Returns the arguments, and the outputs: the parts of a tuple or list, else the one that there is."""
    single = not (isinstance(shapes, tuple | list) and not hasattr(shapes, "_fields"))
    outputs = {"out": shapes} if single else {f"out/{i}": each for i, each in enumerate(shapes)}
    return (
        [tree_of(name, name, arg, _abstract, stored) for name, arg in args.items()],
        [tree_of(f"output {i}", place, out, _abstract, stored) for i, (place, out) in enumerate(outputs.items())],
    )
