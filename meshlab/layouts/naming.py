"""Names a layout after the literature's parallelisms: what a person calls it, however it is written.

    name = ml.layouts.named(program, mesh, "batch:data ffn:model heads:model · params/*: embed:data")
    str(name)           "FSDP over data + TP over model"
    name.parts[0]       NamedPart("fsdp", ("data",), …): `ml.layouts.fsdp(program, mesh, data="data")`

Each mesh axis is read for what it does: which dims are on it, and what is stored over it. That gives presets with their
arguments, and the name is theirs if the layout that they make has the same plan as the one that is named
(`same_plan.py`): so no spelling matters, and no name is a guess. Where no presets come to the same plan it has none.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..api.stages import make_plan
from ..engine.attention.recognise import positions
from ..engine.errors import LayoutError, listed
from ..engine.globs import matches
from ..engine.legality.examine import resolve
from ..engine.legality.legal_rules import LegalRules
from ..engine.plans.summed_gradients import splits_after_sums
from ..engine.programs.axis_conflicts import exchangeable_dims
from ..engine.programs.program import Program
from ..engine.specs.layout import Layout, LayoutLike
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from ..engine.specs.zigzag import Zigzag
from .by_name import PRESETS, SHORT, beside
from .data_parallel import data_parallel
from .experts import EXPERTS
from .model import RESIDUAL, SEQUENCE, TENSOR, dims_named
from .recognise import Recognised, batch_dim, made_of, recognised
from .request import Request
from .same_plan import same_plan
from .shards import handmade, read_shards

# The kinds of data parallelism, which choose what they store beside all others; ZeRO-3 is FSDP.
DATA = ("data_parallel", "fsdp", "hsdp", "zero1", "zero2")
# The kinds of micro-batches.
TIME = ("accumulate", "pipeline_parallel")
# Those that store the same between steps.
_MAY_BE_ALIKE = {"zero1": "zero2", "zero2": "zero1"}


@dataclasses.dataclass(frozen=True)
class NamedPart:
    """A preset that a layout is made of.

    Attributes:
        preset: its name in `ml.layouts`, or its kind.
        over: the mesh axes that it is over.
        given: its arguments.
        note: how it differs from the preset; "" where it does not.
        batch: the mesh axes of devices that the batch is on, where it is a kind of data parallelism.
        stored: rules at places that were written by hand in the stead of the preset's.
        how: what the mesh says of it: the stages and the schedule of a pipeline.
    """

    preset: str
    over: Axes
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""
    batch: Axes = ()
    stored: Layout | None = None
    how: str = ""

    def __str__(self):
        copies = "+".join(axis for axis in self.batch if axis not in self.over)
        notes = [f"copies over {copies}" if copies else "", self.how, self.note]
        about = ", ".join(filter(None, notes))
        return f"{SHORT[self.preset]} over {'+'.join(self.over)}" + (f" ({about})" if about else "")

    def beside(self, layout: Layout, program: Program, mesh: Mesh) -> Layout:
        """Returns a layout with what this part puts there."""
        if self.stored is not None:
            return data_parallel(program, mesh, data=self.batch, beside=layout) & self.stored
        return beside(layout, functools.partial(PRESETS[self.preset], **self.given), program, mesh)


@dataclasses.dataclass(frozen=True)
class Named:
    """The name of a layout: the presets that it is made of, over which mesh axes.

    Attributes:
        parts: the presets.
        alike: presets that store and send the same here in the stead of one of them: ZeRO-2 in that of ZeRO-1, where
            each device keeps its part alone of a gradient's sum, with and without a rule that says so.
    """

    parts: tuple[NamedPart, ...]
    alike: tuple[str, ...] = ()

    def __str__(self):
        return " + ".join(map(str, self.parts))


def named(program: Program, mesh: Mesh, layout: LayoutLike, *, pad: bool = False) -> Named | None:
    """Returns what a layout is called: the presets whose plan it has, over which mesh axes.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        layout: the layout.
        pad: whether it is planned with padding.

    Returns:
        The name, whose text is "FSDP over data + TP over model", say; None where it has none.

    Raises:
        LayoutError: the layout is not legal.
    """
    layout = Layout.of(layout)
    reading = _Reading(program, mesh, layout, pad or None)
    for parts in reading.hypotheses():
        if parts and (found := reading.proved(parts)):
            return Named(found, tuple(reading.alike(found)))
    return None


def made(program: Program, mesh: Mesh, parts: Sequence[NamedPart]) -> Layout:
    """Returns the layout of parts: those inside the model first, since what is stored is chosen beside them."""
    order = sorted(parts, key=lambda part: 2 if part.preset in TIME else 1 if part.preset in DATA else 0)
    return functools.reduce(lambda layout, part: part.beside(layout, program, mesh), order, Layout())


def _sent(plan: Any) -> tuple[Any, ...]:
    """Returns what a plan stores and sends, in whatever order, and how its sums leave gradients."""
    rows = Counter((c.kind, c.axes, c.dims, c.dtype, c.shape, c.wire_bytes, c.times) for c in plan.collectives)
    return rows, plan.stored, splits_after_sums(plan)


# Of these one is enough: heads are split, or else the queries of each.
ATTENTION = ("heads", "group")


class _Reading:
    """Reads the mesh axes of a layout for what they do."""

    def __init__(self, program: Program, mesh: Mesh, layout: Layout, pad: bool | None):
        self.program, self.mesh, self.layout, self.pad = program, mesh, layout, pad
        self.rules: LegalRules = resolve(program, mesh, layout, pad)
        self.request = Request("named", program, mesh, Layout(layout.dim_rules))
        self.arguments: Recognised = recognised(self.request, None, None)
        self.batch = batch_dim(self.request, self.arguments, None)
        own = self.rules.compute.get(self.batch or "", ())
        self.devices = tuple(axis for axis in own if axis not in mesh.in_time)
        self.in_time = tuple(axis for axis in own if axis in mesh.in_time)

    def hypotheses(self) -> Iterator[tuple[NamedPart, ...]]:
        """Yields what the layout may be: the kinds of data parallelism first, as they are said."""
        time = self._time()
        first = self._data() if self.devices else ()
        if first is None or len(self.in_time) > 1:
            return
        for tensor in self._tensor():
            for expert in self._inside("expert_parallel", "expert", "dims", EXPERTS):
                for context in self._context():
                    yield (*first, *tensor, *expert, *context, *time)

    def proved(self, parts: tuple[NamedPart, ...]) -> tuple[NamedPart, ...]:
        """Returns parts that have the plan of the layout: made by presets alone, or else stored as it says; or none."""
        own = tuple(part if part.stored is None else dataclasses.replace(part, stored=None) for part in parts)
        for each in (own, parts) if own != parts else (own,):
            try:
                if same_plan(self.program, self.mesh, made(self.program, self.mesh, each), self.layout, self.pad):
                    return each
            except LayoutError:  # one of them cannot be so
                continue
        return ()

    def alike(self, parts: tuple[NamedPart, ...]) -> Iterator[str]:
        """Yields the presets that come to the same in the stead of one of the parts."""
        for i, part in enumerate(parts):
            other = _MAY_BE_ALIKE.get(part.preset)
            if other is None or part.stored is not None:
                continue
            try:
                layout = made(
                    self.program, self.mesh, [*parts[:i], NamedPart(other, part.over, part.given), *parts[i + 1 :]]
                )
                plans = [make_plan(self.program, self.mesh, each, self.pad) for each in (self.layout, layout)]  # pyright: ignore[reportArgumentType]
            except LayoutError:  # the other one cannot be so
                continue
            if _sent(plans[0]) == _sent(plans[1]):
                yield other

    def _time(self) -> tuple[NamedPart, ...]:
        """What micro-batches are for: to pass through stages that have layers on them, or to be accumulated."""
        for micro, pipe in itertools.product(self.in_time, self.rules.stages):
            stages, micros = self.rules.stages[pipe], self.mesh.axes[micro]
            layers = f" of {stages.counts}" if stages.uneven else ""
            how = f"{stages.size} stages{layers}, {stages.order(micros).name}, {micros} micro-batches"
            dims = [dim for dim, axes in self.rules.compute.items() if pipe in axes]
            given = {"pipe": pipe, "micro": micro, "layers": dims[0]} if len(dims) == 1 else {}
            return (NamedPart("pipeline_parallel", (pipe,), given, how=how),)
        return tuple(NamedPart("accumulate", (axis,), {"micro": axis}) for axis in self.in_time)

    def _data(self) -> tuple[NamedPart, ...] | None:
        """The kind of data parallelism; None where something is stored that no preset stores so."""
        shards = read_shards(self.request, self.rules, self.arguments, self.devices)
        if shards is None:
            return None
        over = shards.over or self.devices
        given: dict[str, Any] = {"data": over}
        if shards.preset == "hsdp":
            given["replica"] = tuple(axis for axis in self.devices if axis not in over)
        stored = handmade(self.layout, self.program, self.devices)
        return (NamedPart(shards.preset, over, given, shards.note, self.devices, stored),)

    def _tensor(self) -> Iterator[tuple[NamedPart, ...]]:
        """Tensor parallelism, and the same with the residual stream in parts of its sequence."""
        tagged = [place for place in self.program.tags if matches(place, RESIDUAL) and self.rules.storage.get(place)]
        for parts in self._inside("tensor_parallel", "model", "dims", TENSOR):
            for part in parts if tagged else ():
                stored = {
                    dim for place in tagged for dim, axes in self.rules.storage[place].items() if axes == part.over
                }
                seq = tuple(dims_named(self.program.dims, SEQUENCE))
                own = tuple(dim for dim in seq if dim in stored)
                yield (dataclasses.replace(part, preset="sequence_parallel"),)
                yield (dataclasses.replace(part, preset="sequence_parallel", given={**part.given, "seq": own}),)
            yield parts

    def _context(self) -> Iterator[tuple[NamedPart, ...]]:
        """Parallelism along the sequence, attention included, with and without a core of other rules."""
        for parts in self._inside("context_parallel", "context", "seq", SEQUENCE):
            for part in parts:
                for glob in dict.fromkeys(glob for glob, _ in self.rules.globs):
                    yield (dataclasses.replace(part, preset="ulysses", given={**part.given, "core": glob}),)
                yield from self._around(part)
            yield parts

    def _around(self, part: NamedPart) -> Iterator[tuple[NamedPart, ...]]:
        """A ring, and one beside heads in a core, and what is balanced."""
        on = self.rules.compute
        together = any(on.get(query) and on.get(query) == on.get(key) for query, key in positions(self.program))
        if not together and not exchangeable_dims(self.program):
            return
        rules = (self.layout.dim_rules, *(own for _, own in self.layout.scope_rules))
        balanced = any(isinstance(axes, Zigzag) for each in rules for _, axes in each)
        if balanced:
            yield (dataclasses.replace(part, preset="zigzag_ring"),)
        more = {"balanced": True} if balanced else {}
        note = ", ".join(filter(None, (part.note, "balanced" if balanced else "")))
        rings = [] if balanced else [("ring", {})]
        kinds = [*rings, *(("usp", {"core": glob}) for glob, _ in self.rules.globs)]
        for preset, own in (*kinds, *([("context_parallel", {})] if balanced else [])):
            yield (dataclasses.replace(part, preset=preset, given={**part.given, **own, **more}, note=note),)

    def _left_out(self, dims: Sequence[str], on: Mapping[str, Axes], over: Axes) -> list[str]:
        """The dims that a preset would split too, if its axes divided them."""
        parts = math.prod(self.mesh.axes[axis] for axis in over)
        there = {*on, *(ATTENTION if on.keys() & {*ATTENTION} else ATTENTION[1:])}
        return [dim for dim in dims if dim not in there and not self.pad and self.program.dims[dim] % parts]

    def _inside(self, preset: str, axis: str, dims: str, names: Sequence[str]) -> Iterator[tuple[NamedPart, ...]]:
        """A preset over the axes that the dims with some names are on; without its dims where it takes these itself."""
        of_batch = {self.batch, *(made_of(self.program, self.batch) if self.batch else ())}
        on = {dim: self.rules.compute.get(dim, ()) for dim in dims_named(self.program.dims, names)}
        on = {dim: axes for dim, axes in on.items() if axes and dim not in of_batch}
        if not on:
            yield ()
            return
        if len(set(on.values())) > 1:
            return
        over = next(iter(on.values()))
        left = self._left_out([dim for dim in dims_named(self.program.dims, names) if dim not in of_batch], on, over)
        yield (NamedPart(preset, over, {axis: over}, f"{listed(left)} whole".replace("`", "") if left else ""),)
        note = f"{listed(on)} alone".replace("`", "")
        yield (NamedPart(preset, over, {axis: over, dims: tuple(on)}, note),)
