"""What a program of a public question is: where it was asked, what was asked, and how the asker has it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh

from meshlab.engine.devices import devices


@dataclasses.dataclass(frozen=True)
class Program:
    """A question, and on which mesh its program runs; `make` gives the jitted function and its arguments."""

    url: str
    question: str
    axes: dict[str, int]
    make: Callable[[Mesh], tuple[Any, tuple]]

    def mesh(self) -> Mesh:
        shape = tuple(self.axes.values())
        return Mesh(
            np.array(devices(math.prod(shape))).reshape(shape),
            tuple(self.axes),
            axis_types=(AxisType.Auto,) * len(shape),
        )


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)
