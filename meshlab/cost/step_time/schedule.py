"""Schedules a plan's steps on compute units and links, and sums their seconds.

Each device computes in the plan's order, and communicates meanwhile: a collective begins once its operand is ready and
its links are free; a kernel waits for its operands. So a gather of weights, or a reduction of gradients, overlaps with
the kernels of that time, and an all-reduce of activations, for which the next matmul waits, is exposed. What goes
around a ring for the next turn of an operation overlaps with the present one (`Sending.ahead`), and what is put in
zig-zag order with kernels that do not wait for it. With `beside=True` collectives go in pieces beside the matmuls that
need them: of n pieces the first is there at once, and the last of what is gathered, or summed, takes 1/n of the matmul,
or of the sum (Wang et al. 2023, Overlap Communication with Dependent Computation via Decomposition:
https://doi.org/10.1145/3567955.3567959). Nothing else overlaps: the iterations of a loop follow each other, and the
steps around a loop wait for it, as in the programs that XLA makes.

Collectives over mesh axes along different axes of a torus have links of their own; behind a switch all share a device's
one port, and another to other nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...engine.code.loops import carried
from ...engine.code.operations import Block, Operation
from ...engine.collectives.kinds import Kind
from ...engine.planning.staged import Staged
from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key, keys
from ...engine.planning.steps import Compute, Inside, Iterated, Move, Nested
from ...engine.plans.per_shard_collectives import per_shard_collectives_of
from ...engine.rules.per_shard import PER_SHARD
from ..workload.per_shard_payloads import on_wires
from ..workload.scenario import Numbers, Scenario
from .fusion import Fusion, fuse
from .links import links_of
from .matmul_fusion import NOT_BESIDE, Beside, MatmulFusion, beside_matmuls, fuse_matmuls
from .order import Clock, Prefetched, order_of
from .pipelines import staged
from .roofline import Kernel, accumulated, cast, kernel
from .spent import Span, Spent

Axes = tuple[str, ...]


def spend(scenario: Scenario, is_free: Callable[[Move], bool] | None = None) -> Spent:
    """Returns the cost of a plan at a scenario; collectives of which `is_free` says so take no time."""
    plan = scenario.plan
    outputs = keys(plan.program.code.block.outputs, plan.output_specs, plan.program.original_of)
    schedule = _Schedule(scenario, is_free)
    spent = schedule.block(plan.steps, outputs)
    schedule.recompute(spent)
    return spent


class _Schedule:
    """One walk over the steps of a plan; used once."""

    def __init__(self, scenario: Scenario, is_free: Callable[[Move], bool] | None = None):
        self.is_free = is_free
        self.scenario, self.original_of = scenario, scenario.plan.program.original_of
        self.executions = 1  # of the block that is walked
        self.later: Callable[[Numbers, Numbers], Numbers] = np.maximum if scenario.many else max
        self.links = {axis: links_of(scenario.placements[0], axis) for axis in scenario.plan.mesh.devices.axes}

    def recompute(self, spent: Spent):
        """Charges the backward pass for scores that a fused kernel recomputes, where the program stores them."""
        (flops, seconds), (backward_flops, backward_seconds) = spent.scores[False], spent.scores[True]
        more = self.later(2 * flops - backward_flops, 0.0)
        longer = self.later(2 * seconds - backward_seconds, 0.0)
        if np.any(backward_flops):
            spent.flops, spent.compute = spent.flops + more, spent.compute + longer
            spent.compute_bound, spent.elapsed = spent.compute_bound + longer, spent.elapsed + longer
            # It is drawn behind the others, as a kernel of the first that makes scores.
            made = next(step for step, _, cost in spent.kernels if cost.scores)
            spent.kernels.append((made, 1, Kernel(longer, longer, more, 0.0, True)))
            if not self.scenario.many and longer:
                spent.spans.append(Span(made, spent.elapsed - longer, spent.elapsed))

    def sent_by(self, operation: Operation) -> Mapping[Any, int]:
        return self.per_shard_collectives.get(operation, {})

    @functools.cached_property
    def per_shard_collectives(self) -> Mapping[Operation, Mapping[Any, int]]:
        plan = self.scenario.plan
        return per_shard_collectives_of(plan.planned.steps, plan.program, plan.grid)

    def block(self, steps: Sequence[Step], outputs: Sequence[Key], prefetched: Prefetched | None = None) -> Spent:
        matmul_fusion, order, beside = self.fused(steps, outputs)
        fusion = matmul_fusion.fusion
        spent, clock, ahead = Spent(), Clock(), Clock()
        for position in order:
            step = steps[position]
            start = self.latest(clock.ready[n] for n in fusion.loaded(position) if n in clock.ready)
            if isinstance(step, Move):
                hidden = prefetched is not None and prefetched.overlaps(fusion, position)
                if hidden:
                    end = self.send(step, 0.0, ahead, spent) * 0.0
                elif position in beside.sums:
                    end = self.summed(step, start, clock.ran[beside.sums[position]], clock, spent)
                elif position in beside.gathers:
                    whole = self.send(step, start, clock, spent)
                    # The piece that a device has is there from the beginning on.
                    end = whole - self.seconds(step)
                    clock.whole.update(dict.fromkeys(fusion.flow.makes[position], (whole, self.pieces(step))))
                else:
                    end = self.send(step, start, clock, spent)
            else:
                clock.now = start = self.later(clock.now, start)
                end = self.compute(step, position, matmul_fusion, clock, spent)
                last = list(self.last_pieces(start, end, position, fusion, clock))
                clock.now, end = self.latest([clock.now, *last]), self.latest([end, *last])
                clock.ran[position] = start, end
            clock.ready.update(dict.fromkeys(fusion.flow.makes[position], end))
        spent.elapsed = self.later(clock.now, clock.idle)
        if prefetched is not None:
            hidden = self.slower(spent.compute, ahead.idle)
            spent.elapsed = self.later(spent.elapsed + hidden, self.latest(spent.busy.values()))
        return spent

    def slower(self, seconds: Numbers, beside: Numbers) -> Numbers:
        """How much longer kernels of so many seconds take where collectives run for some seconds beside them."""
        slowdown = self.scenario.overlap
        if not self.scenario.many and (beside <= 0 or not slowdown):
            return 0.0
        sooner = np.minimum if self.scenario.many else min
        return slowdown * sooner(seconds, self.later(beside, 0.0) / (1 + slowdown))

    def summed(self, step: Move, start: Numbers, ran: tuple[Numbers, Numbers], clock: Clock, spent: Spent) -> Numbers:
        """Runs a sum beside the matmul that makes its operand, from the first piece on; returns when it ends."""
        (begun, made), pieces = ran, self.pieces(step)
        end = self.send(step, begun + (made - begun) / pieces, clock, spent)
        end = self.later(end, start + self.seconds(step) / pieces)
        clock.idle = self.later(clock.idle, end)
        return end

    def pieces(self, step: Move) -> Numbers:
        return self.scenario.ways(step.via.axes)

    def seconds(self, step: Move) -> Numbers:
        return self.scenario.seconds_of(step.via.kind, step.via.axes, self.scenario.nbytes((step.value, step.start)))

    def last_pieces(
        self, start: Numbers, end: Numbers, position: int, fusion: Fusion, clock: Clock
    ) -> Iterator[Numbers]:
        """When a matmul has computed the last piece of each operand that comes in pieces."""
        for number in fusion.loaded(position):
            if number in clock.whole:
                whole, pieces = clock.whole[number]
                yield whole + (end - start) / pieces

    def fused(self, steps: Sequence[Step], outputs: Sequence[Key]) -> tuple[MatmulFusion, Sequence[int], Beside]:
        """The fusion of a block, the order in which its steps begin, and its collectives that may go beside matmuls.

        All of it is the same at all sizes.
        """
        beside = self.scenario.options.beside
        known, key = self.scenario.blocks, (id(steps), self.scenario.platform, beside)
        if key not in known:
            matmul_fusion = fuse_matmuls(fuse(steps, outputs, self.original_of), self.scenario.platform)
            pieced = beside_matmuls(matmul_fusion.fusion) if beside else NOT_BESIDE
            known[key] = matmul_fusion, order_of(matmul_fusion.fusion), pieced
        return known[key]

    def latest(self, times: Iterable[Numbers]) -> Numbers:
        """The latest of several times, point by point."""
        return functools.reduce(self.later, times, 0.0)

    def send(self, step: Move, start: Numbers, clock: Clock, spent: Spent) -> Numbers:
        """Runs one collective as soon as possible; returns when it ends."""
        via = step.via
        if not via.kind.sends or (self.is_free is not None and self.is_free(step)):
            return start
        operand = self.scenario.nbytes((step.value, step.start))
        seconds = self.collective(via.kind, via.axes, operand, spent)
        spent.rows.append((step, 1, seconds))
        end = self.occupy(via.axes, start, seconds, clock)
        if not self.scenario.many:
            spent.spans.append(Span(step, end - seconds, end, kind=via.kind.name, axes=via.axes))
        return end

    def collective(self, kind: Kind, axes: Axes, operand: Numbers, spent: Spent, times: Numbers = 1) -> Numbers:
        """The seconds of one collective, by the bytes of its operand on one device; adds `times` of them."""
        seconds = self.scenario.seconds_of(kind, axes, operand)
        spent.sent[axes] = spent.sent[axes] + seconds * times
        for link in self.used(axes):
            spent.busy[link] = spent.busy[link] + seconds * times
        return seconds

    def used(self, axes: Iterable[str]) -> frozenset[Any]:
        return frozenset().union(*(self.links[axis] for axis in axes))

    def occupy(self, axes: Axes, start: Numbers, seconds: Numbers, clock: Clock) -> Numbers:
        links = self.used(axes)
        start = self.later(start, self.latest(clock.free.get(link, 0.0) for link in links))
        end = start + seconds
        clock.free.update(dict.fromkeys(links, end))
        clock.idle = self.later(clock.idle, end)
        return end

    def compute(self, step: Step, position: int, matmul_fusion: MatmulFusion, clock: Clock, spent: Spent) -> Numbers:
        """Runs one kernel, or a loop, from now on; returns when its results are there."""
        now = clock.now
        if step.parts:
            inner = _INNER[type(step)](self, step)
            spent.add(inner, 1)
            # It occupies the links that it uses until it ends.
            waits = (clock.free.get(link, 0.0) * (seconds > 0) for link, seconds in inner.busy.items())
            clock.now = end = self.later(now, self.latest(waits)) + inner.elapsed
            spent.spans += [span.later(end - inner.elapsed) for span in inner.spans]
            for link, seconds in inner.busy.items():
                clock.free[link] = self.later(clock.free.get(link, 0.0), end * (seconds > 0))
                clock.idle = self.later(clock.idle, clock.free[link])
            return end
        fusion, epilogue = matmul_fusion.fusion, matmul_fusion.epilogue
        keys_of = fusion.flow.keys
        loads = [keys_of[n] for n in fusion.loaded(position) if n not in epilogue]
        stores = [keys_of[n] for n in fusion.stored(position) if n not in epilogue]
        begin = end = now
        for cost in filter(None, (cast(step, self.scenario), kernel(step, loads, stores, self.scenario))):
            spent.count(cost, step)
            spent.kernels.append((step, 1, cost))
            begin, end = end, end + cost.seconds + self.slower(cost.seconds, clock.idle - end)
            if not self.scenario.many and cost.seconds:
                spent.spans.append(Span(step, begin, end))
        clock.now = end
        if isinstance(step, Compute) and step.per_shard:
            end = self.within(step, now, end, clock, spent)
            # Where it moves data alone, the next kernels run meanwhile, as beside a collective between operations.
            clock.now = clock.now if PER_SHARD[step.operation.name].moves else end
        return end

    def within(self, step: Compute, start: Numbers, end: Numbers, clock: Clock, spent: Spent) -> Numbers:
        """Runs the collectives inside an operation that computes from start to end; returns when all is done.

        What is sent ahead is sent while the operation computes a turn, all but the last; all else when it has computed.
        """
        # The total is over all iterations; collectives hoisted out of a loop are averaged over them.
        sent = [(each, total / self.executions) for each, total in self.sent_by(step.operation).items()]
        turns = self.latest(times for each, times in sent if each.asked.ahead)
        last, here = (end - start) / (turns + 1), start
        for each, times in sorted(sent, key=lambda pair: not pair[0].asked.ahead):
            seconds = self.collective(each.kind, each.axes, on_wires(step, each, self.scenario), spent, times)
            begin = here if each.asked.ahead else end
            done = self.occupy(each.axes, begin, seconds * times, clock)
            if each.asked.ahead:
                here, end = done, self.later(end, done + last)
            else:
                end = done
            if not self.scenario.many:
                spent.spans.append(Span(step, done - seconds * times, done, kind=each.kind.name, axes=each.axes))
            spent.rows.append((step, times, seconds))
        return end

    def nested(self, step: Nested) -> Spent:
        """The cost of a loop, iteration by iteration, or of the longest branch."""
        blocks = [self.inside(step, position, block) for position, block in enumerate(step.blocks)]
        total = Spent()
        if step.loops:
            times = self.scenario.trip_count(step.operation, step.times)
            for position, block in enumerate(blocks):
                runs = times + 1 if position else times
                total.add(block, runs)
                if self.prefetches(step):
                    # The weights of the first iteration, and the sums of the last, are exposed.
                    alone = self.inside(step, position, step.blocks[position], ahead=False)
                    self.repeat(total, step, alone, 1 * (runs > 0))
                    runs = runs - 1 * (runs > 0)
                self.repeat(total, step, block, runs)
            return total
        total.elapsed = self.latest(block.elapsed for block in blocks)
        counted: Numbers = 0  # at each point, whether an earlier branch took as long
        for block in blocks:
            runs = (block.elapsed >= total.elapsed) * (1 - counted)
            if np.any(runs):
                total.add(block, runs)
                if not total.spans and not self.scenario.many:
                    total.spans = [Span(step, 0.0, block.elapsed, block.elapsed, tuple(block.spans))]
            counted = counted + runs
        return total

    def iterated(self, step: Iterated) -> Spent:
        """The cost of the loop over an axis in time: of each iteration, and of adding it to what is accumulated."""
        before, times = self.executions, self.scenario.grid[step.axis]
        self.executions *= step.times
        block = self.block(step.steps, [(result.value, result.inside) for result in step.results])
        self.executions = before
        block.run_behind(accumulated(step.results, self.scenario), step, not self.scenario.many)
        total = Spent()
        total.add(block, times)
        self.repeat(total, step, block, times)
        return total

    def repeat(self, total: Spent, step: Nested | Iterated, block: Spent, runs: Numbers):
        """Adds the time of so many iterations behind those that a loop has already."""
        begin, total.elapsed = total.elapsed, total.elapsed + block.elapsed * runs
        if not self.scenario.many and runs and block.spans:
            total.spans.append(Span(step, begin, total.elapsed, block.elapsed, tuple(block.spans), runs))

    def prefetches(self, step: Nested) -> bool:
        return self.scenario.options.prefetch and step.operation.name == "scan"

    def inside(self, step: Nested, position: int, block: Inside, *, ahead: bool = True) -> Spent:
        code = step.operation.blocks[position]
        outputs = keys(code.outputs, block.outputs, self.original_of)
        before = self.executions
        if step.loops:
            self.executions *= step.parts[position].times
        try:
            return self.iteration(step, code, block, outputs, ahead and self.prefetches(step))
        finally:
            self.executions = before

    def iteration(self, step: Nested, code: Block, block: Inside, outputs: Sequence[Key], ahead: bool) -> Spent:
        if not ahead:
            return self.block(block.steps, outputs)
        count = carried(step.operation)
        passed = keys(code.inputs[count:], block.inputs[count:], self.original_of)
        carries = keys(code.outputs[:count], block.outputs[:count], self.original_of)
        return self.block(block.steps, outputs, Prefetched(frozenset(passed), frozenset(outputs) - frozenset(carries)))


# By the kind of step with others inside, what it costs.
_INNER: dict[type[Step], Callable[[_Schedule, Any], Spent]] = {
    Nested: _Schedule.nested,
    Iterated: _Schedule.iterated,
    Staged: staged,
}
