"""Whatever a per-shard implementation asks of its device is counted as it is compiled, and run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.collectives.device import Device
from meshlab.engine.rules.per_shard import PER_SHARD

Rows, Columns = ml.dims(rows=8, columns=16)
Greatest = Callable[[Device, Any, tuple[str, ...]], Any]


def ring(device: Device, x: Any, axes: tuple[str, ...]) -> Any:
    """In a loop, each passes what it got on to the next."""

    def step(carry, _):
        passed, most = carry
        passed = device.shift(passed, axes, 1, wrap=True)
        return (passed, jnp.maximum(most, passed)), None

    return lax.scan(step, (x, x), length=count(device, axes) - 1)[0][1]


def butterfly(device: Device, x: Any, axes: tuple[str, ...]) -> Any:
    """Each exchanges what it has with the device that differs in one bit, bit by bit."""
    ordered = tuple(axis for axis in device.sizes if axis in axes)
    distance, n = 1, count(device, axes)
    while distance < n:
        other = device.permute(x, ordered, [(i, i ^ distance) for i in range(n)])
        x, distance = jnp.maximum(x, other), 2 * distance
    return x


def exchange(device: Device, x: Any, axes: tuple[str, ...]) -> Any:
    """Each gets one part of all, and gathers what the others made of theirs."""
    parts = device.all_to_all(x[None], axes, 1, 0)
    return device.all_gather(parts.max(0), axes, 0)


def scattered(device: Device, x: Any, axes: tuple[str, ...]) -> Any:
    """The greatest is what is left of a sum in which all but the first device with it are zero."""
    most = device.all_reduce(x, axes, "max")
    first = device.all_reduce(jnp.where(x == most, device.index(axes), count(device, axes)), axes, "min")
    mine = jnp.where(first == device.index(axes), x, 0.0)
    return device.all_gather(device.reduce_scatter(mine, axes, 0), axes, 0)


def count(device: Device, axes: tuple[str, ...]) -> int:
    n = 1
    for axis in axes:
        n *= device.sizes[axis]
    return n


@pytest.mark.parametrize("layout", ["columns:a", "columns:b", "columns:a+b", "columns:b+a"])
@pytest.mark.parametrize(
    ("greatest", "kinds"),
    [
        (ring, {"collective-permute"}),
        (butterfly, {"collective-permute"}),
        (exchange, {"all-to-all", "all-gather"}),
        (scattered, {"all-reduce", "reduce-scatter", "all-gather"}),
    ],
    ids=["ring", "butterfly", "exchange", "scattered"],
)
def test_collectives_are_counted_as_they_are_compiled(
    greatest: Greatest, kinds: set[str], layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(device, sharded, operands):
        (own,) = sharded.run(operands, device.sizes)
        return [greatest(device, own, tuple(a for axis in sharded.params["axes"] for a in sharded.split(axis)))]

    monkeypatch.setitem(PER_SHARD, "reduce_max", dataclasses.replace(PER_SHARD["reduce_max"], run=run))
    program = ml.trace(lambda x: x.array.max(1), ml.f32[Rows, Columns])
    plan = program.plan(ml.mesh("h100", a=2, b=4), layout)
    report = plan.check()
    assert report.ok, report
    assert {sent.kind for sent in plan.collectives} == kinds
    assert plan.time.estimate > 0
    assert plan.memory.peak_bytes > 0


def test_a_loop_sends_as_often_as_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(device, sharded, operands):
        (own,) = sharded.run(operands, device.sizes)
        return [ring(device, own, sharded.split(1))]

    monkeypatch.setitem(PER_SHARD, "reduce_max", dataclasses.replace(PER_SHARD["reduce_max"], run=run))
    program = ml.trace(lambda x: x.array.max(1), ml.f32[Rows, Columns])
    (sent,) = program.plan(ml.mesh(a=8), "columns:a").collectives
    assert (sent.times, sent.payload_bytes) == (7, 4 * Rows.size)


def test_a_loop_of_unknown_length_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(device, sharded, operands):
        (own,) = sharded.run(operands, device.sizes)
        again = lax.while_loop(lambda x: x.max() < 9, lambda x: device.shift(x, ("a",), 1, wrap=True), own)
        return [again]

    monkeypatch.setitem(PER_SHARD, "reduce_max", dataclasses.replace(PER_SHARD["reduce_max"], run=run))
    program = ml.trace(lambda x: x.array.max(1), ml.f32[Rows, Columns])
    with pytest.raises(AssertionError, match="inside `while` cannot be counted: use jax.lax.scan"):
        _ = program.plan(ml.mesh(a=8), "columns:a").collectives
