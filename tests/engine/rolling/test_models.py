"""Models whose layers are a Python loop: with their layers in scans they are what was written as a scan."""

import collections
import dataclasses
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models.imported.full_sizes import Config
from meshlab.models.language import gpt2, llama, state_space
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from tests.models.plain import off

MESH = ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(4))
LAYOUT = "batch:data+micro layers:pipe"


def sent(plan: ml.Plan) -> dict[Any, int]:
    return collections.Counter((c.kind, c.axes, c.payload_bytes, c.times) for c in plan.collectives)


@pytest.mark.share(2)
@pytest.mark.parametrize("model", [llama, gpt2, state_space], ids=lambda model: model.__name__.rpartition(".")[2])
def test_an_unrolled_model_is_planned_as_the_scan(model):
    """Under AdamW with clipping: parameters, moments and all."""
    config = model.Config(batch=16, layers=4)
    optimizer = training.adamw()
    step = training.adamw_step(model.loss, optimizer)

    def arguments(config: Any) -> Any:
        params = shapes(model.init, config)
        return params, jax.eval_shape(optimizer.init, params), *model.inputs(config)

    plain = ml.trace(step, *arguments(config))
    unrolled = arguments(dataclasses.replace(config, unrolled=True))
    scanned = ml.trace(ml.scan_layers(step), *ml.stack_layers(unrolled))
    assert [each.place for each in scanned.arguments] == [each.place for each in plain.arguments]
    assert scanned.dims == plain.dims
    assert scanned.carry == plain.carry
    wanted = plain.plan(MESH, LAYOUT)
    assert sent(scanned.plan(MESH, LAYOUT)) == sent(wanted)
    assert len(wanted.collectives) > 10


def imported(name: str, batch: int) -> tuple[Any, Any, Any]:
    """The step of a model of another library, its arguments with names, and as numbers."""
    module, config = importlib.import_module(f"meshlab.models.imported.{name}"), Config(layers=3)
    tokens = ml.named(jax.ShapeDtypeStruct((batch, config.seq), jnp.int32), "batch seq")
    draw = np.random.default_rng(0)
    data = [draw.integers(0, config.vocab, (batch, config.seq), np.int32) for _ in range(2)]
    key = jax.random.key(0)
    given: Any = jax.eval_shape(lambda key: module.init(key, config), key)
    if name == "linen_encoder":
        names = {f"*params{'' if glob.startswith('*') else '/'}{glob}": text for glob, text in module.NAMES.items()}
        # AdamW's first update is the sign of the gradient: in bfloat16 some of these are chance.
        apply = module.Encoder(config, jnp.float32).apply
        state, abstract = (each.replace(apply_fn=apply) for each in (module.init(key, config), given))
        return module.step, (ml.named(abstract, names), tokens, tokens), (state, *data)
    state, params = module.optimizer().init, module.init(key, config)
    named = ml.named(given, module.NAMES), jax.eval_shape(state, given)
    return module.training(config), (*named, tokens, tokens), (params, state(params), *data)


@pytest.mark.share(1)
@pytest.mark.parametrize("name", ["plain_gpt", "linen_encoder", "equinox_decoder"])
def test_models_of_other_libraries(name):
    step, named, data = imported(name, batch=8)
    program = ml.trace(ml.scan_layers(step), *ml.stack_layers(named))
    assert program.dims["layers"] == 3
    assert sum(each.name == "scan" for each in program.code.block.operations) == 2
    plan = program.plan(ml.mesh(pipe=ml.stages(3), micro=ml.serial(4)), "batch:micro layers:pipe")
    # No weight is whole anywhere.
    assert not [c for c in plan.collectives if c.kind == "all-gather"]
    results = jax.tree.leaves(ml.unstack_layers(jax.jit(ml.scan_layers(step))(*ml.stack_layers(data))))
    wanted = jax.tree.leaves(jax.jit(step)(*data))
    assert max(off(*pair) for pair in zip(results, wanted, strict=True)) < 1e-3
