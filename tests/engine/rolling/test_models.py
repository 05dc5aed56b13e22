"""Models whose layers are a Python loop: with their layers in scans they are what was written as a scan."""

import collections
import dataclasses
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import meshlab as ml
from meshlab.models.imported.full_sizes import Config
from meshlab.models.language import gpt2, llama, state_space, t5
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from tests.models.plain import off

MESH = ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(4))
LAYOUT = "batch:data+micro layers:pipe"


def sent(plan: ml.Plan) -> dict[Any, int]:
    return collections.Counter((c.kind, c.axes, c.payload_bytes, c.times) for c in plan.collectives)


@pytest.mark.share(2)
@pytest.mark.parametrize("model", [llama, gpt2, state_space, t5], ids=lambda model: model.__name__.rpartition(".")[2])
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


@pytest.mark.share(3)
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


class NnxBlock(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.up, self.down = nnx.Linear(4, 8, rngs=rngs), nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return x + self.down(jnp.tanh(self.up(x)))


class NnxStack(nnx.Module):
    """Layers in a list, whose keys are numbers, or attributes of the model, beside others."""

    def __init__(self, rngs: nnx.Rngs, is_list: bool):
        blocks = [NnxBlock(rngs) for _ in range(4)]
        self.stem = nnx.Linear(3, 4, rngs=rngs)
        if is_list:
            self.block = nnx.List(blocks)
        for at, each in enumerate(() if is_list else blocks):
            setattr(self, f"block_{at}", each)

    def __call__(self, x: Any) -> Any:
        x = self.stem(x)
        for at in range(4):
            x = (self.block[at] if hasattr(self, "block") else getattr(self, f"block_{at}"))(x)
        return x


@pytest.mark.parametrize("is_list", [True, False])
def test_layers_of_flax_nnx(is_list: bool):
    graph, state = nnx.split(NnxStack(nnx.Rngs(0), is_list))

    def step(state: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(lambda state: jnp.square(nnx.merge(graph, state)(x)).mean())(state)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, state, grads)

    x = np.random.default_rng(0).standard_normal((8, 3), np.float32)
    stacked = ml.stack_layers(state)
    assert stacked["block"].layers["up"]["kernel"][...].shape == (4, 4, 8)
    result = jax.jit(ml.scan_layers(step))(stacked, x)
    assert jax.tree.structure(result[1]) == jax.tree.structure(stacked)
    back, wanted = ml.unstack_layers(result), step(state, x)
    assert jax.tree.structure(back) == jax.tree.structure(wanted)
    assert max(off(*pair) for pair in zip(jax.tree.leaves(back), jax.tree.leaves(wanted), strict=True)) < 1e-6
    named = ml.named(jax.eval_shape(lambda: state), {"*/kernel/value": "_ _", "*/bias/value": "_"})
    batch = ml.named(jax.ShapeDtypeStruct((8, 3), jnp.float32), "batch rows")
    program = ml.trace(ml.scan_layers(step), ml.stack_layers(named), batch)
    assert program.plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), "batch:micro layers:pipe").check().ok
