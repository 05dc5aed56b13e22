"""What practice found by hand is found from dims alone, each with the machine and the size at which it flips."""

from __future__ import annotations

import pytest

import meshlab as ml
from tests.auto.best_first.programs import MODELS, llama3, mixtral

TRAINED = ("params/*", "opt_state/*")


@pytest.mark.parametrize(("batch", "found"), [(8192, "ffn"), (16_384, "ffn"), (65_536, "batch"), (131_072, "batch")])
def test_data_parallel_where_activations_are_more_than_weights(batch: int, found: str) -> None:
    """In parts of the batch 2·ffn·embed gradients are added up, in parts of ffn batch·embed activations."""
    program = MODELS["mlp_sgd"].trace().resize(batch=batch, ffn=16_384, embed=4096)
    mesh = ml.mesh("v5p:2x2x2", data=8)
    assert [*ml.auto.layout(program, mesh, memory=None).layout.rules] == [found]
    assert (found == "batch") == (batch > 2 * program.dims["ffn"])
    sent = {dim: program.plan(mesh, f"{dim}:data").wire_bytes for dim in ("batch", "ffn")}
    assert sent["ffn"] / sent["batch"] == pytest.approx(batch / (2 * program.dims["ffn"]), rel=1e-6)


def test_data_parallel_for_small_models_and_fsdp_where_memory_binds() -> None:
    mesh, program = ml.mesh("v5p:2x2x2", data=8), MODELS["mlp_adamw"].trace().resize(batch=65_536, ffn=8192, embed=2048)
    assert ml.auto.layout(program, mesh).layout.rules == {"batch": ("data",)}
    mesh = ml.mesh("v5e:16x16", data=256)
    assert not llama3("8b", 256).plan(mesh, "batch:data").memory.donated.fits
    large = ml.auto.layout(llama3("8b", 256), mesh)
    assert large.layout.rules == {"batch": ("data",)}
    assert large.layout.places == {place: {"embed": ("data",)} for place in TRAINED}


def test_hybrid_sharding_where_a_copy_fits_a_part_of_the_devices() -> None:
    choice = ml.auto.layout(llama3("8b", 64), ml.mesh("v5p:4x4x4", data=16, model=4))
    assert choice.layout.rules == {"batch": ("data", "model")}
    assert choice.layout.places == {place: {"embed": ("data",)} for place in TRAINED}
    assert choice.proof.gap < 0.01
    assert all(price.seconds >= choice.proof.value / 1.006 for price in choice.alternatives)


def test_context_parallel_where_the_batch_is_as_small_as_one_axis() -> None:
    choice = ml.auto.layout(llama3("8b", 64), ml.mesh("v5e:16x16", data=64, model=4))
    assert choice.layout.rules == {"batch": ("data",), "seq": ("model",)}


def test_tensor_and_sequence_and_vocabulary_parallelism_beside_fsdp_where_batches_are_small() -> None:
    choice = ml.auto.layout(llama3("70b", 32), ml.mesh("v5p:4x4x8", data=32, model=4))
    split = {dim: ("model",) for dim in ("heads", "ffn", "vocab")}
    assert choice.layout.rules == {"batch": ("data",)} | split
    assert choice.layout.places["residual"] == {"seq": ("model",)}
    assert choice.layout.places["params/*"] == {"embed": ("data",)}


def test_expert_parallelism_for_experts() -> None:
    choice = ml.auto.layout(mixtral(), ml.mesh("v5p:4x4x4", data=8, model=8), tolerance=0.05)
    rules = choice.layout.rules
    assert rules["experts"] == ("model",)
    assert set(rules["batch"]) == {"data", "model"}
    assert any(c.kind == "all-to-all" and c.axes == ("model",) for c in choice.plan.collectives)
