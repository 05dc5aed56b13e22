"""Names: one dim for every axis of every value, spread by the rules.

The user names the axes of arguments, and each operation on named tensors marks its result. Between the marks the rules
say which axes are the same, so a union-find gives a name to all others: gradients, optimizer state, what JAX's own
functions make in between.

    params/w1 [rows, cols, hidden]                     named by the user
    mul 1e-3 (∂w1)                                     axis 2 is the factor of axis 2 of w1: hidden

Two user-given names in one class are an error, unless a `rename` stands between them. A class that nobody named gets a
made-up name, in which `~` shows that it is not the user's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from .code import Block, Code, Literal, Operation, walk
from .errors import DimError, TraceError
from .rules import Factors, Facts, factors_of

Names = tuple[str | None, ...]


@dataclasses.dataclass(frozen=True)
class Seed:
    """A name that the user gave to an axis."""

    value: int
    axis: int
    name: str
    where: str


class _Classes:
    """A union-find over the axes of all values."""

    def __init__(self, code: Code):
        self.offsets = []
        count = 0
        for shape in code.shapes:
            self.offsets.append(count)
            count += len(shape)
        self.parents = list(range(count))

    def find(self, node: int) -> int:
        while self.parents[node] != node:
            self.parents[node] = node = self.parents[self.parents[node]]
        return node

    def join(self, a: int, b: int):
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parents[max(a, b)] = min(a, b)


def facts_of(code: Code, operation: Operation, uniform: Iterable[int] = (), zeros: Iterable[int] = ()) -> Facts:
    """Collects what a rule may know of an operation."""
    return Facts(
        tuple(code.shape_of(i) for i in operation.inputs),
        tuple(code.shapes[o] for o in operation.outputs),
        tuple(i in zeros if isinstance(i, int) else i.is_zero for i in operation.inputs),
        tuple(not isinstance(i, int) or not code.shapes[i] or i in uniform for i in operation.inputs),
    )


def name_axes(code: Code, arguments: Mapping[int, tuple[Names, str]]) -> tuple[tuple[Names, ...], dict[str, int]]:
    """Names every axis of every value.

    Args:
        code: the flattened program, its name marks still in.
        arguments: for inputs that the user named, their names and where they were given.

    Returns:
        The names of each value's axes (None for an axis of size 1), and the sizes of the user's names, in order.

    Raises:
        TraceError: two of the user's names meet, or one stands twice in one value.
        DimError: one name has two sizes.
    """
    classes = _Classes(code)
    _join_all(code, classes)
    seeds = [
        Seed(value, axis, name, where)
        for value, (names, where) in arguments.items()
        for axis, name in enumerate(names)
        if name is not None
    ]
    seeds += _marked(code)
    sizes = _sizes(code, seeds)
    given = _given(code, classes, seeds)
    return _spread(code, classes, given), sizes


def _join_all(code: Code, classes: _Classes):
    """Joins the axes that the rules say are the same."""

    def node(value: int, axis: int) -> int:
        return classes.offsets[value] + axis

    def join_values(a: Any, b: Any, skip_a: int = 0, skip_b: int = 0):
        if isinstance(a, Literal) or isinstance(b, Literal):
            return
        for i in range(len(code.shapes[a]) - skip_a):
            if code.shapes[a][i + skip_a] != 1:
                classes.join(node(a, i + skip_a), node(b, i + skip_b))

    def join_block(operation: Operation, body: Block):
        if operation.name != "scan":
            for a, b in (
                *zip(operation.inputs, body.inputs, strict=True),
                *zip(operation.outputs, body.outputs, strict=True),
            ):
                join_values(a, b)
            return
        carried = operation.params["num_carry"]
        stacked = [v for v in (*operation.inputs[carried:], *operation.outputs[carried:]) if isinstance(v, int)]
        for v in stacked[1:]:
            classes.join(node(stacked[0], 0), node(v, 0))
        pairs = (*zip(operation.inputs, body.inputs, strict=True), *zip(operation.outputs, body.outputs, strict=True))
        count = len(operation.inputs)
        for position, (outer, inner) in enumerate(pairs):
            is_carry = (position if position < count else position - count) < carried
            join_values(outer, inner, 0 if is_carry else 1, 0)
        for a, b in zip(body.inputs[:carried], body.outputs[:carried], strict=True):
            join_values(a, b)

    for operation in walk(code.block):
        if operation.body is not None:
            join_block(operation, operation.body)
            continue
        factors = factors_of(operation, facts_of(code, operation))
        first: dict[int, int] = {}
        for value, axes in _axes(operation, factors):
            for axis, factor in enumerate(axes):
                if factor >= 0:
                    classes.join(first.setdefault(factor, node(value, axis)), node(value, axis))


def _axes(operation: Operation, factors: Factors):
    for value, axes in zip(operation.inputs, factors.operands, strict=True):
        if isinstance(value, int):
            yield value, axes
    yield from zip(operation.outputs, factors.results, strict=True)


def _marked(code: Code) -> list[Seed]:
    """The names that marks give."""
    seeds = []
    for operation in walk(code.block):
        where = str(operation.source or "an unknown line")
        given = []
        if operation.name == "dim_names":
            given = [(operation.outputs[0], operation.params["names"])]
        elif operation.name == "rename":
            given = [
                (operation.inputs[0], operation.params["before"]),
                (operation.outputs[0], operation.params["after"]),
            ]
        seeds += [Seed(v, i, n, where) for v, names in given for i, n in enumerate(names) if n is not None]
    return seeds


def _sizes(code: Code, seeds: list[Seed]) -> dict[str, int]:
    sizes: dict[str, tuple[int, str]] = {}
    problems = []
    for seed in seeds:
        size = code.shapes[seed.value][seed.axis]
        known, where = sizes.setdefault(seed.name, (size, seed.where))
        if known != size:
            problems.append(f"`{seed.name}` has size {known} at {where} and size {size} at {seed.where}")
    if problems:
        raise DimError(
            "A dim has one size in a program, but "
            + "; ".join(dict.fromkeys(problems))
            + ". Give one of them another name."
        )
    return {name: size for name, (size, _) in sizes.items()}


def _given(code: Code, classes: _Classes, seeds: list[Seed]) -> dict[int, str]:
    """The user's name of each class; classes of one name are one."""
    given: dict[int, Seed] = {}
    problems = []
    for seed in seeds:
        if code.shapes[seed.value][seed.axis] == 1:
            continue
        root = classes.find(classes.offsets[seed.value] + seed.axis)
        known = given.setdefault(root, seed)
        if known.name != seed.name:
            problems.append(f"`{known.name}` (named at {known.where}) and `{seed.name}` (named at {seed.where})")
    if problems:
        raise TraceError(
            "Two names meet on one axis: "
            + "; ".join(dict.fromkeys(problems))
            + '. Use one name for both, or x.rename(old="new") where one becomes the other.'
        )
    return {root: seed.name for root, seed in given.items()}


def _spread(code: Code, classes: _Classes, given: dict[int, str]) -> tuple[Names, ...]:
    made_up: dict[int, str] = {}
    found = []
    for value, shape in enumerate(code.shapes):
        names: list[str | None] = []
        for axis, size in enumerate(shape):
            root = classes.find(classes.offsets[value] + axis)
            if size == 1:
                names.append(None)
            elif root in given:
                names.append(given[root])
            else:
                names.append(made_up.setdefault(root, f"~{len(made_up) + 1}"))
        found.append(tuple(names))
        _refuse_twice(code, value, found[-1])
    return tuple(found)


def _refuse_twice(code: Code, value: int, names: Names):
    named = [n for n in names if n is not None]
    if len(named) == len(set(named)):
        return
    twice = next(n for n in named if named.count(n) > 1)
    maker = next((op for op in walk(code.block) if value in op.outputs), None)
    where = f" made at {maker.source}" if maker and maker.source else ""
    called = "One unnamed dim" if twice.startswith("~") else f"The dim `{twice}`"
    raise TraceError(
        f"{called} would stand twice in a value of shape {code.shapes[value]}{where}."
        ' Rename one of the two before they meet, for instance keys.rename(seq="kv").'
    )
