"""Collectives: what a plan's moves cost, where they come from, and what would remove them.

Every collective has a cause in the user's own code: an axis that is summed while it is split, an operation that needs
whole what is stored split, a place that wants it otherwise. Partial sums travel through linear operations before they
are resolved, so the cause is looked for where the sum was made.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .code import Operation, item_bytes
from .exchange import exchanges_of
from .outline import Copy
from .parts import stand_ins, tell
from .relayout import Hop, gathered_first, price, sent_shape, wire_bytes
from .rules import LOCAL_FORMS
from .source import Source
from .spec import Axes, Spec
from .steps import Cause, Compute, Move

if TYPE_CHECKING:
    from .plan import Plan


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a plan.

    Attributes:
        kind: all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute.
        axes: the mesh axes, major first.
        payload_bytes: bytes of its operand on one device, one execution.
        wire_bytes: bytes that one device sends, one execution (ring).
        times: executions in one run of the plan.
        dtype: of its operand.
        value: a short name of what is moved.
        dims: the dims of what is moved.
        source: the user's line that causes it.
        because: why it is there.
        remedy: what would remove it.
        chain: for a move between two specs that takes more than a gather: the whole chain, and what the plain
            alternative would send.
    """

    kind: str
    axes: Axes
    payload_bytes: int
    wire_bytes: float
    times: int
    dtype: str
    value: str
    dims: tuple[str, ...]
    source: Source | None
    because: str
    remedy: str
    chain: str = ""


def collectives_of(plan: Plan) -> tuple[Collective, ...]:
    """Lists the collectives of a plan's steps."""
    story = _Story(plan)
    found = []
    for step, times, copies in story.steps:
        if isinstance(step, Move) and step.hop.kind != "slice":
            row = story.move(step, times)
            found.append(story.for_all(row, step, copies) if len(copies) > 1 else row)
        elif isinstance(step, Compute) and step.exchanged:
            found += story.exchanged(step)
    return tuple(found)


def _quoted(names) -> str:
    return " and ".join(f"`{n}`" for n in names)


def _joined(places: Sequence[str]) -> str:
    """The glob of several places: `params/layers/*/query`."""
    if len({place.count("/") for place in places}) > 1:
        return places[0]
    parts = zip(*(place.split("/") for place in places), strict=True)
    return "/".join(part[0] if len(set(part)) == 1 else "*" for part in parts)


class _Story:
    """Tells of each move where it comes from."""

    def __init__(self, plan: Plan):
        self.plan, self.program = plan, plan.program
        self.steps = tuple(tell(plan.planned.steps))
        exchanging = any(isinstance(step, Compute) and step.exchanged for step, *_ in self.steps)
        self.exchanges = exchanges_of(plan.planned.steps, plan.program, plan.grid) if exchanging else {}
        self.makers, self.insides = plan.program.makers, plan.program.insides
        self.results = {v: step for step, *_ in self.steps if isinstance(step, Compute) for v in step.operation.outputs}
        self.first_told = stand_ins(plan.planned.steps)

    def record(self, hop: Hop, number: int, spec: Spec, times: int, **told: Any) -> Collective:
        code = self.program.code
        elements = math.prod(sent_shape(code.shapes[number], spec, hop, self.plan.grid))
        payload = elements * item_bytes(code.dtypes[number])
        shown = self.program.value(number)
        facts: dict[str, Any] = {
            "kind": hop.kind,
            "axes": hop.axes,
            "payload_bytes": payload,
            "wire_bytes": wire_bytes(hop.kind, payload, hop.axes, self.plan.grid),
            "times": times,
            "dtype": str(code.dtypes[number]),
            "value": shown.label,
            "dims": tuple(d or "1" for d in shown.dims),
            "chain": "",
        }
        return Collective(**(facts | told))

    def move(self, step: Move, times: int) -> Collective:
        if step.hop.kind in ("all-reduce", "reduce-scatter"):
            told = self.summed(step)
        else:
            told = self.relaid(step)
        return self.record(step.hop, step.name, step.start, times, **told)

    def for_all(self, row: Collective, step: Move, copies: Sequence[Copy]) -> Collective:
        """A row that is told for several copies: where their places differ there is a `*`."""
        for value in dict.fromkeys((step.name, self.program.outermost(step.value))):
            model = copies[0].models.get(value)
            alike = [self.program.stored_at.get(copy.values[model]) for copy in copies] if model is not None else [None]
            places = [place for place in alike if place is not None]
            if len(places) == len(copies):
                texts = (text.replace(places[0], _joined(places)) for text in (row.value, row.because, row.remedy))
                row = dataclasses.replace(row, **dict(zip(("value", "because", "remedy"), texts, strict=True)))
        return row

    def summed(self, step: Move) -> dict[str, Any]:
        """The story of a partial sum: the operation that made it, and the dims that it adds up."""
        operation, dims = self.origin(step.value, step.hop.axes)
        source = operation.source if operation else None
        axes = _quoted(step.hop.axes)
        if operation is None or not dims:
            return {"source": source, "because": f"A partial sum over {axes} is added up.", "remedy": ""}
        where = " in the backward pass" if operation.backward else ""
        be = "are" if len(dims) > 1 else "is"
        verb = {"gather": "looked up", "dynamic_slice": "sliced"}.get(operation.name, "summed")
        because = f"{_quoted(dims)} {be} {verb}{where} while split over {axes}"
        if step.hop.kind == "reduce-scatter":
            because += "; what it adds up to is stored split, so each device keeps its part"
        label = self.program.value(step.name)
        value = label.place or (source and source.target) or self.program.value(operation.outputs[0]).label
        if operation.backward and not label.place:
            parameter = self.parameter(label.dims)
            value = f"gradient of {parameter}" if parameter else value
        return {
            "source": source,
            "because": because + ".",
            "remedy": f"Take {_quoted(dims)} off {axes}: then every device adds up the whole sum itself.",
            "value": value,
        }

    def parameter(self, dims: tuple[str | None, ...]) -> str | None:
        """The one value that a step hands on with these dims (best in this order), apart from the dim of a scan.

        Optimizers keep more of the same dims; the first argument that is handed on counts.
        """
        wanted = tuple(d for d in dims if d not in self.program.scanned)
        for places in self.program.handed_on:
            alike = places.get(wanted) or places.get(frozenset(wanted))
            if alike:
                return alike[0] if len(alike) == 1 else None
        return None

    def origin(self, value: int, axes: Axes) -> tuple[Operation | None, tuple[str, ...]]:
        """Follows a partial sum back to the operation that sums a split axis."""
        seen = 0
        while seen < len(self.program.names):
            seen += 1
            while value in self.insides or value in self.program.roots:
                value = self.insides.get(value, self.program.roots.get(value, value))
            value = self.stand_in(value)
            step = self.results.get(value)
            if step is None:
                return self.makers.get(value), ()
            operation = step.operation
            dims = self.summed_dims(step, axes)
            if dims:
                return operation, dims
            partial = [
                v
                for v, s in zip(operation.inputs, step.operands, strict=True)
                if isinstance(v, int) and s is not None and set(axes) & set(s.partial)
            ]
            if not partial:
                return operation, ()
            value = partial[0]
        return None, ()

    def stand_in(self, value: int) -> int:
        """The value that is told of in place of one in a copy."""
        copy = self.program.copies.get(value)
        first = self.first_told.get(copy) if copy is not None else None
        return first.made[copy.places[value]] if copy is not None and first is not None else value

    def summed_dims(self, step: Compute, axes: Axes) -> tuple[str, ...]:
        """The dims that a step sums, of those split over some mesh axes."""
        summed = self.program.factors[step.operation].summed
        return tuple(
            dict.fromkeys(n for n, factor, split in self.axes(step) if factor in summed and set(split) & set(axes))
        )

    def relaid(self, step: Move) -> dict[str, Any]:
        """The story of a gather or an exchange: who needs the value otherwise than it lies."""
        shown = self.program.value(step.name)
        moved = self.moved_axis(step)
        dim, axes = shown.dims[moved] or "?", _quoted(step.start.splits[moved] or step.hop.axes)
        cause = step.cause
        source = cause.operation.source if cause.operation else shown.source
        if cause.kind == "stored":
            target = self.plan.rules.spec(shown.dims, cause.place).splits[moved]
            how = f"split over {_quoted(target)}" if target else "whole"
            because = f"`{cause.place}` is stored with `{dim}` {how}, but it is made split over {axes}."
            so = "as it is made" if target else "split"
            remedy = f'Store it {so}: {{"{cause.place}": {{"{dim}": "{"+".join(step.chain.start.splits[moved])}"}}}}.'
        elif cause.kind == "carry":
            because = f"The loop hands it on with `{dim}` whole, but it is made split over {axes}."
            remedy = f"Store the loop's first value split as well, or take `{dim}` off {axes}."
        else:
            because, remedy = self.needed(cause, dim, axes, step)
        return {"source": source, "because": because, "remedy": remedy, "chain": self.chain(step)}

    @staticmethod
    def moved_axis(step: Move) -> int:
        """The axis of the value that lies otherwise than it is needed."""
        hop = step.hop
        if hop.kind == "collective-permute":
            pairs = zip(step.start.splits, hop.result.splits, strict=True)
            return next(i for i, (before, after) in enumerate(pairs) if before != after)
        return hop.other if hop.kind == "all-to-all" else hop.axis

    def chain(self, step: Move) -> str:
        """The relayout that a move is part of, with the price of the plain alternative."""
        plain = gathered_first(step.chain)
        if plain is None:
            return ""
        code, sizes = self.program.code, self.plan.mesh.axes
        whole = math.prod(code.shapes[step.value]) * item_bytes(code.dtypes[step.value])
        told = [f"{hop.kind} over {_quoted(hop.axes)}" for hop in step.chain.hops if hop.kind != "slice"]
        return (
            f"{', then '.join(told)}: {whole * price(step.chain, sizes):,.0f} B sent; gathering first would send "
            f"{whole * price(plain, sizes):,.0f} B"
        )

    def needed(self, cause: Cause, dim: str, axes: str, step: Move) -> tuple[str, str]:
        operation = cause.operation
        name = operation.name if operation else "an operation"
        where = " in the backward pass" if operation and operation.backward else ""
        if step.hop.kind == "collective-permute":
            target = _quoted(step.hop.result.splits[self.moved_axis(step)])
            return (
                f"`{name}`{where} needs `{dim}` split over {target}, but it lies split over {axes}.",
                f"Put `{dim}` on {target} where it is made as well.",
            )
        if step.hop.kind == "all-to-all":
            now = self.program.value(step.name).dims[step.hop.axis]
            return (
                f"`{name}`{where} needs `{now}` split over {axes}, but it lies with `{dim}` split over it.",
                f"Put the two on the same axes: `{dim}` and `{now}` change places here.",
            )
        place = self.program.value(self.program.outermost(step.value)).place
        if place is not None and dim in self.plan.rules.stored.get(place, {}):
            return (
                f"`{place}` is stored with `{dim}` split over {axes}; `{name}`{where} computes with it whole.",
                f"Store `{place}` whole (more memory), or compute with `{dim}` split over {axes} as well.",
            )
        return (
            f"`{name}`{where} needs `{dim}` whole, but it is split over {axes}.",
            f"Take `{dim}` off {axes}.",
        )

    def exchanged(self, step: Compute) -> list[Collective]:
        """The collectives inside an operation whose axis is split."""
        operation, plan = step.operation, self.plan
        dims, axes = _quoted(self.exchanged_dims(step)), _quoted(_split_axes(step))
        told = LOCAL_FORMS[operation.name].told.format(dims=dims)
        shown = self.program.value(operation.outputs[0])
        return [
            Collective(
                kind=sent.kind,
                axes=sent.axes,
                payload_bytes=sent.payload_bytes,
                wire_bytes=wire_bytes(sent.kind, sent.payload_bytes, sent.axes, plan.mesh.axes),
                times=times,
                dtype=str(sent.dtype),
                value=shown.label,
                dims=tuple(d or "1" for d in shown.dims),
                source=operation.source,
                because=f"{told[:1].upper()}{told[1:]} while it is split over {axes}.",
                remedy=f"Take {dims} off {axes}.",
            )
            for sent, times in self.exchanges[step.operation].items()
        ]

    def exchanged_dims(self, step: Compute) -> tuple[str, ...]:
        """The dims, split, for which a step needs its local form."""
        exchanged = self.program.factors[step.operation].exchanged
        return tuple(dict.fromkeys(name for name, factor, split in self.axes(step) if split and factor in exchanged))

    def axes(self, step: Compute) -> Iterator[tuple[str, int, Axes]]:
        """The name, factor and split of each axis of the operands that a step reads."""
        operands = self.program.factors[step.operation].operands
        for value, spec, factors in zip(step.operation.inputs, step.operands, operands, strict=True):
            if isinstance(value, int) and spec is not None:
                for factor, split, name in zip(factors, spec.splits, self.program.names[value], strict=True):
                    yield name or "?", factor, split


def _split_axes(step: Compute) -> list[str]:
    return sorted({a for spec in step.operands if spec is not None for a in spec.axes})
