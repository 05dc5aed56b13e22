"""Leaves the other processes of a run: one that still waits for this one fails at once, and not after a minute.

    leave(34911)            # of a process that has finished its file; the port of JAX's coordinator
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
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec


def leave(coordinator: int) -> None:
    """Ends this process's connections for collectives, once its own collectives are done.

    Args:
        coordinator: the port of JAX's coordinator, whose connections stay.
    """
    with _connections(coordinator) as connections:
        if connections:  # else it has had no collective with others, and perhaps no devices
            _finish_collectives()
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


def _finish_collectives() -> None:
    """Waits until the collectives that this process has started are done: JAX starts each when the last one is done."""
    devices = jax.local_devices()
    mesh = jax.make_mesh((len(devices),), ("here",), (AxisType.Auto,), devices=devices)
    ones = jax.device_put(np.ones(len(devices), np.float32), NamedSharding(mesh, PartitionSpec("here")))
    total = jax.jit(lambda each: each.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))
    with contextlib.suppress(RuntimeError, ValueError):  # one has failed, and nobody asked what it gives
        total(ones).block_until_ready()


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
