"""Deals layers, stored one after the other, to stages that have several chunks; and back what is made of them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from ..collectives.device import Device
from ..planning.staged import Staged
from ..planning.step_keys import Key


def dealt_out(device: Device, step: Staged, key: Key, array: Any, back: bool = False) -> Any:
    """Returns a stage's layers as the schedule deals them, of those that it stores; or, back, the other way round."""
    along = next(i for i, split in enumerate(key[1].splits) if step.axis in split)
    size = array.shape[along] // step.chunks
    stage, result = device.index((step.axis,)), array
    for each in (turn.back if back else turn for turn in step.dealt[2]):
        part = lax.dynamic_slice_in_dim(array, jnp.asarray(each.sent)[stage] * size, size, along)
        arrived = part if each.stays else device.permute(part, (step.axis,), each.pairs)
        result = lax.dynamic_update_slice_in_dim(result, arrived, jnp.asarray(each.got)[stage] * size, along)
    return result
