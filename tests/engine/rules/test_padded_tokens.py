"""Tokens of a dim that devices do not divide: what pads it goes to no expert, and takes no place."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.models import operation_models
from tests.widened import widened

pytestmark = pytest.mark.share(2, of="file")

Seq, Embed, Out, Experts, K = ml.dims(seq=10, embed=4, out=3, experts=8, k=2)


def step(factor: float):
    """A step in which padding is not zero where it is sent, nor where its gradient is."""

    def run(weights, x, choice):
        def loss(weights):
            rows, sent = ml.dispatch(ml.exp(x), choice, Experts, factor=factor)
            y = ml.combine(ml.ragged_dot(rows, weights, sent, Embed), sent)
            return ml.exp(y).mean(), (y, sent.dropped)

        return jax.value_and_grad(loss, has_aux=True)(weights)

    return run


def drawn(seed: int):
    random = np.random.default_rng(seed)
    weights = ml.tensor(random.normal(size=(8, 4, 3)) * 0.1, Experts, Embed, Out)
    x = ml.tensor(random.normal(size=(10, 4)), Seq, Embed)
    return weights, x, ml.tensor(random.integers(0, 3, (10, 2), np.int32), Seq, K)


def by_hand(weights, x, choice, *, factor: float, devices: int, exchanged: bool):
    """The tokens' sums and the gradient of the weights, token by token, and how many choices found no place."""
    w, x, choice = weights.array, np.exp(np.asarray(x.array)), np.asarray(choice.array)
    rows = -(-int(factor * choice.size) // Experts.size)
    devices = devices if exchanged or rows % devices == 0 else 1  # tokens are whole where their places cannot be split
    part, room = -(-Seq.size // devices), rows * Experts.size // devices
    y, kept, taken = np.zeros((10, 3)), [], {}
    for token, k in np.ndindex(choice.shape):
        sender, expert = token // part, int(choice[token, k])
        home = expert // (Experts.size // devices) if exchanged else 0
        taken[sender, home] = taken.get((sender, home), 0) + 1
        if taken[sender, home] <= (room // devices if exchanged else room):
            y[token] += x[token] @ w[expert]
            kept.append((token, expert))
    to_y, to_w = np.exp(y) / y.size, np.zeros(w.shape)
    for token, expert in kept:
        to_w[expert] += np.outer(x[token], to_y[token])
    return y, choice.size - len(kept), to_w


@pytest.mark.parametrize("factor", [1.0, 3.0])
@pytest.mark.parametrize("devices", [4, 8])
@pytest.mark.parametrize("layout", ["seq:a", "seq:a experts:a"])
def test_padding_is_sent_to_no_expert(layout, devices, factor):
    """On 8 devices of two tokens each the last three have nothing but padding; with a factor of 1 no place either."""
    dropped = []
    for seed in range(3):
        with jax.enable_x64(True):
            args = drawn(seed)
            plan = ml.trace(step(factor), *args).plan(ml.mesh(a=devices), layout, pad=True)
            (_, (y, lost)), grads = plan.run(*args)
            right, count, to_weights = by_hand(*args, factor=factor, devices=devices, exchanged="experts" in layout)
            np.testing.assert_allclose(y.array, right, rtol=1e-12)
            np.testing.assert_allclose(grads.array, to_weights, rtol=1e-12, atol=1e-12)
            assert int(lost) == count
            dropped.append(count)
    assert ("experts" in layout) == (max(dropped) > 0)


def test_the_model_of_experts_with_tokens_over_all_devices():
    """Two shards of padding alone, whose tokens are not zero behind attention; rows of theirs were in gradients."""
    (model,) = (each for each in operation_models.operations() if each.name == "routed")
    with jax.enable_x64(True):
        data = widened(model.data(0))
        report = ml.trace(model.step, *data).plan(ml.mesh(x=3, y=2), {"seq": ["y", "x"]}, pad=True).check(*data)
    assert report.ok, report
