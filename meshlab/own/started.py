"""Says what started a split: which argument, constraint or result of the user's, as Shardy recorded it.

    Starts(subject, records).of(cause.dims, ("data",))      ("`params/w1` came in as P('data')",)

Shardy records one origin of each split, where several arguments may come in split alike: of a sum all are named from
which the summed axis is handed on, split, to what is summed. Where nothing was recorded of a value, what the user has
split along the same dims over the same mesh axes is listed.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence

from jax.sharding import NamedSharding, PartitionSpec

from ..engine.code.loops import LOOPS
from ..engine.code.operations import Input
from ..engine.code.source import Source
from ..engine.jax_programs import number_of, numbers_in
from ..engine.programs.spread_names import Names
from ..engine.specs.spec import Axes
from .known import Found, Known
from .shardy import Records
from .subject import Subject, of_spec


class Starts:
    """Finds what started the splits of a program's values.

    Args:
        subject: the program.
        records: what Shardy recorded; None where it tells nothing.
        known: how values are split; None where that is not known.
    """

    def __init__(self, subject: Subject, records: Records | None, known: Known | None = None):
        self.subject, self.records, self.known = subject, records, known

    def of(self, found: Sequence[Found], axes: Axes, is_sum: bool = False) -> tuple[str, ...]:
        """Returns what split some dims over some mesh axes, in words, each once; of what is summed all that did."""
        # One hop of a move may go over mesh axes that split none of them.
        over = (
            axes if any(axis in axes for one in found for axis in one.axes) else [a for one in found for a in one.axes]
        )
        split = [(one.value, axis) for one in found for axis in one.axes if axis in over]
        recorded = dict.fromkeys(text for value, axis in split for text in self._recorded(value, axis))
        if is_sum:
            given = (text for one in found for axis in one.axes if axis in over for text in self._given(one, axis))
            recorded |= dict.fromkeys(given)
        dims = {one.dim for one in found if one.dim}
        return tuple(recorded or dict.fromkeys(self._alike(dims, over)))

    def _recorded(self, value: int, axis: str) -> Iterator[str]:
        handed_on, source = self.subject.handed_on, value
        while source not in self._origins:
            before = handed_on.get(source, self.subject.passed_on(source))
            if before is None:
                return
            source = before
        for origins in self._origins[source]:
            if axis in origins and (text := self._said.get(origins[axis])):
                yield text

    def _given(self, found: Found, axis: str) -> Iterator[str]:
        """Yields the arguments that come in split over a mesh axis, and hand that on, split, to an axis of a value."""
        subject, jitted = self.subject, self.subject.jitted
        sides = zip(jitted.arguments, jitted.inputs, strict=True)
        arguments = dict(zip(subject.code.block.inputs, sides, strict=False))
        waiting = [(found.value, at) for at, dim in enumerate(subject.dims(found.value)) if dim == found.dim]
        seen: set[tuple[int, int]] = set()
        while waiting:
            value, at = waiting.pop()
            splits = self.known.split(value) if self.known is not None else None
            if (value, at) in seen or splits is None or axis not in splits[at]:
                continue
            seen.add((value, at))
            for place, sharding in (arguments[value],) if value in arguments else ():
                asked = of_spec(sharding.spec, len(splits))[at] if sharding is not None else None
                if sharding is not None and asked is not None and axis in asked:
                    yield _came_in(place, sharding.spec)
            waiting += self._before(value, at)

    def _before(self, value: int, at: int) -> Iterator[tuple[int, int]]:
        """Yields the values that an axis of a value comes from, each with that axis."""
        subject = self.subject
        maker = subject.made_by.get(value)
        sources: list[Input] = []
        if maker is None:
            sources = [subject.handed_on[value]] if value in subject.handed_on else []
        elif maker.blocks:
            blocks = maker.blocks[:1] if maker.name in LOOPS else maker.blocks
            sources = [block.outputs[maker.outputs.index(value)] for block in blocks]
        elif maker in subject.factors:
            factors = subject.factors[maker]
            factor = factors.results[maker.outputs.index(value)][at]
            pairs = zip(maker.inputs, factors.operands, strict=True)
            yield from ((v, row.index(factor)) for v, row in pairs if isinstance(v, int) and factor in row)
        for source in sources:  # of what a loop runs along one has an axis more
            if isinstance(source, int):
                here = at + len(subject.dims(source)) - len(subject.dims(value))
                yield from [(source, here)] if here >= 0 else []

    @functools.cached_property
    def _origins(self) -> dict[int, list[dict[str, str]]]:
        """What was recorded of each value: of one that is constrained also what it is constrained to."""
        subject, records = self.subject, self.records
        if records is None:
            return {}
        inputs = enumerate(zip(subject.code.block.inputs, subject.jitted.inputs, strict=False))
        found = {v: [dict.fromkeys(_axes(s), f"input: {i}")] for i, (v, s) in inputs if s is not None}
        named = {where: name for name, where in records.constraints.items()}
        for record in records.values:
            maker = next((m for one in numbers_in(record.where)[:1] if (m := subject.makers.get(one[0]))), None)
            if maker is None or maker.blocks:
                continue
            itself = named.get(record.where, "self")
            origins = {axis: itself if name == "self" else name for axis, name in record.origins.items()}
            for value in maker.outputs:
                if subject.code.shapes[value] == record.shape:
                    found.setdefault(value, []).append(origins)
        return found

    @functools.cached_property
    def _said(self) -> dict[str, str]:
        """What each origin is, in words."""
        jitted = self.subject.jitted
        sides = (
            ("input", jitted.arguments, jitted.inputs, _came_in),
            ("output", jitted.outputs, jitted.results, _comes_out),
        )
        said = {
            f"{side}: {i}": text(place, sharding.spec)
            for side, places, shardings, text in sides
            for i, (place, sharding) in enumerate(zip(places, shardings, strict=True))
            if sharding is not None
        }
        standing = {number_of(one.equation): one for one in self.subject.constraints}
        for name, where in (self.records.constraints if self.records else {}).items():
            found = next((standing[n] for numbers in numbers_in(where) for n in numbers if n in standing), None)
            if found is not None:
                said[name] = _constraint(found.spec, found.source)
        return said

    def _alike(self, dims: Collection[str], axes: Collection[str]) -> Iterator[str]:
        """Yields what the user has split along dims over mesh axes: constraints, arguments, results."""
        jitted, block = self.subject.jitted, self.subject.code.block
        for one in self.subject.constraints:
            if _splits_along(self.subject.dims(one.value), one.spec, dims, axes):
                yield _constraint(one.spec, one.source)
        sides = (
            (block.inputs, jitted.arguments, jitted.inputs, _came_in),
            (block.outputs, jitted.outputs, jitted.results, _comes_out),
        )
        for values, places, shardings, text in sides:
            for value, place, sharding in zip(values, places, shardings, strict=False):
                if sharding is None or not isinstance(value, int):
                    continue
                if _splits_along(self.subject.dims(value), sharding.spec, dims, axes):
                    yield text(place, sharding.spec)


def _came_in(place: str, spec: PartitionSpec) -> str:
    return f"`{place}` came in as {printed(spec)}"


def _comes_out(place: str, spec: PartitionSpec) -> str:
    return f"`{place}` is asked to come out as {printed(spec)}"


def _constraint(spec: PartitionSpec, source: Source | None) -> str:
    return f"the constraint {printed(spec)} at {source or 'an unknown line'}"


def _axes(sharding: NamedSharding) -> list[str]:
    return [axis for _, split in _entries(sharding.spec) for axis in split]


def _entries(spec: PartitionSpec) -> list[tuple[int, Axes]]:
    entries = ((i, entry if isinstance(entry, tuple) else (entry,)) for i, entry in enumerate(spec))
    return [(i, tuple(axis for axis in split if isinstance(axis, str))) for i, split in entries]


def _splits_along(names: Names, spec: PartitionSpec, dims: Collection[str], axes: Collection[str]) -> bool:
    """Whether a spec splits an axis of some dims over some mesh axes."""
    return any(names[i] in dims and not set(axes).isdisjoint(split) for i, split in _entries(spec) if i < len(names))


def printed(spec: PartitionSpec) -> str:
    """Returns a spec as the user writes it."""
    return f"P({', '.join(repr(entry) for entry in spec)})"
