"""Says which lines might mend a program: constraints that keep values split, lead over two moves, or ask otherwise.

    kept_split(…)    hidden = with_sharding_constraint(hidden, …)   where XLA leaves an axis whole that arguments split
    by_hops(…)       total = with_sharding_constraint(total, …)     in front of a constraint that moves several axes
    otherwise(…)     P("data", None) in place of P(None, None)      in a constraint that the user has written

Each is a guess, which has to be compiled. A line that is run several times, or assigns a tree, holds all of its values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from ..engine.code.operations import Operation, walk
from ..engine.code.source import Source
from ..engine.collectives.chains import reshard
from ..engine.jax_programs import number_of
from ..engine.specs.spec import Axes, Spec
from .decided import Splits
from .subject import Constrained, Subject, of_spec


class Candidate(NamedTuple):
    """A line to write, or a spec to write in one that is there.

    Attributes:
        source: the line after which it is written; or the one that is changed.
        value: what the value is called there.
        numbers: of the equations whose results are constrained, or of the constraints that are changed.
        spec: what the value is constrained to.
        instead: what the user's constraint asks for now; None of a line that is new.
    """

    source: Source
    value: str
    numbers: tuple[int, ...]
    spec: PartitionSpec
    instead: PartitionSpec | None = None


def kept_split(subject: Subject, shardings: Mapping[int, Splits | None]) -> Iterator[Candidate]:
    """Yields lines that keep values as the arguments ask for, where XLA splits them otherwise."""
    axes_of = _asked(subject)
    for source, operations in _assigning(subject):
        wanted = {_wanted(subject, operation.outputs[0], axes_of) for operation in operations}
        if len(wanted) == 1:
            (splits,) = wanted
            if any(splits) and any(splits != shardings.get(operation.outputs[0]) for operation in operations):
                yield Candidate(source, source.target or "", _numbers(operations), spec_of(splits))


def by_hops(subject: Subject, shardings: Mapping[int, Splits | None]) -> Iterator[tuple[Candidate, ...]]:
    """Yields the lines of each value that a constraint or a result asks for otherwise than its operands have it.

    They lead over the specs of the chain that sends the fewest bytes, of two moves and more.
    """
    code, jitted = subject.code, subject.jitted
    targets: dict[int, PartitionSpec] = {}
    for value, sharding in zip(code.block.outputs, jitted.results, strict=True):
        if isinstance(value, int) and sharding is not None:
            targets[value] = sharding.spec
    targets |= {one.value: one.spec for one in subject.constraints}
    for source, operations in _assigning(subject):
        chains = {_between(subject, shardings, operation, targets) for operation in operations}
        if len(chains) == 1:
            (chain,) = chains
            if chain:
                value, numbers = source.target or "", _numbers(operations)
                yield tuple(Candidate(source, value, numbers, spec_of(splits)) for splits in chain)


def otherwise(subject: Subject) -> Iterator[tuple[Candidate, ...]]:
    """Yields for each of the user's constraints what the arguments ask for in its place.

    A constraint that differentiation or rematerialisation runs again is changed there as well.
    """
    axes_of = _asked(subject)
    by_line: dict[tuple[Source, str], list[Constrained]] = {}
    for one in subject.constraints:
        if one.source is not None:
            by_line.setdefault((one.source, str(one.spec)), []).append(one)
    for (source, _), constraints in by_line.items():
        numbers = [number_of(one.equation) for one in constraints]
        wanted = {_wanted(subject, one.value, axes_of) for one in constraints}
        if None in numbers or len(wanted) != 1:
            continue
        (splits,), first = wanted, constraints[0]
        if splits != of_spec(first.spec, len(splits)):
            known = tuple(n for n in numbers if n is not None)
            yield (Candidate(source, subject.called(first.value), known, spec_of(splits), first.spec),)


def spec_of(splits: Splits) -> PartitionSpec:
    """Returns splits as JAX writes them."""
    return PartitionSpec(*(axes[0] if len(axes) == 1 else axes or None for axes in splits))


def _assigning(subject: Subject) -> Iterator[tuple[Source, list[Operation]]]:
    """Yields the lines that assign a value, or several alike, with the operations that make those."""
    by_line: dict[Source, list[Operation]] = {}
    for operation in walk(subject.code.block):
        source = operation.source
        if source is not None and source.target and not operation.backward:
            by_line.setdefault(source, []).append(operation)
    for source, operations in by_line.items():
        made = [one for one in operations if any(subject.assigned.get(v) == source.target for v in one.outputs)]
        single = all(len(operation.outputs) == 1 and not operation.blocks for operation in made)
        if made and single and None not in map(_number, made):
            yield source, made


def _number(operation: Operation) -> int | None:
    return number_of(operation.equation)


def _numbers(operations: Iterable[Operation]) -> tuple[int, ...]:
    return tuple(number for number in map(_number, operations) if number is not None)


def _between(
    subject: Subject,
    shardings: Mapping[int, Splits | None],
    operation: Operation,
    targets: Mapping[int, PartitionSpec],
) -> tuple[Splits, ...]:
    """Returns the specs between that in which an operation's operands let it be made and that which is asked for."""
    value, axes = operation.outputs[0], subject.jitted.axes
    made, shape = _as_operands(subject, shardings, operation), subject.code.shapes[value]
    if value not in targets or made is None:
        return ()
    asked = of_spec(targets[value], len(made))
    target = tuple(has if wants is None else wants for has, wants in zip(made, asked, strict=True))
    named = [axis for split in target for axis in split]
    if len(set(named)) != len(named) or not _divides((made, target), shape, axes):
        return ()
    steps = reshard(Spec(made), Spec(target), axes).steps
    return tuple(step.result.splits for step in steps[:-1])


def _as_operands(
    subject: Subject, shardings: Mapping[int, Splits | None], operation: Operation
) -> tuple[Axes, ...] | None:
    """How an operation's result is split where it is made as its operands are; None where that is not known."""
    factors = subject.factors.get(operation)
    if factors is None:
        return None
    of: dict[Any, Axes] = {}
    used: set[str] = set()
    for operand, row in zip(operation.inputs, factors.operands, strict=True):
        splits = shardings.get(operand) if isinstance(operand, int) else None
        for factor, axes in zip(row, splits or (), strict=False):
            if factor is not None and axes and factor not in of and used.isdisjoint(axes):
                of[factor] = axes
                used.update(axes)
    return tuple(of.get(factor, ()) for factor in factors.results[0])


def _divides(specs: Iterable[Splits], shape: tuple[int, ...], axes: Mapping[str, int]) -> bool:
    """Whether mesh axes cut a value into even parts, in all of some specs."""
    pairs = (pair for spec in specs for pair in zip(shape, spec, strict=True))
    return all(size % math.prod(axes[axis] for axis in split) == 0 for size, split in pairs)


def _asked(subject: Subject) -> dict[str, Axes]:
    """The mesh axes of each dim: those of arguments that do not come back, as a batch, before those of others."""
    jitted, code = subject.jitted, subject.code
    results = {(code.shapes[v], code.dtypes[v]) for v in code.block.outputs if isinstance(v, int)}
    arguments = list(zip(code.block.inputs, jitted.inputs, strict=False))
    arguments.sort(key=lambda pair: (code.shapes[pair[0]], code.dtypes[pair[0]]) in results)
    asked: dict[str, Axes] = {}
    for value, sharding in arguments:
        for name, entry in zip(subject.dims(value), sharding.spec if sharding is not None else (), strict=False):
            if name and entry is not None:
                asked.setdefault(name, tuple(entry) if isinstance(entry, tuple) else (entry,))
    return asked


def _wanted(subject: Subject, value: int, axes_of: Mapping[str, Axes]) -> Splits:
    """How a value would be split: each mesh axis once, where the axis divides."""
    jitted, names, shape = subject.jitted, subject.dims(value), subject.code.shapes[value]
    splits: list[Axes] = [() for _ in shape]
    used: set[str] = set()
    for name, axes in axes_of.items():
        if name in names:
            at = names.index(name)
            free, parts = [], 1
            for axis in axes:
                if axis not in used and shape[at] % (parts * jitted.axes[axis]) == 0:
                    free.append(axis)
                    parts *= jitted.axes[axis]
            splits[at] = tuple(free)
            used.update(free)
    return tuple(splits)
