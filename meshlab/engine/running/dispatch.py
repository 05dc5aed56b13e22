"""Calls a compiled plan: an array that lies where the plan stores it is passed on, any other one is placed there.

    executable = Executable(plan, compiled, arguments)
    arrays = executable.known(args)                 # None: a tree that was not given before, and must be checked
    others = executable.elsewhere(arrays)           # the positions of those that must be checked and placed
    executable(executable.placed(arrays, others))   # the function's own output tree

A step of a training passes on what the step before has returned, so nothing of it needs to be checked again: the tree
is the one that was checked, and each array has the type, shape, dtype and sharding that the plan wants. This takes 1 to
2 µs an array, where JAX's own call of a compiled program takes 10; `python -m benchmarks.dispatch` compares them.

A sharding may be equivalent to the one that is wanted without being equal: such an array is passed on as well, since to
compile a program that copies it would cost a hundred steps. Arrays of this host are placed shard by shard: a process
copies those of its own devices alone. `jax.device_put` would compare the array among all processes, in each step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, Sharding

from ..collectives.kinds import PAIRS
from ..planning.steps import move_of
from ..plans.plan_data import Plan
from ..processes import started
from ..specs.mesh import groups_of
from ..tensors.trees import is_endless
from ..typed_keys import is_key
from .padding import cut, grown


def placed(array: Any, sharding: Sharding) -> jax.Array:
    """Returns an array that is sharded so; the same one where it is already."""
    if isinstance(array, jax.Array):
        if array.sharding.is_equivalent_to(sharding, array.ndim):
            return array
        if sharding.is_fully_addressable:
            return jax.device_put(array, sharding)
        if not array.is_fully_addressable:
            return jax.jit(_same, out_shardings=sharding)(array)
    host = array if is_key(array) else np.asarray(array)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def _same(array: Any) -> Any:
    return array


@dataclasses.dataclass
class _Checked:
    """The arguments that were checked last: their tree, the arrays' types, and their shardings, which fit."""

    tree: Any
    kinds: tuple[type, ...]
    shardings: list[Sharding]


class Executable:
    """A compiled plan, which remembers what it was given last.

    Args:
        plan: the plan.
        compiled: what JAX compiled of it.
        arguments: its flat arguments, as the plan stores them.
    """

    def __init__(self, plan: Plan, compiled: jax.stages.Compiled, arguments: Sequence[jax.ShapeDtypeStruct]):
        self.compiled = compiled
        self._wanted = tuple(arguments)
        # Without padding: an array that is as long as a padded one was given too much.
        self._given = tuple(
            (plan.program.code.shapes[a.value], plan.program.code.dtypes[a.value]) for a in plan.program.arguments
        )
        self._checked: _Checked | None = None
        self._tree = jax.tree.structure(plan.program.out_shapes)
        self._shapes = tuple(plan.program.code.shape_of(value) for value in plan.program.code.block.outputs)
        self._grid, self._outputs = plan.grid, plan.output_specs
        self._arguments = tuple(plan.argument_specs[a.value] for a in plan.program.arguments)
        self._others = _others(plan, arguments)

    def known(self, args: tuple[Any, ...]) -> list[Any] | None:
        """Returns the flat arrays of arguments whose tree was checked; None of those with another tree."""
        if self._checked is None or is_endless(args):
            return None
        try:
            leaves, tree = jax.tree.flatten(args)
        except ValueError:  # keys that do not compare, of which the check says more
            return None
        return leaves if tree == self._checked.tree else None

    def elsewhere(self, leaves: Sequence[Any]) -> list[int]:
        """Returns which arrays of a known tree may not be passed on as they are."""
        assert self._checked is not None
        kinds, shardings = self._checked.kinds, self._checked.shardings
        return [
            position
            for position, (leaf, kind, sharding, (shape, dtype)) in enumerate(
                zip(leaves, kinds, shardings, self._given, strict=True)
            )
            if type(leaf) is not kind
            or leaf.sharding is not sharding
            or leaf.shape != shape
            or leaf.dtype != dtype
            or leaf.is_deleted()
        ]

    def remember(self, args: tuple[Any, ...], arrays: Sequence[jax.Array]):
        """Remembers the tree of arguments that were checked, and where their arrays were placed."""
        tree = jax.tree.structure(args)
        if tree.num_leaves == len(arrays):
            self._checked = _Checked(tree, tuple(map(type, arrays)), [array.sharding for array in arrays])

    def placed(self, arrays: Sequence[Any], positions: Iterable[int]) -> list[Any]:
        """Returns arrays, at some positions as the plan stores them."""
        stored = list(arrays)
        for position in positions:
            wanted = self._wanted[position]
            array = grown(arrays[position], wanted.shape, self._arguments[position], self._grid)
            stored[position] = placed(array, wanted.sharding)
            if self._checked is not None and stored[position] is arrays[position]:
                self._checked.shardings[position] = stored[position].sharding
        return stored

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Runs it; returns the function's own output tree, without padding."""
        if self._others:
            started(self._others)
        results = zip(self.compiled(*arrays), self._shapes, self._outputs, strict=True)
        return jax.tree.unflatten(self._tree, [cut(*each, self._grid) for each in results])


def _others(plan: Plan, arguments: Sequence[jax.ShapeDtypeStruct]) -> frozenset[int]:
    """Returns the other processes without which this one cannot finish the plan.

    Those that take part in its collectives; not in branches, loops and permutes, where it may depend on numbers or on
    the device.
    """
    mesh = next((a.sharding.mesh for a in arguments if isinstance(a.sharding, NamedSharding)), None)
    if not isinstance(mesh, Mesh) or not mesh.is_multi_process:
        return frozenset()
    process_of, here = np.array([device.process_index for device in np.ravel(mesh.devices)]), jax.process_index()
    moves = filter(None, map(move_of, plan.planned.steps))
    axes = {move.via.axes for move in moves if move.collective and move.via.kind.way != PAIRS}
    groups = (process_of[group].tolist() for each in axes for group in groups_of(plan.mesh, each))
    return frozenset().union(*(group for group in groups if here in group)) - {here}
