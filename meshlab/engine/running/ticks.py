"""Runs a pipeline: one loop over the ticks of its schedule, in which each stage takes a branch for its cell.

All stages run the same program. What differs is the row of the schedule's table that a stage reads: which cell it runs,
for which micro-batch, and in which slots lies what was sent to it. The permutes stand outside of the branches, so that
all stages take part in them; so does what writes what a forward cell leaves to its backward cell, or XLA would hold it
twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from ..code.loops import carried
from ..code.operations import Code, Input
from ..collectives.device import Device
from ..planning.staged import (
    BACK,
    BACKWARD,
    BACKWARDS,
    FORWARD,
    FORWARDS,
    MID,
    ON_ONE_STAGE,
    PHASES,
    POST,
    PRE,
    TURN,
    Stack,
    Staged,
    carries,
)
from ..planning.step import Step
from ..planning.step_keys import Key
from ..planning.steps import Nested, Result
from ..schedules.table import NUMBERS, Columns, Table, table
from ..specs.spec import Grid, Spec, local_shape
from .dealt_layers import dealt_out
from .interpret import Evaluate, run_blocks
from .slots import Arrays, among, filled, put, taken

# By piece, what is added up or joined of each of its results.
Totals = dict[str, Arrays]


class Runs(Protocol):
    """What runs steps on a device's shards: `lower.Lowering`."""

    @property
    def device(self) -> Device: ...
    @property
    def sizes(self) -> Grid: ...
    @property
    def code(self) -> Code: ...
    @property
    def original_of(self) -> Mapping[int, int]: ...
    def run(self, steps: Sequence[Step], shards: dict[Key, Any]) -> None: ...
    def within(self, iteration: Mapping[str, Any]) -> Runs: ...
    def read(self, shards: dict[Key, Any], values: Sequence[Input], specs: Sequence[Spec | None]) -> Arrays: ...
    def inside(self, step: Nested, shards: dict[Key, Any], number: int, arrays: Sequence[Any]) -> Arrays: ...
    def tied(self, step: Any, shards: dict[Key, Any], number: Any) -> dict[Key, Any]: ...
    def start(self, result: Result) -> Any: ...
    def apart(self, step: Any, result: Result, addend: Any) -> Any: ...
    def joined(self, result: Result, stack: Any) -> Any: ...


def run_staged(runs: Runs, step: Staged, shards: dict[Key, Any]):
    """Runs a pipeline on one device's shards, and adds its results to them."""
    dealt = {key: dealt_out(runs.device, step, key, shards[key]) for key in step.dealt[0]}
    pipeline, schedule = _Pipeline(runs, step, shards | dealt), table(step.schedule, step.in_halves)
    rows = jnp.asarray(schedule.cells), jnp.asarray(schedule.received)
    start = {
        "sent": pipeline.stacks(pipeline.sent, schedule.slots.sent),
        "returned": pipeline.stacks(pipeline.returned, schedule.slots.returned),
        "held": pipeline.stacks(step.held, schedule.slots.held),
        "totals": {name: list(map(pipeline.start, piece.results)) for name, piece in step.pieces.items()},
    }
    end, _ = lax.scan(functools.partial(pipeline.tick, schedule), start, rows)
    for name, piece in step.pieces.items():
        for result, total in zip(piece.results, end["totals"][name], strict=True):
            made = pipeline.result(result, total)
            key = result.value, result.outside
            shards[key] = dealt_out(runs.device, step, key, made, back=True) if key in step.dealt[1] else made


class _Cell(NamedTuple):
    """A cell: what a stage does, what runs its steps, and the shards that are known there."""

    columns: Columns
    runs: Runs
    known: dict[Key, Any]


class _Pipeline:
    """One device of a pipeline."""

    def __init__(self, runs: Runs, step: Staged, shards: dict[Key, Any]):
        self.runs, self.step, self.shards = runs, step, shards
        self.sent, self.returned = step.messages(runs.original_of)
        self.stage = runs.device.index((step.axis,))
        self.last_part = step.schedule.stages * step.chunks - 1

    def tick(self, schedule: Table, state: dict[str, Any], row: tuple[Any, Any]) -> tuple[dict[str, Any], None]:
        """Runs what all stages do in a tick; then they exchange."""
        cells, received = row
        made: dict[str, Arrays] = {}
        for phases, of_stages in zip(schedule.halves, cells, strict=True):
            columns = Columns(*of_stages[self.stage])
            number = jnp.max(of_stages[:, 0]) if self.step.everywhere.intersection(phases) else columns.phase
            new = self.half(phases, columns, state, number)
            state = {**state, "totals": {**state["totals"], **new.pop("totals")}}
            if held := new.pop("held", None):
                slot = jnp.where(columns.phase == NUMBERS[FORWARD], columns.held, schedule.slots.held)
                state["held"] = put(state["held"], slot, held)
            made |= new
        here = received[self.stage]
        for slot, way, route in zip(here, ("sent", "returned"), self.step.routes, strict=True):
            arrived = [self.runs.device.permute(each, (self.step.axis,), route) for each in made[way]]
            state[way] = put(state[way], slot, arrived)
        return state, None

    def half(self, phases: tuple[str, ...], columns: Columns, state: dict[str, Any], number: Any) -> dict[str, Any]:
        """Runs the cell of this stage, of some phases, or none: returns what it makes, zeros where that is nothing.

        The number of its phase is given: that of any stage where all of them run it at once.
        """
        runs = {FORWARD: self.forward, BACKWARD: self.backward}
        nothing: dict[str, Any] = {}
        for phase in phases:
            nothing |= {"sent": self.zeros(self.sent), "held": self.zeros(self.step.held)} if phase == FORWARD else {}
            nothing |= {"returned": self.zeros(self.returned)} if phase == BACKWARD else {}
        names = [name for name in self.step.pieces if PHASES[name] in phases]
        count = len(self.step.stacks)

        def branch(run: Callable[..., dict[str, Any]]) -> Callable[[Totals], dict[str, Any]]:
            return lambda totals: {**nothing, **run(columns, state, totals)}

        branches = [branch(functools.partial(runs[phase], stack)) for phase in phases for stack in range(count)]
        index = number if len(phases) > 1 else jnp.minimum(number, 1)
        if count > 1:  # each stack is a chunk
            index = jnp.where(index > 0, (index - 1) * count + columns.chunk + 1, 0)
        waiting = lambda totals: {**nothing, "totals": totals}  # noqa: E731
        return lax.switch(index, [waiting, *branches], {name: state["totals"][name] for name in names})

    def forward(self, number: int, columns: Columns, state: dict[str, Any], totals: Totals) -> dict[str, Any]:
        """Runs a forward cell of a stack: on its first stage from what leads to it, else from what was sent."""
        step, stack, name = self.step, self.step.stacks[number], FORWARDS[number]
        messages = self.messages(stack)[0]
        runs, known = self.beginning(columns)
        runs.run(step.pieces[name].again, known)

        def arrived() -> Arrays:
            return taken(among(self.sent, state["sent"], messages), columns.sent)

        cell = _Cell(columns, runs, known)
        given, totals = self.led(PRE, cell, totals, arrived) if number == 0 else (arrived(), totals)
        known.update(zip(stack.passed, given[len(stack.carried[0]) :], strict=True))
        self.layers(name, columns, runs, known, dict(zip(stack.carried[0], given, strict=False)))
        totals = self.added(name, totals, known, columns)
        sent = dict(zip(messages, self.typed(messages, [known[key] for key in messages]), strict=True))
        if number + 1 < len(step.stacks):
            behind = self.messages(step.stacks[number + 1])[0]
            made, totals = self.led(TURN, cell, totals, lambda: self.zeros(behind))
            sent = dict(zip(behind, made, strict=True)) | sent
        held = dict(zip(stack.held, self.typed(stack.held, [known[key] for key in stack.held]), strict=True))
        return {
            "totals": totals,
            "sent": filled(self.sent, sent, self.zeros),
            "held": filled(step.held, held, self.zeros),
        }

    def backward(self, number: int, columns: Columns, state: dict[str, Any], totals: Totals) -> dict[str, Any]:
        """Runs a backward cell of a stack: on its last stage from what leads to it, else from what came back."""
        step, stack, name = self.step, self.step.stacks[number], BACKWARDS[number]
        messages, is_last = self.messages(stack)[1], number + 1 == len(step.stacks)
        runs, known = self.beginning(columns)
        known.update(zip(stack.held, taken(among(step.held, state["held"], stack.held), columns.held), strict=True))
        runs.run(step.pieces[name].again, known)

        def arrived(keys: Sequence[Key]) -> Arrays:
            return taken(among(self.returned, state["returned"], keys), columns.returned)

        behind = () if is_last else self.messages(step.stacks[number + 1])[1]
        inside = known | dict(zip(behind, arrived(behind), strict=True))
        lead, cell = MID if is_last else BACK, _Cell(columns, runs, inside)
        given, totals = self.led(lead, cell, totals, functools.partial(arrived, messages))
        known.update(zip(stack.returned, given[len(stack.carried[1]) :], strict=True))
        self.layers(name, columns, runs, known, dict(zip(stack.carried[1], given, strict=False)))
        totals = self.added(name, totals, known, columns)

        def first(totals: Totals) -> tuple[Totals]:
            return (self.added(POST, totals, self.alone(POST, runs, known), columns),)

        if number == 0:
            (totals,) = self.on_stage(POST, columns, first, lambda totals: (totals,), totals)
        made = dict(zip(messages, self.typed(messages, [known[key] for key in messages]), strict=True))
        return {"totals": totals, "returned": filled(self.returned, made, self.zeros)}

    def led(self, name: str, cell: _Cell, totals: Totals, others: Callable[[], Arrays]) -> tuple[Arrays, Totals]:
        """Runs the piece of one stage that leads to a scan.

        Returns:
            What the scan carries first and what goes along with it, for all stages but that one as given; and the
            totals. What is held of the piece is known from then on.
        """
        columns, runs, known = cell
        number, way, scan = self.leads[name]
        stack, first = self.step.stacks[number], self.step.stacks[0]
        beside = (stack.passed, stack.returned)[way]
        keys, count = self.messages(stack)[way], carried(scan.operation)
        held = [key for key in first.held if key not in first.passed and self.is_made(name, key)]

        def one(totals: Totals) -> tuple[Arrays, Arrays, Totals]:
            inside = self.alone(name, runs, known)
            starts = runs.read(inside, scan.operation.inputs[:count], scan.operands[:count])
            given = [*(starts[i] for i in stack.carried[way]), *(inside[key] for key in beside)]
            kept = self.typed(held, [inside[key] for key in held])
            return self.typed(keys, given), kept, self.added(name, totals, inside, columns)

        def skip(totals: Totals) -> tuple[Arrays, Arrays, Totals]:
            return others(), self.zeros(held), totals

        given, kept, totals = self.on_stage(name, columns, one, skip, totals)
        known.update(zip(held, kept, strict=True))
        return given, totals

    @functools.cached_property
    def leads(self) -> dict[str, tuple[int, int, Nested]]:
        """By piece that leads to a scan that scan, its stack, and whether it is of the backward pass."""
        stacks = self.step.stacks
        found = {PRE: (0, 0), TURN: (1, 0), MID: (len(stacks) - 1, 1), BACK: (0, 1)}
        here = {name: at for name, at in found.items() if name in self.step.pieces}
        return {name: (at, way, (stacks[at].forward, stacks[at].backward)[way]) for name, (at, way) in here.items()}

    def messages(self, stack: Stack) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        return stack.messages(self.runs.original_of)

    def beginning(self, columns: Columns) -> tuple[Runs, dict[Key, Any]]:
        """Returns what runs the steps of a micro-batch, and the shards that are known in front of them."""
        runs = self.runs.within({self.step.over: columns.micro})
        return runs, self.runs.tied(self.step, self.shards, columns.micro)

    def part(self, columns: Columns) -> Any:
        """The part of a stack that a cell runs: chunks are dealt to the stages in turn."""
        return columns.chunk % self.step.chunks * self.step.schedule.stages + self.stage

    def is_here(self, name: str, columns: Columns) -> Any:
        """Whether this stage runs a cell, and the stage that has a piece is this one."""
        is_here = columns.phase == NUMBERS[PHASES[name]]
        if name in ON_ONE_STAGE:
            is_here &= self.part(columns) == (0 if ON_ONE_STAGE[name] else self.last_part)
        return is_here

    def on_stage(self, name: str, columns: Columns, run: Callable, skip: Callable, totals: Totals) -> Any:
        """Returns what the piece of one stage makes there, and what the others have instead; and the totals, last."""
        if name not in self.step.everywhere:
            return lax.cond(self.is_here(name, columns), run, skip, totals)
        (*made, totals), (*others, _) = run(totals), skip(totals)
        choose = functools.partial(jnp.where, self.is_here(name, columns))
        return *jax.tree.map(choose, made, others), totals

    def alone(self, name: str, runs: Runs, known: dict[Key, Any]) -> dict[Key, Any]:
        """Runs the piece of one stage alone."""
        inside, piece = dict(known), self.step.pieces[name]
        runs.run((*piece.again, *piece.steps), inside)
        return inside

    def layers(self, name: str, columns: Columns, runs: Runs, known: dict[Key, Any], sent: Mapping[int, Any]):
        """Runs a stage's own layers, from what is carried into them, and all else that each stage has of its own."""
        scan = self.step.scans[name]
        count, operation = carried(scan.operation), scan.operation
        starts = self.zeros(carries(scan, self.runs.original_of, out=True))
        carry = [sent.get(position, zeros) for position, zeros in enumerate(starts)]
        for step in self.step.pieces[name].steps:
            if step is not scan:
                runs.run((step,), known)
                continue
            values, specs = operation.inputs[count:], scan.operands[count:]
            triples = zip(runs.read(known, values, specs), values, specs, strict=True)
            stacks = [self.of_chunk(stack, self.key(value, spec), columns) for stack, value, spec in triples]
            evaluate = functools.partial(runs.inside, scan, known)
            if self.step.layers:
                stacks, evaluate = [*stacks, jnp.arange(max(self.step.layers))], self.of_stage(name, scan, evaluate)
            results = run_blocks(operation, [*carry, *stacks], evaluate)
            known.update(((v, s), r) for v, s, r in zip(operation.outputs, scan.results, results, strict=True))

    def of_stage(self, name: str, scan: Nested, evaluate: Evaluate) -> Evaluate:
        """Returns what runs one layer, if this stage has as many: all stages scan over the most that one has."""
        count, own = carried(scan.operation), jnp.asarray(self.step.layers)[self.stage]
        stacked = [*zip(scan.operation.outputs, scan.results, strict=True)][count:]
        pairs = zip(self.shapes(stacked), self.dtypes(stacked), strict=True)
        nothing = [jnp.zeros(shape[1:], dtype) for shape, dtype in pairs]

        def layer(number: int, arrays: Sequence[Any]) -> Sequence[Any]:
            *given, place = arrays
            skipped = [*given[:count], *nothing]

            def run() -> Arrays:
                pairs = zip(evaluate(number, given), skipped, strict=True)
                return [jnp.broadcast_to(jnp.asarray(new, old.dtype), old.shape) for new, old in pairs]

            if name in self.step.everywhere:
                return [jnp.where(place < own, new, old) for new, old in zip(run(), skipped, strict=True)]
            return lax.cond(place < own, run, lambda: skipped)

        return layer

    def key(self, value: Input, spec: Spec | None) -> Key | None:
        if spec is None or not isinstance(value, int):
            return None
        return self.runs.original_of.get(value, value), spec

    @functools.cached_property
    def by_chunk(self) -> frozenset[Key]:
        """What a forward cell stacks of the layers of its chunk, where a stage has several."""
        scan = self.step.stacks[0].forward
        ends = carries(scan, self.runs.original_of, out=True)
        made = scan.makes(self.runs.original_of) if self.step.chunks > 1 else ()
        return frozenset(made).difference(ends)

    def of_chunk(self, stack: Any, key: Key | None, columns: Columns) -> Any:
        """Returns those of a stage's layers that are in the chunk of a cell."""
        chunks = self.step.chunks
        if chunks == 1 or key is None or key in self.by_chunk:
            return stack
        size = stack.shape[0] // chunks
        return lax.dynamic_slice_in_dim(stack, columns.chunk * size, size, 0)

    def is_made(self, name: str, key: Key) -> bool:
        return any(key in step.makes(self.runs.original_of) for step in self.step.pieces[name].steps)

    def added(self, name: str, totals: Totals, known: dict[Key, Any], columns: Columns) -> Totals:
        """Returns the totals with what a piece makes of them for one micro-batch."""
        counts = self.is_here(name, columns) if name in self.step.everywhere else None

        def chosen(made: Any, otherwise: Any) -> Any:
            made = made.astype(jnp.result_type(otherwise))
            return made if counts is None else jnp.where(counts, made, otherwise)

        def one(result: Result, total: Any) -> Any:
            made = known[result.value, result.inside]
            if result.axis is not None:
                (before,) = taken([total], columns.micro)
                return lax.dynamic_update_index_in_dim(total, chosen(made, before), columns.micro, 0)
            if not result.is_sum:
                return chosen(made, total)
            addend = self.runs.apart(self.step, result, made)
            addend = chosen(addend, jnp.zeros((), total.dtype))
            if addend.shape == total.shape:
                return total + addend
            start = columns.chunk * addend.shape[0]
            before = lax.dynamic_slice_in_dim(total, start, addend.shape[0], 0)
            return lax.dynamic_update_slice_in_dim(total, before + addend, start, 0)

        return {**totals, name: list(map(one, self.step.pieces[name].results, totals[name]))}

    def start(self, result: Result) -> Any:
        if result.axis is None:
            return self.runs.start(result)
        (shape,) = self.shapes([(result.value, result.inside)])
        return jnp.zeros((self.step.schedule.micro, *shape), self.runs.code.dtypes[result.value])

    def result(self, result: Result, total: Any) -> Any:
        if result.axis is not None:
            return self.runs.joined(result, total)
        return total.astype(self.runs.code.dtypes[result.value])

    def shapes(self, keys: Sequence[Key]) -> list[tuple[int, ...]]:
        chunks, shapes = self.step.chunks, []
        for key in keys:
            first, *rest = (*local_shape(self.runs.code.shapes[key[0]], key[1], self.runs.sizes), 0)
            shapes.append((first // chunks if key in self.by_chunk else first, *rest)[:-1])
        return shapes

    def dtypes(self, keys: Sequence[Key]) -> list[Any]:
        return [self.runs.code.dtypes[value] for value, _ in keys]

    def typed(self, keys: Sequence[Key], arrays: Sequence[Any]) -> Arrays:
        """Returns arrays as the branches return them, all alike."""
        triples = zip(arrays, self.shapes(keys), self.dtypes(keys), strict=True)
        return [jnp.broadcast_to(jnp.asarray(array, dtype), shape) for array, shape, dtype in triples]

    def zeros(self, keys: Sequence[Key]) -> Arrays:
        return list(map(jnp.zeros, self.shapes(keys), self.dtypes(keys)))

    def stacks(self, keys: Sequence[Key], slots: int) -> Arrays:
        """Returns slots for values, and a bin."""
        return [
            jnp.zeros((slots + 1, *shape), dtype)
            for shape, dtype in zip(self.shapes(keys), self.dtypes(keys), strict=True)
        ]
