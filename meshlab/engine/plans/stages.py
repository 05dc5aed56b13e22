"""Cuts the loop over micro-batches at the scans over layers, so that stages can run its pieces (`planning/staged.py`).

Which piece a step is in follows from what it depends on: what leads to the forward scan is `pre`, what reads its end is
`mid`, what reads the end of the backward scan is `post`. What a stage has of its own layers is in `F` or `B` of every
stage. Two scans forward, and two in reverse behind them, are two stacks: an encoder and a decoder. What a piece reads
of another one is, in this order, its stage's own; computed again, if that takes no product, or gathered again; or sent
along, forward or back. All else is refused, with who reads it and who makes it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp

from ..axes.stages import TwoStacks
from ..code.loops import carried, is_reversed
from ..code.operations import Operation
from ..collectives.kinds import COLLECTIVE_PERMUTE
from ..legality.refusal import Refusal, named
from ..planning.planned import Planned
from ..planning.shared_steps import counted_only, each_once
from ..planning.staged import (
    BACKWARDS,
    FORWARD,
    FORWARDS,
    ON_ONE_STAGE,
    PHASES,
    PRE,
    Piece,
    Stack,
    Staged,
    carries,
    summed_over,
)
from ..planning.step import Step
from ..planning.step_keys import Key
from ..planning.steps import Iterated, Materialise, Move, Nested, Result
from .per_shard_collectives import per_shard_collectives_of
from .pieces import Crossing, Pair, Pieces
from .plan_data import Plan
from .stage_sums import completed

# By which passes scans follow each other, whether in reverse, the pairs of them that are of one stack.
_PAIRS = {(False, True): ((0, 1),), (False, False, True, True): ((0, 3), (1, 2))}


def staged(plan: Plan, planned: Planned) -> tuple[Planned, tuple[Refusal, ...]]:
    """Cuts the loop over micro-batches of a plan into stages.

    Args:
        plan: the plan.
        planned: its steps, divided by its axis in time.

    Returns:
        The `Planned` with a `Staged` step in the loop's place, and why it cannot be cut.
    """
    (axis,) = plan.rules.stages
    cut = _Cut(plan, axis)
    found = cut.scans(planned.steps)
    step = cut.pipeline(*found[1:]) if found else None
    if found is None or step is None:
        return planned, tuple(dict.fromkeys(cut.problems))
    place, original_of = found[0], plan.program.original_of
    pairs = zip(plan.program.code.block.outputs, plan.output_specs, strict=True)
    outputs = [(original_of.get(value, value), spec) for value, spec in pairs if isinstance(value, int)]
    after = completed(plan.program, plan.grid, planned.steps[place + 1 :], step, outputs)
    return dataclasses.replace(planned, steps=(*planned.steps[:place], step, *after)), ()


class _Cut:
    """Cuts one plan, or finds why it cannot be cut."""

    def __init__(self, plan: Plan, axis: str):
        self.plan, self.program, self.axis = plan, plan.program, axis
        self.original_of = plan.program.original_of
        dims = [dim for dim in plan.rules.on(axis) if dim in plan.program.dims]
        self.dim = dims[0] if dims else "layers"
        self.stacks = 2 if isinstance(plan.rules.stages[axis], TwoStacks) else 1
        self.off = f"Take `{self.dim}` off `{axis}`."
        self.problems: list[Refusal] = []

    def refuse(self, text: str, fix: str = "", step: Step | None = None):
        source = step.serves.source if step is not None and step.serves else None
        self.problems.append(Refusal("pipeline", text, fix or self.off, source))

    def scans(self, steps: Sequence[Step]) -> tuple[int, Iterated, tuple[Pair, ...]] | None:
        """Finds the loop over micro-batches with the scans over layers, by stack; None where there is none."""
        every = [scan for scan, _ in counted_only(Nested, steps) if self.passes_on(scan)]
        loops = [(place, step) for place, step in enumerate(steps) if isinstance(step, Iterated)]
        for place, loop in loops:
            there = [scan for scan in loop.steps if isinstance(scan, Nested) and self.passes_on(scan)]
            pairs = _PAIRS.get(tuple(is_reversed(scan.operation) for scan in there))
            if pairs and len(every) == len(there) and len(pairs) == self.stacks:
                return place, loop, tuple((there[first], there[second]) for first, second in pairs)
        scans = ", ".join(named(scan.operation) for scan in every)
        there = f"there are {len(every)}: {scans}" if every else "there is none"
        if len(every) in (2, 4):
            there = f"these are {scans}, which do not follow each other so in each micro-batch"
        self.refuse(
            f"`{self.dim}` is on the stages `{self.axis}`: a pipeline is one scan over it forward and one in reverse,"
            f" or two forward and then two in reverse, and {there}.",
            step=every[0] if every else None,
        )
        return None

    def passes_on(self, scan: Nested) -> bool:
        """Whether a scan carries something over layers that lie on the stages."""
        count = carried(scan.operation) if scan.operation.name == "scan" else 0
        specs = (*scan.operands[count:], *scan.results[count:])
        return count > 0 and any(self.axis in spec.splits[0] for spec in specs if spec and spec.splits)

    def pipeline(self, loop: Iterated, stacks: tuple[Pair, ...]) -> Staged | None:
        """Returns the loop as a pipeline; None, with problems, where stages cannot run it."""
        self.sent_inside(loop)
        pieces = Pieces(loop, stacks, self.axis, self.original_of)
        if self.plan.rules.stages[self.axis].chunk_count > 1:
            self.along_layers(pieces)
        crossing = pieces.crossing()
        for reader, key in crossing.refused:
            self.refuse(
                f"{named(reader.serves)} needs {self.called(key)} on one stage, but {self.maker(key)} makes it on"
                " another, and it cannot be sent along with what the scan carries.",
                step=reader,
            )
        if self.problems:
            return None
        results = [self.result(result, pieces) for result in loop.results]
        again = {name: pieces.closure(crossing.again[name], loop.steps) for name in pieces.names}
        own = {name: tuple(pieces.steps[name]) for name in pieces.names}
        own[PRE] = self.needed_of_pre(pieces, crossing, again[FORWARD], loop)
        for name in ON_ONE_STAGE:
            if name in again:  # what all stages compute in front of it
                there = set(map(id, again[pieces.beside(name)]))
                again[name] = [step for step in again[name] if id(step) not in there]
        made = {
            name: Piece(own[name], tuple(again[name]), tuple(result for where, result in results if where == name))
            for name in pieces.names
        }
        permuting = {name: tuple(self.permuting(piece.every)) for name, piece in made.items()}
        permuted = {name for name, found in permuting.items() if found}
        if len(stacks) > 1:
            self.at_once(dict.fromkeys(itertools.chain.from_iterable(permuting.values())))
        step = Staged(
            self.axis,
            loop.axis,
            made,
            tuple(
                Stack(*pair, (self.carried(pair[0], loop), self.carried(pair[1], loop)), *map(tuple, beside))
                for pair, *beside in zip(stacks, crossing.passed, crossing.returned, crossing.kept, strict=True)
            ),
            self.stored(pieces),
            self.plan.rules.stages[self.axis].order(loop.times),
            self.plan.rules.stages[self.axis].uneven,
            frozenset((*permuted, *(PHASES[name] for name in permuted))),
        )
        self.sent(step)
        return None if self.problems else step

    def carried(self, scan: Nested, loop: Iterated) -> tuple[int, ...]:
        """Returns the positions of what a scan carries and anybody reads, a layer or what comes behind the scan."""
        (body,), (inside,) = scan.operation.blocks, scan.blocks
        read = {key for step in loop.steps for key in step.reads(self.original_of)}
        read |= {(result.value, result.inside) for result in loop.results}
        within = {value for step in inside.steps for value, _ in step.reads(self.original_of)}
        ends = carries(scan, self.original_of, out=True)

        def is_read(position: int) -> bool:
            others = (*body.outputs[:position], *body.outputs[position + 1 :])
            return ends[position] in read or body.inputs[position] in within or body.inputs[position] in others

        return tuple(position for position in range(len(ends)) if is_read(position))

    def sent_inside(self, loop: Iterated):
        """Refuses what stages cannot send in a cell: over the stages."""
        moves = (step for step, *_ in each_once(loop.steps) if isinstance(step, Move) and step.collective)
        for move in moves:
            if self.axis in move.via.axes:
                text = f"{named(move.serves)} needs {self.program.value(move.name).label} of all stages `{self.axis}`"
                self.refuse(
                    f"{text} in each micro-batch, but at any time these have different micro-batches.", step=move
                )
        for operation, sent in per_shard_collectives_of(loop.steps, self.program, self.plan.grid).items():
            if any(self.axis in each.axes for each in sent):
                text = f"The parts of {named(operation)} depend on each other, and are on different stages."
                self.problems.append(Refusal("pipeline", text, self.off, operation.source))

    def permuting(self, steps: Sequence[Step]) -> Iterator[Operation | None]:
        """Yields what sends by a collective-permute, in which all devices of the mesh take part at once.

        Other collectives are each of a group of devices, all on one stage.
        """
        for step, *_ in each_once(steps):
            if isinstance(step, Move) and step.collective and step.via.kind is COLLECTIVE_PERMUTE:
                yield step.serves
        for operation, sent in per_shard_collectives_of(steps, self.program, self.plan.grid).items():
            if any(each.kind is COLLECTIVE_PERMUTE for each in sent):
                yield operation

    def at_once(self, operations: Iterable[Operation | None]):
        """Refuses permutes in cells where some stages run cells of one stack, and others of another one."""
        for operation in operations:
            text = f"{named(operation)} needs a collective-permute, in which all stages take part"
            text = f"{text}, but at any time these run cells of different stacks."
            self.problems.append(Refusal("pipeline", text, self.off, operation.source if operation else None))

    def along_layers(self, pieces: Pieces):
        """Refuses what sees the order of layers, or all of a stage's, where a stage has them in several chunks."""
        made = {
            key
            for scan in itertools.chain.from_iterable(pieces.stacks)
            for key in scan.makes(self.original_of)
            if self.axis in key[1].axes
        }
        for step in self.own(pieces):
            along = isinstance(step, Move) and self.axis in step.via.axes
            counts = isinstance(step, Materialise) and step.operation.name == "iota" and self.axis in step.spec.axes
            whole = step.per_shard or not made.isdisjoint(step.reads(self.original_of))
            if pieces.scan(step) is None and (along or counts or whole):
                self.in_chunks(f"{named(step.serves)} works along `{self.dim}` in each micro-batch", step)
        for result in pieces.loop.results:
            if self.axis in result.inside.axes and not result.is_sum:
                self.in_chunks(f"{self.program.value(result.value).label} is returned for each of `{self.dim}`")
        for value, _ in self.stored(pieces):
            if jnp.issubdtype(self.program.code.dtypes[value], jax.dtypes.extended):
                self.in_chunks(f"{self.program.value(value).label} are keys of random numbers, which cannot be sent")

    def in_chunks(self, what: str, step: Step | None = None):
        stages = self.plan.rules.stages[self.axis]
        name = stages.schedule if isinstance(stages.schedule, str) else getattr(stages.schedule, "name", "")
        text = f"{what}, and with the schedule {name} a stage has several chunks of `{self.dim}`."
        self.refuse(text, f"Write {self.axis}=ml.stages({stages.size}): one chunk a stage.", step)

    def own(self, pieces: Pieces) -> Iterator[Step]:
        """Yields the steps of pieces that each stage has of its own."""
        return (step for name in (*FORWARDS, *BACKWARDS) for step in pieces.steps.get(name, ()))

    def stored(self, pieces: Pieces) -> tuple[Key, ...]:
        """Returns what stages read of their own layers that the loop does not make."""
        read = (key for step in self.own(pieces) for key in step.reads(self.original_of))
        return tuple(dict.fromkeys(key for key in read if self.axis in key[1].axes and key not in pieces.home))

    def needed_of_pre(
        self, pieces: Pieces, crossing: Crossing, again: Sequence[Step], loop: Iterated
    ) -> tuple[Step, ...]:
        """Returns what the first stage alone computes in front of its layers."""
        starts = carries(pieces.stacks[0][0], self.original_of, out=False)
        results = [(r.value, r.inside) for r in loop.results]
        sent = itertools.chain(*crossing.passed, *crossing.kept)
        wanted = [key for key in (*starts, *sent, *results) if pieces.home.get(key) == PRE]
        everywhere = set(map(id, again))
        return tuple(step for step in pieces.closure(wanted, pieces.steps[PRE]) if id(step) not in everywhere)

    def result(self, result: Result, pieces: Pieces) -> tuple[str, Result]:
        """Returns the piece that makes a result, and the result: of one stage alone a partial sum over all of them."""
        piece = pieces.home[result.value, result.inside]
        if piece not in ON_ONE_STAGE:
            return piece, result
        dtype = self.program.code.dtypes[result.value]
        if not jnp.issubdtype(dtype, jnp.number):
            label = self.program.value(result.value).label
            self.refuse(f"{label} is made on one stage, and values of {dtype} cannot be added up for the others.")
        return piece, dataclasses.replace(result, outside=summed_over(result.outside, self.axis))

    def sent(self, step: Staged):
        """Refuses to send or keep what no zeros can stand for: keys of random numbers."""
        for key in dict.fromkeys((*sum(step.messages(self.original_of), ()), *step.held)):
            if jnp.issubdtype(self.program.code.dtypes[key[0]], jax.dtypes.extended):
                text = f"{self.called(key)} would go from stage to stage, and keys of random numbers cannot be sent."
                self.refuse(text, f"Make them in each layer, of the layer's number, or: {self.off}")

    def called(self, key: Key) -> str:
        return self.program.value(key[0]).label

    def maker(self, key: Key) -> str:
        return named(self.program.makers.get(key[0]))
