"""Arrays of a pipeline by key, and the slots of its loop in which they lie from one tick to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax import lax

from ..planning.step_keys import Key

Arrays = list[Any]


def put(stacks: Arrays, slot: Any, arrays: Arrays) -> Arrays:
    """Returns stacks of slots, with one array of each key in a slot."""
    pairs = zip(stacks, arrays, strict=True)
    return [lax.dynamic_update_index_in_dim(stack, array, slot, 0) for stack, array in pairs]


def taken(stacks: Arrays, slot: Any) -> Arrays:
    """Returns what lies in a slot, of each key."""
    return [lax.dynamic_index_in_dim(stack, slot, 0, keepdims=False) for stack in stacks]


def among(every: Sequence[Key], arrays: Sequence[Any], keys: Sequence[Key]) -> Arrays:
    """Returns the arrays of some keys, of those of all."""
    of = dict(zip(every, arrays, strict=True))
    return [of[key] for key in keys]


def filled(every: Sequence[Key], made: Mapping[Key, Any], zeros: Callable[[Sequence[Key]], Arrays]) -> Arrays:
    """Returns an array for each key: zeros for what a cell does not make."""
    missing = [key for key in every if key not in made]
    of = {**made, **dict(zip(missing, zeros(missing), strict=True))}
    return [of[key] for key in every]
