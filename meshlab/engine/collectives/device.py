"""One device of a mesh, as per-shard implementations and moves see it: it asks the others for collectives.

`running.lower` has the device that runs them, `plans.per_shard_collectives` the one that takes note of them, so what is
counted is what is run.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..specs.spec import Axes
from .kinds import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, COLLECTIVE_PERMUTE, REDUCE_SCATTER, Kind, Of, Sending
from .routes import Mirrored, Permuted, Shifted, crossing


class Device(abc.ABC):
    """Asks the other devices for collectives.

    All devices call each method, in the same order, inside loops (`jax.lax.scan`) as well. Shards are counted along
    `axes`, major first.

    Args:
        sizes: the mesh axes' sizes, in the order of the mesh.
    """

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes = sizes

    @abc.abstractmethod
    def index(self, axes: Axes) -> Any:
        """Returns the number of this device's shard of an axis that is sharded over `axes`: a scalar i32."""

    @abc.abstractmethod
    def send(self, kind: Kind, x: Any, asked: Sending) -> Any:
        """Returns what this device has after a collective in which its operand is `x`."""

    def all_reduce(self, x: Any, axes: Axes, operation: str = "sum") -> Any:
        """Returns the "sum", "max" or "min" of `x` over the devices along `axes`, element by element."""
        return self.send(ALL_REDUCE, x, Sending(axes, operation=operation))

    def all_gather(self, x: Any, axes: Axes, axis: int) -> Any:
        """Returns the shards of all devices along `axes`, joined on an axis of `x` in their order."""
        return self.send(ALL_GATHER, x, Sending(axes, axis))

    def reduce_scatter(self, x: Any, axes: Axes, axis: int) -> Any:
        """Returns this device's part, along an axis of `x`, of the sum of `x` over the devices along `axes`."""
        return self.send(REDUCE_SCATTER, x, Sending(axes, axis))

    def all_to_all(self, x: Any, axes: Axes, axis: int, other: int, of: Of | None = None) -> Any:
        """Cuts `x` along `axis`, sends each device along `axes` its part, and joins what it gets along `other`."""
        return self.send(ALL_TO_ALL, x, Sending(axes, axis, other, of=of))

    def exchange(self, x: Any, axes: Axes, axis: int, full: tuple[Any, Any] | None = None, of: Of | None = None) -> Any:
        """Sends each device along `axes` its part along an axis of `x`, and joins what comes in their order.

        Args:
            x: the operand.
            axes: the mesh axes.
            axis: the axis that has parts.
            full: how many places at the start of each part that is sent hold anything, and of each that comes, [..., n]
                both, for the axes in front of `axis`: a device may send these alone (`ragged.py`), and zeros come in
                the others.
            of: what it is, as of `Sending`.
        """
        return self.send(ALL_TO_ALL, x, Sending(axes, axis, axis, of=of, ragged=full is not None))

    def permute(self, x: Any, axes: Axes, pairs: Iterable[tuple[int, int]], of: Of | None = None) -> Any:
        """Sends `x` to another device, as (source, target) pairs say: zeros where nobody sends.

        Args:
            x: the operand.
            axes: mesh axes over which devices are counted, in the order of the mesh.
            pairs: each device at most once as a source, and at most once as a target.
            of: what it is, as of `Sending`.
        """
        route = Permuted(axes, tuple(pairs))
        ends = [np.unravel_index(list(side), [self.sizes[a] for a in axes]) for side in zip(*route.pairs, strict=True)]
        crossed = tuple(a for a, one, other in zip(axes, *ends, strict=True) if (one != other).any()) if ends else ()
        return self.send(COLLECTIVE_PERMUTE, x, Sending(crossed, route=route, of=of))

    def shift(
        self,
        x: Any,
        axes: Axes,
        distance: int,
        wrap: bool = False,
        *,
        of: Of | None = None,
        ahead: bool = False,
    ) -> Any:
        """Returns `x` of the device `distance` shards before this one; zeros if there is none and it does not wrap."""
        crossed, distance = crossing(axes, distance, wrap, self.sizes)
        if not crossed:
            return jnp.zeros_like(x) if distance else x
        return self.send(
            COLLECTIVE_PERMUTE, x, Sending(crossed, route=Shifted(axes, distance, wrap), of=of, ahead=ahead)
        )

    def mirror(self, x: Any, axes: Axes) -> Any:
        """Returns `x` of the device that has as many shards behind it as this one has before it."""
        crossed = tuple(sorted(axis for axis in axes if self.sizes[axis] > 1))
        if math.prod(self.sizes[axis] for axis in crossed) == 2:
            return self.shift(x, crossed, 1, wrap=True)  # the same, and known as the same
        return self.send(COLLECTIVE_PERMUTE, x, Sending(crossed, route=Mirrored(crossed))) if crossed else x
