"""Flattens a jaxpr to `Code`: calls are inlined; loops, branches and rematerialised regions stay blocks.

`jit`, `closed_call`, `custom_jvp_call` and `custom_vjp_call` are mere wrappers by the time that a program is traced
(differentiation is over): they are inlined. A `remat` that needs no barrier is inlined too; one whose results are
recomputed for the backward pass stays a block, since XLA would otherwise merge the recomputation back into the forward
pass, and the memory that it saves would be lost. The constants of loops and the operands of branches are not passed in:
the blocks inside read them from the block around them. Of a `custom_linear_solve` its solver is inlined.

Every operation gets the user's innermost line: its own, else that of the nearest call or loop around it that has one,
else its reader's. Its own counts only where the jaxpr around it names its own lines (see `code.source`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jax.extend.core import Literal as JaxLiteral
from jax.sharding import Sharding

from .. import jax_compat
from ..devices import platform
from ..jax_compat import REMAT, Opened, is_rematerialised, opened, scopes
from .operations import Block, Code, Input, Literal, Operation, Scope, walk
from .source import Source, names_own_lines, source_of

# Primitives that place values, or say which to save: layouts do that.
_IGNORED = ("device_put", "sharding_constraint", "name")


class Flattener:
    """Numbers values and collects the operations of nested blocks."""

    # Whether a barrier of several values becomes one for each.
    parts_barriers = True

    def __init__(self):
        self.shapes: list[tuple[int, ...]] = []
        self.dtypes: list[Any] = []
        self.constants: dict[int, Any] = {}
        self.ignored: dict[str, None] = {}
        self.constraints: list[tuple[int, Any]] = []
        self.operations: list[Operation] = []
        self.backward = False
        self.rematerialised = False
        self.scope: Scope = ()
        # The line of the call or loop around, and whether the equations inside name lines of their own.
        self.around: Source | None = None
        self.own = True

    def value(self, aval: Any) -> int:
        self.shapes.append(tuple(aval.shape))
        self.dtypes.append(aval.dtype)
        return len(self.shapes) - 1

    def constant(self, array: Any, aval: Any) -> Input:
        number = self.value(aval)
        self.constants[number] = array
        return number

    def block(self, jaxpr: Opened, inputs: list[Input]) -> list[Input]:
        """Appends the operations of a jaxpr; returns its outputs."""
        known: dict[Any, Input] = {v: self.constant(array, v.aval) for v, array in jaxpr.constants}
        known.update(zip(jaxpr.invars, inputs, strict=True))

        def read(atom: Any) -> Input:
            return Literal(atom.val) if isinstance(atom, JaxLiteral) else known[atom]

        for equation in jaxpr.equations:
            outputs = self.equation(equation, [read(a) for a in equation.invars])
            known.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def closed(self, closed: Any, inputs: list[Input], cached: bool = False) -> list[Input]:
        """Does the same for a closed jaxpr; `cached` if JAX caches it for other callers."""
        outside, own = self.own, names_own_lines(closed)
        if own or (cached and own is False):
            self.own = own
        outputs = self.block(opened(closed), inputs)
        self.own = outside
        return outputs

    def inlined(self, closed: Any, inputs: list[Input], source: Source | None, cached: bool = False) -> list[Input]:
        """Does the same for the jaxpr of a call at `source`."""
        outside, self.around = self.around, source
        outputs = self.closed(closed, inputs, cached)
        self.around = outside
        return outputs

    def equation(self, equation: Any, inputs: list[Input]) -> list[Input]:
        # What runs again, in the backward pass or in a scope, does so with all that is inside, calls too.
        outside = self.rematerialised, self.backward, self.scope
        self.rematerialised |= is_rematerialised(equation)
        self.backward |= jax_compat.is_backward(equation)
        self.scope += scopes(equation)
        outputs = self.appended(equation, inputs)
        self.rematerialised, self.backward, self.scope = outside
        return outputs

    def expanded(self, equation: Any) -> Any | None:
        """Returns the jaxpr that an operation stands for; None for one that stands for itself."""
        return jax_compat.expanded(equation)

    def appended(self, equation: Any, inputs: list[Input]) -> list[Input]:
        """Appends an equation, or what is inside a call; returns its outputs."""
        name = equation.primitive.name
        source = (source_of(equation) if self.own else None) or self.around
        wrapped = jax_compat.call(equation)
        if name == "sharding_constraint" or _is_placed(equation):
            self.ignored[f"`{name}` at {source or 'an unknown line'}"] = None
        if name == "sharding_constraint" and isinstance(inputs[0], int):
            self.constraints.append((inputs[0], equation))
        if wrapped is not None:
            return self.inlined(wrapped, inputs, source, jax_compat.is_cached(equation))
        expanded = self.expanded(equation)
        if expanded is not None:
            return self.inlined(expanded, inputs, source)
        if name in _IGNORED:
            return inputs
        if name == "optimization_barrier" and len(inputs) > 1 and self.parts_barriers:
            # One for each value: each has a spec of its own, and may be dead.
            barriers = [
                jax_compat.changed(equation, invars=[given], outvars=[out])
                for given, out in zip(equation.invars, equation.outvars, strict=True)
            ]
            return [self.equation(one, [value])[0] for one, value in zip(barriers, inputs, strict=True)]
        if name == "custom_linear_solve":
            solve, reads = jax_compat.solver(equation)
            return self.inlined(solve, [inputs[i] for i in reads], source)
        nested = jax_compat.nested(equation)
        platforms = jax_compat.platforms(equation)
        if nested and platforms is not None:
            # Only the branch of the platform is compiled.
            branch = nested.bodies[_branch(platforms)]
            return self.inlined(branch.jaxpr, inputs[branch.constants], source)
        if nested and name in REMAT and not jax_compat.is_barrier(equation):
            return self.inlined(nested.bodies[0].jaxpr, inputs, source)
        outside, self.around = self.around, source
        blocks = tuple(self.body(body.jaxpr, inputs[body.constants]) for body in nested.bodies) if nested else ()
        self.around = outside
        inputs = inputs[nested.inputs] if nested else inputs
        outputs = [self.value(v.aval) for v in equation.outvars]
        # A sum of cotangents bears the scope of one of them, whichever came last.
        scope = () if name == "add_any" else self.scope
        made = tuple(inputs), tuple(outputs), source, self.backward, blocks, self.rematerialised, scope
        self.operations.append(Operation(name, equation, *made))
        return list(outputs)

    def body(self, closed: Any, constants: list[Input]) -> Block:
        """Flattens a body to a block: its first inputs are read from outside, the others are fresh values."""
        fresh = [self.value(v.aval) for v in opened(closed).invars[len(constants) :]]
        outside, self.operations = self.operations, []
        outputs = self.closed(closed, [*constants, *fresh])
        operations, self.operations = self.operations, outside
        return Block(tuple(fresh), tuple(operations), tuple(outputs))


def _is_placed(equation: Any) -> bool:
    """Says whether a call itself gives shardings: `jax.jit(f, in_shardings=...)`."""
    shardings = (*equation.params.get("in_shardings", ()), *equation.params.get("out_shardings", ()))
    return any(isinstance(sharding, Sharding) for sharding in shardings)


def _branch(platforms: Sequence[tuple[str, ...] | None]) -> int:
    """Returns the branch for the platform that programs run on; one for all platforms comes last."""
    here = {"gpu": {"gpu", "cuda", "rocm"}}.get(platform(), {platform()})
    return next(i for i, names in enumerate(platforms) if names is None or here.intersection(names))


def _with_readers_lines(operations: list[Operation]) -> list[Operation]:
    """Gives an operation without a source line that of its first reader: JAX hoists some out of a library's loop."""
    if all(operation.source for operation in operations):
        return operations
    lines: dict[int, Source] = {}
    lined = []
    for operation in reversed(operations):
        source = operation.source or next((lines[o] for o in operation.outputs if o in lines), None)
        lined.append(dataclasses.replace(operation, source=source))
        if source is not None:
            inside = [operation, *(one for block in operation.blocks for one in walk(block))]
            line = dataclasses.replace(source, columns=())
            lines.update((value, line) for one in inside for value in one.reads)
    return lined[::-1]


def flatten(closed: Any, kind: type[Flattener] = Flattener) -> Code:
    """Returns the code of a closed jaxpr; its constants become further inputs of the outermost block.

    Args:
        closed: the jaxpr.
        kind: what flattens it.
    """
    flattener = kind()
    arguments = [flattener.value(v.aval) for v in opened(closed).invars]
    outputs = flattener.closed(closed, list(arguments))
    operations = _with_readers_lines(flattener.operations)
    inputs = (*arguments, *flattener.constants)
    return Code(
        Block(inputs, tuple(operations), tuple(outputs)),
        tuple(flattener.shapes),
        tuple(flattener.dtypes),
        flattener.constants,
        tuple(flattener.ignored),
        constraints=tuple(flattener.constraints),
    )
