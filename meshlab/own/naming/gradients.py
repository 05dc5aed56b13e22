"""Finds whose gradient a value of the backward pass is, where that is certain.

    y = jnp.tanh(x @ w)     what the backward pass hands to the operations of `jnp.tanh(x @ w)` is the gradient of `y`;
                            what it takes from those of `x @ w` are the gradients of `x` and `w`, or terms of them

Differentiation keeps with each operation of the backward pass the part of the line that was differentiated. So what
enters the operations of a part there is the gradient of what the part makes; what leaves them, of what the part reads.
Of several values with the same dims that one is meant whose partners are read: the gradient of `w` in `x @ w` is made
of `x`. Where that tells nothing, nothing is said; nor of parts that are differentiated twice, whose gradients are of
two kinds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...engine.code.loops import LOOPS, carried
from ...engine.code.operations import Code, Input, Operation, walk
from ...engine.code.source import Columns, Source
from ...engine.jax_compat import calls, columns, is_differentiated_twice
from ...engine.programs.spread_names import Names
from ...engine.rules import names_where
from .targets import Leaving

# Operations that bring an array into another form, where it keeps its number of elements.
_FORMS = names_where(lambda traits: traits.keeps or traits.kind == "reduce")
# By which differentiation adds up the terms of a gradient.
_SUM = "add_any"


class Part(NamedTuple):
    """A part of a line, as the frames at that line have it."""

    source: Source
    columns: tuple[Columns, ...]


class Gradient(NamedTuple):
    """A gradient of a value, by what that is called; of the values that a sum adds up each is a term."""

    of: str
    is_term: bool = False


# What a value is called; None where nobody has a name for it.
Name = Callable[[int], str | None]


def part(operation: Operation) -> Part | None:
    """The part of the user's line that an operation is made by."""
    source = operation.source
    return Part(source, source.columns) if source is not None and source.columns else None


class Gradients:
    """Finds gradients in one program.

    Args:
        code: the program.
        dims: the names of each value's axes.
        readers: the operations that read each value.
        name: what a value of the forward pass is called.
    """

    def __init__(self, code: Code, dims: Callable[[int], Names], readers: dict[int, list[Operation]], name: Name):
        self.code, self.dims, self.readers, self.name = code, dims, readers, name
        self._leaving, self._known = Leaving(code, readers), dict[int, Gradient | None]()
        self._called = dict[Operation, tuple[Any, ...]]()
        self._reads, self._results = Counter[str](), dict[Part, dict[int, str]]()
        operations = list(walk(code.block))
        self.made_by = {value: operation for operation in operations for value in operation.outputs}
        self.twice = {operation for operation in operations if is_differentiated_twice(operation.equation)}
        self.parts_twice = set(filter(None, map(part, self.twice)))
        self.parts: dict[Part, list[Operation]] = {}
        self.before: dict[int, list[Input]] = {}  # for what comes into a block what it comes from
        self.behind: dict[int, list[int]] = {}  # for what a block returns what that is outside, or in the next turn
        for operation in operations:
            if (key := part(operation)) and _is_forward(operation):
                self.parts.setdefault(key, []).append(operation)
            for block in operation.blocks[:1] if operation.name in LOOPS else operation.blocks:
                self._through(operation, block.inputs, block.outputs)

    def _through(self, operation: Operation, inputs: tuple[int, ...], outputs: tuple[Input, ...]) -> None:
        count = carried(operation) if operation.name in LOOPS else 0
        for i, (inside, outside) in enumerate(zip(inputs, operation.inputs, strict=False)):
            self.before[inside] = [outside, *outputs[i : i + (i < count)]]
        for i, (made, outside) in enumerate(zip(outputs, operation.outputs, strict=False)):
            if isinstance(made, int):
                self.behind.setdefault(made, []).extend([outside, *inputs[i : i + (i < count)]])

    def of(self, value: int) -> Gradient | None:
        """Returns whose gradient a value is, or a term of one; None where that is not certain, or it is none."""
        if value not in self._known:
            self._known[value] = self._of(value)
        return self._known[value]

    def results(self, key: Part) -> dict[int, str]:
        """Returns what the forward pass reads of a part behind it, and the primitive that makes each value."""
        if key not in self._results:
            made = {v: operation.name for operation in self.parts.get(key, ()) for v in operation.outputs}
            behind = (v for v in made if self._leaving.is_read(v, key.source, key.columns[:1]))
            self._results[key] = {v: made[v] for v in behind}
        return self._results[key]

    def _of(self, value: int) -> Gradient | None:
        made = self._made_of(value)
        if not made or any(self.made_by[one] in self.twice for one in made):
            return None
        left = {self._left(one) for one in made}
        found = left.pop() if len(left) == 1 else None
        sums = [one for _, one in self._read(value) if one.name == _SUM]
        if found is not None and not sums:
            return Gradient(found)
        if found is not None and len(made) == 1 and self._is_read_once(found):
            own = part(self.made_by[made[0]])
            return Gradient(found, is_term=any(part(one) == own for one in sums))
        entered = self._entered(value, made)
        if entered is not None:
            return Gradient(entered)
        return Gradient(found, is_term=True) if found is not None and len(made) == 1 else None

    def _made_of(self, value: int) -> list[int]:
        """The values of the backward pass that a value is the sum of, in whatever form; none if it is of others.

        A value that is added to itself is none: two gradients may be one value.
        """
        waiting: list[Input] = [value]
        seen, found, constant = set(), [], []
        while waiting:
            each = waiting.pop()
            if not isinstance(each, int):
                continue
            maker = self.made_by.get(each)
            if each in seen and maker is not None:
                return []
            if each in seen:
                continue
            seen.add(each)
            if maker is None and each not in self.before:
                return []
            if maker is None:
                waiting += self.before[each]
            elif maker.blocks:
                blocks = maker.blocks[:1] if maker.name in LOOPS else maker.blocks
                waiting += [block.outputs[maker.outputs.index(each)] for block in blocks]
            elif maker.name == _SUM or self._is_form(maker):
                waiting += maker.inputs
            elif _is_forward(maker) and maker.reads:
                return []
            elif maker.reads:
                found.append(each)
            elif not _is_forward(maker):
                constant.append(each)
        return found or constant[:1]  # zeros, with which a loop begins to sum, beside others are no term

    def _entered(self, value: int, made: Iterable[int]) -> str | None:
        """What the part makes that a gradient enters: all its results of this shape have one name."""
        for read, reader in self._read(value):
            key = self._once(reader)
            if reader.name == _SUM or key is None or any(self._is_inside(self.made_by[one], key) for one in made):
                continue
            shape = self.code.shapes[read]
            names = {self.name(v) for v in self.results(key) if self.code.shapes[v] == shape}
            if len(names) == 1 and (name := names.pop()):
                return name
        return None

    def _left(self, value: int) -> str | None:
        """What the part reads that a gradient leaves: all its operands of these sizes have one name.

        Else it is the one that is read beside what the gradient is made of; or, where nothing is read beside, the one
        with these dims.
        """
        maker = self.made_by[value]
        key = self._once(maker)
        if key is None or not self._leaves(value, key):
            return None
        pairs = [
            (v, self._partners(v, one))
            for one in self._differentiated(maker, key)
            for v in one.reads
            if self._is_from_outside(v, key) and self._sizes(v) == self._sizes(value)
        ]
        names = {self.name(v) for v, _ in pairs}
        if len(names) > 1 and any(partners for _, partners in pairs):
            read = (each for v in maker.reads for each in (v, *self._first_run(v)))
            reads = {root for each in read for root in self._roots(each)}
            names = {self.name(v) for v, partners in pairs if partners and partners <= reads}
        elif len(names) > 1:
            names = {self.name(v) for v, _ in pairs if Counter(self.dims(v)) == Counter(self.dims(value))}
        return names.pop() if len(names) == 1 else None

    def _differentiated(self, maker: Operation, key: Part) -> Sequence[Operation]:
        """The operations of a part; of a function that is called several times those of the call that has the maker."""
        every = self.parts.get(key, ())
        if len(every) < 2:
            return every
        around = self._calls(maker)
        return [one for one in every if self._calls(one) == around] or every

    def _first_run(self, value: int) -> Iterator[int]:
        """Yields the value that was computed first, of one that `jax.checkpoint` computes again."""
        maker = self.made_by.get(value)
        key = part(maker) if maker is not None and maker.rematerialised else None
        if maker is not None and key is not None:
            alike = [one for one in self._differentiated(maker, key) if one.name == maker.name]
            first = [one for one in alike if not one.rematerialised]
            if len(first) == 1:
                yield first[0].outputs[maker.outputs.index(value)]

    def _calls(self, operation: Operation) -> tuple[Any, ...]:
        if operation not in self._called:
            self._called[operation] = calls(operation.equation)
        return self._called[operation]

    def _is_read_once(self, name: str) -> bool:
        """Whether the forward pass reads all that has a name once."""
        if not self._reads:
            for operation in walk(self.code.block):
                if _is_forward(operation) and not operation.rematerialised and not operation.blocks:
                    self._reads.update(filter(None, map(self.name, operation.reads)))
        return self._reads[name] == 1

    def _partners(self, value: int, operation: Operation) -> frozenset[int]:
        """What an operation reads beside a value."""
        return frozenset(root for v in operation.reads if v != value for root in self._roots(v))

    def _roots(self, value: int) -> Iterator[int]:
        """Yields a value, and what it comes from through blocks: of what a loop stacks, one turn's."""
        yield value
        maker = self.made_by.get(value)
        if maker is None:
            for before in self.before.get(value, ())[:1]:
                if isinstance(before, int):
                    yield from self._roots(before)
        elif maker.blocks and maker.outputs.index(value) >= (carried(maker) if maker.name in LOOPS else 0):
            made = maker.blocks[0].outputs[maker.outputs.index(value)]
            if isinstance(made, int):
                yield from self._roots(made)

    def _is_from_outside(self, value: int, key: Part) -> bool:
        maker = self.made_by.get(value)
        return maker is None or part(maker) != key

    def _leaves(self, value: int, key: Part) -> bool:
        """Whether something behind a part reads a value, in whatever form, or a sum that it is a term of."""
        waiting, seen = [value], set()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            readers = self.readers.get(each, ())
            if each in self.behind or each in self.code.block.outputs or (any(one.blocks for one in readers)):
                return True
            for reader in readers:
                if reader.name == _SUM or self._is_form(reader):
                    waiting += reader.outputs
                elif part(reader) != key:
                    return True
        return False

    def _read(self, value: int) -> Iterator[tuple[int, Operation]]:
        """Yields the operations of the backward pass that read a value, in whatever form, each with what it reads."""
        waiting, seen = [value], set()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            waiting += self.behind.get(each, ())
            for reader in self.readers.get(each, ()):
                if reader.name != _SUM and self._is_form(reader):
                    waiting += reader.outputs
                elif not _is_forward(reader) and not reader.blocks:
                    yield each, reader

    def _once(self, operation: Operation) -> Part | None:
        """The part of an operation, unless that is differentiated twice."""
        key = part(operation)
        return None if key in self.parts_twice else key

    def _is_form(self, operation: Operation) -> bool:
        if operation.name not in _FORMS or len(operation.reads) != 1 or len(operation.outputs) != 1:
            return False
        shapes = self.code.shapes
        return math.prod(shapes[operation.reads[0]]) == math.prod(shapes[operation.outputs[0]])

    def _sizes(self, value: int) -> Counter[int]:
        return Counter(size for size in self.code.shapes[value] if size != 1)

    def _is_inside(self, operation: Operation, key: Part) -> bool:
        """Whether an operation runs while a part of a line does."""
        return part(operation) == key or key.columns[0] in columns(operation.equation, key.source.file, key.source.line)


def _is_forward(operation: Operation) -> bool:
    """Whether an operation belongs to the forward pass, which `jax.checkpoint` runs again."""
    return operation.name != _SUM and (operation.rematerialised or not operation.backward)
