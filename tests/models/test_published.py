"""Models at their published sizes have the parameters that their configs tell, and are steps of mixed precision."""

import re

import pytest

import meshlab as ml
from meshlab.models.published import published
from tests.models.plain import count

NAMES = """
llama3-8b llama3-70b llama3-405b mixtral-8x7b gemma2-2b gemma2-9b mamba-130m mamba-2.8b gpt2-small gpt2-xl
t5-small t5-base t5-11b vit-b16 vit-l16 resnet18 resnet50 unet3d-mesh-tf convnet-mesh-tf
""".split()


def test_the_names():
    assert list(published()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_parameters(name):
    model = published()[name]
    told = re.search(r": ([\d,]+) parameters", model.size.__doc__ or "")
    if told:
        assert count(model.module.init, model.size()) == int(told[1].replace(",", ""))


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "name", ["llama3-8b", "mixtral-8x7b", "gpt2-small", "t5-small", "mamba-130m", "convnet-mesh-tf"]
)
def test_each_is_a_step_of_training_in_bfloat16(name):
    model = published()[name]
    program = model.trace(batch=4)
    assert program.dims["batch"] == 4
    assert program.carry == {"params": 1, "opt_state": 2}
    assert {str(program.code.dtypes[a.value]) for a in program.arguments if a.parameter == "params"} == {"float32"}
    assert "bfloat16" in {str(program.code.dtypes[value.number]) for value in program.values}
    assert program.plan(ml.mesh(data=2), "batch:data").collectives


def test_what_can_be_chosen():
    assert published()["llama3-8b"].takes == ("batch", "seq")
    assert published()["gpt2-xl"].takes == ("batch",)
