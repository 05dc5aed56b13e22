"""ZeRO-2 of every training step of the zoo, as it is, and with the literature's bytes.

Source: Rajbhandari et al. 2019 (https://arxiv.org/abs/1910.02054), 7.2.1: gradients are reduce-scattered and updated
parameters all-gathered, (n - 1) / n of the bytes of each.
"""

import pytest

import meshlab as ml
from meshlab.models.zoo import imported_models, models

STEPS = ("_sgd", "_adamw", "_adafactor", "_bfloat16")
TRAINED = {m.name: m for m in models() if m.name.endswith(STEPS)} | {m.name: m for m in imported_models()}
MESH = ml.mesh(data=4)
# Parameters that are read tap by tap, by looked up positions, or turned: parts of a gradient are summed as they come.
READ_IN_PARTS = {f"gradient of params/{name}" for name in ("layers/taps", "decoder/biases", "up/0/rise")}


def sent(plan, kind, of=""):
    """What a device sends by collectives of a kind whose value is called so."""
    return sum(c.wire_bytes * c.times for c in plan.collectives if c.kind == kind and c.value.startswith(of))


@pytest.mark.share(8)
@pytest.mark.parametrize("name", TRAINED)
def test_new_parameters_are_gathered_and_gradients_scattered(name):
    program = TRAINED[name].trace()
    plan = program.plan(MESH, ml.layouts.zero2(program, MESH))
    split = {
        gradient: parameter for gradient, parameter in program.gradients.items() if any(plan.spec(gradient).splits)
    }
    assert len(split) > len(program.gradients) / 2
    stored = sum(program.place(parameter).nbytes for parameter in split.values())
    assert sent(plan, "all-gather", "out/") == stored * 3 / 4
    whole = {f"gradient of {parameter}" for gradient, parameter in program.gradients.items() if gradient not in split}
    reduced = {c.value for c in plan.collectives if c.kind == "all-reduce" and c.value.startswith("gradient of")}
    assert reduced <= whole | READ_IN_PARTS, "a gradient in shards is reduced whole"
    assert sent(plan, "reduce-scatter", "gradient of") > 0


def test_of_one_step_each_byte_is_told():
    """A transformer has dims that divide throughout, and gradients in the dtype of its parameters."""
    for name in ("transformer_sgd", "transformer_adamw", "llama_unrolled_adamw", "gpt2_adamw"):
        program = TRAINED[name].trace()
        plan = program.plan(MESH, ml.layouts.zero2(program, MESH))
        ring = sum(program.place(parameter).nbytes for parameter in program.gradients.values()) * 3 / 4
        assert sent(plan, "reduce-scatter", "gradient of") == ring
        assert sent(plan, "all-gather") == sent(plan, "all-gather", "out/") == ring
        assert sent(plan, "all-reduce") <= 4 * 6  # the loss, and the norm of all gradients
