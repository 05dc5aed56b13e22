"""Lowers a plan: interprets its steps inside one `jax.shard_map`.

Every device runs the same steps on its own shards. All collectives are in the plan, JAX inserts none of its own
(`check_vma=False`: differentiation is over, and replication is the plan's business). The plan drawn is the plan run.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from ..code.operations import Input, Literal
from ..collectives import ragged
from ..collectives.device import Device
from ..collectives.kinds import PAIRS, Kind, Of, Sending
from ..collectives.reshard import ReshardStep, sent_shape
from ..collectives.routes import Rerouted
from ..planning.staged import Staged
from ..planning.step import Step, only
from ..planning.steps import Compute, Iterated, Materialise, Move, Nested, Result
from ..plans.per_shard_collectives import sharded_operation
from ..plans.plan_data import Plan
from ..programs.program import Program
from ..rules import PER_SHARD
from ..rules.per_shard import bind
from ..specs.in_time import accumulator_dtype, without
from ..specs.spec import Axes, Grid, Spec, local_shape
from .in_turn import Turned
from .interpret import run_blocks
from .padding import cut, grown, neutralized
from .ticks import run_staged

Shards = dict[tuple[int, Spec], Any]


def partition_spec(spec: Spec) -> PartitionSpec:
    """Returns a spec as JAX's, which cannot express partial sums."""
    return PartitionSpec(*(split or None for split in spec.splits))


class MeshDevice(Device):
    """The device that a function inside `shard_map` runs on; it reaches the others by collectives.

    Args:
        sizes: the mesh axes' sizes.
        iteration: of the loop over an axis in time, by that axis: which of its blocks this is.
        platform: what it is compiled for, in JAX's words.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        iteration: Mapping[str, Any] = MappingProxyType({}),
        platform: str = "cpu",
    ):
        super().__init__(sizes)
        self.iteration, self.platform = iteration, platform

    def within(self, iteration: Mapping[str, Any]) -> MeshDevice:
        """Returns the same device in one iteration over an axis in time."""
        return MeshDevice(self.sizes, iteration, self.platform)

    def index(self, axes: Axes) -> Any:
        """Returns which part this device holds of an axis that is sharded over mesh `axes`, major first."""
        number: Any = None
        for axis in axes:
            here = self.iteration[axis] if axis in self.iteration else lax.axis_index(axis)
            number = here if number is None else number * self.sizes[axis] + here
        return jnp.zeros((), jnp.int32) if number is None else number

    def send(self, kind: Kind, x: Any, asked: Sending) -> Any:
        return kind.run(self, x, asked)

    def exchange(self, x: Any, axes: Axes, axis: int, full: tuple[Any, Any] | None = None, of: Of | None = None) -> Any:
        if full is None or self.platform not in ragged.PLATFORMS or not ragged.leaves_out_empty(x.shape, x.dtype, axis):
            return super().exchange(x, axes, axis, full, of)
        return ragged.exchanged(x, axis, full, axes, self.index(axes))


def moved(device: MeshDevice, start: Spec, via: ReshardStep, shard: Any) -> Any:
    """Moves a shard of a value by one step of a reshard from the spec `start`."""
    ends = (functools.reduce(without, device.iteration, spec) for spec in (start, via.result))
    route = Rerouted(*ends) if via.kind.way == PAIRS else None
    return device.send(via.kind, shard, Sending(via.axes, via.axis, via.other, route))


class Lowering:
    """Runs steps on one device's shards."""

    def __init__(self, program: Program, sizes: Grid, device: MeshDevice | None = None):
        self.program, self.sizes = program, sizes
        self.code, self.original_of = program.code, program.original_of
        self.device = device or MeshDevice(sizes)

    def within(self, iteration: Mapping[str, Any]) -> Self:
        """Returns what runs the steps of one iteration over an axis in time, and knows all that this one knows."""
        inner = copy.copy(self)
        inner.device = self.device.within(iteration)
        return inner

    def run(self, steps: Sequence[Step], shards: Shards):
        """Runs steps in order, parts written out; adds their results to `shards`."""
        for step in steps:
            _RUN[type(step)](self, step, shards)

    def move(self, step: Move, shards: Shards):
        shape = self.code.shapes[step.value]
        sent, after = sent_shape(shape, step.start, step.via, self.sizes), step.via.result
        given = grown(shards[step.value, step.start], sent, after, self.sizes)
        result = moved(self.device, step.start, step.via, given)
        shards[step.value, after] = cut(result, local_shape(shape, after, self.sizes), step.start, self.sizes)

    def read(self, shards: Shards, values: Sequence[Input], specs: Sequence[Spec | None]) -> list[Any]:
        """Returns the shards of inputs, and the values of literals."""
        return [
            v.value if isinstance(v, Literal) else shards[self.original_of.get(v, v), s] if s is not None else None
            for v, s in zip(values, specs, strict=True)
        ]

    def materialise(self, step: Materialise, shards: Shards):
        shards[step.operation.outputs[0], step.spec] = self.constant(step, shards)

    def constant(self, step: Materialise, shards: Shards) -> Any:
        """Returns this device's part of a broadcast scalar, or of indices."""
        operation, number = step.operation, step.operation.outputs[0]
        shape = local_shape(self.code.shapes[number], step.spec, self.sizes)
        if operation.name == "iota":
            along = operation.params["dimension"]
            indices = lax.broadcasted_iota(operation.params["dtype"], shape, along)
            split = step.spec.splits[along]
            return indices + self.first(split, shape[along]).astype(indices.dtype) if split else indices
        source = operation.inputs[0]
        (scalar,) = self.read(shards, (source,), (Spec(()),))
        return lax.broadcast_in_dim(jnp.asarray(scalar, operation.equation.outvars[0].aval.dtype), shape, ())

    def first(self, split: Axes, part: int) -> Any:
        """Returns the number of the first element of this device's part of an axis, which is so long."""
        index = self.device.index(split)
        uneven = self.sizes.uneven.get(split[0])
        return index * part if uneven is None else jnp.cumsum(jnp.asarray((0, *uneven[:-1])))[index]

    def compute(self, step: Compute, shards: Shards):
        """Runs one operation, by its per-shard implementation or with its parameters converted to local shapes."""
        operation, sharded = step.operation, sharded_operation(step, self.code)
        operands = self.read(shards, operation.inputs, step.operands)
        if self.sizes.pads:
            operands = neutralized(self.device, sharded, self.program.factors[operation], operands, self.sizes)
        if step.per_shard:
            results = PER_SHARD[operation.name].run(self.device, sharded, operands)
        elif any(spec.axes for spec in (*sharded.operands, *sharded.results)):
            results = sharded.run(operands, self.sizes)
        else:
            results = bind(operation, operands, operation.params)
        shards.update(((v, s), r) for v, s, r in zip(operation.outputs, step.results, results, strict=True))

    def nested(self, step: Nested, shards: Shards):
        """Runs a loop, branches, or a rematerialised region: its blocks read the values around them."""
        operation, evaluate = step.operation, functools.partial(self.inside, step, shards)
        results = run_blocks(operation, self.read(shards, operation.inputs, step.operands), evaluate)
        shards.update(((v, s), r) for v, s, r in zip(operation.outputs, step.results, results, strict=True))

    def iterated(self, step: Iterated, shards: Shards):
        """Runs the loop over an axis in time: sums are accumulated, blocks are joined one behind the other."""
        sums, joined = [r for r in step.results if r.axis is None], [r for r in step.results if r.axis is not None]

        def iteration(before: Sequence[Any], number: Any) -> tuple[list[Any], tuple[list[Any], Sequence[Any]]]:
            known, runs = self.tied(step, shards, number), self.within({step.axis: number})
            runs.run(step.steps, known)
            addends = [self.apart(step, r, known[r.value, r.inside]) for r in sums]
            after = [a + b.astype(a.dtype) if r.is_sum else b for r, a, b in zip(sums, before, addends, strict=True)]
            return after, ([known[r.value, r.inside] for r in joined], self.beside(runs))

        starts = list(map(self.start, sums))
        totals, (blocks, beside) = lax.scan(iteration, starts, jnp.arange(step.times, dtype=jnp.int32))
        self.passed(step, beside)
        for result, total in zip(sums, totals, strict=True):
            shards[result.value, result.outside] = (
                total.astype(self.code.dtypes[result.value]) if result.is_sum else total
            )
        for result, stack in zip(joined, blocks, strict=True):
            shards[result.value, result.outside] = self.joined(result, stack)

    def beside(self, runs: Lowering) -> Sequence[Any]:
        """Returns what an iteration over an axis in time returns beside its results: nothing, where nobody looks."""
        return ()

    def passed(self, step: Iterated, beside: Sequence[Any]):
        """Takes what all iterations of such a loop have returned beside its results."""

    @staticmethod
    def apart(step: Iterated, result: Result, addend: Any) -> Any:
        """Keeps an addend that was reduced apart from the sum: TPUs would reduce it after the loop, whole."""
        sums = (move for move in only(Move, step.steps) if move.via.kind.sums)
        reduced = any((move.value, move.via.result) == (result.value, result.inside) for move in sums)
        return lax.optimization_barrier(addend) if reduced else addend

    def start(self, result: Result) -> Any:
        """Returns the zeros that a loop over an axis in time starts from: for a sum in 32 bits at least."""
        shape = local_shape(self.code.shapes[result.value], result.inside, self.sizes)
        dtype = self.code.dtypes[result.value]
        return jnp.zeros(shape, accumulator_dtype(dtype) if result.is_sum else dtype)

    def joined(self, result: Result, stack: Any) -> Any:
        """Returns the blocks of all iterations as one array, without padding."""
        assert result.axis is not None
        blocks = jnp.moveaxis(stack, 0, result.axis)
        shape = (*blocks.shape[: result.axis], -1, *blocks.shape[result.axis + 2 :])
        wanted = local_shape(self.code.shapes[result.value], result.outside, self.sizes)
        return cut(blocks.reshape(shape), wanted, result.outside, self.sizes)

    def tied(self, step: Iterated, shards: Shards, number: Any) -> Shards:
        """Returns the shards that an iteration knows: what it gathers is tied to its number, or XLA gathers it once."""
        sending = (each for each in step.steps if each.collective)
        keys = [key for each in sending for key in each.reads(self.original_of) if key in shards]
        return shards | {key: lax.optimization_barrier((shards[key], number))[0] for key in dict.fromkeys(keys)}

    def inside(self, step: Nested, shards: Shards, number: int, arrays: Sequence[Any]) -> list[Any]:
        """Runs one of a step's blocks on its inputs; returns its outputs."""
        block, inside = step.operation.blocks[number], step.blocks[number]
        known = dict(shards)
        known.update(((v, s), a) for v, s, a in zip(block.inputs, inside.inputs, arrays, strict=True))
        self.run(inside.steps, known)
        return self.read(known, block.outputs, inside.outputs)


# By the kind of step, what runs it.
_RUN: dict[type[Step], Callable[[Lowering, Any, Shards], None]] = {
    Compute: Lowering.compute,
    Materialise: Lowering.materialise,
    Move: Lowering.move,
    Nested: Lowering.nested,
    Iterated: Lowering.iterated,
    Staged: run_staged,
}


def device_function(plan: Plan, lowering: Lowering | None = None) -> Callable:
    """Returns the function of shards that every device runs: arguments in, outputs out, in the program's flat order.

    Args:
        plan: the plan.
        lowering: what runs its steps, if it is another one.
    """
    program = plan.program
    block = program.code.block
    constants = {number: jnp.asarray(c) for number, c in program.code.constants.items()}
    lowering = lowering or Lowering(program, plan.grid)

    def run(*arrays):
        shards: Shards = dict(
            zip(((a.value, plan.argument_specs[a.value]) for a in program.arguments), arrays, strict=True)
        )
        shards.update(((n, plan.argument_specs[n]), c) for n, c in constants.items())
        lowering.run(plan.steps, shards)
        return tuple(jnp.asarray(o) for o in lowering.read(shards, block.outputs, plan.output_specs))

    return run


def lowered(
    plan: Plan,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    lowering: Lowering | None = None,
    turned: Turned = lambda function: function,
    platform: str = "cpu",
) -> Callable:
    """Returns the plan as one function of global arrays, on a mesh of real devices, or of none to lower it for.

    Args:
        plan: the plan.
        mesh: the devices.
        lowering: what runs its steps, if it is another one.
        turned: what is made of the function of shards (`in_turn.py`).
        platform: what it is lowered for, in JAX's words; `lowering` has its own.
    """
    lowering = lowering or Lowering(plan.program, plan.grid, MeshDevice(plan.grid, platform=platform))
    arguments = tuple(partition_spec(plan.argument_specs[a.value]) for a in plan.program.arguments)
    outputs = tuple(partition_spec(s) for s in plan.output_specs)
    return jax.shard_map(
        turned(device_function(plan, lowering)), mesh=mesh, in_specs=arguments, out_specs=outputs, check_vma=False
    )
