"""All-to-alls that leave out empty places: what comes is what comes where all places are sent.

No compiler for CPUs has JAX's `ragged_all_to_all`, so here it is written out, as its documentation says it: what a
device sends to another goes where the sender says, and the receiver must know how much comes.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.collectives.ragged import leaves_out_empty
from meshlab.engine.devices import devices
from meshlab.engine.running.lower import lowered
from meshlab.engine.running.run import flat_arguments, jax_mesh

Batch, Seq, Embed, Ffn, Layers = ml.dims(batch=8, seq=16, embed=128, ffn=24, layers=2)
Routes, Experts, K = ml.dims(routes=8, experts=8, k=2)


def written_out(calls: list[int], operand: Any, output: Any, *numbers: Any, axis_name: Any) -> Any:
    """JAX's `ragged_all_to_all`; what is not as its receiver says is no number.

    `numbers` are where what is sent to each device begins, how much it is, where it goes there, and how much comes.
    """
    calls.append(len(operand))
    here, (*sending, recv_sizes) = lax.axis_index(axis_name), numbers
    operands, starts, sent, there = (lax.all_gather(each, axis_name) for each in (operand, *sending))
    rows = jnp.arange(len(output))
    for source in range(len(sent)):
        start, count, to = starts[source, here], sent[source, here], there[source, here]
        is_there = (rows >= to) & (rows < to + count)
        row = jnp.take(operands[source], jnp.clip(rows - to + start, 0, len(operand) - 1), axis=0)
        row = jnp.where(recv_sizes[source] == count, row, jnp.nan)
        output = jnp.where(is_there[:, None], row, output)
    return jnp.where((recv_sizes == sent[:, here]).all(), output, jnp.nan)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each call could have sent."""
    made: list[int] = []
    monkeypatch.setattr(lax, "ragged_all_to_all", functools.partial(written_out, made))
    return made


def layer(params, x, factor):
    shares = ml.softmax(ml.dot(x, params["router"], Embed), Routes)
    weights, choice = ml.top_k(shares, Routes, K)
    rows, sent = ml.dispatch(x, choice, Experts, factor=factor)
    hidden = ml.silu(ml.ragged_dot(rows, params["up"], sent, Embed))
    return ml.combine(ml.ragged_dot(hidden, params["down"], sent, Ffn), sent, weights), sent.dropped


def step(factor, *, layers=False):
    def loss(params, x):
        if layers:
            body = ml.checkpoint(lambda x, params: (x + layer(params, x, factor)[0], None))
            return (ml.scan(body, x, params, Layers)[0] ** 2).mean(), jnp.zeros(())
        y, dropped = layer(params, x, factor)
        return ((y - x) ** 2).mean(), dropped

    return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)


def given(layers: bool, skew: float) -> tuple[Any, ...]:
    random, stack = np.random.default_rng(0), (Layers,) * layers
    shapes = {"router": (Embed, Routes), "up": (Experts, Embed, Ffn), "down": (Experts, Ffn, Embed)}

    def drawn(*dims):
        return ml.tensor(random.normal(size=[d.size for d in dims]).astype(np.float32) * 0.3, *dims)

    params = {name: drawn(*stack, *dims) for name, dims in shapes.items()}
    params["router"] = ml.tensor(np.asarray(params["router"].array) + skew * (np.arange(8) == 1), *stack, Embed, Routes)
    return params, drawn(Batch, Seq, Embed)


def results(plan: ml.Plan, args: tuple[Any, ...], platform: str) -> list[np.ndarray]:
    mesh = jax_mesh(plan.mesh, devices(plan.mesh.size, plan.mesh.order))
    run = jax.jit(lowered(plan, mesh, platform=platform))
    return [np.asarray(each) for each in run(*flat_arguments(plan, args))]


CASES = [
    ({"data": 2}, "batch:data experts:data", 2.0, False),
    ({"data": 4}, "batch:data experts:data", 1.0, False),
    ({"data": 8}, "batch:data experts:data", 1.25, False),
    ({"data": 2, "ep": 4}, "batch:data+ep experts:ep", 4.0, False),
    ({"data": 2, "ep": 4}, "batch:ep+data experts:data+ep", 1.25, False),
    ({"data": 4, "tp": 2}, "batch:data experts:data ffn:tp", 1.25, False),
    ({"data": 4}, "batch:data experts:data", 4.0, True),
    ({"data": 4, "micro": ml.serial(2)}, "batch:data+micro experts:data", 1.25, False),
]


@pytest.mark.share(4)
@pytest.mark.parametrize("skew", [0.0, 0.2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_comes_is_what_comes_where_all_places_are_sent(calls, case, skew):
    axes, layout, factor, layers = case
    args = given(layers, skew)
    plan = ml.trace(step(factor, layers=layers), *args).plan(ml.mesh(**axes), layout)
    expected = results(plan, args, "cpu")
    assert not calls
    found = results(plan, args, "tpu")
    assert calls
    for one, other in zip(found, expected, strict=True):
        scale = np.sqrt(np.mean(np.square(other, dtype=np.float64)))
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)


def test_rows_that_are_no_whole_tiles_and_stacks_are_sent_with_all_places():
    assert leaves_out_empty((1, 64, 128), np.float32, 1)
    assert leaves_out_empty((1, 64, 2, 128), jnp.bfloat16, 1)
    assert not leaves_out_empty((1, 64, 128), jnp.bfloat16, 1)
    assert not leaves_out_empty((2, 64, 128), np.float32, 1)
    assert not leaves_out_empty((1, 64), np.int32, 1)
