"""Compiles a plan with a probe, and runs it: its outputs, and beside them what the probe returns on each device.

    probed = compiled(plan, probe, key)              # compiled once for each key
    outputs, taken = probed(arrays)                  # what was taken: [devices, *loops, *what the probe returns]

Every device returns its own, replicas too: nothing is sent for looking.
"""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from ..devices import compiler_options, devices
from ..plans.plan_data import Plan
from ..processes import whole
from ..running import in_turn
from ..running.dispatch import placed
from ..running.in_turn import Turned
from ..running.lower import device_function, partition_spec
from ..running.padding import grown
from ..running.run import abstract_arguments, flat_arguments, jax_mesh, output_tree
from .probing import Probe, Probing, Tap

_known: weakref.WeakKeyDictionary[Plan, dict[Hashable, Probed]] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class Probed:
    """A compiled plan that returns what a probe takes.

    Attributes:
        plan: the plan.
        taps: what is taken, in the order of the steps.
        arguments: its flat arguments, as the plan stores them.
        nbytes: of all that is taken, on all devices together.
        compiled: what JAX compiled.
    """

    plan: Plan
    taps: tuple[Tap, ...]
    arguments: tuple[jax.ShapeDtypeStruct, ...]
    nbytes: int
    compiled: jax.stages.Compiled

    def __call__(self, arrays: Sequence[Any]) -> tuple[Any, list[np.ndarray]]:
        """Runs it on flat arguments; returns the function's own output tree, and an array for each tap."""
        specs = (self.plan.argument_specs[argument.value] for argument in self.plan.program.arguments)
        each = zip(arrays, self.arguments, specs, strict=True)
        outputs, taken = self.compiled(
            *(placed(grown(array, to.shape, spec, self.plan.grid), to.sharding) for array, to, spec in each)
        )
        return output_tree(self.plan, outputs), [np.asarray(whole(array)) for array in taken]


def compiled(plan: Plan, probe: Probe, key: Hashable, runs: Callable[..., Probing] = Probing) -> Probed:
    """Compiles a plan with a probe, or returns what was compiled under the same key for the same devices.

    Args:
        plan: the plan.
        probe: what is made of each value.
        key: equal for probes that take the same of the same values.
        runs: the class that runs the steps.
    """
    on = devices(plan.mesh.size, plan.mesh.order)
    known = _known.setdefault(plan, {})
    name = (key, runs, *map(id, on))
    if name not in known:
        known[name] = _compile(plan, probe, on, runs)
    return known[name]


def flat(plan: Plan, args: Sequence[Any], asked: str) -> list[Any]:
    """Returns the flat arguments of a plan, checked; `asked` is the method that was given them."""
    return flat_arguments(plan, tuple(args), asked)


def _compile(plan: Plan, probe: Probe, on: Sequence[Any], runs: Callable[..., Probing]) -> Probed:
    mesh, taps = jax_mesh(plan.mesh, on), list[Tap]()

    def run(*arrays: Any) -> tuple[Any, list[Any]]:
        probing = runs(plan.program, plan.grid, probe)
        for argument, array in zip(plan.program.arguments, arrays, strict=True):
            spec = plan.argument_specs[argument.value]
            probing.meet(Tap(argument.value, spec), {(argument.value, spec): array})
        outputs = device_function(plan, probing)(*arrays)
        taps[:] = [tap for tap, _ in probing.taken]
        return outputs, [array[None] for _, array in probing.taken]

    specs = tuple(partition_spec(plan.argument_specs[a.value]) for a in plan.program.arguments)
    outputs = tuple(map(partition_spec, plan.output_specs))
    each = PartitionSpec(tuple(mesh.axis_names))

    def build(turned: Turned) -> Any:
        function = jax.shard_map(turned(run), mesh=mesh, in_specs=specs, out_specs=(outputs, each), check_vma=False)
        return jax.jit(function, keep_unused=True)

    arguments, platform = abstract_arguments(plan, mesh), on[0].platform
    executable = in_turn.compiled(build, arguments, compiler_options(platform), platform)
    taken = sum(math.prod(each.shape) * each.dtype.itemsize for each in executable.out_info[1])
    return Probed(plan, tuple(taps), tuple(arguments), taken, executable)
