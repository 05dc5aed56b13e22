"""Leaves the other processes of a run: one that still waits for this one fails at once, and not after a minute.

    leave(34911, lambda: …) # of a process that has finished its file; the port of JAX's coordinator
    give_up_if_left(34911)  # of one that another has left, now and then: does it wait for it in vain?

JAX lets a process that has finished wait for the others at a barrier, and they do not learn of it: one that waits for
it in a collective waits until the barrier gives up. But the transport of collectives between CPUs, Gloo, notices at
once that a connection ends. So the process ends its own, when all that it has started is computed. Another that only
computes and writes by itself goes on, and comes to the barrier in its own time, over the connections to the
coordinator.

Of a process with several devices, only those fail that are connected to the process that left. The others wait for them
for ever, inside the process. But the parts of an array on those that failed say so, and then the process ends the
connections among its own devices too: so the exception comes where the file waits.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

# Seconds between two looks at whether its collectives are done.
_LOOK = 0.05


def leave(coordinator: int, is_last: Callable[[], bool]) -> None:
    """Ends this process's connections for collectives, once its own collectives are done.

    Args:
        coordinator: the port of JAX's coordinator, whose connections stay.
        is_last: says whether all others have left, who then come to none of these collectives any more.
    """
    with _connections(coordinator) as connections:
        if connections:  # else it has had no collective with others, and perhaps no devices
            last = _after_collectives()
            while not (last.is_ready() or is_last()):
                time.sleep(_LOOK)
        _end(connections)


def give_up_if_left(coordinator: int) -> bool:
    """Ends this process's connections for collectives if one of them has failed; returns whether it did."""
    with _connections(coordinator) as connections:
        has_failed = bool(connections) and any(map(_has_failed, jax.live_arrays()))
        if has_failed:
            _end(connections)
    return has_failed


def is_of_transport(error: BaseException | None) -> bool:
    """Says whether an exception comes of what other processes do not answer; JAX has several types for it."""
    if error is None:
        return False
    return "Gloo" in str(error) or is_of_transport(error.__cause__ or error.__context__)


def _has_failed(array: jax.Array) -> bool:
    try:
        for shard in array.addressable_shards:
            if shard.data.is_ready():
                shard.data.block_until_ready()
    except (RuntimeError, ValueError) as error:  # or it was deleted
        return is_of_transport(error)
    return False


def _after_collectives() -> Any:
    """Returns an array that is ready when this process's collectives are done: JAX starts them in turn."""
    devices = jax.local_devices()
    mesh = jax.make_mesh((len(devices),), ("here",), axis_types=(AxisType.Auto,), devices=devices)
    ones = jax.device_put(np.ones(len(devices), np.float32), NamedSharding(mesh, PartitionSpec("here")))
    return jax.jit(lambda each: each.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))(ones)


def _end(connections: list[socket.socket]) -> None:
    for each in connections:
        with contextlib.suppress(OSError):  # the other one has ended it
            each.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def _connections(coordinator: int) -> Iterator[list[socket.socket]]:
    """Yields what this process is connected to over TCP, but for the coordinator: other connections serve no more."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(each) for each in _sockets()]
        yield [each for each in sockets if _is_of_collectives(each, coordinator)]


def _sockets() -> Iterator[socket.socket]:
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # closed since
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                yield socket.socket(fileno=os.dup(int(name)))


def _is_of_collectives(connection: socket.socket, coordinator: int) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        return coordinator not in (connection.getsockname()[1], connection.getpeername()[1])
    except OSError:  # it listens
        return False
