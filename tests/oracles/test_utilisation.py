"""Model FLOPs utilisation: what others publish of their runs follows from their programs and measured steps.

Sources: MaxText at 76bd53b, MaxText/configs/{v4,v5e,v5p}/README.md (https://github.com/AI-Hypercomputer/maxtext), which
count attention by half, as its mask leaves it; Korthikanti et al. 2022 (https://arxiv.org/abs/2205.05198), table 5, who
count all of it.
"""

import jax
import pytest

import meshlab as ml
from benchmarks import published
from meshlab.models.language import gpt2
from meshlab.models.parts.initial import shapes

SELECTIVE = ("query", "key", "value", "core", "attention", "up")
# By model, and the slice that it runs on.
MAXTEXT = {
    ("maxtext_22b", "v4:4x4x4"): 0.567,
    ("maxtext_52b", "v4:4x4x12"): 0.560,
    ("maxtext_16b", "v5e:16x16"): 0.6110,
    ("maxtext_32b", "v5e:16x16"): 0.6686,
    ("maxtext_64b", "v5e:16x16"): 0.5990,
    ("maxtext_128b", "v5e:16x16"): 0.5606,
    ("maxtext_32b", "v5p:4x4x4"): 0.7147,
    ("maxtext_64b", "v5p:4x4x4"): 0.7031,
    ("maxtext_128b", "v5p:4x4x8"): 0.6868,
    ("maxtext_128b", "v5p:4x8x8"): 0.6883,
    ("maxtext_256b", "v5p:8x8x8"): 0.6709,
    ("maxtext_512b", "v5p:8x8x8"): 0.6399,
    ("maxtext_1024b", "v5p:8x8x16"): 0.5535,
    ("maxtext_1024b", "v5p:8x16x16"): 0.6480,
}


@pytest.mark.share(4)
@pytest.mark.parametrize(("model", "on"), MAXTEXT)
def test_utilisation_of_maxtext(model, on):
    """From TFLOP/s of a chip, which its count of operations makes seconds of; the program is counted by its matmuls."""
    run = next(run for run in published.runs() if (run.model, run.on) == (model, on))
    time = published.predicted(run)
    assert time.mfu * time.estimate / run.seconds == pytest.approx(MAXTEXT[model, on], abs=0.005)


@pytest.mark.share(4)
@pytest.mark.parametrize("saved", [(), SELECTIVE], ids=["all recomputed", "attention recomputed"])
@pytest.mark.parametrize(
    ("sizes", "run", "utilisation"),
    [
        pytest.param((6144, 64, 48), (4, 8, 1.10), 0.415, id="22B"),
        pytest.param((12_288, 96, 96), (64, 64, 13.75), 0.514, id="175B"),
        pytest.param((20_480, 128, 105), (280, 280, 37.83), 0.560, id="530B"),
        pytest.param((25_600, 160, 128), (512, 512, 71.49), 0.563, id="1T"),
    ],
)
def test_utilisation_of_megatron(sizes, run, utilisation, saved):
    """Table 5: the measured steps are those that recompute attention; what runs again changes no model FLOPs."""
    (embed, heads, layers), (batch, devices, seconds) = sizes, run
    config = gpt2.Config(batch, 2048, 51_200, embed, heads, embed // heads, 4 * embed, layers)

    def step(params, tokens, targets):
        return jax.value_and_grad(lambda *all: gpt2.loss(*all, saved=saved))(params, tokens, targets)

    program = ml.trace(step, shapes(gpt2.init, config), *gpt2.inputs(config))
    time = program.plan(ml.mesh("a100", data=1)).time.given(attention="stored")
    assert time.model_flops < time.flops
    of_a_device = time.model_flops / devices / seconds
    assert of_a_device / ml.hardware("a100").flops_per_second("bf16") == pytest.approx(utilisation, abs=0.005)
