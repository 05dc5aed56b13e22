"""Lists the collectives of a plan: their bytes, their causes in the user's code, and the change that removes them.

Every collective has a cause: an axis that is summed while it is split, an operation that needs a value replicated that
is stored sharded, a place that wants it otherwise. Partial sums travel through linear operations before they are
reduced, so the cause is looked for where the sum was made (`partial_sums.py`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..code.operations import Operation, nbytes
from ..collectives.kinds import EACH, PAIRS, Of, Sending
from ..collectives.reshard import ReshardStep, gather_then_slice, price, sent_shape
from ..legality.legal_rules import LegalRules
from ..planning.shared_steps import each_once, stand_ins
from ..planning.staged import Staged
from ..planning.step import Step
from ..planning.steps import Cause, Compute, Move, move_of
from ..programs.axis_conflicts import key_dims, scanned_dims
from ..programs.becoming import across
from ..programs.gradients import gradient_values
from ..programs.outline import Repetition
from ..programs.program import Program
from ..specs.in_time import minus
from ..specs.spec import Axes, Grid, Spec, local_shape
from .collective import Collective
from .iteration_causes import IterationCauses
from .moved_values import called, moved_value
from .partial_sums import Origins, Split
from .per_shard_collectives import per_shard_collectives_of
from .remedies import OFF, ON, STORED, Change, Remedy
from .stage_hops import in_truth, runs_in_branches, stage_hops
from .trials import Trials
from .wording import in_scope, inside, joined, quoted, reader, sharded


def collectives_by_step(
    program: Program, rules: LegalRules, grid: Grid, steps: tuple[Step, ...], trials: Trials | None = None
) -> tuple[tuple[Collective, ...], ...]:
    """Lists the collectives of each step of a plan.

    Returns:
        For each step that `each_once` yields its collectives, which are none for most.
    """
    story, branches = _Story(program, rules, grid, steps), runs_in_branches(steps)
    return tuple(
        tuple(dataclasses.replace(in_truth(row, branches.get(id(step))), trials=trials) for row in rows)
        for (step, *_), rows in zip(story.steps, story.of_each(), strict=True)
    )


def payload(program: Program, grid: Grid, value: int, start: Spec, via: ReshardStep) -> tuple[tuple[int, ...], int]:
    """Returns the shape of the operand of a step of a reshard of a value on one device, and its bytes."""
    code = program.code
    shape = sent_shape(code.shapes[value], start, via, grid)
    return tuple(shape), nbytes(math.prod(shape), code.dtypes[value])


class _Story:
    """Finds the cause of each move."""

    def __init__(self, program: Program, rules: LegalRules, grid: Grid, steps: tuple[Step, ...]):
        self.program, self.rules, self.grid = program, rules, grid
        self.gradients = gradient_values(program)
        self.steps, self.iterations = tuple(each_once(steps)), IterationCauses(steps, rules)
        any_per_shard = any(step.per_shard for step, *_ in self.steps)
        self.per_shard = per_shard_collectives_of(steps, program, grid) if any_per_shard else {}
        self.origins = Origins(program, (step for step, *_ in self.steps), stand_ins(steps))

    def record(self, step: Move, times: int, called: int | None, **story: Any) -> Collective:
        code, via, number = self.program.code, step.via, step.name
        shape, count = payload(self.program, self.grid, number, step.start, via)
        shown, moved = self.program.value(number), moved_value(self.program, self.grid, step, called)
        facts: dict[str, Any] = {
            "kind": via.kind.name,
            "axes": via.axes,
            "payload_bytes": count,
            "wire_bytes": via.kind.wire_bytes(count, via.axes, self.grid),
            "times": times,
            "dtype": str(code.dtypes[number]),
            "shape": shape,
            "value": shown.label,
            "dims": tuple(d or "1" for d in shown.dims),
            "chain": "",
            "asked": Sending(via.axes, via.axis, via.other, moved.route if via.kind.way == PAIRS else None),
            "moved": moved,
            "cause": "sum" if via.kind.sums else step.cause.kind,
        }
        return Collective(**(facts | story))

    def of_each(self) -> Iterator[tuple[Collective, ...]]:
        for step, times, repetitions in self.steps:
            if (move := move_of(step)) and move.collective:
                row, gradient = self.move(move, times)
                yield (self.for_all(row, move, gradient, repetitions) if len(repetitions) > 1 else row,)
            elif isinstance(step, Staged):
                yield tuple(stage_hops(self.program, self.grid, step))
            else:
                yield tuple(self.inside(step)) if isinstance(step, Compute) and step.per_shard else ()

    def move(self, step: Move, times: int) -> tuple[Collective, int | None]:
        """Returns the row of a move, and the value that tells whose gradient it adds up, if it is one."""
        if step.via.kind.sums:
            story, gradient = self.summed(step)
            return self.record(step, times, gradient, **story), gradient
        return self.record(step, times, self.origins.stored(step.value), **self.resharded(step)), None

    def for_all(
        self, row: Collective, step: Move, gradient: int | None, repetitions: Sequence[Repetition]
    ) -> Collective:
        """Returns a row that stands for several repetitions: where their places differ there is a `*`."""
        stored, places_of = self.origins.stored(step.value), self.gradients | self.program.stored_at
        for value in dict.fromkeys((step.name, self.program.outermost(step.value), stored, gradient)):
            if value is None:
                continue
            first = repetitions[0].to_representative.get(value, -1)
            alike = [places_of.get(each.from_representative.get(first, -1)) for each in repetitions]
            places = [place for place in alike if place is not None]
            if len(places) == len(repetitions):
                all_places = joined(places)
                texts = {name: getattr(row, name).replace(places[0], all_places) for name in ("value", "because")}
                proposed = tuple(remedy.at(places[0], all_places) for remedy in row.proposed)
                row = dataclasses.replace(row, **texts, proposed=proposed)
        return row

    def summed(self, step: Move) -> tuple[dict[str, Any], int | None]:
        """Finds the cause of a partial sum: the operation that made it, and the dims that it adds up."""
        origins, maker, way_back = self.origins.of_sum(step.value, step.via.axes)
        gradient = next((v for v in (step.name, *way_back) if v in self.gradients), None)
        alone = self.iterations.of_stages(step, origins)
        if not origins:
            because = f"A partial sum over {quoted(step.via.axes)} is added up{alone}."
            return {"source": maker.source if maker else None, "because": because, "proposed": ()}, gradient
        operation, way = origins[0].operation, origins[0].way
        source, pairs = operation.source, [pair for origin in reversed(origins) for pair in origin.dims]
        ruled = (*(dim for dim, _ in pairs), *filter(None, self.program.dims_of(operation.outputs[0])))
        where = in_scope(self.rules, operation, *ruled)
        where += " in the backward pass" if operation.backward else ""
        if way.loop is not None:
            where += f" inside the loop at {way.loop.source}" if way.loop.source else " inside a loop"
        be = "are" if len(pairs) > 1 else "is"
        verb = {"gather": "looked up", "dynamic_slice": "sliced"}.get(operation.name, "summed")
        because = f"{quoted(dim for dim, _ in pairs)} {be} {verb}{where} while {sharded(pairs)}"
        because += way.said
        if step.via.kind.cuts:
            because += "; the result is stored split, so each device keeps its part"
        label = self.program.value(step.name)
        value = label.place or (source and source.target) or self.program.value(operation.outputs[0]).label
        if gradient is not None and not label.place:
            value = f"gradient of {self.gradients[gradient]}"
        return {
            "source": source,
            "because": f"{because}{self.iterations.of_sum(step, operation)}{alone}.",
            "proposed": (self.off(pairs, "then every device adds up the whole sum itself", operation),),
            "value": value,
            "split": tuple(dim for dim, _ in pairs),
        }, gradient

    def resharded(self, step: Move) -> dict[str, Any]:
        """Finds the cause of a reshard: the operation or place that needs the value in another spec."""
        shown, whole = self.program.value(step.name), step
        step = self.iterations.among_devices(step)
        moved = self.moved_axis(step)
        dim, split = self.origins.dim(shown.dims[moved]), step.start.splits[moved] or step.via.axes
        axes = quoted(split)
        cause = step.cause
        source = cause.operation.source if cause.operation else shown.source
        if cause.kind == "stored":
            target = self.rules.spec(shown.dims, cause.place).splits[moved]
            how = f"split over {quoted(target)}" if target else "whole"
            because = f"`{cause.place}` is stored with `{dim}` {how}, but it is made split over {axes}."
            remedies = (self.store(cause.place or "", dim, step.reshard.start.splits[moved], bool(target)),)
        elif cause.kind == "carry":
            because = f"The loop carries it with `{dim}` whole, but it is made split over {axes}."
            remedies = (self.off([(dim, split)]),)
        elif cause.kind == "branch":
            target = step.reshard.steps[-1].result.splits[moved]
            how = f"split over {quoted(target)}" if target else "whole"
            because = f"The branches return it with `{dim}` {how}, but one makes it split over {axes}."
            remedies = (self.off([(dim, split)]),)
        else:
            because, remedies = self.needed(cause, dim, split, step)
        because += self.iterations.of_move(whole)
        story = {"source": source, "because": because, "proposed": remedies, "split": (dim,)}
        place = self.stored(step, dim) if cause.kind == "operand" else None
        return story | {"chain": self.chain(whole)} | ({"value": place} if place is not None else {})

    @staticmethod
    def moved_axis(step: Move) -> int:
        """Returns the axis of the value that is no longer split as it was."""
        changed = [
            (after[: len(before)] == before, axis)
            for axis, (before, after) in enumerate(zip(step.start.splits, step.via.result.splits, strict=True))
            if before != after
        ]
        return min(changed)[1]

    def chain(self, step: Move) -> str:
        """Describes the reshard that a move is part of, with the price of the gather-then-slice alternative."""
        gathered = gather_then_slice(step.reshard)
        if gathered is None:
            return ""
        code, sizes = self.program.code, self.grid
        whole = nbytes(math.prod(code.shapes[step.value]), code.dtypes[step.value])
        kinds = [f"{each.kind} over {quoted(each.axes)}" for each in step.reshard.steps if each.kind.sends]
        return (
            f"{', then '.join(kinds)}: {whole * price(step.reshard, sizes):,.0f} B sent; gathering first would send "
            f"{whole * price(gathered, sizes):,.0f} B"
        )

    def needed(self, cause: Cause, dim: str, split: Axes, step: Move) -> tuple[str, tuple[Remedy, ...]]:
        operation = cause.operation
        where = in_scope(self.rules, operation, *filter(None, self.program.value(step.name).dims))
        where += " in the backward pass" if operation and operation.backward else ""
        read = reader(operation, where)
        maker = self.program.makers.get(step.value)
        by_rule = (
            maker is not None and minus(self.rules.within(maker.scope).get(dim, ()), tuple(self.rules.in_time)) == split
        )
        axes, made = quoted(split), in_scope(self.rules, maker, dim) if by_rule else ""
        if step.via.kind.way == PAIRS:
            wanted = step.via.result.splits[self.moved_axis(step)]
            return (
                f"{read} needs `{dim}` split over {quoted(wanted)}, but it is split over {axes}{made}.",
                (
                    self.instead(
                        f"put `{dim}` on {quoted(wanted)} where it is made as well", (dim, split), (dim, wanted)
                    ),
                ),
            )
        if step.via.kind.way == EACH:
            now = self.origins.dim(self.program.value(step.name).dims[step.via.axis])
            return (
                f"{read} needs `{now}` split over {axes}, but it has `{dim}` split over it{made}:"
                f" the split moves from `{dim}` to `{now}` here.",
                (self.instead(f"put `{now}` on {axes} instead of `{dim}`", (dim, split), (now, split)),),
            )
        place = self.stored(step, dim)
        if place is not None:
            whole = self.changes([self.stored_at(place, dim, ())])
            if dim in scanned_dims(self.program):
                return self.iterated(place, dim, split, step)
            along = self.changes([Change(ON, dim, split)])
            return (
                f"`{place}` is stored with `{dim}` split over {axes}; {read} computes with it whole.",
                (
                    Remedy(f"store `{place}` whole", whole),
                    Remedy(f"compute with `{dim}` split over {axes} as well", along),
                ),
            )
        return f"{read} needs `{dim}` whole, but it is split over {axes}{made}.", (
            *self.along(operation, dim, split),
            self.off([(dim, split)], "", maker),
        )

    def along(self, operation: Operation | None, dim: str, split: Axes) -> Iterator[Remedy]:
        """Yields for a rename what has the mesh axes on its other side too: the two dims change places there."""
        for other in across(self.program, operation, dim) if operation else ():
            if changes := self.changes([Change(ON, other, split)]):
                yield Remedy(f"put `{other}` on {quoted(split)} as well", changes, saves=True)

    def iterated(self, place: str, dim: str, split: Axes, step: Move) -> tuple[str, tuple[Remedy, ...]]:
        """Returns why a loop's stacked input is gathered in front of it, and what gathers it slice by slice."""
        shape, dims = self.program.code.shapes[step.value], self.program.value(step.value).dims
        held = nbytes(math.prod(local_shape(shape, step.via.result, self.grid)), self.program.code.dtypes[step.value])
        axes, ways = quoted(split), math.prod(self.grid[axis] for axis in split)
        because = (
            f"`{place}` is stored with `{dim}` split over {axes}, but each device runs all iterations of the loop over"
            f" `{dim}`: what they read, {held:,.0f} B, is gathered at once before it."
        )
        whole = Remedy(f"store `{place}` whole", self.changes([self.stored_at(place, dim, ())]))
        taken = self.rules.storage.get(place, {})
        named = ((name, size) for name, size in zip(dims, shape, strict=True) if name is not None)
        fits = {name: size for name, size in named if name not in taken and size % ways == 0}
        for other in sorted(fits, key=lambda name: -fits[name])[:1]:
            changes = self.changes([self.stored_at(place, dim, ()), self.stored_at(place, other, split)])
            text = f"store `{place}` with `{other}` split over {axes} instead of `{dim}`, to gather one slice at a time"
            return because, (Remedy(text, changes), whole) if changes else (whole,)
        return because, (whole,)

    def off(self, pairs: Sequence[Split], effect: str = "", operation: Operation | None = None) -> Remedy:
        """Returns the remedy that takes dims off mesh axes, in the scope whose rules hold for an operation."""
        scope = operation.scope if operation is not None and operation.scope in self.rules.scopes else None
        globs = {dim: "" if scope is None else self.rules.glob(scope, dim) for dim, _ in pairs}
        where = {dim: f" in `{glob}`" if glob else "" for dim, glob in globs.items()}
        text = "take " + " and ".join(f"`{dim}` off {quoted(axes)}{where[dim]}" for dim, axes in pairs)
        return Remedy(text, self.changes([Change(OFF, dim, axes, globs[dim]) for dim, axes in pairs]), effect)

    def instead(self, text: str, off: Split, on: Split) -> Remedy:
        """Returns the remedy that takes a dim off mesh axes, and puts one on some."""
        return Remedy(text, self.changes([Change(OFF, *off), Change(ON, *on)]))

    def stored_at(self, place: str, dim: str, axes: Axes) -> Change:
        return Change(STORED, dim, axes, place, tuple(sorted(self.program.place_dims.get(place, ()))))

    def store(self, place: str, dim: str, axes: Axes, elsewhere: bool) -> Remedy:
        """Returns the remedy that stores a value as it is made; `elsewhere` says that it is stored split otherwise."""
        how = "as it is made" if elsewhere else "split"
        text = f'store it {how}: {{"{place}": {{"{dim}": "{"+".join(axes)}"}}}}'
        return Remedy(text, self.changes([self.stored_at(place, dim, axes)]))

    def changes(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Returns changes of a layout; none where a layout has no word for a dim: one without a name, or a part."""
        return tuple(changes) if all(change.dim in self.program.dims for change in changes) else ()

    def stored(self, step: Move, dim: str) -> str | None:
        """Returns the place where a dim of the moved value is stored sharded, whatever form it has by now."""
        value = self.origins.stored(step.value)
        place = self.program.stored_at.get(value) if value is not None else None
        return place if place is not None and dim in self.rules.storage.get(place, {}) else None

    def inside(self, step: Compute) -> Iterator[Collective]:
        """Yields the collectives inside an operation whose axis is sharded."""
        operation, shown = step.operation, self.program.value(step.operation.outputs[0])
        name = called(self.program, operation)
        for sent, times in self.per_shard[step.operation].items():
            pairs = self.origins.per_shard(step, sent.axes)
            key = [pair for pair in pairs if pair[0] in key_dims(self.program, operation)]
            ways: list[tuple[Sequence[Split], str]] = [(pairs, "")]
            if 0 < len(key) < len(pairs):
                ways.insert(0, (key, "then keys and values are gathered"))
            what, operand, _ = of = sent.asked.of or Of("{}")
            like = shown if operand is None else self.program.value(operation.reads[operand])
            yield Collective(
                kind=sent.kind.name,
                axes=sent.axes,
                payload_bytes=sent.payload_bytes,
                wire_bytes=sent.kind.wire_bytes(sent.payload_bytes, sent.axes, self.grid),
                times=times,
                dtype=str(sent.dtype),
                shape=sent.shape,
                value=what.format(name),
                dims=tuple(d or "1" for d in like.dims),
                source=operation.source,
                because=inside(operation, of, pairs, sent.axes),
                proposed=tuple(self.off(each, effect, operation) for each, effect in ways),
                asked=sent.asked,
                cause="inside",
                split=tuple(dim for dim, _ in pairs),
                turns=sent.turns,
            )
