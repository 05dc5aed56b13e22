"""Finds the gradient of each parameter, and makes it a place: `grads/params/w1` beside `params/w1`.

    parameter        w1 ──────────────────────────────┐
    backward pass    … dot_general → gradient of w1   │
    update           gradient of w1 → mul 1e-3 ────→ sub → the next w1

Nothing in a jaxpr says whose gradient a value is. So the new value of each parameter is followed back through the
update, along operations that keep its elements, to the nearest value that the backward pass ends in. What is returned
as it is, without an update, is told by its path in the tree of outputs, or where only one value has the dims.

A gradient is what the backward pass makes: before it is clipped, or added up over micro-batches; inside the loop where
that is done in a loop. It is marked as `ml.tag` would, so that layouts, plans and boards know it as any tag.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax

from ..code.loops import LOOPS, carried
from ..code.operations import Block, Code, Input, Operation, walk
from ..jax_compat import changed, opened
from ..rules import ELEMENTWISE, names_where
from ..tensors.marks import mark_tag
from .program import Program, analysis
from .trained import donors, trained

# Operations that bring an array into another form, or only name it.
_FORMS = names_where(lambda traits: traits.keeps) | {"tag", "rename", "convert_element_type"}
# Operations that add up gradients, order their elements anew, join them or part them.
_JOINING = {"add_any", "rev", "concatenate", "slice", "split"}
# Operations that put the gradient of a part that was read to its place: the part, and where that is.
_PARTS = {"pad": (0,), "scatter-add": (2, 1)}
# What gradients' places begin with; the second where an argument or a tag is called like the first.
ROOTS = ("grads", "gradients")


Traced = TypeVar("Traced", bound=Program)


def with_gradients(program: Traced) -> Traced:
    """Returns a program whose gradients are marked, each as a place; the same one where it takes none.

    Args:
        program: as it was traced, its operations not merged yet.
    """
    taken = {*program.parameters, *(tag.split("/")[0] for tag in program.tags)}
    root = next((name for name in ROOTS if name not in taken), None)
    found = gradients(program) if root else {}
    if not found:
        return program
    parameters = {f"{root}/{place}": place for place in found}
    places: dict[int, list[str]] = {}
    for place, parameter in parameters.items():
        places.setdefault(found[parameter], []).append(place)
    code, names = _Marking(program.code, program.names, places).marked()
    return dataclasses.replace(program, code=code, names=names, unmerged=code, gradients=parameters)


def gradients(program: Program) -> dict[str, int]:
    """Finds the gradient of each parameter, by its place; those that are added to each other share one."""
    search, parameters = _Search(program), sorted(trained(program).parameters)
    next_values = {position: program.code.block.outputs[output] for output, position in donors(program).items()}
    found: dict[int, int] = {}
    for position in parameters:
        value = search.nearest(next_values.get(position), program.arguments[position].value)
        if value is not None:
            found[position] = value
    if search.ends:
        found = dict(search.by_path()) | found
        missing = [position for position in parameters if position not in found]
        found |= dict(search.by_kind(missing, set(found.values())))
    return {program.arguments[position].place: found[position] for position in sorted(found)}


@analysis
def gradient_values(program: Program) -> dict[int, str]:
    """Finds the parameter of every value that is a gradient: its terms, parts, other forms, in loops too.

    Parameters that share a gradient, as those that are added to each other do, are named together: "w and b".
    """
    found: dict[int, set[str]] = {}
    parameters = program.gradients.items()
    marks = [(op.outputs[0], parameter) for place, parameter in parameters for op in program.marks.get(place, ())]
    alike: dict[int, list[int]] = {}
    for mark, _ in marks:
        alike.setdefault(program.original_of[mark], []).append(mark)
    waiting = [(each, parameter) for mark, parameter in marks for each in alike[program.original_of[mark]]]
    while waiting:
        value, parameter = waiting.pop()
        if parameter in found.get(value, ()):
            continue
        found.setdefault(value, set()).add(parameter)
        operation = program.makers.get(value)
        if value in program.insides:
            waiting.append((program.insides[value], parameter))
        elif operation is not None:
            waiting += [(read, parameter) for read in _terms(program, operation)]
    return {value: " and ".join(sorted(each)) for value, each in found.items()}


def _terms(program: Program, operation: Operation) -> Iterable[int]:
    """Returns, of an operation that makes a gradient, the operands that are that parameter's gradient as well."""
    name, reads = operation.name, operation.reads
    if name in _FORMS | _JOINING:
        return reads
    if name in _PARTS:
        part, *where = (operation.inputs[position] for position in _PARTS[name])
        return [part] if isinstance(part, int) and all(_is_fixed(program, each) for each in where) else ()
    if operation.backward and name in ELEMENTWISE:
        made = (v for v in reads if (maker := program.makers.get(v)) and maker.backward)
        return [read for read in made if program.uses[read] == 1]
    return ()


def _is_fixed(program: Program, value: Input) -> bool:
    """Says whether a value is the same whatever the program is given."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, int) or each in seen or each in program.code.constants:
            continue
        seen.add(each)
        maker = program.makers.get(each)
        if maker is None or maker.blocks:
            return False
        waiting += maker.inputs
    return True


class _Search:
    """Follows values back to where the backward pass ends."""

    def __init__(self, program: Program):
        self.program, self.code = program, program.code
        # For a loop's carry its values before and after an iteration, for a slice what is sliced.
        self.sources: dict[int, list[Input]] = {}
        for operation in walk(self.code.block):
            for block in operation.blocks[:1] if operation.name in LOOPS else operation.blocks:
                for outside, inside in zip(_inputs(operation, block), block.inputs, strict=True):
                    self.sources[inside] = [outside]
            if operation.name in LOOPS:
                body, count = operation.blocks[0], carried(operation)
                for before, after in list(zip(body.inputs, body.outputs, strict=False))[:count]:
                    self.sources[before].append(after)

    def nearest(self, start: Input | None, parameter: int) -> int | None:
        """Returns the end of the backward pass of a parameter's dims that is nearest to its next value, if one is."""
        waiting, seen = deque([(start, 0)]), {start}
        found: list[int] = []
        least = math.inf
        while waiting:
            value, distance = waiting.popleft()
            if not isinstance(value, int) or distance > least:
                continue
            if self.is_backward(value):
                if self.kind(value) == self.kind(parameter):
                    found, least = [*found, value], distance
                continue
            further = [each for each in self.before(value) if each not in seen]
            seen.update(further)
            waiting += [(each, distance + 1) for each in further]
        return found[0] if len(found) == 1 else None

    def before(self, value: int) -> Iterator[Input]:
        """Yields the values that a value keeps the elements of."""
        operation = self.program.makers.get(value)
        if operation is None:
            yield from self.sources.get(value, ())
        elif operation.blocks:
            position = operation.outputs.index(value)
            yield from (b.outputs[position] for b in _bodies(operation))
        else:
            size = math.prod(self.code.shapes[value])
            yield from (v for v in operation.reads if math.prod(self.code.shapes[v]) == size)

    def is_backward(self, value: int) -> bool:
        """Says whether the backward pass makes a value; a sum of cotangents belongs to it."""
        operation = self.program.makers.get(value)
        return operation is not None and _is_backward(operation)

    def kind(self, value: int) -> tuple[int, ...]:
        """Returns the sizes of a value's axes, in whatever order they are."""
        return tuple(sorted(size for size in self.code.shapes[value] if size != 1))

    @functools.cached_property
    def ends(self) -> dict[int, None]:
        """The values that the backward pass makes and others read, outputs among them, in order."""
        made = [v for operation in walk(self.code.block) if _is_backward(operation) for v in operation.outputs]
        reads = {v for operation in walk(self.code.block) if not _is_backward(operation) for v in operation.reads}
        reads |= {v for v in self.code.block.outputs if isinstance(v, int)}
        return dict.fromkeys(v for v in made if v in reads)

    def by_path(self) -> Iterator[tuple[int, int]]:
        """Yields the arguments whose gradient is an output: an end of the backward pass, in a tree of their paths."""
        values = dict(zip(self.program.outputs, self.code.block.outputs, strict=True))
        paths: dict[str, list[str]] = {}
        for argument in self.program.arguments:
            paths.setdefault(argument.parameter, []).append(argument.place[len(argument.parameter) :])
        for position, argument in enumerate(self.program.arguments):
            below, path = paths[argument.parameter], argument.place[len(argument.parameter) :]
            roots = [place.removesuffix(path) for place in values if path and place.endswith(path)]
            alike = [values[root + path] for root in roots if all(root + each in values for each in below)]
            ends = [v for v in alike if isinstance(v, int) and v in self.ends]
            found = [v for v in ends if self.kind(v) == self.kind(argument.value)]
            if len(found) == 1:
                yield position, found[0]

    def by_kind(self, missing: Sequence[int], taken: set[int]) -> Iterator[tuple[int, int]]:
        """Yields the parameters of whose sizes there is one end of the backward pass alone."""
        rivals = Counter(self.kind(self.program.arguments[position].value) for position in missing)
        for position in missing:
            kind = self.kind(self.program.arguments[position].value)
            alike = [value for value in self.ends if value not in taken and self.kind(value) == kind]
            if len(alike) == rivals[kind] == 1:
                yield position, alike[0]


class _Marking:
    """Puts a mark behind each gradient, which all but the backward pass read in its place.

    Marks of gradients that are there by then stand in one row, in front of the first operation that reads one: so they
    part no layers that repeat. A gradient of several parameters has a mark for each, one behind the other.
    """

    def __init__(self, code: Code, names: Sequence[Any], places: Mapping[int, Sequence[str]]):
        self.code, self.places = code, places
        self.shapes, self.dtypes, self.names = list(code.shapes), list(code.dtypes), list(names)
        self.marks: dict[int, int] = {}
        self.makers = {v: op for op in walk(code.block) for v in op.outputs if v in places}

    def marked(self) -> tuple[Code, tuple[Any, ...]]:
        """Returns the code with its marks, and the names of all values."""
        block = self.block(self.code.block)
        code = dataclasses.replace(self.code, block=block, shapes=tuple(self.shapes), dtypes=tuple(self.dtypes))
        return code, tuple(self.names)

    def block(self, block: Block) -> Block:
        operations: list[Operation] = []
        unmarked: list[int] = []
        for operation in block.operations:
            backward = _is_backward(operation)
            if not backward and unmarked and _reads(operation) & set(unmarked):
                operations += self.behind(unmarked)
                unmarked = []
            operations.append(operation if backward else self.reading(operation))
            unmarked += [value for value in operation.outputs if value in self.places]
        operations += self.behind(unmarked)
        return Block(block.inputs, tuple(operations), tuple(map(self.read, block.outputs)))

    def reading(self, operation: Operation) -> Operation:
        """Returns an operation that reads the marks behind gradients."""
        inputs, blocks = tuple(map(self.read, operation.inputs)), tuple(map(self.block, operation.blocks))
        same = not blocks and inputs == operation.inputs
        return operation if same else dataclasses.replace(operation, inputs=inputs, blocks=blocks)

    def read(self, value: Input) -> Input:
        return self.marks.get(value, value) if isinstance(value, int) else value

    def behind(self, values: Sequence[int]) -> Iterator[Operation]:
        """Yields the marks behind gradients, on the lines that make them."""
        for value in values:
            for place in self.places[value]:
                read, mark = self.read(value), len(self.shapes)
                for facts in (self.shapes, self.dtypes, self.names):
                    facts.append(facts[value])
                equation = changed(_tag(self.shapes[value], self.dtypes[value]), params={"tag": place})
                yield Operation("tag", equation, (read,), (mark,), self.makers[value].source, backward=True)
                self.marks[value] = mark


@functools.lru_cache(maxsize=512)
def _tag(shape: tuple[int, ...], dtype: Any) -> Any:
    (equation,) = opened(jax.make_jaxpr(lambda x: mark_tag(x, ""))(jax.ShapeDtypeStruct(shape, dtype))).equations
    return equation


def _is_backward(operation: Operation) -> bool:
    return operation.backward or operation.name == "add_any"


def _inputs(operation: Operation, block: Block) -> Sequence[Input]:
    """Returns the operands of an operation that a block's inputs are."""
    return operation.inputs[len(operation.inputs) - len(block.inputs) :]


def _bodies(operation: Operation) -> Sequence[Block]:
    return operation.blocks[:1] if operation.name in LOOPS else operation.blocks


def _reads(operation: Operation) -> set[int]:
    """Returns what an operation reads, inside its blocks too."""
    inside = (each for block in operation.blocks for each in walk(block))
    results = (v for block in operation.blocks for v in block.outputs if isinstance(v, int))
    return {*operation.reads, *results, *(v for each in inside for v in each.reads)}
