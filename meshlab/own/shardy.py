"""Asks Shardy, XLA's propagation, which input, output or constraint started each split of each value.

    recorded(lowered).values      (Record("jit(step)/v17/dot_general", (32, 64), {"data": "input: 2"}), …)

Nothing is compiled. JAX has no switch for it, and Shardy's passes are called by their names, which are internal to XLA:
they stand here and nowhere else. Where a version lacks one there are no records, and explanations do without.
https://openxla.org/shardy/propagation
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jax.extend.mlir import ir, passmanager

from ..engine.jax_programs import numbers_in

_DEBUG = "{debug-sharding-origins=true}"
# JAX 0.10.0 has the first pass for a function, later ones for the module.
_FIRST = ("func.func(sdy-add-data-flow-edges)", "sdy-add-data-flow-edges")
_REST = (
    f"sdy-apply-sharding-constraints{_DEBUG}",
    f"sdy-user-priority-propagate{_DEBUG}",
    "func.func(sdy-sink-data-flow-edges{sink-debug-sharding-origins=true})",
)
_ORIGINS, _OF_RESULTS, _NAME = "sdy.sharding_origins", "sdy.result_sharding_origins", "sdy.sharding_origin_name"
_WHERE = re.compile(r'^loc\("([^"]*)"')

# For each mesh axis what started it: "input: 2", "output: 0", "constraint_1", or "self" of these themselves.
Origins = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Record:
    """A value that is split.

    Attributes:
        where: the scopes and the operation that makes it, as in an HLO's `op_name`.
        shape: the value's.
        origins: what started each mesh axis.
    """

    where: str
    shape: tuple[int, ...]
    origins: Origins


@dataclasses.dataclass(frozen=True)
class Records:
    """What Shardy recorded of a program.

    Attributes:
        values: those that are split.
        constraints: where each constraint stands, by its name.
    """

    values: tuple[Record, ...]
    constraints: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Returns them as plain data, for another process."""
        return {"values": [dataclasses.astuple(one) for one in self.values], "constraints": dict(self.constraints)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Records:
        """Reads what `to_dict` returns."""
        values = (Record(where, tuple(shape), origins) for where, shape, origins in data["values"])
        return cls(tuple(values), data["constraints"])


def recorded(lowered: Any) -> Records | None:
    """Propagates the shardings of a lowered program, and returns who started what; the lowered program is used up.

    Args:
        lowered: from `jax.jit(…).lower(…)`.

    Returns:
        The records; None where Shardy does not tell.
    """
    with contextlib.suppress(ValueError, ir.MLIRError):
        return _recorded(lowered.compiler_ir("stablehlo"))
    return None


def _recorded(module: Any) -> Records:
    with module.context:
        _inline(module)
        _manager().run(module.operation)
        main = _functions(module)["main"]
        (block,) = main.regions[0].blocks
        ends = {_name(one): f"input: {i}" for i, argument in enumerate(block.arguments) for one in _uses(argument)}
        returned = list(block.operations)[-1].operation.operands
        ends |= {_name(value.owner): f"output: {i}" for i, value in enumerate(returned) if _is_made(value)}
        every = list(_operations(main))
        constraints = {name: _where(one) for one in every if (name := _name(one))}
        # Of a program that was written and read again, what comes in and goes out is constrained once more.
        ends = {name: end for name, end in ends.items() if name and not numbers_in(constraints[name])}
        values = [
            Record(_where(one), shape, _renamed(origins, ends)) for one in every for shape, origins in _split(one)
        ]
        return Records(tuple(values), {name: where for name, where in constraints.items() if name not in ends})


def _renamed(origins: Origins, ends: Mapping[str, str]) -> Origins:
    return {axis: ends.get(origin, origin) for axis, origin in origins.items()}


def _name(operation: Any) -> str:
    """The name of a constraint; empty for what is none."""
    operation = getattr(operation, "operation", operation)
    return ir.StringAttr(operation.attributes[_NAME]).value if _NAME in operation.attributes else ""


def _uses(value: Any) -> list[Any]:
    return [use.owner for use in value.uses]


def _is_made(value: Any) -> bool:
    """Whether an operation makes a value; what comes in is no operation's."""
    return not isinstance(value.owner, ir.Block)


def _manager() -> Any:
    for first in _FIRST[:-1]:
        try:
            return passmanager.PassManager.parse(f"builtin.module({','.join((first, *_REST))})")
        except ValueError:
            continue
    return passmanager.PassManager.parse(f"builtin.module({','.join((_FIRST[-1], *_REST))})")


def _split(operation: Any) -> Iterator[tuple[tuple[int, ...], Origins]]:
    """Yields the shape of each result of an operation that is split, and what started it."""
    attributes = operation.attributes
    found = next((attributes[name] for name in (_OF_RESULTS, _ORIGINS) if name in attributes), None)
    if found is None:
        return
    for result, one in zip(operation.results, found if isinstance(found, ir.ArrayAttr) else [found], strict=False):
        origins = {entry.name: ir.StringAttr(entry.attr).value for entry in ir.DictAttr(one)}
        if origins:
            yield tuple(ir.RankedTensorType(result.type).shape), origins


def _where(operation: Any) -> str:
    found = _WHERE.match(str(operation.location))
    return found[1] if found else ""


def _functions(module: Any) -> dict[str, Any]:
    functions = (one.operation for one in module.body.operations if one.operation.name == "func.func")
    return {ir.StringAttr(one.attributes["sym_name"]).value: one for one in functions}


def _operations(operation: Any) -> Iterator[Any]:
    """Yields all operations inside one, outer ones first."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in list(block.operations):
                yield inner.operation
                yield from _operations(inner.operation)


def _inline(module: Any) -> None:
    """Puts what is called in place of each call in `main`: propagation does not go through calls."""
    functions = _functions(module)
    while calls := [one for one in _operations(functions["main"]) if one.name == "func.call"]:
        for call in calls:
            callee = functions[ir.FlatSymbolRefAttr(call.attributes["callee"]).value]
            copy = callee.clone()
            (block,) = copy.operation.regions[0].blocks
            for argument, operand in zip(list(block.arguments), list(call.operands), strict=True):
                argument.replace_all_uses_with(operand)
            *body, end = list(block.operations)
            for one in body:
                one.operation.move_before(call)
            for result, value in zip(list(call.results), list(end.operation.operands), strict=True):
                result.replace_all_uses_with(value)
            copy.operation.erase()
            call.erase()
    for name, function in functions.items():
        if name != "main":
            function.erase()
