"""T5 is the published model: its buckets, its formula, its sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models.language import t5
from tests.models import plain

SMALL = t5.Config()
LAYOUTS = ("batch:data", "batch:data heads:model ffn:model vocab:model", "batch:data source:model seq:model")


def raw_buckets(relative, bidirectional, count):
    """As Raffel et al. published it, for numpy: relative is the key's position less the query's."""
    bucket = np.zeros_like(relative)
    if bidirectional:
        count //= 2
        bucket += (relative > 0) * count
        distance = np.abs(relative)
    else:
        distance = -np.minimum(relative, 0)
    exact = count // 2
    with np.errstate(divide="ignore"):
        scaled = np.log(distance.astype(np.float32) / exact) / np.log(128 / exact) * (count - exact)
    large = np.minimum(exact + np.where(distance > 0, scaled, 0).astype(np.int32), count - 1)
    return bucket + np.where(distance < exact, distance, large)


def raw_attention(x, memory, w, bias):
    q, k, v = (jnp.einsum("bse,ehd->bshd", y, w[n]) for y, n in ((x, "query"), (memory, "key"), (memory, "value")))
    weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k) + bias)
    return jnp.einsum("bhst,bthd,hde->bse", weights, v, w["output"])


def raw_t5(params, source, targets):
    def bias(table, length, bidirectional):
        relative = np.arange(length) - np.arange(length)[:, None]
        bucket = raw_buckets(relative, bidirectional, table.shape[0])
        return jnp.moveaxis(table[bucket], -1, 0)

    def feed_forward(x, w):
        return x + jax.nn.relu(plain.norm(x, w["ffn_norm"]) @ w["up"]) @ w["down"]

    table, encoder, decoder = (params[name] for name in ("embedding", "encoder", "decoder"))
    memory, length = table[source], targets.shape[1]
    for w in plain.layers_of(encoder["layers"]):
        y = plain.norm(memory, w["own_norm"])
        memory = memory + raw_attention(y, y, w["own"], bias(encoder["biases"], source.shape[1], True))
        memory = feed_forward(memory, w)
    memory = plain.norm(memory, encoder["norm"])
    x = table[jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1]]
    causal = jnp.where(jnp.tri(length, dtype=bool), bias(decoder["biases"], length, False), -jnp.inf)
    for w in plain.layers_of(decoder["layers"]):
        y = plain.norm(x, w["own_norm"])
        x = x + raw_attention(y, y, w["own"], causal)
        x = x + raw_attention(plain.norm(x, w["cross_norm"]), memory, w["cross"], 0.0)
        x = feed_forward(x, w)
    return plain.nll(plain.norm(x, decoder["norm"]) * table.shape[1] ** -0.5 @ table.T, targets)


def test_it_equals_plain_jax():
    plain.same(t5.loss, raw_t5, *plain.numbers(t5.init, t5.inputs, SMALL, SMALL.vocab))


@pytest.mark.parametrize("count", [8, 32])
def test_buckets_are_those_of_the_paper(count):
    distance = np.arange(200)
    actual = t5.buckets(ml.tensor(distance, "seq"), count)
    np.testing.assert_array_equal(actual.array, raw_buckets(-distance, False, count))
    assert actual.array[0] == 0
    assert actual.array.max() == count - 1


@pytest.mark.parametrize(
    ("config", "published"), [("small", 60_506_624), ("base", 222_903_552), ("eleven_b", 11_307_321_344)]
)
def test_it_has_the_published_number_of_parameters(config, published):
    assert plain.count(t5.init, getattr(t5.Config, config)()) == published


def test_scanned_and_unrolled_are_one_model():
    plain.looped(t5.loss, t5.init, t5.inputs, SMALL, SMALL.vocab)


def test_layouts_train_it():
    plain.trains(t5.loss, t5.init, t5.inputs, SMALL, *LAYOUTS, checked=LAYOUTS[1])
