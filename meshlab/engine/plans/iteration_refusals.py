"""Says why a program cannot run block by block, with both lines: who needs all blocks, and what makes it of them.

`sub` at norm.py:12 needs in each iteration over `micro` a value of all iterations together: the sum that
`reduce_sum` at norm.py:11 makes.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..code.operations import Operation
from ..code.source import Source
from ..collectives.kinds import ALL_GATHER, ALL_REDUCE
from ..errors import listed
from ..legality.legal_rules import LegalRules
from ..legality.refusal import Refusal, named
from ..planning.shared_steps import each_once
from ..planning.step import Step, only
from ..planning.step_keys import Key
from ..planning.steps import Move, move_of
from ..programs.becoming import becoming
from ..programs.program import Program
from ..specs.spec import Axes
from .per_shard_collectives import PerShardCollective

MadeBy = Mapping[Key, Step]


class Refusals:
    """Words the refusals of one layout.

    Args:
        program: the program.
        axis: the axis in time.
        rules: the layout as it applies.
        made_by: by key, the step that makes it, in the order of the steps.
    """

    def __init__(self, program: Program, axis: str, rules: LegalRules, made_by: MadeBy):
        self.program, self.axis, self.rules, self.made_by = program, axis, rules, made_by
        by_scopes: dict[tuple[str, ...], list[str]] = {}
        for dim, globs in rules.on(axis).items():
            if dim in program.dims:  # no merged axis, which follows its first dim
                by_scopes.setdefault(globs, []).append(dim)
        dims = (listed(dims) + (f" in {listed(globs)}" if globs else "") for globs, dims in by_scopes.items())
        self.off = f"Take {' and '.join(dims)} off `{axis}`"

    def needs(self, reader: Operation | None, maker: str, why: str = "", fix: str = "") -> Refusal:
        """Refuses what an operation needs of all iterations."""
        text = (
            f"{named(reader)} needs in each iteration over `{self.axis}` a value of all iterations together: {maker}."
        )
        fix = fix or f"{self.off}, or compute this from one block alone in the function."
        return Refusal("in_time", f"{text} {why}".strip(), fix, reader.source if reader else None)

    def late(self, step: Step, key: Key, why: str) -> Refusal:
        """Refuses a step that reads in an iteration what is known after the loop.

        `why` says why no loop in front can find it.
        """
        move = self.made_whole(key)
        late = move_of(step)
        if late and late.reshard == move.reshard:  # gathered to be cut otherwise
            return self.moved_in_time(late)
        maker, fix = self.maker(move, self.made_by)
        return self.needs(self.reader(step), maker, why, fix)

    def reader(self, step: Step) -> Operation | None:
        """Returns the operation that reads what a step reads: of a broadcast, the one that it is made for."""
        operation = step.serves
        if operation is None or operation.outputs[0] not in self.program.broadcasts:
            return operation
        readers = (each.serves for each in self.made_by.values() if each.computes or each.parts)
        return next((each for each in readers if each and operation.outputs[0] in each.reads), operation)

    def made_whole(self, key: Key) -> Move:
        """Returns the move after which all iterations together know what goes into a key."""
        step = self.made_by[key]
        while not self.makes_whole(step):
            key = next(k for k in step.reads(self.program.original_of) if k in self.whole)
            step = self.made_by[key]
        return next(only(Move, [step]))

    def is_cause(self, key: Key, moved: Sequence[Move], lines: Collection[Source]) -> bool:
        """Whether what is known after the loop is a problem of its own: not moved in time, nor for a refused line."""
        move = self.made_whole(key)
        reader = move.cause.operation
        return all(move is not other for other in moved) and (reader is None or reader.source not in lines)

    def makes_whole(self, step: Step) -> bool:
        """Whether all iterations together know a value from a step on."""
        return (via := step.collective) is not None and self.axis in via.axes

    @functools.cached_property
    def whole(self) -> set[Key]:
        """The keys into which goes what only all iterations together know."""
        whole: set[Key] = set()
        for key, step in self.made_by.items():
            if self.makes_whole(step) or not whole.isdisjoint(step.reads(self.program.original_of)):
                whole.add(key)
        return whole

    def maker(self, move: Move, made_by: MadeBy) -> tuple[str, str]:
        """Says what all iterations together know, a sum or what is gathered, and its remedy, "" for the usual one."""
        if move.via.kind is ALL_REDUCE:
            return f"the sum that {named(self.origin((move.value, move.start), made_by))} makes", ""
        gathered = f"{self.program.value(move.name).label}, gathered for {named(move.cause.operation)}"
        dim = self.program.dims_of(move.name)[move.via.axis] if move.via.kind is ALL_GATHER else None
        reason, fix = self.only_in_some_scopes(move.cause.operation, dim)
        if not fix:
            reason, fix = self.becomes_another(move.cause.operation, dim)
        return gathered + reason, fix

    def only_in_some_scopes(self, reader: Operation | None, dim: str | None) -> tuple[str, str]:
        """Says that a dim is on the axis in some scopes alone, not where an operation reads it, and what to do."""
        rules, axis = self.rules, self.axis
        if reader is None or dim is None or axis in rules.within(reader.scope).get(dim, ()):
            return "", ""
        off = rules.glob(reader.scope, dim)
        if off:
            fix = f"Put `{dim}` on `{axis}` in `{off}` as well, or remove it everywhere."
            return f", for in `{off}` the rules have `{dim}` off `{axis}`", fix
        if not (split_in := rules.on(axis).get(dim, ())):
            return "", ""
        globs = listed(split_in)
        return (
            f", for `{dim}` is on `{axis}` in {globs} alone",
            f"Put `{dim}` on `{axis}` everywhere, or remove it in {globs}.",
        )

    def becomes_another(self, reader: Operation | None, dim: str | None) -> tuple[str, str]:
        """Says that an operation makes of a dim another one, which is not on the axis, and what to do."""
        if reader is None or dim is None:
            return "", ""
        rules, axis = self.rules.within(reader.scope), self.axis
        others = (new for old, new in becoming(self.program, reader) if old == dim and new in self.program.dims)
        other = next((new for new in others if new and new != dim and axis not in rules.get(new, ())), None)
        if other is None:
            return "", ""
        fix = f"Put `{other}` on `{axis}` as well, or take `{dim}` off it."
        makes = "" if reader.name == "rename" else f", which makes `{other}` of `{dim}`"
        return f"{makes}, and `{other}` is not on `{axis}`", fix

    def origin(self, key: Key, made_by: MadeBy) -> Operation | None:
        """Returns the operation that makes a partial sum, in whatever block."""
        step = made_by.get(key)
        while step is not None:
            partial = [k for k in step.reads(self.program.original_of) if self.axis in k[1].partial and k in made_by]
            if not partial:
                break
            key, step = partial[0], made_by[partial[0]]
        return self.summing(key[0])

    def summing(self, value: int) -> Operation | None:
        """Returns the operation that sums a dim, back from a value that is linear in its result."""
        program, first = self.program, self.program.makers.get(value)
        while True:
            while value in program.insides:
                value = program.insides[value]
            operation = program.makers.get(value)
            if operation is None or operation.blocks or not operation.reads:
                return operation or first
            if program.factors[operation].summed:
                return operation
            value = operation.reads[0]

    def moved_in_time(self, step: Move) -> Refusal:
        """Refuses a move after which iterations would hold each other's blocks."""
        operation, value = step.cause.operation, self.program.value(step.name)
        start, end = step.reshard.start, step.reshard.steps[-1].result
        text = (
            f"{named(operation)} needs {value.label} as {end}, which is {start}: blocks of `{self.axis}`, which exist"
            " one after another, would change places."
        )
        source = operation.source if operation else value.source
        return Refusal("in_time", text, f"{self.off}.", source)

    def cut_otherwise(self, operation: Operation, cuts: Iterable[Axes]) -> Refusal:
        """Refuses that blocks meet which were cut from shards over other devices: they have other elements."""
        each = [f"from shards over {listed(cut)}" if cut else "from the whole" for cut in cuts]
        text = f"{named(operation)} meets blocks of `{self.axis}` with other elements: cut {' and '.join(each)}."
        fix = f"{self.off}, or put the same axes in front of `{self.axis}` for all that meets there."
        return Refusal("in_time", text, fix, operation.source)

    def places(self, operation: Operation, cut: Axes) -> Refusal:
        """Refuses an operation that asks where the elements of a block lie which devices share otherwise."""
        whence = f"shards over {listed(cut)}" if cut else "the whole"
        text = (
            f"{named(operation)} needs to know where the elements of a block of `{self.axis}` lie, which was cut from"
            f" {whence} and is sharded otherwise here."
        )
        return Refusal("in_time", text, f"{self.off}.", operation.source)

    def in_blocks(self, steps: Iterable[Step]) -> Iterator[Refusal]:
        """Refuses sums that are needed whole in a block of an iteration: a layer, a rematerialised region."""
        inner = (each for step in steps if step.parts for each, *_ in each_once([step]))
        moves = [each for each in only(Move, inner) if self.makes_whole(each)]
        every = (each for each, *_ in each_once(steps if moves else ()))
        made_by = {key: each for each in every for key in each.makes(self.program.original_of)}
        for move in moves:
            if move.via.kind in (ALL_REDUCE, ALL_GATHER):
                maker, fix = self.maker(move, made_by)
                yield self.needs(move.cause.operation, maker, fix=fix)
            else:
                yield self.moved_in_time(move)

    def between_shards(self, sent: Mapping[Operation, Mapping[PerShardCollective, int]]) -> Iterator[Refusal]:
        """Refuses per-shard implementations that would send something from one iteration to another."""
        for operation, collectives in sent.items():
            if any(self.axis in collective.axes for collective in collectives):
                text = f"The parts of {named(operation)} depend on each other, and `{self.axis}` runs them one by one."
                yield Refusal("in_time", text, f"{self.off}.", operation.source)
