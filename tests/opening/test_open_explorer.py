"""A model's name stands where a program may stand."""

import pytest

import meshlab as ml
from meshlab.models.published import published
from tests.given import refused

pytestmark = pytest.mark.share(2, of="file")

MESH = ml.mesh(data=2, model=2)


def test_a_model_is_opened_by_its_name_at_other_sizes():
    explorer = ml.explore("gpt2_adamw", MESH, "batch:data", batch=4)
    assert explorer.program.dims["batch"] == 4
    assert str(explorer.layout) == "batch:data"
    assert dict(explorer.program.dims) == dict(ml.named_models()["gpt2_adamw"].trace(batch=4).dims)


def test_a_published_model_takes_its_own_sizes_and_those_of_any_dim():
    program = ml.named_models()["gpt2-small"].trace(batch=2, seq=128, vocab=512)
    assert {"batch": 2, "seq": 128, "vocab": 512}.items() <= program.dims.items()
    assert set(published()) < set(ml.named_models())


def test_models_are_printed_one_a_line_with_what_they_are_of():
    models = ml.named_models()
    assert repr(models["llama3-8b"]) == "llama3-8b: 8.03 B parameters, batch 8, seq 8,192"
    assert repr(models["mlp"]) == "mlp: 4.61 K parameters, batch 16"
    assert repr(models).splitlines() == [repr(model) for model in models.values()]


def test_a_program_takes_sizes_too():
    program = ml.named_models()["mlp"].trace()
    assert ml.explore(program, MESH, batch=64).program.dims["batch"] == 64


@pytest.mark.parametrize(
    ("name", "sizes", "error", "match"),
    [
        ("lama3-8b", {}, ml.MeshlabError, r"There is no model `lama3-8b`. Did you mean `llama3-8b`"),
        ("gpt2-small", {"batch": 0}, ml.DimError, r"`gpt2-small` was given batch=0; a size must be an integer"),
        ("gpt2-small", {"sequ": 8}, ml.DimError, r"`sequ` is not a dim of this program. Did you mean `seq`\?"),
        (None, {"batch": 8}, ml.MeshlabError, r'for its program; write .*ml.explore\("llama3-8b", mesh\)'),
    ],
)
def test_what_is_wrong_is_said(name, sizes, error, match):
    refused(lambda: ml.explore(name, MESH, **sizes), error, match)


def test_nothing_asked_for_is_a_small_model_on_four_devices_and_another_can_be_opened():
    explorer = ml.explore()
    assert (explorer.source.name, dict(explorer.mesh.axes)) == ("mlp", {"data": 2, "model": 2})
    assert explorer.preset("data_parallel")
    assert ml.explore("gpt2_adamw").mesh.axes == explorer.mesh.axes
    assert explorer.open("gpt2_adamw", batch=4)
    assert explorer.program.dims["batch"] == 4
    assert str(explorer.layout) == "batch:data"
