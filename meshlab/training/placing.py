"""The state of a training on a plan's devices: placed there, read off by place, and put together again.

arrays = leaves(program, state)                 {"params/w1": array, …}
trees(program, arrays)                          {"params": {"w1": tensor, …}}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from ..engine.devices import devices
from ..engine.running.dispatch import placed
from ..engine.running.run import abstract_arguments, argument_array, jax_mesh


@dataclasses.dataclass(frozen=True)
class Stored:
    """How a plan stores one array of a state.

    Attributes:
        place: where, `params/w1`.
        parameter: whose it is.
        shape: without padding.
        dtype: as it was traced.
        sharding: on the plan's devices; of a padded array, whole on each of them: JAX takes no uneven shards.
    """

    place: str
    parameter: str
    shape: tuple[int, ...]
    dtype: Any
    sharding: NamedSharding


def stored(plan: Any, names: Iterable[str]) -> list[Stored]:
    """Returns how a plan stores each array of some of its parameters."""
    program, wanted, found = plan.program, frozenset(names), []
    mesh = jax_mesh(plan.mesh, devices(plan.mesh.size, plan.mesh.order))
    whole = NamedSharding(mesh, PartitionSpec())
    for argument, array in zip(program.arguments, abstract_arguments(plan, mesh), strict=True):
        if argument.parameter in wanted:
            shape = tuple(program.code.shapes[argument.value])
            sharding = array.sharding if array.shape == shape else whole
            found.append(Stored(argument.place, argument.parameter, shape, array.dtype, sharding))
    return found


def at_home(plan: Any, state: Mapping[str, Any], donate: bool) -> dict[str, Any]:
    """Returns a state as the plan's devices store it.

    Args:
        plan: the plan.
        state: values of some of its parameters.
        donate: whether arrays that lie where they should are passed on; else they are copied, so that the first step
            does not overwrite what its caller has.
    """
    arrays = {}
    for each in stored(plan, state):
        given = argument_array(plan, each.place, state[each.parameter])
        array = placed(given, each.sharding)
        arrays[each.place] = array if donate else jnp.copy(array)
    return trees(plan.program, arrays)


def leaves(program: Any, state: Mapping[str, Any]) -> dict[str, jax.Array]:
    """Returns the arrays of a state by place."""
    arrays = {}
    for name, value in state.items():
        places = (each.place for each in program.arguments if each.parameter == name)
        arrays.update(zip(places, jax.tree.leaves(value), strict=True))
    return arrays


def trees(program: Any, arrays: Mapping[str, jax.Array]) -> dict[str, Any]:
    """Returns values of all parameters whose arrays are there, as the function takes them."""
    templates = jax.tree.unflatten(program.structure, program.templates)
    state = {}
    for name, template in zip(program.parameters, templates, strict=True):
        places = [each.place for each in program.arguments if each.parameter == name]
        if places and all(place in arrays for place in places):
            state[name] = jax.tree.unflatten(jax.tree.structure(template), [arrays[place] for place in places])
    return state
