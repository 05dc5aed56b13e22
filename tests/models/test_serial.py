"""Every model of the zoo in micro-batches: equal to the plain step, or refused with both lines."""

import re
from pathlib import Path

import jax
import pytest

import meshlab as ml
from benchmarks import serial
from meshlab.engine.verifying.results import TOLERANCE
from meshlab.models.zoo import models
from tests.widened import widened

MODELS = {model.name: model for model in models()}
# Batch norm, and a dice loss over the batch.
REFUSED = [name for name in MODELS if name.startswith(("resnet", "unet3d"))]
ACCEPTED = [name for name in MODELS if name not in REFUSED]
# The others have no activations to speak of, or are no training step.
SHRINKING = [
    name
    for name in ACCEPTED
    if name.endswith(("sgd", "adamw", "bfloat16", "adafactor", "switch", "dropless")) and not name.startswith("mlp")
]
NARROW = [name for name in MODELS if name.endswith("bfloat16")]
# A step has the loss in it; one of 16 bits does not show it to 64.
WIDE = set(ACCEPTED) - set(NARROW)
STEPS = [name for name in ACCEPTED if not any(other.startswith(f"{name}_") for other in WIDE)]
PAGE = Path(__file__).parents[2] / "docs" / "serial.md"


def planned(name, mesh, axes):
    return MODELS[name].trace().plan(mesh, serial.layout_of(MODELS[name], axes))


@pytest.mark.share(24)
@pytest.mark.parametrize("name", STEPS)
def test_micro_batches_give_the_plain_step(name):
    """In float64 only the order of additions differs; a program of 16-bit floats is held to its own tolerance."""
    model, wide = MODELS[name], name not in NARROW
    with jax.enable_x64(wide):
        shapes, data = model.shapes, model.data(0)
        if wide:
            shapes, data = widened(shapes), widened(data)
        program = ml.trace(model.step, *shapes, carry=model.carry)
        plan = program.plan(ml.mesh(data=2, micro=ml.serial(2)), serial.layout_of(model, "data+micro"))
        report = plan.check(*data)
    assert report.ok, f"{name}:\n{report}"
    assert not report.merged
    # Results that are all rounding, such as the gradient of the keys' bias, are held against rounding.
    errors = [error for _, error, allowed in report.errors if allowed <= TOLERANCE[4]]
    assert not wide or (len(errors) > len(report.errors) / 2 and max(errors) < 1e-12), report
    # Every sum over the batch is reduced once, after the loop.
    once = [c for c in plan.collectives if "added up over 2 micro-batches, reduced once" in c.because]
    assert all(c.times == 1 for c in once)
    assert bool(once) == any(c.kind == "all-reduce" for c in plan.collectives)
    jax.clear_caches()


@pytest.mark.parametrize("name", REFUSED)
def test_a_batch_norm_is_refused_with_both_lines(name):
    with pytest.raises(ml.LayoutError) as error:
        planned(name, ml.mesh(micro=ml.serial(2)), "micro")
    line = r"(convolutional|unet3d)\.py:\d+"
    for problem in error.value.problems:
        assert re.search(
            rf"at {line} needs in each iteration over `micro` .*: the sum that `.*` at {line} makes", str(problem)
        )
        assert problem.fix.startswith("Take `batch` off `micro`")


@pytest.mark.share(16)
@pytest.mark.parametrize("name", SHRINKING)
def test_temporary_memory_falls(name):
    row = serial.row(MODELS[name])
    assert row.temporaries[0] > row.temporaries[1] > row.temporaries[2]
    assert row.predicted[0] > row.predicted[1] > row.predicted[2]
    jax.clear_caches()


@pytest.mark.nightly
def test_the_page_tells_of_every_model():
    table, *reasons = serial.SECTION.read(PAGE).split("\n\n")
    lines = table.splitlines()[2:]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == list(MODELS)
    numbers = {reason: number for number, reason in (each.split(") ", 1) for each in reasons)}
    for line, model in zip(lines, MODELS.values(), strict=True):
        row = serial.row(model, compiles=False)
        if row.refusal:
            assert line == f"| {model.name} | refused {numbers[row.refusal]}) | | | | |"
        else:
            assert line.endswith(f"| {row.reduced:,} B |")
