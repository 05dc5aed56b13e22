"""Mamba is the published model, and its scan is the recurrence, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models.language import state_space
from tests.models import plain

SMALL = state_space.Config()
LAYOUTS = ("batch:data", "batch:data inner:model vocab:model", "batch:data seq:model")


def raw_mamba(params, tokens, targets):
    x = params["embedding"][tokens]
    for w in plain.layers_of(params["layers"]):
        y = plain.norm(x, w["norm"], 1e-5)
        channels, gate = y @ w["into"], y @ w["gate"]
        padded = jnp.pad(channels, ((0, 0), (w["taps"].shape[0] - 1, 0), (0, 0)))
        windows = [padded[:, n : n + tokens.shape[1]] * tap for n, tap in enumerate(w["taps"])]
        channels = jax.nn.silu(sum(windows) + w["taps_bias"])
        step = jax.nn.softplus(channels @ w["pace_down"] @ w["pace_up"] + w["pace_bias"])
        write, read = channels @ w["write"], channels @ w["read"]
        state, read_out = jnp.zeros((*channels.shape[::2], write.shape[-1])), []
        for t in range(tokens.shape[1]):
            decay = jnp.exp(-step[:, t, :, None] * jnp.exp(w["log_rate"]))
            state = decay * state + (step * channels)[:, t, :, None] * write[:, t, None, :]
            read_out.append(jnp.einsum("bin,bn->bi", state, read[:, t]))
        y = jnp.stack(read_out, 1) + channels * w["skip"]
        x = x + (y * jax.nn.silu(gate)) @ w["output"]
    return plain.nll(plain.norm(x, params["norm"], 1e-5) @ params["embedding"].T, targets)


def test_it_equals_plain_jax_step_by_step():
    plain.same(state_space.loss, raw_mamba, *plain.numbers(state_space.init, state_space.inputs, SMALL, SMALL.vocab))


@pytest.mark.parametrize(("config", "published"), [("mamba_130m", 129_135_360), ("mamba_2_8b", 2_768_345_600)])
def test_it_has_the_published_number_of_parameters(config, published):
    assert plain.count(state_space.init, getattr(state_space.Config, config)()) == published


@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_a_recurrence_of_any_length(length):
    random = np.random.default_rng(length)
    decay, drive = random.random((3, length)), random.normal(size=(3, length))
    actual = state_space.recurrence(ml.tensor(decay, "inner", "seq"), ml.tensor(drive, "inner", "seq"), "seq")
    wanted, state = np.zeros((3, length)), np.zeros(3)
    for t in range(length):
        state = wanted[:, t] = decay[:, t] * state + drive[:, t]
    np.testing.assert_allclose(actual.array, wanted, rtol=1e-5, atol=1e-6)


def test_what_the_scan_makes_has_names():
    program = plain.step_of(state_space.loss, state_space.init, state_space.inputs, SMALL)
    shape = (8, 16, 32, 4)
    states = [value for value in program.values if value.shape == shape]
    assert states
    assert {value.dims for value in states} == {("batch", "seq", "inner", "state")}


def test_scanned_and_unrolled_are_one_model():
    plain.looped(state_space.loss, state_space.init, state_space.inputs, SMALL, SMALL.vocab)


def test_layouts_train_it():
    plain.trains(state_space.loss, state_space.init, state_space.inputs, SMALL, *LAYOUTS, checked=LAYOUTS[1])
