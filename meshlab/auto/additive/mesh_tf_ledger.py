"""The ledger of a program: its operations and values, as the convention of `mesh_tf_liveness` takes them.

Arguments and constants are made by operations without operands; outputs are final; the operations of the backward pass
and the update are operations like any others. What Mesh TensorFlow has not is decided here:

- while a scan runs, its operands and results are live, the carry in the place of the result, and what is live in one
  iteration of its body comes on top;
- while a rematerialised region runs, its operands and results are live, and what it makes in between comes on top;
- a tag is its operand; ties in priority are decided by the program's own order.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from ...engine.code.loops import LOOPS, carried
from ...engine.code.operations import Block, Input, Operation, item_bytes
from ...engine.passes.normalize import outside_reads
from ...engine.plans.plan_data import Plan
from ...engine.programs.program import Program
from ...engine.specs.spec import Spec, split_count
from .mesh_tf_liveness import Entry, Ledger, Line

# A ledger, and who lives when in it, is the same under every layout: it is written once for each program.
_ledgers: weakref.WeakKeyDictionary[Program, Ledger] = weakref.WeakKeyDictionary()


def ledger_of(program: Program) -> Ledger:
    if program not in _ledgers:
        _ledgers[program] = _Writer(program).block(program.code.block, program.code.block.inputs)
    return _ledgers[program]


def planned_live_bytes(plan: Plan) -> int:
    """The most bytes that are live on one device at once under a plan's rules, arguments and outputs as stored."""
    ledger = ledger_of(plan.program)
    specs = dict(plan.argument_specs)
    specs.update(
        (v, s) for v, s in zip(plan.program.code.block.outputs, plan.output_specs, strict=True) if isinstance(v, int)
    )

    def on_device(entry: Entry) -> int:
        value = _number(entry.name)
        spec: Spec = specs.get(value) or plan.rules.spec(plan.program.names[value])
        return entry.nbytes // split_count(spec, plan.mesh.axes)

    return ledger.lives.most({name: on_device(entry) for name, entry in ledger.entries.items()})


def _name(value: int) -> str:
    return f"v{value}"


def _number(name: str) -> int:
    return int(name[1:])


class _Writer:
    """Writes the ledger of one program.

    Attributes:
        same: values that stand in the place of another.
    """

    def __init__(self, program: Program):
        self.program = program
        self.same: dict[int, int] = {}

    def block(self, block: Block, inputs: Iterable[int]) -> Ledger:
        """The ledger of a block, of whose inputs some are tensors of their own."""
        lines = [Line(f"{0:06}.{v}", (), (self.entry(v),)) for v in inputs]
        here = set(inputs)
        for number, operation in enumerate(block.operations, 1):
            if operation.name == "tag" and isinstance(operation.inputs[0], int):
                self.same[operation.outputs[0]] = self.root(operation.inputs[0])
                continue
            inside = self.inside(operation) if operation.blocks else None
            outputs = [v for v in operation.outputs if v not in self.same]
            here.update(outputs)
            reads = (*operation.reads, *sorted(set().union(*map(outside_reads, operation.blocks))))
            name = f"{number:06}.{operation.name}"
            lines.append(Line(name, self.names(reads, here), tuple(map(self.entry, outputs)), inside=inside))
        return Ledger(tuple(lines), frozenset(self.names(block.outputs, here)))

    def inside(self, operation: Operation) -> Ledger:
        """The ledger of what runs inside an operation; of branches, the one with the most operations."""
        body = max(operation.blocks, key=lambda b: len(b.operations)) if operation.name == "cond" else operation.body
        assert body is not None
        if operation.name in LOOPS:
            count = carried(operation)
            self.same.update(zip(body.inputs[:count], map(self.root, operation.outputs), strict=False))
            return self.block(body, body.inputs[count:])
        for outer, inner in zip(operation.inputs, body.inputs, strict=operation.name != "cond"):
            if isinstance(outer, int):
                self.same[inner] = self.root(outer)
        computed = {v for op in body.operations for v in op.outputs}
        for inner, outer in zip(body.outputs, operation.outputs, strict=True):
            if inner in computed and isinstance(inner, int):
                self.same.setdefault(inner, outer)
        return self.block(body, ())

    def root(self, value: int) -> int:
        """The value in whose place a value stands."""
        return self.same.get(value, value)

    def names(self, values: Iterable[Input], here: set[int]) -> tuple[str, ...]:
        """The names of those values that are tensors of this block."""
        roots = (self.root(v) for v in values if isinstance(v, int))
        return tuple(_name(v) for v in roots if v in here)

    def entry(self, value: int) -> Entry:
        """A value as a tensor; its axes without a name of the user's are never sharded."""
        program = self.program
        dims = zip(program.names[value], program.code.shapes[value], strict=True)
        named = tuple(
            (n if n is not None and n in program.dims else f"_anonymous_{i}", size) for i, (n, size) in enumerate(dims)
        )
        return Entry(_name(value), named, item_bytes(program.code.dtypes[value]))
