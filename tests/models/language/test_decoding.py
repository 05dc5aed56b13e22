"""Decoding with a cache says what the whole model says, and the cache is carried."""

import pathlib

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.peak_memory.memory import memory_of
from meshlab.models.language import decoding, llama
from tests.models import plain

SMALL = llama.Config(seq=6)
ONE = llama.Config(seq=1)
LENGTH = 16


def traced(config):
    arguments = decoding.inputs(config, LENGTH)
    return ml.trace(decoding.step, *arguments, carry={"cache": 1})


@pytest.mark.parametrize("order", [decoding.ORDER, decoding.TPU_ORDER])
def test_prefill_and_single_tokens_equal_the_whole_model(order):
    config = llama.Config(seq=12)
    params, tokens, _ = plain.numbers(llama.init, llama.inputs, config, config.vocab)
    wanted = jax.jit(llama.predict)(params, tokens).array
    step = jax.jit(decoding.step)
    prompt = ml.tensor(tokens.array[:, :6], *SMALL.dims("batch seq"))
    logits, cache = step(params, decoding.empty(config, LENGTH, order=order), prompt, 0)
    assert plain.off(logits.array, wanted[:, :6]) < 1e-5
    for position in range(6, 12):
        token = ml.tensor(tokens.array[:, position : position + 1], *ONE.dims("batch seq"))
        logits, cache = step(params, cache, token, position)
        assert plain.off(logits.array[:, 0], wanted[:, position]) < 1e-5
    written = np.moveaxis(cache["key"].array, order.split().index("kv"), 0)
    assert np.abs(written[:12]).min(axis=(1, 2, 3, 4)).min() > 0
    assert not np.any(written[12:])


def test_a_cache_may_be_narrower_than_the_model():
    params, tokens, _ = plain.numbers(llama.init, llama.inputs, SMALL, SMALL.vocab)
    step = jax.jit(decoding.step)
    wanted, _ = step(params, decoding.empty(SMALL, LENGTH), tokens, 0)
    actual, cache = step(params, decoding.empty(SMALL, LENGTH, "bfloat16"), tokens, 0)
    assert cache["value"].dtype == "bfloat16"
    assert 0 < plain.off(actual.array, wanted.array) < 0.1


def test_the_cache_is_carried():
    program = traced(ONE)
    assert program.carry == {"cache": 1}
    assert program.places[-3:] == ("out/0", "out/1/key", "out/1/value")


@pytest.mark.parametrize("order", [decoding.ORDER, decoding.TPU_ORDER])
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_there_is_one_cache_where_it_is_donated_and_two_where_it_is_not_in_the_order_of_the_compiler(platform, order):
    arguments = decoding.inputs(llama.Config(seq=1, head=128, batch=16, layers=4), 1024, order)
    plan = ml.trace(decoding.step, *arguments, carry={"cache": 1}).plan(ml.mesh(data=2), "batch:data")
    cache, memory = plan.stored.parts["cache"], memory_of(plan, platform)
    copied = platform == "tpu" and order == decoding.ORDER
    layers = 4  # what is computed holds a layer's keys and values beside it
    for each, caches in ((memory, 1.5 if copied else 1), (memory.donated, 1 if copied else 0)):
        assert 0 <= each.peak_bytes - memory.argument_bytes - caches * cache < 1.1 * cache / layers


@pytest.mark.share(5)
@pytest.mark.parametrize("config", [ONE, SMALL], ids=["one", "prefill"])
@pytest.mark.parametrize(
    "layout", ["batch:data", "batch:data heads:model ffn:model vocab:model", "batch:data kv:model"]
)
def test_layouts_decode_it(config, layout):
    program = traced(config)
    plan = program.plan(plain.MESH, layout)
    whole = program.plan(plain.MESH)
    parts = 2 if layout == "batch:data" else 4
    assert plan.stored.parts["cache"] == whole.stored.parts["cache"] / parts
    assert plan.stored.parts["out/1"] == plan.stored.parts["cache"]
    plain.verified(plan)


def test_the_largest_cache_has_a_shape():
    cache = jax.eval_shape(lambda: decoding.empty(llama.Config.llama3_405b(batch=64), 131_072))
    assert sum(leaf.size for leaf in jax.tree.leaves(cache)) == 2 * 126 * 64 * 131_072 * 8 * 128


TENSOR = "heads:a ffn:a+b vocab:a+b"


@pytest.mark.parametrize(
    "layout",
    [
        f"{TENSOR} group:b",
        "heads:a ffn:a vocab:a batch:b",
        f"{TENSOR} kv:b",
        f"{TENSOR} group:b · cache/*: kv:b · @core: kv:b group:whole",
        f"{TENSOR} head:b",
    ],
)
def test_layouts_of_the_case_study_compile_as_planned(layout):
    """At sizes that run; docs/cases/decoding.md has what they hold and send at those of a 70B model."""
    assert traced(ONE).plan(ml.mesh(a=4, b=2), layout).check().ok
    page = (pathlib.Path(__file__).parents[3] / "docs" / "cases" / "decoding.md").read_text(encoding="utf-8")
    assert layout.replace(TENSOR, "{tensor}") in page
