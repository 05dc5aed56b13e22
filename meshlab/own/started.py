"""Says what started a split: which argument, constraint or result of the user's, as Shardy recorded it.

    Starts(subject, records).of(cause.dims, ("data",))      ("`params/w1` came in as P('data')",)

Where nothing was recorded of a value, what the user has split along the same dims over the same mesh axes is listed.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence

from jax.sharding import NamedSharding, PartitionSpec

from ..engine.code.source import Source
from ..engine.jax_programs import number_of, numbers_in
from ..engine.programs.spread_names import Names
from ..engine.specs.spec import Axes
from .known import Found
from .shardy import Records
from .subject import Subject


class Starts:
    """Finds what started the splits of a program's values.

    Args:
        subject: the program.
        records: what Shardy recorded; None where it tells nothing.
    """

    def __init__(self, subject: Subject, records: Records | None):
        self.subject, self.records = subject, records

    def of(self, found: Sequence[Found], axes: Axes) -> tuple[str, ...]:
        """Returns what split some dims over some mesh axes, in words, each once."""
        # One hop of a move may go over mesh axes that split none of them.
        over = (
            axes if any(axis in axes for one in found for axis in one.axes) else [a for one in found for a in one.axes]
        )
        split = [(one.value, axis) for one in found for axis in one.axes if axis in over]
        recorded = dict.fromkeys(text for value, axis in split for text in self._recorded(value, axis))
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
