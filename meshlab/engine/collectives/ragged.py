"""All-to-alls of parts that are full in front and empty behind: where devices leave out what is empty.

    rows for 4 devices, 8 places each, of which 5, 8, 0 and 2 are taken          on TPUs 15 rows are sent, elsewhere 32

On TPUs this is JAX's `ragged_all_to_all`. XLA for CPU does not compile it. On 8 B200s it reached 2% of the bandwidth
(https://github.com/openxla/xla/issues/33386), and its speed depends on XLA's flags
(https://github.com/marin-community/marin/issues/7012). XLA for TPU pads rows that are not whole tiles.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..specs.spec import Axes

# In JAX's words.
PLATFORMS = ("tpu",)
# Bytes: 128 lanes of 32 bits.
_TILE = 512


def leaves_out_empty(shape: tuple[int, ...], dtype: Any, axis: int) -> bool:
    """Says whether an array, whose parts lie along an axis, may be sent without what is empty, on `PLATFORMS`."""
    row = math.prod(shape[axis + 1 :]) * jnp.dtype(dtype).itemsize
    return math.prod(shape[:axis]) == 1 and row > 0 and row % _TILE == 0


def exchanged(x: Any, axis: int, full: tuple[Any, Any], axes: Axes, index: Any) -> Any:
    """Returns what comes from each device, zeros where nothing does; inside `shard_map`.

    Args:
        x: the parts for all devices, along an axis; in front of it there is one element.
        axis: their axis.
        full: how many places at the start of each part that is sent are full, and of each that comes: [1, devices].
        axes: the mesh axes over which devices are counted, major first.
        index: the number of this one.
    """
    rows, (sent, came) = x.reshape(x.shape[axis:]), (each.reshape(-1) for each in full)
    part = len(rows) // len(sent)
    starts = jnp.arange(len(sent), dtype=jnp.int32) * part
    # In what comes to another device, this one's part stands where this one does among all.
    there = jnp.full_like(starts, part) * index
    return lax.ragged_all_to_all(rows, jnp.zeros_like(rows), starts, sent, there, came, axis_name=axes).reshape(x.shape)
