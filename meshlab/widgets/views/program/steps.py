"""The steps of a plan as a tree in the user's words: phases, scopes or functions, loops, lines, steps, collectives.

    view = steps_view(plan)
    view["nodes"]["parent"]         [-1, 0, 1, …]       a node stands behind its parent
    view["kinds"][view["nodes"]["kind"][3]]             "line"
    view["collectives"][0]["id"]                        as in `views/plan.collectives_view`

What the user wrote comes first: a step is called by its line of code. Steps of one line stand under it, lines under the
function that they are in, or under their scopes (`jax.named_scope`, modules of Flax), and repetitions planned alike are
one node, with how often it runs. So a model of 126 layers has as many nodes as one of 2. Nodes are columns of numbers,
and all text is in one table: a program that repeats nothing has as many nodes as steps, and is to be sent at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....engine.code.operations import Operation
from ....engine.code.source import Source
from ....engine.jax_compat import scopes
from ....engine.planning.staged import Staged
from ....engine.planning.step import Step, only
from ....engine.planning.steps import Compute, Iterated, Materialise, Move, Nested, Repeated, move_of
from ....engine.specs.spec import Spec, local_shape
from ...state.selection import identities
from .nodes import (
    ALIKE,
    BLOCK,
    FUNCTION,
    LINE,
    LOOP,
    PHASE,
    SCOPE,
    SLICE,
    STEP,
    Memo,
    Nodes,
    ProgramDataView,
    SentView,
    named_together,
    phases_of,
)

_BLOCKS = {"while": ("each iteration", "each test")}

Line = tuple[str, int]
Path = tuple[tuple[int, str, str], ...]


def program_view(explorer: Any) -> ProgramDataView:
    return steps_view(explorer.plan)


def steps_view(plan: Any) -> ProgramDataView:
    """Describes the steps of a plan.

    Returns:
        The `nodes` as columns, which name texts by their position in `strings`, values by theirs in `types`, and
        collectives by theirs in `collectives` (-1: none). A type is a dtype, a list of (dim, size, local size, mesh
        axes), and the mesh axes over which it is a partial sum.
    """
    return _Tree(plan).view()


class _Tree(Nodes):
    """Lays the steps of one plan out as nodes, in the order in which `each_once` goes through them."""

    def __init__(self, plan: Any):
        super().__init__()
        self.plan, self.program = plan, plan.program
        code, named = self.program.code, self.program.names
        # What is alike of values, and what a device has of it under a spec.
        self.alike = Memo(lambda value: (code.shapes[value], named[value], code.dtypes[value]))
        self.known = Memo(self.new_type)
        self.place = Memo(self.new_place)
        self.code, self.text = Memo(_code), Memo(_text)
        self.names = identities(plan)
        self.sent = iter(plan.collectives_by_step)

    def view(self) -> ProgramDataView:
        _Block(self, -1, phased=False).lay(self.plan.planned.steps)
        return self.data()

    def type_of(self, value: int, spec: Spec) -> int:
        """Returns the position of a value's type, as it is on one device."""
        return self.known[self.alike[value], spec]

    def new_type(self, key: tuple[tuple[tuple[int, ...], Sequence[str | None], Any], Spec]) -> int:
        (shape, names, dtype), spec = key
        local = local_shape(shape, spec, self.plan.grid)
        axes = ("+".join(split) for split in spec.splits)
        dims = tuple(
            (name or "1", int(size), int(part), split)
            for name, size, part, split in zip(names, shape, local, axes, strict=True)
        )
        return self.types[dtype, dims, "+".join(spec.partial)]

    def new_place(self, value: int) -> str:
        """Returns the place of an argument or an output, or of that which a loop's value is a slice of; or ""."""
        return self.program.stored_at.get(self.program.outermost(value)) or ""

    def step(self, parent: int, step: Step, source: Source | None, alone: bool) -> int:
        """Adds a step that has no blocks, and its collectives.

        Args:
            parent: the node above.
            step: the step.
            source: its line.
            alone: whether it is all that the line does here; then it is called by the line's code.
        """
        rows = next(self.sent)
        facts: dict[str, Any] = {"source": self.text[source], "label": self.code[source] if alone else ""}
        if move := move_of(step):
            value = self.program.value(move.name).label
            facts |= {"makes": self.type_of(move.name, move.via.result), "reads": [self.type_of(move.name, move.start)]}
            facts |= {"name": move.title, "value": value, "label": ""}
            for row in rows:
                return self.collective(parent, row, **facts)
            return self.add(parent, SLICE, **facts, uses="+".join(move.via.axes))
        node = self.add(parent, STEP, **facts, **self.computed(step))
        for row in rows:
            self.collective(node, row, source=self.text[row.source], name=row.kind, value=row.value)
        return node

    def computed(self, step: Step) -> dict[str, Any]:
        # What makes a constant is not said to read any.
        pairs = zip(*step.read(), strict=True) if step.computes else ()
        read = [(v, spec) for v, spec in pairs if isinstance(v, int) and spec is not None]
        places = [place for v, _ in read if (place := self.place[v])]
        reads = [self.type_of(v, spec) for v, spec in read]
        return self.made(step) | {"uses": ", ".join(dict.fromkeys(places)) if places else "", "reads": reads}

    def made(self, step: Step) -> dict[str, Any]:
        operation, (values, specs) = step.runs, step.made()
        makes = self.type_of(values[0], specs[0]) if specs else -1
        return {"name": step.title, "value": self.value(operation) if operation else "", "makes": makes}

    def value(self, operation: Operation) -> str:
        """Returns the name of what an operation makes: its place, or what the line assigns to, going forward."""
        place = next((self.program.stored_at[v] for v in operation.outputs if v in self.program.stored_at), "")
        target = operation.source.target if operation.source and not operation.backward else None
        return place or target or ""

    def collective(self, parent: int, row: Any, **facts: Any) -> int:
        sent: SentView = {
            "id": self.names[len(self.collectives)],
            "kind": row.kind,
            "key": "+".join(row.axes),
            "payload": int(row.payload_bytes),
            "wire": float(row.wire_bytes),
            "times": int(row.times),
            "value": row.value,
            "dims": list(row.dims),
            "source": self.text[row.source],
            "code": self.code[row.source],
            "because": row.because,
        }
        return self.send(parent, sent, **facts)


class _Block:
    """Lays the steps of one block out under a node.

    Attributes:
        open: the scopes or functions that are open, with their nodes.
        line: the line whose steps are being gathered.
        gathered: those steps, each with its line.
    """

    def __init__(self, tree: _Tree, parent: int, phased: bool):
        self.tree, self.parent, self.phased = tree, parent, phased
        self.open: list[tuple[tuple[int, str, str], int]] = []
        self.line: Line | None = None
        self.gathered: list[tuple[Step, Source | None]] = []
        self.alike: Counter[int] = Counter()

    def lay(self, steps: Iterable[Step]):
        steps = tuple(steps)
        alike = self.phased or any(step.in_time for step in steps)
        phases = [""] * len(steps) if alike else phases_of([step.backward for step in steps])
        self.alike = Counter(id(step.steps) for step in only(Repeated, steps))
        top, phase = self.parent, ""
        for step, now in zip(steps, phases, strict=True):
            if now != phase:
                self.close()
                phase, self.parent = now, self.tree.add(top, PHASE, now)
            _LAY[type(step)](self, step, self.phased or bool(phase))
        self.close()

    def repeated(self, step: Repeated, phased: bool):
        """Lays repetitions out that are planned alike, as one; a single one as if it were none."""
        count = self.alike.pop(id(step.steps), 0)
        if not count:
            return
        self.flush()
        inside = step.written()
        if count == 1:
            _Block(self.tree, self.below(()), phased).lay(inside)
            return
        sources = [source for source in map(_source, inside) if source]
        functions = dict.fromkeys(source.function for source in sources if not source.function.startswith("<"))
        label = ", ".join(functions) or next(map(_code, sources), "")
        _Block(self.tree, self.tree.add(self.below(()), ALIKE, label, times=count), phased).lay(inside)

    def nested(self, step: Nested, phased: bool):
        """Lays an operation out that has blocks inside."""
        self.flush()
        operation, tree = step.operation, self.tree
        next(tree.sent)
        node = tree.add(
            self.below(_scopes(operation)),
            LOOP,
            self.tree.code[operation.source],
            name=operation.called,
            source=self.tree.text[operation.source],
            makes=tree.type_of(operation.outputs[0], step.results[0]) if step.results else -1,
            times=step.times if operation.name == "scan" else 1,
        )
        for position, block in enumerate(step.blocks):
            where = node
            if len(step.blocks) > 1:
                names = _BLOCKS.get(operation.name)
                times = step.parts[position].times
                where = tree.add(node, BLOCK, names[position] if names else f"branch {position}", times=times)
            _Block(tree, where, phased or operation.backward).lay(block.steps)

    def iterated(self, step: Iterated, _phased: bool):
        """Lays the loop over a serial axis out; an iteration has its own phases."""
        self.close()
        next(self.tree.sent)
        node = self.tree.add(self.parent, LOOP, f"over {step.axis}", name="serial", times=step.times)
        _Block(self.tree, node, False).lay(step.steps)

    def staged(self, step: Staged, _phased: bool):
        """Lays a pipeline out: what its stages send each other, and its pieces."""
        self.close()
        tree, rows = self.tree, next(self.tree.sent)
        where = f"over {step.over} through {step.axis}"
        node = tree.add(self.parent, LOOP, where, name="pipeline", times=step.schedule.ticks)
        for row in rows:
            tree.collective(node, row, source=tree.text[row.source], name=row.kind, value=row.value)
        for name, piece in step.pieces.items():
            block = tree.add(node, BLOCK, name, times=step.schedule.micro)
            _Block(tree, block, False).lay(piece.every)

    def plain(self, step: Step, _phased: bool):
        """Gathers a step with those of its line; a partial sum is reduced in the line that made it."""
        operation = step.serves
        source = operation.source if operation else None
        line = None if source is None else (source.file, source.line)
        move = move_of(step)
        if operation is None and not (move and move.cause.kind == "sum"):
            self.close()
            self.tree.step(self.parent, step, None, alone=True)
            return
        if operation is None and self.gathered:
            self.gathered.append((step, self.gathered[-1][1]))
            return
        path = _scopes(operation) if operation else ()
        path = path or self.function(source)
        if line != self.line or path != tuple(key for key, _ in self.open):
            self.below(path)
            self.line = line
        self.gathered.append((step, source))

    def function(self, source: Source | None) -> Path:
        """Returns the function of a line as a path; one without a name belongs to the one around, if that is open."""
        if source is None:
            return tuple(key for key, _ in self.open)
        file = self.tree.text[source].rpartition(":")[0]
        if not source.function.startswith("<"):
            return ((FUNCTION, source.function, file),)
        last = self.open[-1][0] if self.open else None
        return (last,) if last and last[0] == FUNCTION and last[2] == file else ((FUNCTION, file, file),)

    def below(self, path: Path) -> int:
        """Opens scopes or functions, closes others, and returns the node to put things under."""
        self.flush()
        same = 0
        while same < min(len(path), len(self.open)) and self.open[same][0] == path[same]:
            same += 1
        del self.open[same:]
        for key in path[same:]:
            kind, label, file = key
            under = self.open[-1][1] if self.open else self.parent
            self.open.append((key, self.tree.add(under, kind, label, source=file)))
        return self.open[-1][1] if self.open else self.parent

    def flush(self):
        """Lays the steps of a line out: under it, if they are several."""
        gathered, self.gathered, self.line = self.gathered, [], None
        if not gathered:
            return
        under = self.open[-1][1] if self.open else self.parent
        computed = [step for step, _ in gathered if step.runs]
        if len(gathered) > 1 and computed and gathered[0][1] is not None:
            source, last = gathered[0][1], computed[-1]
            facts = self.tree.made(last)
            facts["name"] = named_together(step.title for step in computed)
            end = gathered[-1][0]
            if end.named is not None:
                facts["makes"] = self.tree.type_of(end.named, end.made()[1][0])
            under = self.tree.add(under, LINE, self.tree.code[source], source=self.tree.text[source], **facts)
            alone = False
        else:
            alone = True
        for step, source in gathered:
            self.tree.step(under, step, source, alone)

    def close(self):
        self.flush()
        self.open = []


# By the kind of step, what lays it out.
_LAY: dict[type[Step], Callable[[_Block, Any, bool], None]] = {
    Compute: _Block.plain,
    Materialise: _Block.plain,
    Move: _Block.plain,
    Nested: _Block.nested,
    Iterated: _Block.iterated,
    Staged: _Block.staged,
    Repeated: _Block.repeated,
}


def _scopes(operation: Operation) -> Path:
    return tuple((SCOPE, name, "") for name in scopes(operation.equation))


def _source(step: Step) -> Source | None:
    operation = step.serves
    return operation.source if operation else None


def _text(source: Source | None) -> str:
    return "" if source is None else str(source)


def _code(source: Source | None) -> str:
    return "" if source is None else source.code
