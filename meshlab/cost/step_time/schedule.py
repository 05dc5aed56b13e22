"""The seconds of a plan's steps, one after the other and side by side.

Each device computes in the plan's order, and sends meanwhile: a collective begins once its operand is there and the
links that it runs over are free; a kernel waits for what it reads. So a gather of weights, or a reduction of gradients,
hides behind whatever is computed at the time, and an all-reduce of activations, for which the next product waits, does
not. Nothing else is taken to be free: the turns of a loop follow each other, and what is around a loop waits for it, as
in the programs that XLA makes.

Collectives over mesh axes that lie along different axes of a torus have links of their own; behind a switch all share a
device's one port, and another to the other nodes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...engine.code.loops import LOOPS, carried
from ...engine.code.operations import Block, Operation
from ...engine.planning.steps import Compute, Inside, Move, Nested, Step
from ...engine.plans.local_collectives import local_collectives_of
from ..machines.hardware import Switch
from ..machines.placement import CHIP, Placement
from ..workload.dataflow import Key, keys, leaving
from ..workload.local_payloads import payload
from ..workload.setting import Numbers, Setting
from .fusion import Fusion, fuse
from .matmul_fusion import Streamed, streamed
from .roofline import Kernel, kernel

Axes = tuple[str, ...]
_NONE: tuple[Numbers, Numbers] = (0.0, 0.0)


@dataclasses.dataclass
class Spent:
    """What a stretch of steps takes; everything in seconds but `flops` and `nbytes`.

    Attributes:
        elapsed: from its beginning to its end.
        compute: of all kernels.
        products: of the matrix units alone, where these are what a kernel waits for.
        memory: of the kernels that wait for memory.
        flops: operations of products.
        nbytes: read from and written to memory.
        sent: by the mesh axes that they run over, of all collectives.
        busy: by link, of the collectives that run over it.
        scores: operations, and seconds, of products that make scores of attention piece by piece: in the forward and in
            the backward pass.
        rows: each step with how often it runs and the seconds of one execution.
    """

    elapsed: Numbers = 0.0
    compute: Numbers = 0.0
    products: Numbers = 0.0
    memory: Numbers = 0.0
    flops: Numbers = 0.0
    nbytes: Numbers = 0.0
    sent: dict[Axes, Numbers] = dataclasses.field(default_factory=lambda: defaultdict(float))
    busy: dict[Any, Numbers] = dataclasses.field(default_factory=lambda: defaultdict(float))
    scores: dict[bool, tuple[Numbers, Numbers]] = dataclasses.field(default_factory=lambda: {False: _NONE, True: _NONE})
    rows: list[tuple[Step, Numbers, Numbers]] = dataclasses.field(default_factory=list)

    def add(self, other: Spent, times: Numbers):
        """Adds what another takes, so often; `elapsed` is left to the caller."""
        for name in ("compute", "products", "memory", "flops", "nbytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name) * times)
        for backward, (flops, seconds) in other.scores.items():
            self.score(backward, flops * times, seconds * times)
        for mine, theirs in ((self.sent, other.sent), (self.busy, other.busy)):
            for key, seconds in theirs.items():
                mine[key] = mine[key] + seconds * times
        self.rows += [(step, often * times, seconds) for step, often, seconds in other.rows]

    def count(self, cost: Kernel, step: Step):
        """Counts one kernel; `elapsed` is left to the caller."""
        bound = cost.products >= cost.seconds
        self.compute = self.compute + cost.seconds
        self.products = self.products + cost.seconds * bound
        self.memory = self.memory + cost.seconds * (1 - bound)
        self.flops, self.nbytes = self.flops + cost.flops, self.nbytes + cost.nbytes
        self.rows.append((step, 1, cost.seconds))
        if cost.scores:
            assert isinstance(step, Compute)
            self.score(step.operation.backward, cost.flops, cost.seconds)

    def score(self, backward: bool, flops: Numbers, seconds: Numbers):
        """Counts products that make scores."""
        before = self.scores[backward]
        self.scores[backward] = before[0] + flops, before[1] + seconds


def spend(setting: Setting) -> Spent:
    """Returns what a plan takes at a setting.

    Raises:
        HardwareError: the machine lacks a figure that is needed.
    """
    plan = setting.plan
    outputs = keys(plan.program.code.block.outputs, plan.output_specs, plan.program.roots)
    schedule = _Schedule(setting)
    spent = schedule.block(plan.steps, outputs)
    schedule.recompute(spent)
    return spent


@dataclasses.dataclass
class _Clock:
    """When the next kernel can begin, when each value is there, and when each link is free."""

    now: Numbers = 0.0
    ready: dict[int, Numbers] = dataclasses.field(default_factory=dict)
    free: dict[Any, Numbers] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Turn:
    """What a turn of a loop need not wait for, where the next turn's weights are fetched ahead.

    Attributes:
        given: what the loop passes in and no turn changes.
        stacked: what it hands out and no turn reads.
    """

    given: frozenset[Key]
    stacked: frozenset[Key]

    def apart(self, fusion: Fusion, position: int) -> bool:
        """Whether the collective at a position only reads what is given, or only makes what is stacked."""
        flow = fusion.flow
        made = flow.makes[position]
        ahead = all(flow.keys[n] in self.given for n in fusion.loaded(position))
        return ahead or all(flow.keys[n] in self.stacked and not flow.users[n] for n in made)


class _Schedule:
    """One walk over the steps of a plan. Used once."""

    def __init__(self, setting: Setting):
        self.setting, self.roots = setting, setting.plan.program.roots
        self.often = 1  # in how many turns what is walked runs
        self.later: Callable[[Numbers, Numbers], Numbers] = np.maximum if setting.many else max
        self.links = {axis: links_of(setting.placements[0], axis) for axis in setting.plan.mesh.axes}

    def recompute(self, spent: Spent):
        """Charges the backward pass for scores that it computes anew, where the program would have kept them."""
        (flops, seconds), (made, took) = spent.scores[False], spent.scores[True]
        more, longer = self.later(2 * flops - made, 0.0), self.later(2 * seconds - took, 0.0)
        if np.any(made):
            spent.flops, spent.compute = spent.flops + more, spent.compute + longer
            spent.products, spent.elapsed = spent.products + longer, spent.elapsed + longer

    def exchanges(self, operation: Operation) -> Mapping[Any, int]:
        return self.exchanged.get(operation, {})

    @functools.cached_property
    def exchanged(self) -> Mapping[Operation, Mapping[Any, int]]:
        plan = self.setting.plan
        return local_collectives_of(plan.planned.steps, plan.program, plan.grid)

    def block(self, steps: Sequence[Step], outputs: Sequence[Key], turn: Turn | None = None) -> Spent:
        flowing, order = self.flowing(steps, outputs)
        fusion = flowing.fusion
        spent, clock = Spent(), _Clock()
        for position in order:
            step = steps[position]
            start = self.latest(clock.ready[n] for n in fusion.loaded(position) if n in clock.ready)
            if isinstance(step, Move) and turn is not None and turn.apart(fusion, position):
                end = self.send(step, 0.0, _Clock(), spent) * 0.0
            elif isinstance(step, Move):
                end = self.send(step, start, clock, spent)
            else:
                clock.now = self.later(clock.now, start)
                end = clock.now = self.compute(step, position, flowing, clock, spent)
            clock.ready.update(dict.fromkeys(fusion.flow.makes[position], end))
        spent.elapsed = self.later(clock.now, self.latest(clock.free.values()))
        if turn is not None:
            spent.elapsed = self.later(spent.elapsed, self.latest(spent.busy.values()))
        return spent

    def flowing(self, steps: Sequence[Step], outputs: Sequence[Key]) -> tuple[Streamed, Sequence[int]]:
        """What a block has in memory, and the order in which its steps begin: the same at all sizes."""
        known, key = self.setting.blocks, (id(steps), self.setting.platform)
        if key not in known:
            found = streamed(fuse(steps, outputs, self.roots), self.setting.platform)
            known[key] = found, _order(found.fusion)
        return known[key]

    def latest(self, times: Iterable[Numbers]) -> Numbers:
        """The latest of several times, point by point."""
        return functools.reduce(self.later, times, 0.0)

    def send(self, step: Move, start: Numbers, clock: _Clock, spent: Spent) -> Numbers:
        """Runs one collective as soon as it can; returns when it ends."""
        hop = step.hop
        if hop.kind == "slice":
            return start
        operand = self.setting.nbytes((step.value, step.start))
        seconds = self.collective(hop.kind, hop.axes, operand, spent)
        spent.rows.append((step, 1, seconds))
        return self.occupy(hop.axes, start, seconds, clock)

    def collective(self, kind: str, axes: Axes, operand: Numbers, spent: Spent, times: Numbers = 1) -> Numbers:
        """The seconds of one collective, by the bytes of its operand on one device; counts it `times`."""
        gathered = kind in ("all-gather", "all-to-all", "collective-permute")
        full = operand * self.setting.ways(axes) if gathered else operand
        seconds = self.setting.seconds(kind, axes, full)
        spent.sent[axes] = spent.sent[axes] + seconds * times
        for link in self.used(axes):
            spent.busy[link] = spent.busy[link] + seconds * times
        return seconds

    def used(self, axes: Iterable[str]) -> frozenset[Any]:
        return frozenset().union(*(self.links[axis] for axis in axes))

    def occupy(self, axes: Axes, start: Numbers, seconds: Numbers, clock: _Clock) -> Numbers:
        links = self.used(axes)
        start = self.later(start, self.latest(clock.free.get(link, 0.0) for link in links))
        end = start + seconds
        clock.free.update(dict.fromkeys(links, end))
        return end

    def compute(self, step: Step, position: int, flowing: Streamed, clock: _Clock, spent: Spent) -> Numbers:
        """Runs one kernel, or a loop, from now on; returns when it ends."""
        now = clock.now
        if isinstance(step, Nested):
            inner = self.nested(step)
            spent.add(inner, 1)
            # The links that it uses are its own until it ends.
            waits = (clock.free.get(link, 0.0) * (seconds > 0) for link, seconds in inner.busy.items())
            end = self.later(now, self.latest(waits)) + inner.elapsed
            for link, seconds in inner.busy.items():
                clock.free[link] = self.later(clock.free.get(link, 0.0), end * (seconds > 0))
            return end
        fusion, handed = flowing.fusion, flowing.handed
        names = fusion.flow.keys
        loads = [names[n] for n in fusion.loaded(position) if n not in handed]
        stores = [names[n] for n in fusion.stored(position) if n not in handed]
        cost = kernel(step, loads, stores, self.setting)
        spent.count(cost, step)
        end = now + cost.seconds
        if isinstance(step, Compute) and step.exchanged:
            for exchange, total in self.exchanges(step.operation).items():
                # Counted over all turns; what is sent in front of a loop is spread over them.
                times = total / self.often
                seconds = self.collective(
                    exchange.kind, exchange.axes, payload(step, exchange, self.setting), spent, times
                )
                end = self.occupy(exchange.axes, end, seconds * times, clock)
                spent.rows.append((step, times, seconds))
        return end

    def nested(self, step: Nested) -> Spent:
        """What a loop takes, turn by turn; of branches that which takes longest."""
        blocks = [self.inside(step, position, block) for position, block in enumerate(step.blocks)]
        found = Spent()
        if step.operation.name in LOOPS:
            times = self.setting.turns(step.operation, step.times)
            for position, block in enumerate(blocks):
                often = times + 1 if position else times
                found.add(block, often)
                found.elapsed = found.elapsed + block.elapsed * often
                if self.fetches_ahead(step):
                    # Nothing runs while the first turn's weights are fetched, and the last turn's sums are sent.
                    alone = self.inside(step, position, step.blocks[position], ahead=False)
                    found.elapsed = found.elapsed + (alone.elapsed - block.elapsed) * (often > 0)
            return found
        found.elapsed = self.latest(block.elapsed for block in blocks)
        taken: Numbers = 0  # at each point, whether one before took as long
        for block in blocks:
            runs = (block.elapsed >= found.elapsed) * (1 - taken)
            if np.any(runs):
                found.add(block, runs)
            taken = taken + runs
        return found

    def fetches_ahead(self, step: Nested) -> bool:
        return self.setting.options.prefetch and step.operation.name == "scan"

    def inside(self, step: Nested, position: int, block: Inside, *, ahead: bool = True) -> Spent:
        made = step.operation.blocks[position]
        outputs = leaving(made, block, self.roots)
        before = self.often
        if step.operation.name in LOOPS:
            self.often *= step.times + (position == 1)
        try:
            return self.turn(step, made, block, outputs, ahead and self.fetches_ahead(step))
        finally:
            self.often = before

    def turn(self, step: Nested, made: Block, block: Inside, outputs: Sequence[Key], ahead: bool) -> Spent:
        if not ahead:
            return self.block(block.steps, outputs)
        count = carried(step.operation)
        passed = keys(made.inputs[count:], block.inputs[count:], self.roots)
        kept = keys(made.outputs[:count], block.outputs[:count], self.roots)
        return self.block(block.steps, outputs, Turn(frozenset(passed), frozenset(outputs) - frozenset(kept)))


def _order(fusion: Fusion) -> list[int]:
    """The positions of what is done at all, in the order in which it is begun.

    A sum is sent as soon as it is made, wherever the plan asks for it first; all else keeps the plan's order.
    """
    flow = fusion.flow
    behind: dict[int, list[int]] = defaultdict(list)
    for position, step in enumerate(flow.steps):
        if fusion.is_gone(position):
            continue
        made = max((flow.maker[number] for number in fusion.loaded(position)), default=-1)
        is_sum = isinstance(step, Move) and step.hop.kind in ("all-reduce", "reduce-scatter")
        behind[made if is_sum and 0 <= made < position else position].append(position)
    return [position for first in sorted(behind) for position in behind[first]]


def links_of(placement: Placement, axis: str) -> frozenset[Any]:
    """The links that a collective over a mesh axis keeps busy."""
    if isinstance(placement.hardware.network, Switch):
        part = placement.nodes[axis]
        return frozenset({"node"} if part.inside > 1 else ()) | frozenset({"network"} if part.nodes > 1 else ())
    legs = {leg.along for leg in placement.legs[axis] if leg.size > 1}
    outside = {"network"} if placement.slices[axis] > 1 else set()
    return frozenset("chip" if along == CHIP else along for along in legs) | outside
