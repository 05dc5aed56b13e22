"""Models of the zoo as pipelines: equal to the plain step, and what is sent is what was predicted."""

from __future__ import annotations

from typing import Any

import jax
import pytest

import meshlab as ml
from meshlab.models.language import gpt2, llama, moe, state_space, t5, transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.models.vision import vit
from meshlab.models.zoo import draw
from tests.widened import widened

MODELS: dict[str, Any] = {
    "transformer": transformer.Config(seq=8, vocab=32, embed=16, heads=2, group=2, head=8, ffn=32, batch=8, layers=4),
    "llama": llama.Config(seq=8, vocab=32, layers=4),
    "gpt2": gpt2.Config(seq=8, vocab=32, layers=4),
    "moe": moe.Config(seq=8, vocab=32, layers=4),
    "state_space": state_space.Config(seq=8, vocab=32, inner=16, layers=4),
    "vit": vit.Config(layers=4),
}
DEEP = {
    "transformer": transformer.Config(seq=8, vocab=32, embed=16, layers=8),
    "gpt2": gpt2.Config(seq=8, vocab=32, layers=8),
}
# Encoder and decoder: each is one chunk of all stages.
TWO_STACKS = t5.Config(vocab=32, layers=4)
MODULES = {each.__name__.rpartition(".")[2]: each for each in (transformer, llama, gpt2, moe, state_space, vit, t5)}
PIPE = {"batch": "data+micro", "layers": "pipe", "groups?": "data+micro"}
FSDP = {**PIPE, "params/*": {"embed": "data"}}
TENSOR = {"heads": "model", "ffn": "model"}
# What is composed with stages: the mesh, and the layout.
COMPOSED: dict[str, tuple[dict[str, Any], Any]] = {
    "data, 2 stages": ({"data": 2, "pipe": ml.stages(2), "micro": ml.serial(4)}, PIPE),
    "data, 4 stages": ({"data": 2, "pipe": ml.stages(4), "micro": ml.serial(4)}, PIPE),
    "1f1b": ({"data": 2, "pipe": ml.stages(4, "1f1b"), "micro": ml.serial(4)}, PIPE),
    "gpipe": ({"data": 2, "pipe": ml.stages(4, "gpipe"), "micro": ml.serial(4)}, PIPE),
    "uneven": ({"data": 2, "pipe": ml.stages(3, layers=(1, 2, 1)), "micro": ml.serial(4)}, PIPE),
    "interleaved": ({"data": 2, "pipe": ml.stages(2, "interleaved"), "micro": ml.serial(4)}, PIPE),
    "fsdp": ({"data": 2, "pipe": ml.stages(4), "micro": ml.serial(4)}, FSDP),
    "fsdp, gathered once": ({"data": 2, "pipe": ml.stages(4), "micro": ml.serial(4, "once", "once")}, FSDP),
}
CASES = [(name, how) for name in MODELS for how in COMPOSED]
# Of some models alone.
MORE: dict[tuple[str, str], tuple[dict[str, Any], Any]] = {
    ("transformer", "tensor"): (
        {"data": 2, "pipe": ml.stages(2), "model": 2, "micro": ml.serial(4)},
        {**PIPE, **TENSOR, "vocab": "model"},
    ),
    ("transformer", "sequence"): (
        {"pipe": ml.stages(4), "model": 2, "micro": ml.serial(8)},
        {"batch": "micro", "layers": "pipe", **TENSOR, "residual": {"seq": "model"}},
    ),
    ("llama", "ring"): (
        {"pipe": ml.stages(2), "cp": 2, "micro": ml.serial(4)},
        {"batch": "micro", "layers": "pipe", "seq": "cp", "kv": "cp"},
    ),
    ("transformer", "ring, uneven"): (
        {"pipe": ml.stages(2, layers=(1, 3)), "cp": 4, "micro": ml.serial(4)},
        {"batch": "micro", "layers": "pipe", "seq": "cp", "kv": "cp"},
    ),
    ("transformer", "ring, zig-zag, 1f1b"): (
        {"pipe": ml.stages(2, "1f1b"), "cp": 4, "micro": ml.serial(4)},
        {"batch": "micro", "layers": "pipe", "seq": "zigzag(cp)", "kv": "zigzag(cp)"},
    ),
    ("llama", "context"): (
        {"pipe": ml.stages(2), "cp": 2, "micro": ml.serial(4)},
        {"batch": "micro", "layers": "pipe", "seq": "cp"},
    ),
    ("moe", "experts"): (
        {"data": 2, "pipe": ml.stages(2), "expert": 2, "micro": ml.serial(4)},
        {**PIPE, "experts": "expert"},
    ),
    ("transformer", "uneven, fsdp, tensor"): (
        {"data": 2, "pipe": ml.stages(2, layers=(3, 1)), "model": 2, "micro": ml.serial(4)},
        {**FSDP, **TENSOR, "vocab": "model"},
    ),
    ("moe", "uneven, experts"): (
        {"data": 2, "pipe": ml.stages(2, layers=(1, 3)), "expert": 2, "micro": ml.serial(4)},
        {**PIPE, "experts": "expert"},
    ),
    ("gpt2", "fsdp, tensor"): (
        {"data": 2, "pipe": ml.stages(2), "model": 2, "micro": ml.serial(4)},
        {**FSDP, **TENSOR, "vocab": "model"},
    ),
}


def checked(name: str, axes: dict[str, Any], layout: Any, config: Any = None) -> None:
    """Plans a step of gradient descent in float64, and holds it against the plain one."""
    module, config = MODULES[name], config or MODELS[name]
    arguments = shapes(module.init, config), *module.inputs(config)
    data = module.init(jax.random.key(0), config), *draw(module.inputs(config), 0, 2)
    with jax.enable_x64(True):
        program = ml.trace(training.sgd_step(module.loss), *widened(arguments))
        plan = program.plan(ml.mesh(**axes), layout)
        report = plan.check(*widened(data))
    assert report.ok, report
    assert not report.merged
    # Results that are all rounding, such as the gradient of the keys' bias, are held against rounding.
    errors = [error for _, error, allowed in report.errors if allowed < 1e-3]
    assert len(errors) > len(report.errors) / 2
    assert max(errors) < 1e-12
    assert plan.schedule is not None
    ticks = plan.schedule.ticks
    hops = [each for each in plan.collectives if each.kind == "collective-permute" and each.axes == ("pipe",)]
    # Chunks of layers are dealt once, to the stages and back.
    assert {each.times for each in hops} - {1} == {ticks}
    is_dealt = plan.schedule.chunks > 1 and name != "t5"
    assert is_dealt == any(each.times == 1 for each in hops)
    jax.clear_caches()


@pytest.mark.share(36)
@pytest.mark.parametrize(("name", "how"), CASES)
def test_a_pipeline_gives_the_plain_step(name: str, how: str) -> None:
    checked(name, *COMPOSED[how])


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("axes", "layout"),
    [
        ({"pipe": ml.stages(2), "micro": ml.serial(4)}, {"batch": "micro", "layers": "pipe"}),
        ({"pipe": ml.stages(4, "gpipe"), "micro": ml.serial(4)}, {"batch": "micro", "layers": "pipe"}),
        ({"data": 2, "pipe": ml.stages(4), "micro": ml.serial(4)}, PIPE),
        ({"data": 2, "pipe": ml.stages(2, layers=(1, 3)), "micro": ml.serial(4)}, FSDP),
        ({"pipe": ml.stages(2), "model": 2, "micro": ml.serial(4)}, {"batch": "micro", "layers": "pipe", **TENSOR}),
    ],
    ids=["2 stages", "4 stages, gpipe", "data, 4 stages", "uneven, fsdp", "tensor"],
)
def test_encoder_and_decoder_give_the_plain_step(axes: dict[str, Any], layout: Any) -> None:
    checked("t5", axes, layout, TWO_STACKS)


@pytest.mark.share(5)
@pytest.mark.parametrize(("name", "how"), MORE)
def test_stages_beside_other_parallelisms(name: str, how: str) -> None:
    checked(name, *MORE[name, how])


@pytest.mark.share(6)
@pytest.mark.parametrize("schedule", ["paired", "gpipe", "1f1b"])
@pytest.mark.parametrize("name", DEEP)
def test_eight_stages(name: str, schedule: str) -> None:
    checked(name, {"pipe": ml.stages(8, schedule), "micro": ml.serial(8)}, "batch:micro layers:pipe", DEEP[name])


def test_twenty_steps_reach_the_losses_of_one_device() -> None:
    config = moe.Config(seq=8, vocab=32, layers=2)
    step = training.sgd_step(moe.loss)
    program = ml.trace(step, shapes(moe.init, config), *moe.inputs(config))
    mesh = ml.mesh(pipe=ml.stages(2), model=2, expert=2, micro=ml.serial(4))
    layout = {"batch": "micro", "groups": "micro", "layers": "pipe", "experts": "expert", "heads": "model"}
    plan, plain = program.plan(mesh, layout), jax.jit(step)
    params = reference = moe.init(jax.random.key(0), config)
    for seed in range(20):
        inputs = draw(moe.inputs(config), seed, config.vocab)
        loss, params = plan.run(params, *inputs)
        wanted, reference = plain(reference, *inputs)
        assert float(loss) == pytest.approx(float(wanted), rel=1e-4)
