"""Collectives come in one order on all simulated devices: XLA for CPU may run those of a branch beside others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, PartitionSpec

import meshlab as ml
from meshlab.engine.devices import compiler_options
from meshlab.engine.running import in_turn
from meshlab.engine.running.in_turn import at_once
from meshlab.engine.running.lower import lowered
from meshlab.engine.running.run import abstract_arguments, compiled, jax_mesh
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.zoo import models
from tests import share

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in models()}
GATHERED = {"batch": "data+micro", "layers": "pipe", "params/*": {"embed": "data"}}


def branch(x, w):
    """A branch that gathers, and a matrix that is gathered whatever the branch makes, but behind a barrier."""
    made = lax.cond(lax.axis_index("pipe") == 0, lambda: lax.all_gather(x, "data").sum(0), lambda: x)
    made, w = lax.optimization_barrier((made, w))
    return made + lax.all_gather(w, "data").sum(0)


def loop(x, w):
    """Sums in a loop, and a sum of what takes longer to compute."""
    looped = lax.fori_loop(0, 3, lambda _, y: jnp.sin(lax.psum(y, "data")), x)
    for _ in range(4):
        w = lax.psum(jnp.cos(w @ w), "data")
    return looped + w


def layers(x, w):
    """A loop of one iteration, which XLA makes none of, behind a branch."""
    made = lax.cond(lax.axis_index("pipe") == 0, lambda: lax.psum(x, "data"), lambda: x)
    made, w = lax.optimization_barrier((made, w))
    return lax.scan(lambda carry, each: (carry + lax.psum(each, "data"), None), made, w[None])[0]


def build(step):
    mesh = jax.make_mesh((2, 2), ("data", "pipe"), axis_types=(AxisType.Auto,) * 2)
    spec = PartitionSpec(("data", "pipe"))

    def built(turned):
        return jax.jit(jax.shard_map(turned(step), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))

    return built


@pytest.mark.parametrize("step", [branch, loop, layers])
def test_what_a_branch_or_a_loop_sends_does_not_meet_what_is_sent_beside_it(step):
    arrays = [*np.random.default_rng(0).normal(size=(2, 16, 4)).astype(np.float32)]
    options = compiler_options("cpu")
    plain = build(step)(lambda function: function).lower(*arrays)
    turned = build(step)(in_turn.in_turn).lower(*arrays).compile(compiler_options=options)
    if step is not loop:
        assert [*at_once(plain.compile(compiler_options=options))]
        assert not [*at_once(in_turn.compiled(build(step), arrays, options, "cpu"))]
    assert not [*at_once(turned)]
    alone = jax.vmap(jax.vmap(step, axis_name="pipe"), axis_name="data")(*(x.reshape(2, 2, 4, 4) for x in arrays))
    np.testing.assert_allclose(turned(*arrays), alone.reshape(16, 4), rtol=1e-5)


def test_on_accelerators_it_is_left_to_the_compiler():
    arrays = [*np.ones((2, 16, 4), np.float32)]
    made = in_turn.compiled(build(branch), arrays, compiler_options("cpu"), "tpu")
    assert [*at_once(made)]


@pytest.mark.parametrize("name", ["transformer_sgd", "gpt2_adamw"])
def test_pipelines_that_gather_weights_take_turns(name):
    axes = {"data": 2, "pipe": ml.stages(2), "micro": ml.serial(4)}
    plan = MODELS[name].trace().plan(ml.mesh(**axes), GATHERED)
    mesh = jax_mesh(plan.mesh, jax.devices()[: plan.mesh.size])
    plain = jax.jit(lowered(plan, mesh)).lower(*abstract_arguments(plan, mesh))
    assert [*at_once(plain.compile(compiler_options=compiler_options("cpu")))]
    assert not [*at_once(compiled(plan))]
    jax.clear_caches()


@pytest.mark.share(12)
@pytest.mark.parametrize("name", MODELS)
def test_drawn_layouts_take_turns(name):
    program = MODELS[name].trace()
    for mesh, layout in draw(program, seed=share.number(), count=2):
        executable = compiled(program.plan(mesh, layout), quick=True)
        assert not [*at_once(executable)], f"{layout} on {mesh}"
    jax.clear_caches()
