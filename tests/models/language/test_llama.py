"""Llama 3 is the published model, and its layers may be a scan or a loop."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meshlab.engine.errors import MeshlabError
from meshlab.models.language import llama
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from tests.models import plain

SMALL = llama.Config()
UNROLLED = llama.Config(unrolled=True)


def raw_llama(params, tokens, targets):
    x = params["embedding"][tokens]
    for w in plain.layers_of(params["layers"]):
        x = x + plain.grouped(plain.norm(x, w["attention_norm"], 1e-5), w, 500_000.0)
        y = plain.norm(x, w["ffn_norm"], 1e-5)
        x = x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]
    return plain.nll(plain.norm(x, params["norm"], 1e-5) @ params["head"], targets)


def test_it_equals_plain_jax():
    plain.same(llama.loss, raw_llama, *plain.numbers(llama.init, llama.inputs, SMALL, SMALL.vocab))


def test_the_loop_equals_plain_jax():
    def raw_loop(params, tokens, targets):
        stacked = jax.tree.map(lambda *weights: jnp.stack(weights), *params["layers"])
        return raw_llama(params | {"layers": stacked}, tokens, targets)

    plain.same(llama.loss, raw_loop, *plain.numbers(llama.init, llama.inputs, UNROLLED, SMALL.vocab))


@pytest.mark.parametrize(
    ("config", "published"),
    [("llama3_8b", 8_030_261_248), ("llama3_70b", 70_553_706_496), ("llama3_405b", 405_853_388_800)],
)
def test_it_has_the_published_number_of_parameters(config, published):
    sized = getattr(llama.Config, config)
    assert plain.count(llama.init, sized()) == plain.count(llama.init, sized(unrolled=True)) == published


def test_scanned_and_unrolled_are_one_model():
    plain.looped(llama.loss, llama.init, llama.inputs, SMALL, SMALL.vocab)


def test_both_forms_start_from_the_same_numbers():
    stacked, listed = (jax.jit(llama.init, static_argnums=1)(jax.random.key(0), config) for config in (SMALL, UNROLLED))
    for number, layer in enumerate(listed["layers"]):
        for name, weight in layer.items():
            close = stacked["layers"][name].array[number]
            np.testing.assert_allclose(weight.array, close, rtol=1e-6)  # two programs may round differently


LAYOUTS = ("batch:data", "batch:data heads:model ffn:model vocab:model", "batch:data group:model ffn:model")


@pytest.mark.parametrize("config", [SMALL, UNROLLED], ids=["scan", "loop"])
def test_layouts_train_it(config):
    plain.trains(llama.loss, llama.init, llama.inputs, config, *LAYOUTS, checked=LAYOUTS[1])


def test_unrolled_8b_has_the_operations_of_each_layer():
    def equations(layers):
        config = dataclasses.replace(llama.Config.llama3_8b(unrolled=True), layers=layers)
        optimizer, params = training.adamw(), shapes(llama.init, config)
        state = jax.eval_shape(optimizer.init, params)
        step = training.adamw_step(llama.loss, optimizer)
        return len(jax.make_jaxpr(step)(params, state, *llama.inputs(config)).eqns)

    one, two, all_of_them = (equations(layers) for layers in (1, 2, 32))
    assert all_of_them == one + 31 * (two - one)
    assert 10_000 < all_of_them < 15_000


@pytest.mark.share(3)
@pytest.mark.parametrize("saved", [("query", "key", "value", "attention"), ("gate", "up"), ("core",), ("all",)])
def test_what_is_kept_is_not_computed_again(saved):
    """Nor does it change what is computed."""
    numbers = plain.numbers(llama.init, llama.inputs, SMALL, SMALL.vocab)
    keeping = functools.partial(llama.loss, saved=saved)
    again, once = (jax.value_and_grad(loss)(*numbers) for loss in (llama.loss, keeping))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), again, once)
    counts = [products(jax.make_jaxpr(jax.value_and_grad(loss))(*numbers).jaxpr) for loss in (llama.loss, keeping)]
    # Of the nine products of a layer all but the last are computed again.
    assert counts[0] - counts[1] == {"core": 1, "gate": 2, "query": 4, "all": 8}[saved[0]]


def products(jaxpr):
    """How many products stand in a jaxpr, those of the blocks inside too."""
    inner = [getattr(p, "jaxpr", p) for e in jaxpr.eqns for p in jax.tree.leaves(list(e.params.values()))]
    here = sum(e.primitive.name == "dot_general" for e in jaxpr.eqns)
    return here + sum(products(block) for block in inner if hasattr(block, "eqns"))


def test_what_cannot_be_kept_is_told():
    with pytest.raises(MeshlabError, match=r"asked to keep `quary`. Did you mean `query`\? It can keep `query`, `key`"):
        llama.loss(*plain.numbers(llama.init, llama.inputs, SMALL, SMALL.vocab), saved=("quary",))
