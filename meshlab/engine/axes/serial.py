"""A serial axis is a mesh axis in time: each device runs its blocks one after the other.

    mesh = ml.mesh(data=4, micro=ml.serial(8))       # 4 devices, 8 micro-batches on each
    program.plan(mesh, "batch:data+micro")           # gradient accumulation

A dim on it is split as on any other axis, but its blocks meet on one device: what is partial over the axis is
accumulated from iteration to iteration, what is split over it exists for one iteration. So data parallelism over a
serial axis is gradient accumulation, and nothing else has to know that word.

It comes last in a dim's axes, so that the shard of a device is one contiguous range, of which each iteration takes the
next block: an argument is stored as if the axis were not there.
"""

from __future__ import annotations

import dataclasses

from .axis import InTime


@dataclasses.dataclass(frozen=True)
class Serial(InTime):
    """The size of a serial axis, and when devices communicate; made by `ml.serial`."""

    maker, noun, unit = "serial", "a serial axis", "in time"
    meaning = "A serial axis: each device runs its blocks one after the other."


def serial(size: int, reduce: str | None = None, gather: str | None = None) -> Serial:
    """Makes the size of a serial mesh axis, whose blocks run one after the other on each device.

    Args:
        size: the number of iterations: of micro-batches, if the batch is split over it.
        reduce: "once", after the loop: least communication, but each device holds whole gradients; "each", in every
            iteration: gradients are held as they are stored. None: once, but each where the gradient is stored sharded.
        gather: the same for what all iterations read; None: as `reduce`.

    Example:
        >>> str(serial(8)), str(serial(8, reduce="each"))
        ('serial(8)', 'serial(8, reduce="each")')
    """
    return Serial(size, reduce, gather)
