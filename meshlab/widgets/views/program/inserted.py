"""XLA's program as a tree: the function's operations, on the shards that XLA decided, and what it sends at each line.

    inserted_view(explorer)["collectives"][0]["because"]        as `ml.explain` says it

It has the nodes of the plan's tree (`steps.py`): phases, functions, loops, lines, steps. A collective stands under the
first line of its pass that it comes from; those of no line, as of an argument that is returned, behind all others.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ....engine.code.loops import trip_count
from ....engine.code.operations import Block, Operation
from ....engine.code.source import Source
from ....engine.rules import MARKS
from ....own.explained import Explained, phase_of
from ....own.known import Known
from ....own.report import Report
from ...documents.intents import Refused
from ...state.explorer_state import ExplorerState
from .nodes import BLOCK, FUNCTION, LINE, LOOP, PHASE, STEP, Nodes, ProgramDataView, named_together, phases_of

# What is of no line there.
_ELSEWHERE = "elsewhere"


def inserted_view(explorer: ExplorerState) -> ProgramDataView | Refused:
    last = explorer.partitioned.last
    if last is None or last.report is None:
        return Refused("XLA has not compiled this layout.", "Press Compile with XLA.", code="nothing")
    return _Inserted(last.report).view()


class _Inserted(Nodes):
    """Lays XLA's program out."""

    def __init__(self, report: Report):
        super().__init__()
        self.report, self.subject = report, report.subject
        self.known = Known(report.subject, report.shardings, {})
        self.waiting: dict[tuple[Source | None, str | None], list[Explained]] = defaultdict(list)
        for c in report.collectives:
            self.waiting[c.source, c.phase].append(c)

    def view(self) -> ProgramDataView:
        operations = _told(self.subject.code.block)
        phases = phases_of([each.backward for each in operations])
        for phase, within in _runs(zip(phases, operations, strict=True)):
            self.operations(self.add(-1, PHASE, phase) if phase else -1, within)
        left = list(itertools.chain(*self.waiting.values()))
        node = self.add(-1, PHASE, _ELSEWHERE) if left else -1
        for c in left:
            self.collective(node, c)
        return self.data()

    def operations(self, parent: int, operations: Iterable[Operation]):
        for (function, file), inside in _runs((_function(each), each) for each in operations):
            under = self.add(parent, FUNCTION, function, source=file) if function else parent
            for _, line in _runs((_line(each), each) for each in inside):
                self.line(under, line)

    def line(self, parent: int, operations: Sequence[Operation]):
        """Adds the operations of a line: under it, if they are several; and what XLA sends there."""
        first, last = operations[0], operations[-1]
        if first.blocks:
            return self.nested(parent, first)
        code = first.source.code if first.source else ""
        if len(operations) == 1:
            under = self.step(parent, first, code)
        else:
            names = named_together(each.name for each in operations)
            under = self.add(parent, LINE, code, name=names, **self.made(last))
            for each in operations:
                self.step(under, each)
        self.sent(under, first)

    def step(self, parent: int, operation: Operation, label: str = "") -> int:
        reads = [self.type_of(value) for value in operation.reads]
        return self.add(parent, STEP, label, name=operation.name, reads=reads, **self.made(operation))

    def made(self, operation: Operation) -> dict[str, Any]:
        makes = self.type_of(operation.outputs[0]) if operation.outputs else -1
        return {"source": str(operation.source or ""), "value": self.value(operation), "makes": makes}

    def nested(self, parent: int, operation: Operation):
        """Adds a loop, branches or a region that runs again, and what is in it."""
        source, code = str(operation.source or ""), operation.source.code if operation.source else ""
        times = trip_count(operation) or 1
        node = self.add(parent, LOOP, code, name=operation.called, source=source, times=times)
        for position, block in enumerate(operation.blocks):
            alone = len(operation.blocks) == 1
            self.operations(node if alone else self.add(node, BLOCK, f"block {position}"), _told(block))
        self.sent(node, operation)

    def sent(self, parent: int, operation: Operation):
        if operation.source is not None:
            for c in self.waiting.pop((operation.source, phase_of(operation)), ()):
                self.collective(parent, c)

    def collective(self, parent: int, c: Explained):
        source = str(c.source or "")
        self.send(
            parent,
            {
                "id": "",  # it is none of the plan's, and nothing else shows it
                "kind": c.kind,
                "key": "+".join(c.axes or ()) or "?",
                "payload": c.payload_bytes,
                "wire": c.wire_bytes,
                "times": c.times,
                "value": c.value,
                "dims": list(c.dims),
                "source": source,
                "code": c.source.code if c.source else "",
                "because": " ".join([c.because, *(f"Started by {what}." for what in c.started_by[:1])]),
            },
            source=source,
            name=c.kind,
            value=c.value,
        )

    def value(self, operation: Operation) -> str:
        """What is made: its place, or what the line assigns to, going forward."""
        subject = self.subject
        place = next((subject.places[v] for v in operation.outputs if v in subject.places), "")
        target = operation.source.target if operation.source and not operation.backward else None
        return place or target or ""

    def type_of(self, value: int) -> int:
        """Returns the position of a value's type, as it is on one device; -1 where it is not known how it is split."""
        code, axes = self.subject.code, self.report.axes
        splits = self.known.split(value) if code.shapes[value] else ()
        if splits is None:
            return -1
        dims = tuple(
            (name or "1", int(size), math.ceil(size / math.prod(axes[axis] for axis in split)), "+".join(split))
            for name, size, split in zip(self.subject.dims(value), code.shapes[value], splits, strict=True)
        )
        return self.types[code.dtypes[value], dims, ""]


def _runs(pairs: Iterable[tuple[Any, Operation]]) -> list[tuple[Any, list[Operation]]]:
    """Gathers operations that follow each other with one key."""
    groups = itertools.groupby(pairs, key=lambda pair: pair[0])
    return [(key, [operation for _, operation in group]) for key, group in groups]


def _told(block: Block) -> list[Operation]:
    """The operations of a block, without those that only name what they read."""
    return [each for each in block.operations if each.name not in MARKS]


def _function(operation: Operation) -> tuple[str, str]:
    source = operation.source
    return (source.function, str(source).rpartition(":")[0]) if source else ("", "")


def _line(operation: Operation) -> tuple:
    """What operations of one line have in common; one with blocks stands for itself."""
    return operation.source, phase_of(operation), id(operation) if operation.blocks else 0
