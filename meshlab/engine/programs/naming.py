"""Names every axis of every value by one dim, spread by the rules.

The user names the axes of arguments, and each operation on named tensors marks its result. Between the marks the rules
say which axes are the same, so a union-find (`axis_classes.py`) gives a name to all others: gradients, optimizer state,
the values that JAX's own functions make in between.

    params/w1 [rows, cols, hidden]                     named by the user
    mul 1e-3 (∂w1)                                     axis 2 is the factor of axis 2 of w1: hidden
    reshape [batch, heads, head] → [batch, 64]         the merged axis is called heads*head
    reshape [batch, embed] → [batch, 8, 64]            the parts are called embed.0 and embed.1

Two user-given names in one class are an error, unless a `rename` stands between them. Where a class would appear twice
in one value it is cut: one side keeps the name, the other gets a made-up one (`spread_names`). What the backward pass
computes again has the names of the first run, made-up ones too (`recomputed`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ..code.loops import carried
from ..code.operations import Block, Code, Input, Operation, walk
from ..errors import TraceError
from ..rules import Factors, Facts, factors_of
from ..rules.shaping import aligned
from ..tensors.named_arrays import AxisName, Merged, Sizes
from .axis_classes import Classes, Seed
from .recomputed import recomputed
from .spread_names import Names, Parts, spread

# For an operation, the (operand, axis) pairs whose names are cut there: they are moved to the names of the factors.
Cuts = dict[int, frozenset[tuple[int, int]]]


@dataclasses.dataclass(frozen=True)
class Naming:
    """The names of a program.

    Attributes:
        names: for each value the name of each axis; None for an axis of size 1.
        dims: the sizes of the user's dims, in order.
        made_of: for a name that is a product of dims, or a factor of one, the factors whose splits it bears.
        cuts: operands at which names are cut, by the number of the operation's first result.
    """

    names: tuple[Names, ...]
    dims: dict[str, int]
    made_of: dict[str, Parts]
    cuts: Cuts


def facts_of(
    code: Code,
    operation: Operation,
    uniform: Iterable[int] = (),
    zeros: Iterable[int] = (),
    little: Iterable[Operation] = (),
) -> Facts:
    shapes, inputs = code.shapes, operation.inputs
    return Facts(
        tuple([shapes[i] if isinstance(i, int) else () for i in inputs]),
        tuple([shapes[o] for o in operation.outputs]),
        tuple([i in zeros if isinstance(i, int) else i.is_zero for i in inputs]),
        tuple([not isinstance(i, int) or not shapes[i] or i in uniform for i in inputs]),
        operation in little,
    )


def name_axes(code: Code, arguments: Mapping[int, tuple[tuple[AxisName, ...], str]]) -> Naming:
    """Names every axis of every value.

    Args:
        code: the flattened program, its name marks still in.
        arguments: for inputs that the user named, their names and where they were given.
    """
    return _Namer(code, arguments).named()


class _Namer:
    """The state of one naming. Used once."""

    def __init__(self, code: Code, arguments: Mapping[int, tuple[tuple[AxisName, ...], str]]):
        self.code = code
        self.classes = Classes()
        self.nodes: list[tuple[int, ...]] = []
        for value, shape in enumerate(code.shapes):
            self.nodes.append(tuple([self.classes.add(size, {value}) for size in shape]))
        given = [(v, axis, name, where) for v, (names, where) in arguments.items() for axis, name in enumerate(names)]
        self.merged = [
            (Seed(v, axis, str(name), where), name) for v, axis, name, where in given if isinstance(name, Merged)
        ]
        self.seeds = [Seed(v, axis, name, where) for v, axis, name, where in given if isinstance(name, str)]
        self.seeds += _marked(code)
        self.cuts: dict[int, set[tuple[int, int]]] = {}
        self.recomputed = recomputed(code)
        # The tables that were looked up, by their indices and shape.
        self.looked_up: dict[tuple[Input, tuple[int, ...]], int] = {}

    def named(self) -> Naming:
        dims = self.seed()
        self.block(self.code.block)
        if self.classes.problems:
            raise TraceError(
                "Two names meet on one axis: "
                + "; ".join(self.classes.problems.values())
                + ". Use one name for both; or tell them apart: with ml.named, write `_` for the axis without a name;"
                ' with tensors, x.rename(old="new") where one becomes the other.'
            )
        names, made_of = spread(self.classes, self.nodes, self.code)
        cuts = {operation: frozenset(axes) for operation, axes in self.cuts.items()}
        return Naming(names, dims, made_of, cuts)

    # Names that the user gave

    def seed(self) -> dict[str, int]:
        """Gives the user's names to their classes; axes of one name are one class."""
        sizes = Sizes()
        nodes = [(seed, self.nodes[seed.value][seed.axis]) for seed in self.seeds]
        for seed, node in nodes:
            sizes.note(seed.name, self.classes.sizes[node], seed.where)
        for seed, merged in self.merged:
            sizes.note_given(merged, seed.where)
        for seed, merged in self.merged:
            node = self.nodes[seed.value][seed.axis]
            # The parts stand in no row yet; those that the axis is cut into do.
            parts = [
                (dataclasses.replace(seed, name=part), self.classes.add(size, set()))
                for part, size in sizes.of_parts(merged, self.classes.sizes[node], seed.where)
            ]
            self.classes.align([node], [part for _, part in parts])
            nodes += parts
        sizes.check()
        first: dict[str, int] = {}
        for seed, node in nodes:
            if self.classes.sizes[node] == 1:
                continue
            self.classes.name(node, seed)
            if not self.classes.join(first.setdefault(seed.name, node), node):
                raise TraceError(
                    f"The dim `{seed.name}` would appear twice in a value of shape {self.code.shapes[seed.value]},"
                    " named"
                    f' at {seed.where}. Give one of the two another name, or rename it before: keys.rename(seq="kv").'
                )
        return sizes.known

    # Names that the rules spread

    def block(self, block: Block):
        for operation in block.operations:
            self.again(operation)
            if not operation.blocks:
                self.operation(operation)
                continue
            for inside in operation.blocks:
                self.block(inside)
            if operation.name == "cond":
                for branch in operation.blocks:
                    for outer, inner in zip(operation.outputs, branch.outputs, strict=True):
                        self.join_values(outer, inner)
            else:
                self.around(operation, operation.blocks[0])
            if operation.name == "while":
                body, test = operation.blocks
                for a, b in zip((*body.outputs, *body.inputs), test.inputs * 2, strict=True):
                    self.join_values(a, b)

    def again(self, operation: Operation):
        """Joins what the backward pass computes again with the first run, unless the user calls them differently."""
        given = self.classes.given.keys()
        for value in operation.outputs:
            if value not in self.recomputed:
                continue
            for a, b in zip(self.nodes[self.recomputed[value]], self.nodes[value], strict=True):
                if self.classes.sizes[a] != 1 and not {self.classes.find(a), self.classes.find(b)} <= given:
                    self.classes.join(a, b)

    def around(self, operation: Operation, body: Block):
        """Joins the values that come into a block and go out of it with those inside."""
        stacked_from = carried(operation) if operation.name == "scan" else None
        pairs = (*zip(operation.inputs, body.inputs, strict=True), *zip(operation.outputs, body.outputs, strict=True))
        count = len(operation.inputs)
        for position, (outer, inner) in enumerate(pairs):
            place = position if position < count else position - count
            stacked = stacked_from is not None and place >= stacked_from
            self.join_values(outer, inner, 1 if stacked else 0)
        if stacked_from is not None:
            stacks = [*operation.inputs[stacked_from:], *operation.outputs[stacked_from:]]
            rows = [self.nodes[v][0] for v in stacks if isinstance(v, int) and self.code.shapes[v][0] != 1]
            for node in rows[1:]:
                self.classes.join(rows[0], node)
            for a, b in zip(body.inputs[:stacked_from], body.outputs[:stacked_from], strict=True):
                self.join_values(a, b)

    def join_values(self, a: Input, b: Input, skip: int = 0):
        """Joins two values axis by axis, but for the first axes of `a`."""
        if isinstance(a, int) and isinstance(b, int):
            for size, x, y in zip(self.code.shapes[b], self.nodes[a][skip:], self.nodes[b], strict=True):
                if size != 1:
                    self.classes.join(x, y)

    def operation(self, operation: Operation):
        self.classes.line = functools.partial(_line, operation)
        if operation.name == "reshape":
            self.reshape(operation)
            return
        factors = factors_of(operation, facts_of(self.code, operation))
        row = -1 - operation.outputs[0] if operation.outputs else None
        for factor, size, operands, results in _groups(self.code, self.nodes, operation, factors):
            target = self.joined(operands, results, row)
            if target is None:
                target = self.target([n for _, n in operands], results, row)
                for place, node in operands:
                    if not self.classes.join(target, node) and row is not None:
                        self.cuts.setdefault(operation.outputs[0], set()).add(place)
                for node in results:
                    self.classes.join(target, node)
            if row is not None and factor not in factors.unsharded and size != 1:
                self.classes.enter(target, row)
        self.hint(operation, factors)
        self.spread_back(operation)
        for result, axis, start in _pieces(self.code, operation):
            self.minor_parts(operation.inputs[0], result, axis, start)

    def minor_parts(self, source: Input, result: int, axis: int, start: int):
        """Joins a slice of a product with its minor parts: of `three*heads*head` a third is `heads*head`."""
        if not isinstance(source, int):
            return
        piece, size = self.nodes[result][axis], self.code.shapes[result][axis]
        if any(leaf in self.classes.given for leaf in self.classes.leaves(piece)):
            return
        leaves = self.classes.leaves(self.nodes[source][axis])
        parts = list(itertools.accumulate((self.classes.sizes[leaf] for leaf in reversed(leaves)), operator.mul))
        if size in parts[:-1] and start % size == 0:
            self.classes.align([piece], leaves[-1 - parts.index(size) :])

    def spread_back(self, operation: Operation):
        """Joins the axes of a gather's table with those of the gradient that is scattered by the same indices."""
        if operation.name not in ("gather", "scatter-add"):
            return
        array = operation.inputs[0] if operation.name == "gather" else operation.outputs[0]
        key = (operation.inputs[1], self.code.shape_of(array))
        if operation.name == "gather" and isinstance(array, int):
            self.looked_up.setdefault(key, array)
        elif key in self.looked_up and isinstance(array, int):
            for size, a, b in zip(key[1], self.nodes[self.looked_up[key]], self.nodes[array], strict=True):
                if size != 1 and self.classes.find(b) not in self.classes.given:
                    self.classes.join(a, b)

    def joined(self, operands: list[tuple[tuple[int, int], int]], results: list[int], row: int | None) -> int | None:
        """Joins the axes of a factor where its operands are one class, and takes in the result's; None elsewhere.

        Most factors are so; `target` and `join` come to the same there, and take longer.
        """
        classes, roots = self.classes, {self.classes.find(node) for _, node in operands}
        if len(roots) != 1 or len(results) != 1:
            return None
        (root,), other = roots, classes.find(results[0])
        if root != other:
            if root > other or other in classes.given or root in classes.parts or other in classes.parts:
                return None
            if row in classes.rows[root] or not classes.rows[root].isdisjoint(classes.rows[other]):
                return None
            classes.unite(root, other)
        return root

    def target(self, operands: list[int], results: list[int], row: int | None) -> int:
        """Returns the class that a factor belongs to: a named one before others, an older one before younger.

        A class that stands in the operation's row already is no candidate, nor one that cannot be that of the result.
        """
        classes, rows, given = self.classes, self.classes.rows, self.classes.given
        roots = {classes.find(n) for n in (*operands, *results)}
        if len(roots) == 1:
            return roots.pop()
        result_leaves = {leaf for n in results for leaf in classes.leaves(n)}
        taken = [rows[leaf] for leaf in result_leaves]
        for root in (*sorted(roots & given.keys()), *sorted(roots - given.keys())):
            leaves = classes.leaves(root)
            if row is not None and any([row in rows[leaf] for leaf in leaves]):
                continue
            if result_leaves.issuperset(leaves) or all([own.isdisjoint(rows[x]) for x in leaves for own in taken]):
                return root
        return results[0] if results else operands[0]

    def reshape(self, operation: Operation):
        """Aligns the axes that a reshape merges with the axis that they become, and so those that it splits."""
        source, result = operation.inputs[0], operation.outputs[0]
        if not isinstance(source, int):
            return
        before, after = self.nodes[source], self.nodes[result]
        shapes = self.code.shapes
        for left, right in aligned(shapes[source], shapes[result], operation.params["dimensions"]):
            if len(left) == len(right) == 1:
                self.classes.join(before[left[0]], after[right[0]])
            else:
                self.classes.align([before[i] for i in left], [after[i] for i in right])

    def hint(self, operation: Operation, factors: Factors):
        """Lets an axis that is made of another one, a slice, be called after it."""
        if not factors.known:
            return
        shapes = self.code.shapes
        for result, result_axes in zip(operation.outputs, factors.results, strict=True):
            for source, axes in zip(operation.inputs, factors.operands, strict=True):
                if not isinstance(source, int) or len(axes) != len(result_axes) or shapes[source] == shapes[result]:
                    continue
                for i, (a, b) in enumerate(zip(axes, result_axes, strict=True)):
                    resized = shapes[source][i] != shapes[result][i]
                    if b >= 0 and resized and (a == b or {a, b} <= factors.unsharded):
                        self.classes.hint(self.nodes[result][i], self.nodes[source][i])


def _line(operation: Operation) -> str:
    return f"`{operation.name}` at {operation.source}" if operation.source else ""


def _groups(
    code: Code, nodes: list[tuple[int, ...]], operation: Operation, factors: Factors
) -> Iterator[tuple[int, int, list[tuple[tuple[int, int], int]], list[int]]]:
    """Yields each factor's axes: (factor, size, [((operand, axis), node)], nodes of results); one group for each size.

    Factors of results come first, for the result's name counts where names are cut.
    """
    groups: defaultdict[tuple[int, int], tuple[list, list]] = defaultdict(lambda: ([], []))
    for value, axes in zip(operation.outputs, factors.results, strict=True):
        for factor, size, node in zip(axes, code.shapes[value], nodes[value], strict=True):
            if factor >= 0:
                groups[factor, size][1].append(node)
    for position, (value, axes) in enumerate(zip(operation.inputs, factors.operands, strict=True)):
        if isinstance(value, int):
            for axis, (factor, size, node) in enumerate(zip(axes, code.shapes[value], nodes[value], strict=True)):
                if factor >= 0:
                    groups[factor, size][0].append(((position, axis), node))
    for (factor, size), (operands, results) in groups.items():
        yield factor, size, operands, results


def _pieces(code: Code, operation: Operation) -> Iterator[tuple[int, int, int]]:
    """Yields the slices that an operation takes: the result, the axis along which it is cut, and where it begins."""
    if operation.name == "split":
        axis, sizes = operation.params["axis"], operation.params["sizes"]
        for result, end, size in zip(operation.outputs, itertools.accumulate(sizes), sizes, strict=True):
            yield result, axis, end - size
    elif operation.name == "slice" and set(operation.params["strides"] or (1,)) == {1}:
        before, after = code.shape_of(operation.inputs[0]), code.shapes[operation.outputs[0]]
        for axis, start in enumerate(operation.params["start_indices"]):
            if before[axis] != after[axis]:
                yield operation.outputs[0], axis, start


def _marked(code: Code) -> Iterator[Seed]:
    """Yields the names that marks give."""
    for operation in walk(code.block):
        given = []
        if operation.name == "dim_names":
            given = [(operation.outputs[0], operation.params["names"])]
        elif operation.name == "rename":
            given = [
                (operation.inputs[0], operation.params["before"]),
                (operation.outputs[0], operation.params["after"]),
            ]
        where = str(operation.source or "an unknown line") if given else ""
        for value, names in given:
            yield from (Seed(value, i, name, where) for i, name in enumerate(names) if name is not None)
