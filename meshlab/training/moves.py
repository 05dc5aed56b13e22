"""What it takes to move a training's state from one plan to another: bytes, the collectives of each array, seconds.

    move = plan.move(other)
    move.read           bytes of the whole state, which a checkpoint has: each host reads at most these
    move.new            of each device of the other plan, the bytes that it did not hold before

Where both meshes have as many devices, the state can be moved without a checkpoint: each array by the cheapest chain of
collectives (`collectives/chains.py`). Meshes of other axes are cut finer until both are the same: data=8 beside
data=2 × model=4 is cut into 2 × 4. `constraints()` writes the chains for the user's own `jit`, whose compiler otherwise
takes a way of its own, which may send more.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..cost.machines.meshes import collective_time
from ..cost.machines.units import bytes_text, seconds_text
from ..engine.collectives.chains import reshard
from ..engine.collectives.reshard import Reshard
from ..engine.errors import RunError, numbered, some
from ..engine.plans.plan_data import Plan
from ..engine.running.padding import stored_shape
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes, Spec, local_shape
from ..engine.tables import text_rows

# What `constraints()` writes.
_FUNCTION = """\
import jax
from jax.sharding import NamedSharding, PartitionSpec


def move(state, mesh):
    # state: arrays by place; mesh: a jax.sharding.Mesh of {axes}
    state = dict(state)

    def to(place, *spec):
        sharding = NamedSharding(mesh, PartitionSpec(*spec))
        state[place] = jax.lax.with_sharding_constraint(state[place], sharding)

{lines}    return state
"""


@dataclasses.dataclass(frozen=True)
class Hop:
    """One step of an array's move: a collective, or a slice that each device takes of its shard.

    Attributes:
        kind: "all-gather", "all-to-all", "collective-permute" or "slice".
        axes: the mesh axes, major first.
        spec: how the array is sharded after it.
        wire_bytes: what one device sends.
        seconds: predicted, 0 for a slice; None for a collective, unless both plans have the same mesh on a machine.
    """

    kind: str
    axes: Axes
    spec: Spec
    wire_bytes: float
    seconds: float | None


@dataclasses.dataclass(frozen=True)
class Moving:
    """One array of the state.

    Attributes:
        place: where, `params/w1`.
        nbytes: of the whole array.
        start: how it is sharded before, over the axes of `Move.axes`.
        target: how it is sharded afterwards.
        hops: the steps of its move; empty if it stays where it is, or if `Move.axes` is None.
    """

    place: str
    nbytes: int
    start: Spec
    target: Spec
    hops: tuple[Hop, ...]


@dataclasses.dataclass(frozen=True, repr=False)
class Move:
    """The cost of moving a training's state to another plan; made by `plan.move`.

    Attributes:
        held: the bytes that each device of the other plan holds afterwards.
        new: of these, the bytes that it did not hold before; device 3 of one plan is device 3 of the other.
        axes: the mesh axes over which the arrays move; None if there are no axes that fit both plans: their devices
            differ in number or order, or their axes cannot be split into the same ones. Then move the state through a
            checkpoint, or by `other.fit(fit, …)`.
        arrays: the arrays, in the program's order.
    """

    held: tuple[int, ...]
    new: tuple[int, ...]
    axes: Mapping[str, int] | None
    arrays: tuple[Moving, ...]

    @property
    def read(self) -> int:
        """The bytes of the whole state: the most that each host reads from a checkpoint."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def wire_bytes(self) -> float | None:
        """The bytes that one device sends in all; None if `axes` is None."""
        return None if self.axes is None else sum(hop.wire_bytes for array in self.arrays for hop in array.hops)

    @property
    def seconds(self) -> float | None:
        """The predicted seconds of all collectives, one after the other; None where one is not priced."""
        priced = [hop.seconds for array in self.arrays for hop in array.hops]
        return None if self.axes is None or None in priced else sum(second for second in priced if second is not None)

    def constraints(self) -> str:
        """Writes the move as a function for your own `jit`, which takes the state by place, and a mesh.

        Raises:
            RunError: no mesh fits both plans.

        Example:
            >>> open("move.py", "w").write(plan.move(other).constraints())
        """
        if self.axes is None:
            raise RunError(
                "No mesh fits both plans, so no jit can move the state: their devices differ in number or order, or"
                " their axes cannot be split into the same ones. Move it through a checkpoint, or by other.fit(fit, …)."
            )
        axes = ", ".join(f"{name}={size}" for name, size in self.axes.items())
        return _FUNCTION.format(axes=axes, lines="".join(line for array in self.arrays for line in _lines(array)))

    def __repr__(self) -> str:
        rows = [
            ("read from a checkpoint", bytes_text(self.read)),
            ("held by a device", _range(self.held)),
            ("new on a device", _range(self.new)),
        ]
        if self.wire_bytes is not None:
            rows.append(("sent by a device, without a checkpoint", bytes_text(self.wire_bytes)))
        if self.seconds is not None:
            rows.append(("predicted", seconds_text(self.seconds)))
        return text_rows(rows)


def move(plan: Plan, other: Plan) -> Move:
    """Returns the cost of moving a training's state; see `Plan.move`."""
    places = _places(plan, other)
    items = [_item(other, place) for place in places]
    devices = {where: device for device, where in enumerate(_devices(plan.mesh))}
    held, new = [], []
    for device, where in enumerate(_devices(other.mesh)):
        want = [other.shard(place, device) for place in places]
        have = [plan.shard(place, devices[where]) if where in devices else None for place in places]
        held.append(sum(_size(own) * item for own, item in zip(want, items, strict=True)))
        common = (_size(_overlap(a, b)) * n for a, b, n in zip(want, have, items, strict=True) if b is not None)
        new.append(held[-1] - sum(common))
    cut = _cut_finer(plan.mesh, other.mesh)
    is_same = plan.mesh.devices == other.mesh.devices
    on = plan.mesh.devices if is_same and plan.mesh.on is not None else None
    arrays = [_moving(plan, other, place, cut, on) for place in places]
    return Move(tuple(held), tuple(new), cut and cut.axes, tuple(arrays))


def _places(plan: Plan, other: Plan) -> list[str]:
    """Returns the places of the state, or of all arguments where nothing is carried; refuses another program."""
    problems, ours = [], _arguments(plan)
    theirs = _arguments(other)
    for place, shape in ours.items():
        if place not in theirs:
            problems.append(f"`{place}` is in this plan's program, and not in the other's")
        elif theirs[place] != shape:
            here, there = (f"{each[0]} and dtype {each[1]}" for each in (shape, theirs[place]))
            problems.append(f"`{place}` has shape {here} in this plan's program, and {there} in the other's")
    problems += [
        f"`{place}` is in the other's program, and not in this plan's" for place in theirs if place not in ours
    ]
    for which, each in (("this plan", plan), ("the other plan", other)):
        if padded := [place for place in _arguments(each) if _is_padded(each, place)]:
            problems.append(
                f"{some(padded)} would be padded in {which}, and move() needs shards of equal size; restore a"
                " checkpoint instead"
            )
    if problems:
        raise RunError(f"move() cannot move this state to that plan:\n{numbered(problems)}")
    return list(ours)


def _arguments(plan: Plan) -> dict[str, tuple[Any, Any]]:
    program, state = plan.program, plan.program.carry or plan.program.parameters
    stored = (program.value(each.value) for each in program.arguments if each.parameter in state)
    return {value.place or "": (value.shape, str(value.dtype)) for value in stored}


def _is_padded(plan: Plan, place: str) -> bool:
    value, spec = plan.program.place(place), plan.spec(place)
    return stored_shape(plan, value.number, spec) != value.shape


def _devices(mesh: Mesh) -> list[Any]:
    """Returns what tells a mesh's devices apart: coordinates, or a number."""
    return list(map(tuple, mesh.order)) if mesh.order is not None else list(range(mesh.size))


def _overlap(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    return [(max(a, c), max(a, c, min(b, d))) for (a, b), (c, d) in zip(one, other, strict=True)]


def _size(ranges: Any) -> int:
    return math.prod(stop - start for start, stop in ranges)


def _item(plan: Plan, place: str) -> int:
    value = plan.program.place(place)
    return value.nbytes // max(1, math.prod(value.shape))


@dataclasses.dataclass(frozen=True)
class _Cut:
    """The axes into which two meshes of as many devices are cut, and those that each axis of either becomes."""

    axes: Mapping[str, int]
    ours: Mapping[str, Axes]
    theirs: Mapping[str, Axes]


def _cut_finer(mesh: Mesh, other: Mesh) -> _Cut | None:
    """Returns the coarsest axes that both meshes can be cut into; None where there are none."""
    if mesh.size != other.size or _devices(mesh) != _devices(other):
        return None
    ends = sorted({1, *_ends(mesh), *_ends(other)})
    if any(end % begin for begin, end in itertools.pairwise(ends)):
        return None
    parts = list(itertools.pairwise(ends))
    ours, theirs = _spans(mesh, parts), _spans(other, parts)
    names = dict.fromkeys(parts, "")
    for span in (ours, theirs):
        names |= {inside[0]: name for name, inside in span.items() if len(inside) == 1}
    taken = set(filter(None, names.values())) | set(ours) | set(theirs)
    fresh = (name for i in itertools.count(1) if (name := f"axis{i}") not in taken)
    names = {part: name or next(fresh) for part, name in names.items()}
    spread = [{name: tuple(names[part] for part in inside) for name, inside in span.items()} for span in (ours, theirs)]
    return _Cut({names[begin, end]: end // begin for begin, end in parts}, *spread)


def _ends(mesh: Mesh) -> list[int]:
    """Returns into how many parts the axes cut the devices, major first."""
    return list(itertools.accumulate(mesh.devices.axes.values(), lambda a, b: a * b))


def _spans(mesh: Mesh, parts: list[tuple[int, int]]) -> dict[str, list[tuple[int, int]]]:
    """Returns the parts of which each axis consists; an axis of size 1 of none."""
    ends, spans = [1, *_ends(mesh)], {}
    for name, begin, end in zip(mesh.devices.axes, ends, ends[1:], strict=False):
        spans[name] = [part for part in parts if begin <= part[0] and part[1] <= end]
    return spans


def _moving(plan: Plan, other: Plan, place: str, cut: _Cut | None, on: Mesh | None) -> Moving:
    value, start, target = plan.program.place(place), plan.spec(place), other.spec(place)
    if cut is None:
        return Moving(place, value.nbytes, start, target, ())
    start, target = _spread(start, cut.ours), _spread(target, cut.theirs)
    chain = reshard(start, target, cut.axes)
    hops = tuple(_hops(chain, value.shape, _item(plan, place), cut.axes, on))
    return Moving(place, value.nbytes, start, target, hops)


def _spread(spec: Spec, spread: Mapping[str, Axes]) -> Spec:
    return Spec(tuple(tuple(new for axis in split for new in spread[axis]) for split in spec.splits))


def _hops(chain: Reshard, shape: tuple[int, ...], item: int, axes: Mapping[str, int], on: Mesh | None) -> Iterator[Hop]:
    """Yields the steps of an array's way, with what each sends; `on` is the mesh where it is on a machine."""
    spec = chain.start
    for step in chain.steps:
        payload = math.prod(local_shape(shape, spec, axes)) * item
        sends, seconds = step.kind.sends, None
        if not sends:
            seconds = 0.0
        elif on is not None:
            whole = payload * (math.prod(axes[axis] for axis in step.axes) if step.kind.shard else 1)
            seconds = collective_time(step.kind.name, whole, on, step.axes)
        sent = step.kind.wire_bytes(payload, step.axes, axes) if sends else 0.0
        yield Hop(step.kind.name, step.axes, step.result, sent, seconds)
        spec = step.result


def _lines(array: Moving) -> Iterator[str]:
    for hop in array.hops:
        spec = "".join(f", {_split(split)}" for split in hop.spec.splits)
        what = f"{hop.kind} over {'+'.join(hop.axes)}, {bytes_text(hop.wire_bytes)}" if hop.wire_bytes else hop.kind
        yield f'    to("{array.place}"{spec})  # {what}\n'


def _split(split: Axes) -> str:
    names = ", ".join(f'"{axis}"' for axis in split)
    return f"({names})" if len(split) > 1 else names or "None"


def _range(values: tuple[int, ...]) -> str:
    least, most = min(values), max(values)
    return bytes_text(most) if least == most else f"{bytes_text(least)} to {bytes_text(most)}"
