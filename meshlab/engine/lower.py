"""Lowering: an interpreter of plan steps inside one `jax.shard_map`.

Every device runs the same steps on its own shards. All collectives are in the plan, JAX inserts none of its own
(`check_vma=False`: differentiation is over, and replication is the plan's business). What is drawn is what runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from .code import Input, Literal, Operation
from .relayout import Hop
from .rules import LOCAL_PARAMS
from .rules.indexing import looked_up_axis
from .shifting import shift_shard
from .spec import Axes, Spec, local_shape
from .steps import Barrier, Compute, Fill, Loop, Move, Step, shift_split

if TYPE_CHECKING:
    from .plan import Plan

Shards = dict[tuple[int, Spec], Any]


def partition_spec(spec: Spec) -> PartitionSpec:
    """The spec in JAX's words; it has no word for partial sums."""
    return PartitionSpec(*(split or None for split in spec.splits))


class Lowering:
    """Runs steps on one device's shards.

    Args:
        shapes: the global shape of each value, by number.
        roots: for values that are the array of another, which one.
        sizes: the mesh axes' sizes.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], roots: Mapping[int, int], sizes: Mapping[str, int]):
        self.shapes, self.roots, self.sizes = shapes, roots, sizes

    def run(self, steps: Sequence[Step], shards: Shards):
        """Runs steps in order; adds what they make to `shards`."""
        for step in steps:
            if isinstance(step, Compute):
                self.compute(step, shards)
            elif isinstance(step, Move):
                shards[step.value, step.hop.result] = self.hop(step.hop, shards[step.value, step.start])
            elif isinstance(step, Fill):
                shards[step.operation.outputs[0], step.spec] = self.fill(step, shards)
            elif isinstance(step, Loop):
                self.loop(step, shards)
            else:
                self.barrier(step, shards)

    def read(self, shards: Shards, values: Sequence[Input], specs: Sequence[Spec | None]) -> list[Any]:
        """The shards of inputs, and the values of literals."""
        return [
            v.value if isinstance(v, Literal) else shards[self.roots.get(v, v), s] if s is not None else None
            for v, s in zip(values, specs, strict=True)
        ]

    def index(self, axes: Axes) -> Any:
        """Which part this device holds of an axis that is split over mesh `axes`, major first."""
        found: Any = 0
        for axis in axes:
            found = found * self.sizes[axis] + lax.axis_index(axis)
        return found

    def hop(self, hop: Hop, shard: Any) -> Any:
        """One move: a slice or a collective."""
        if hop.kind == "slice":
            size = shard.shape[hop.axis] // math.prod(self.sizes[a] for a in hop.axes)
            return lax.dynamic_slice_in_dim(shard, self.index(hop.axes) * size, size, hop.axis)
        if hop.kind == "all-gather":
            return lax.all_gather(shard, hop.axes, axis=hop.axis, tiled=True)
        if hop.kind == "reduce-scatter":
            return lax.psum_scatter(shard, hop.axes, scatter_dimension=hop.axis, tiled=True)
        if hop.kind == "all-to-all":
            return lax.all_to_all(shard, hop.axes, split_axis=hop.axis, concat_axis=hop.other, tiled=True)
        return lax.psum(shard, hop.axes)

    def fill(self, step: Fill, shards: Shards) -> Any:
        """A broadcast scalar, or the indices along an axis from where this device's part begins."""
        operation, number = step.operation, step.operation.outputs[0]
        shape = local_shape(self.shapes[number], step.spec, self.sizes)
        if operation.name == "iota":
            along = operation.params["dimension"]
            indices = lax.broadcasted_iota(operation.params["dtype"], shape, along)
            split = step.spec.splits[along]
            return indices + (self.index(split) * shape[along]).astype(indices.dtype) if split else indices
        source = operation.inputs[0]
        (scalar,) = self.read(shards, (source,), (Spec(()),))
        return lax.broadcast_in_dim(jnp.asarray(scalar, operation.equation.outvars[0].aval.dtype), shape, ())

    def compute(self, step: Compute, shards: Shards):
        """One operation, its parameters made local."""
        operation = step.operation
        operands = self.read(shards, operation.inputs, step.operands)
        if operation.name in ("gather", "scatter-add") and self.looks_up(step):
            results = [self.look_up(step, operands)]
        elif operation.name == "shift" and (split := shift_split(step)):
            results = [shift_shard(operands[0], operation.params, split, self.sizes)]
        else:
            results = self.bind(operation, operands, self.local_params(step, operands))
        if step.extremum:
            reduce = lax.pmax if operation.name == "reduce_max" else lax.pmin
            results = [reduce(r, step.extremum) for r in results]
        shards.update(((v, s), r) for v, s, r in zip(operation.outputs, step.results, results, strict=True))

    def local_params(self, step: Compute, operands: Sequence[Any]) -> dict[str, Any]:
        """The operation's parameters for this device's shapes."""
        change = LOCAL_PARAMS.get(step.operation.name)
        if change is None or not any(s and s.axes for s in (*step.operands, *step.results)):
            return step.operation.params
        results = tuple(
            local_shape(self.shapes[v], s, self.sizes)
            for v, s in zip(step.operation.outputs, step.results, strict=True)
        )
        return change(step.operation.params, tuple(np.shape(o) for o in operands), results)

    @staticmethod
    def bind(operation: Operation, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """Runs the equation's primitive."""
        primitive = operation.equation.primitive
        results = primitive.bind(*operands, **params)
        return list(results) if primitive.multiple_results else [results]

    @staticmethod
    def looks_up(step: Compute) -> bool:
        """Whether a gather or scatter-add works on a part of the axis that it indexes."""
        axis, spec = looked_up_axis(step.operation.params["dimension_numbers"]), step.operands[0]
        return axis is not None and spec is not None and bool(spec.splits[axis])

    def look_up(self, step: Compute, operands: Sequence[Any]) -> Any:
        """Looks up, or adds to, only those rows that lie in this device's part; the others count as zero."""
        operation, spec = step.operation, step.operands[0]
        assert spec is not None
        axis = looked_up_axis(operation.params["dimension_numbers"])
        assert axis is not None
        table, ids, *updates = operands
        rows, total = (
            table.shape[axis],
            self.shapes[operation.inputs[0]][axis] if isinstance(operation.inputs[0], int) else 0,
        )
        # Small integers would overflow when the start of a part is taken off.
        ids = ids.astype(jnp.promote_types(ids.dtype, jnp.int32))
        clip = operation.params["mode"] == lax.GatherScatterMode.CLIP
        ids = jnp.clip(ids, 0, total - 1) if clip else ids
        local = ids - (self.index(spec.splits[axis]) * rows).astype(ids.dtype)
        here = (local >= 0) & (local < rows)
        params = self.local_params(step, operands)
        if updates:
            # Out of range ids are dropped.
            dropped = params | {"mode": lax.GatherScatterMode.FILL_OR_DROP}
            return self.bind(operation, [table, jnp.where(here, local, rows), *updates], dropped)[0]
        clipped = params | {"mode": lax.GatherScatterMode.CLIP}
        (found,) = self.bind(operation, [table, jnp.where(here, local, 0)], clipped)
        offsets = operation.params["dimension_numbers"].offset_dims

        def spread(rows: Any) -> Any:
            return lax.broadcast_in_dim(
                rows[..., 0], found.shape, tuple(i for i in range(found.ndim) if i not in offsets)
            )

        looked = jnp.where(spread(here), found, jnp.zeros_like(found))
        if operation.params["mode"] != lax.GatherScatterMode.FILL_OR_DROP:
            return looked
        # Of the addends of a row that is not there, the first device's is what stands for it.
        missing = ((ids < 0) | (ids >= total)) & (self.index(spec.splits[axis]) == 0)
        return jnp.where(spread(missing), _filler(operation.params["fill_value"], found.dtype), looked)

    def loop(self, step: Loop, shards: Shards):
        """A scan; its body reads what lies around it."""
        operation, body = step.operation, step.operation.body
        assert body is not None
        carried = operation.params["num_carry"]

        def turn(carry, slices):
            inside = dict(shards)
            inside.update(((v, s), a) for v, s, a in zip(body.inputs, step.inner, (*carry, *slices), strict=True))
            self.run(step.steps, inside)
            made = self.read(inside, body.outputs, step.outputs)
            return tuple(_like(m, c) for m, c in zip(made, carry, strict=False)), tuple(made[carried:])

        operands = self.read(shards, operation.inputs, step.operands)
        starts = tuple(
            jnp.asarray(o, v.aval.dtype)
            for o, v in zip(operands[:carried], operation.equation.outvars[:carried], strict=True)
        )
        carry, stacked = lax.scan(
            turn,
            starts,
            tuple(operands[carried:]),
            length=operation.params["length"],
            reverse=operation.params["reverse"],
            unroll=operation.params["unroll"],
        )
        self.hand_out(step, (*carry, *stacked), shards)

    def barrier(self, step: Barrier, shards: Shards):
        """A recomputed piece, which the compiler must not merge with the first computation."""
        body = step.operation.body
        assert body is not None
        operands = tuple(jnp.asarray(o) for o in self.read(shards, step.operation.inputs, step.operands))
        # The body computes from its own inputs alone; what else it may read are constants.
        inside = dict(shards)
        inside.update(zip(zip(body.inputs, step.inner, strict=True), lax.optimization_barrier(operands), strict=True))
        self.run(step.steps, inside)
        self.hand_out(step, self.read(inside, body.outputs, step.outputs), shards)

    @staticmethod
    def hand_out(step: Loop | Barrier, results: Sequence[Any], shards: Shards):
        """Makes a block's results the values of the block around it."""
        stacked_from = step.operation.params["num_carry"] if isinstance(step, Loop) else len(results)
        for position, (value, result) in enumerate(zip(step.operation.outputs, results, strict=True)):
            spec = step.outputs[position] or Spec(())
            outer = Spec(((), *spec.splits), spec.partial) if position >= stacked_from else spec
            shards[value, outer] = result


def _filler(given: Any, dtype: Any) -> Any:
    """What JAX's gather answers for rows that are not there."""
    if given is not None:
        return jnp.asarray(given, dtype)
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(jnp.nan, dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return jnp.asarray(True)
    limits = jnp.iinfo(dtype)
    return jnp.asarray(limits.min if jnp.issubdtype(dtype, jnp.signedinteger) else limits.max, dtype)


def _like(made: Any, carry: Any) -> Any:
    return jnp.asarray(made, carry.dtype)


def device_function(plan: Plan) -> Callable:
    """Returns the function of shards that every device runs: arguments in, outputs out, in the program's flat order."""
    program = plan.program
    block = program.code.block
    constants = {number: jnp.asarray(c) for number, c in program.code.constants.items()}
    lowering = Lowering(program.code.shapes, program.roots, plan.mesh.axes)

    def run(*arrays):
        shards: Shards = dict(
            zip(((a.value, plan.argument_specs[a.value]) for a in program.arguments), arrays, strict=True)
        )
        shards.update(((n, plan.argument_specs[n]), c) for n, c in constants.items())
        lowering.run(plan.steps, shards)
        return tuple(jnp.asarray(o) for o in lowering.read(shards, block.outputs, plan.output_specs))

    return run


def lowered(plan: Plan, mesh: jax.sharding.Mesh) -> Callable:
    """Returns the plan as one function of global arrays, on a mesh of real devices."""
    arguments = tuple(partition_spec(plan.argument_specs[a.value]) for a in plan.program.arguments)
    outputs = tuple(partition_spec(s) for s in plan.output_specs)
    return jax.shard_map(device_function(plan), mesh=mesh, in_specs=arguments, out_specs=outputs, check_vma=False)
