"""Writes operations on shards as statements of Python, in order: lines of the user's, collectives, loops.

    # model.py:17  hidden = ml.relu(ml.dot(images, params["w1"], Rows, Cols))
    hidden_product = jnp.einsum("brs,rsh->bh", images, params_w1)  # [batch/data hidden/model]
    hidden = lax.max(hidden_product, 0.0)  # [batch/data hidden/model]
    # all-reduce over model, 2,000 bytes: `hidden` is summed while split over `model`.
    logits = lax.psum(logits_partial, ("model",))  # [batch/data classes]

A small result that is read once, in the same block, stands where it is read. Bodies of loops, and branches, are
functions that read the values around them, as the plan's steps do.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..code.loops import carried
from ..code.operations import Block, Input, Literal, Operation, use_counts, walk
from ..code.source import Source
from ..jax_compat import scan_options
from ..passes.normalize import outside_reads
from ..planning.step import Step
from ..plans.collective import Collective
from ..plans.plan_data import Plan
from ..rules import ELEMENTWISE
from .compared import is_same
from .expressions import WIDE, WIDE_COMMENT, Expression, call, keyword, laid_out, sequence, text
from .naming import Names
from .traced import Note, Traced
from .values import Unwritable, constant, literal, number
from .words import COLLECTIVES, axes_of, written

# What stands in a line beside names: ` = ` and the number behind a name, or the positions of a slice, `[12:345]`.
_NUMBERED, _SLICED = 6, 11
# The longest text that stands where it is read, and what may beside elementwise operations.
_SHORT = 50
_INLINE = frozenset(ELEMENTWISE) | {
    "broadcast_in_dim",
    "reshape",
    "squeeze",
    "iota",
    "axis_index",
    "convert_element_type",
}


# Makes what a function returns of its outputs.
Returns = Callable[..., Expression]


class Writer:
    """Writes the operations of one program.

    Attributes:
        lines: what is written so far.
        constants: arrays that the function closes over, as lines of the module.
        problems: what cannot be written.
    """

    def __init__(self, plan: Plan, traced: Traced):
        self.plan, self.traced = plan, traced
        self.names = Names(plan.program)
        self.lines: list[str] = []
        self.constants: list[str] = []
        self.problems: dict[str, None] = {}
        self.known: dict[int, Expression] = {}
        self.makers = {v: op for op in walk(traced.code.block) for v in op.outputs}
        self.uses = use_counts(traced.code)
        self.here: list[set[int]] = []
        self.indent = 4
        # The line that is written now, those that were written before in each block around, and what is said beside.
        self.source: Source | None = None
        self.headings: list[set[tuple[str, bool]]] = [set()]
        self.beside = ""
        self.region = False

    # --- blocks -------------------------------------------------------------------------------------------------------

    def program(self) -> list[str]:
        """Writes the whole; returns the names of the arguments."""
        block, constants = self.traced.code.block, self.traced.code.constants
        arguments = [self.names.fresh(argument.place) for argument in self.plan.program.arguments]
        self.known.update(zip(block.inputs, map(text, arguments), strict=False))
        if len(", ".join(arguments)) > 2 * WIDE:
            whole = self.names.fresh("arrays")
            self.unpack(arguments, whole)
            arguments = [f"*{whole}"]
        for value, array in constants.items():
            self.known[value] = self.constant(array)
        outputs = self.block(block)
        if self.region:
            self.put("# endregion")
        self.statement("return ", sequence(*outputs))
        return arguments

    def block(self, block: Block) -> list[Expression]:
        """Writes the operations of a block; returns its outputs."""
        self.here.append({v for op in block.operations for v in op.reads})
        made = {v for op in block.operations for v in op.outputs}
        self.here[-1] &= made - {v for op in block.operations for inner in op.blocks for v in outside_reads(inner)}
        for operation in block.operations:
            self.operation(operation)
        self.here.pop()
        return [self.read(value) for value in block.outputs]

    def read(self, value: Input) -> Expression:
        return number(value.value) if isinstance(value, Literal) else self.known[value]

    def operation(self, operation: Operation):
        try:
            if operation.name in _LOOPS:
                _LOOPS[operation.name](self, operation)
            else:
                self.plain(operation)
        except Unwritable as problem:
            step = self.traced.step(operation)
            by = step.serves if step is not None else None
            where = f" at {by.source}" if by is not None and by.source else ""
            self.problems[f"{problem}{where}"] = None
            self.known.update(dict.fromkeys(operation.outputs, text("None")))

    def plain(self, operation: Operation):
        if is_same(operation):
            self.known[operation.outputs[0]] = self.read(operation.inputs[0])
            return
        operands = [self.read(value) for value in operation.inputs]
        dims = [self.dims(value) for value in operation.inputs]
        made = written(operation, operands, dims)
        room = WIDE - self.indent - _NUMBERED - len(self.wish(operation, operation.outputs[0]))
        longest = sorted(range(len(operands)), key=lambda i: -len(operands[i].text))
        while len(made.text) > room and longest:
            position = longest.pop(0)
            operands[position] = self.stored(operation.inputs[position], operands[position])
            made = written(operation, operands, dims)
        if len(operation.outputs) == 1 and self.stands_inside(operation, made):
            self.known[operation.outputs[0]] = made
            return
        self.assign(operation, made)

    def stored(self, value: Input, expression: Expression) -> Expression:
        """Returns a name for what would be too long where it is read."""
        if isinstance(value, Literal) or expression.text.isidentifier():
            return expression
        self.assign(self.makers[value], expression)
        return self.known[value]

    def stands_inside(self, operation: Operation, made: Expression) -> bool:
        """Says whether a result stands where it is read: small, read once in this block, and not the user's own."""
        (output,) = operation.outputs
        once = self.uses[output] == 1 and output in self.here[-1]
        return once and operation.name in _INLINE and len(made.text) <= _SHORT and not self.own(output)

    def own(self, output: int) -> str | None:
        """Returns the user's own word for a value."""
        note = self.traced.notes.get(output)
        return self.names.user(note.number) if note is not None else None

    # --- statements ---------------------------------------------------------------------------------------------------

    def put(self, line: str):
        self.lines.append(f"{' ' * self.indent}{line}")

    def statement(self, before: str, expression: Expression, after: str = "", comment: str = ""):
        rows = laid_out(before, expression, after, self.indent)
        beside, self.beside = self.beside, ""
        said = (f"{beside}  {comment}".strip(), beside or comment, comment)
        if len(rows) == 1:
            fits = (words for words in said if words and len(rows[0]) + len(words) + 4 <= WIDE)
            rows[0] += next((f"  # {words}" for words in fits), "")
        self.lines += rows

    def assign(self, operation: Operation, made: Expression):
        """Writes an operation's results under names of their own, with what is said of them."""
        step = self.traced.step(operation)
        self.heading(step)
        for comment in self.sent(operation, step):
            self.put(f"# {comment}")
        names = [self.result(operation, output) for output in operation.outputs]
        self.known.update(zip(operation.outputs, map(text, names), strict=True))
        self.targets(names, made, self.spec(operation.outputs[0]) if len(names) == 1 else "")

    def targets(self, names: Sequence[str], made: Expression, comment: str = ""):
        """Writes an assignment to one name, or to several."""
        if len(names) == 1 and not comment.startswith("("):
            self.statement(f"{names[0]} = ", made, "", comment)
            return
        before = f"{', '.join(names)} = "
        if self.indent + len(before) + max(len(made.opening), len(made.text) if not made.items else 0) <= WIDE:
            self.statement(before, made)
            return
        several = self.names.fresh("several")
        self.statement(f"{several} = ", made)
        self.unpack(names, several)

    def unpack(self, names: Sequence[str], whole: str):
        """Writes the assignment of a tuple's items to names: in as many lines as these need."""
        first = 0
        while first < len(names):
            count = 1
            while count < len(names) - first and self._fits(names[first : first + count + 1], whole):
                count += 1
            part = names[first : first + count]
            rest = (
                whole
                if count == len(names)
                else f"{whole}[{first or ''}:{'' if first + count == len(names) else first + count}]"
            )
            self.put(f"({part[0]},) = {rest}" if count == 1 else f"{', '.join(part)} = {rest}")
            first += count

    def _fits(self, names: Sequence[str], whole: str) -> bool:
        return self.indent + len(", ".join(names)) + len(whole) + _SLICED <= WIDE

    def result(self, operation: Operation, output: int) -> str:
        return self.names.fresh(self.wish(operation, output)) if self.uses[output] else "_"

    def wish(self, operation: Operation, output: int) -> str:
        step = self.traced.step(operation)
        return self.names.wish(operation, self.traced.notes.get(output), step.serves if step else None)

    # --- comments -----------------------------------------------------------------------------------------------------

    def heading(self, step: Step | None):
        """Writes the user's line, where another one begins, and where the backward pass does."""
        by = step.serves if step is not None else None
        if step is not None and step.backward and not self.region and self.indent == 4:
            self.region = True
            self.put("# region backward pass, and what follows it")
        source = by.source if by is not None else None
        self.beside = ""
        if source is None or str(source) == str(self.source):
            return
        self.source, here = source, (str(source), self.region)
        if here in self.headings[-1]:
            self.beside = str(source)
            return
        self.headings[-1].add(here)
        line = f"# {source}  {source.code}".rstrip()
        most = WIDE_COMMENT - self.indent
        self.put(line if len(line) <= most else f"{line[: most - 2]} …")

    def sent(self, operation: Operation, step: Step | None) -> list[str]:
        """Says what a collective sends, and why."""
        kind = COLLECTIVES.get(operation.name)
        if kind is None:
            return []
        axes = axes_of(operation)
        meant = [c for c in self.plan.sent.get(id(step), ()) if c.kind == kind.name]
        exact = [c for c in meant if set(c.axes) == set(axes)] or meant
        shapes = [c for c in exact if c.shape == tuple(operation.equation.invars[0].aval.shape)] or exact
        said = _said(shapes[0]) if shapes else f"{kind.name} over {'+'.join(axes)}"
        return textwrap.wrap(said, WIDE_COMMENT - self.indent - 2)

    def dims(self, value: Input) -> Sequence[str | None]:
        note = self.traced.notes.get(value) if isinstance(value, int) else None
        rank = len(self.traced.code.shape_of(value))
        names = self.plan.program.names[note.number] if note is not None else ()
        return names if len(names) == rank else ()

    def spec(self, output: int) -> str:
        """Returns the dims of a value, each with the mesh axes that shard it."""
        note: Note | None = self.traced.notes.get(output)
        if note is None or not self.dims(output):
            return ""
        pairs = zip(self.plan.program.names[note.number], note.spec.splits, strict=True)
        shown = " ".join(f"{dim or '_'}{'/' + '+'.join(split) if split else ''}" for dim, split in pairs)
        return f"[{shown}]" + (f" partial over {'+'.join(note.spec.partial)}" if note.spec.partial else "")

    # --- loops, branches, constants -----------------------------------------------------------------------------------

    def constant(self, array: Any) -> Expression:
        """Writes an array that the function closes over, as a constant of the module."""
        try:
            made = constant(array)
        except Unwritable as problem:
            self.problems[str(problem)] = None
            return text("None")
        name = self.names.fresh("CONSTANT")
        self.constants += laid_out(f"{name} = ", made, "", 0)
        return text(name)

    def function(self, name: str, block: Block, given: Sequence[tuple[str, Sequence[int]]], returns: Returns):
        """Writes a block as a function.

        Args:
            name: its name.
            block: what it runs.
            given: its arguments, each with the values that it is unpacked to.
            returns: makes what it returns of its outputs.
        """
        self.statement(f"def {name}", call("", *(text(argument) for argument, _ in given)), ":")
        self.indent += 4
        source, self.source = self.source, None
        self.headings.append(set())
        for argument, values in given:
            names = [self.names.fresh(self.wanted(value)) if self.uses[value] else "_" for value in values]
            self.known.update(zip(values, map(text, names), strict=True))
            if any(self.uses[value] for value in values):
                self.unpack(names, argument)
        self.statement("return ", returns(*self.block(block)))
        self.indent -= 4
        self.source = source
        self.headings.pop()
        self.lines.append("")

    def wanted(self, value: int) -> str:
        """Returns how a value should be called that comes into a block."""
        note = self.traced.notes.get(value)
        return (self.names.user(note.number) if note is not None else None) or "x"

    def gap(self):
        """Leaves a line empty before a function."""
        if not self.lines or (self.lines[-1] and not self.lines[-1].endswith(":")):
            self.lines.append("")

    def scan(self, operation: Operation):
        step, (body,) = self.traced.step(operation), operation.blocks
        carries, options = carried(operation), scan_options(operation.equation)
        self.gap()
        self.heading(step)
        name = self.names.fresh(self.loop_name(step))
        carry, slices = body.inputs[:carries], body.inputs[carries:]
        self.function(name, body, [("carry", carry), ("slices", slices)], lambda *made: _pair(made, carries))
        inputs = [self.read(value) for value in operation.inputs]
        more = [keyword("length", literal(options["length"]))]
        usual = {"reverse": False, "unroll": 1}
        more += [keyword(key, literal(options[key])) for key in usual if options[key] is not usual[key]]
        made = call("lax.scan", text(name), sequence(*inputs[:carries]), sequence(*inputs[carries:]), *more)
        names = [self.result(operation, output) for output in operation.outputs]
        self.known.update(zip(operation.outputs, map(text, names), strict=True))
        self.pair(names[:carries], names[carries:], made)

    def pair(self, first: Sequence[str], second: Sequence[str], made: Expression):
        """Writes an assignment to two tuples of names."""
        names = [sequence(*map(text, part)).text if any(n != "_" for n in part) else "_" for part in (first, second)]
        line = f"{names[0]}, {names[1]} = "
        if self.indent + len(line) + len(made.opening) <= WIDE:
            self.statement(line, made)
            return
        whole = [self.names.fresh(wish) for wish in ("carried", "stacked")]
        self.statement(f"{whole[0]}, {whole[1]} = ", made)
        for part, name in zip((first, second), whole, strict=True):
            if any(n != "_" for n in part):
                self.unpack(part, name)

    def while_loop(self, operation: Operation):
        body, test = operation.blocks
        self.gap()
        self.heading(self.traced.step(operation))
        goes, runs = self.names.fresh("goes_on"), self.names.fresh("iteration")
        self.function(goes, test, [("carry", test.inputs)], lambda made: made)
        self.function(runs, body, [("carry", body.inputs)], sequence)
        start = sequence(*(self.read(value) for value in operation.inputs))
        made = call("lax.while_loop", text(goes), text(runs), start)
        self.loop_results(operation, made)

    def loop_results(self, operation: Operation, made: Expression):
        names = [self.result(operation, output) for output in operation.outputs]
        self.known.update(zip(operation.outputs, map(text, names), strict=True))
        if len(names) == 1:
            self.statement(f"({names[0]},) = ", made)
        else:
            self.targets(names, made)

    def switch(self, operation: Operation):
        self.gap()
        self.heading(self.traced.step(operation))
        branches = [self.names.fresh(f"branch_{i}") for i in range(len(operation.blocks))]
        for name, block in zip(branches, operation.blocks, strict=True):
            self.function(name, block, [], sequence)
        index = operation.inputs[0]
        which = self.read(index)
        if isinstance(index, int) and self.traced.code.dtypes[index].name == "bool":
            made = call("lax.cond", which, *map(text, reversed(branches)))
        else:
            made = call("lax.switch", which, sequence(*map(text, branches)))
        self.loop_results(operation, made)

    @staticmethod
    def loop_name(step: Step | None) -> str:
        axis = step.in_time if step is not None else None
        backward = step is not None and step.backward
        return f"{axis}_iteration" if axis else "iteration_back" if backward else "iteration"


_LOOPS: Mapping[str, Any] = {"scan": Writer.scan, "while": Writer.while_loop, "cond": Writer.switch}


def _pair(outputs: Sequence[Expression], carries: int) -> Expression:
    """Returns what a loop carries as one tuple, and what it stacks as another."""
    return sequence(sequence(*outputs[:carries]), sequence(*outputs[carries:]))


def _said(c: Collective) -> str:
    why = re.sub(r"\s+", " ", c.because)
    return f"{c.kind} over {'+'.join(c.axes)}, {c.payload_bytes:,} bytes: {why}"
