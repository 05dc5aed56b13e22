"""Names that come with arrays, of Flax's metadata, and names that are given as Flax writes them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.devices import devices
from meshlab.own.compiled import with_numbers
from meshlab.own.jitted import taken
from meshlab.own.naming.errors import OwnError
from meshlab.own.subject import Subject, subject_of

RULES = (("batch", "data"), ("mlp", "model"), ("embed", None))


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def subject(fn: Any, *args: Any, mesh: Mesh, names: Any = None) -> Subject:
    return subject_of(with_numbers(taken(fn, args, mesh)), names)


def dims(one: Subject) -> dict[str, tuple[str | None, ...]]:
    """The names of each argument's axes."""
    return {place: one.dims(v) for place, v in zip(one.jitted.arguments, one.code.block.inputs, strict=True)}


def linen(names: Any):
    nn = pytest.importorskip("flax.linen")

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            up = nn.with_logical_partitioning(nn.initializers.lecun_normal(), names)
            down = nn.with_logical_partitioning(nn.initializers.lecun_normal(), names[::-1])
            bias = nn.with_logical_partitioning(nn.initializers.zeros, names[:1])
            hidden = nn.relu(nn.Dense(64, use_bias=False, kernel_init=up)(x))
            return nn.Dense(16, kernel_init=down, bias_init=bias)(hidden)

    model, x = Network(), jax.ShapeDtypeStruct((8, 16), jnp.float32)
    variables = jax.eval_shape(model.init, jax.random.key(0), x)

    def step(variables, x):
        grads = jax.grad(lambda variables: (model.apply(variables, x) ** 2).mean())(variables)
        return jax.tree.map(lambda w, g: w - 0.1 * g, variables, grads)

    return nn, step, variables, x


def test_logical_partitioning_of_linen_names_dims(mesh):
    nn, step, variables, x = linen(("embed", "mlp"))
    stored = nn.logical_to_mesh_sharding(nn.get_partition_spec(variables), mesh, RULES)
    jitted = jax.jit(step, in_shardings=(stored, NamedSharding(mesh, P("data"))), out_shardings=stored)
    report = ml.explain(jitted, variables, x)
    assert {c.dims for c in report.collectives} == {("mlp",), ("x.0",)}
    assert {c.value for c in report.collectives if c.phase == "backward pass"} >= {
        f"the gradient of variables/params/{name}" for name in ("Dense_0/kernel", "Dense_1/kernel")
    }
    assert dims(report.subject)["x"] == ("x.0", "embed")


def test_specs_of_flax_are_names(mesh):
    """T5X and linen write logical axes as a tree of specs, beside arrays without boxes."""
    nn, step, variables, x = linen(("embed", "mlp"))
    specs = nn.get_partition_spec(variables)
    bare = subject(step, nn.unbox(variables), x, mesh=mesh, names={"variables": specs, "x": P("batch")})
    assert dims(bare) == {
        "variables/params/Dense_0/kernel": ("embed", "mlp"),
        "variables/params/Dense_1/bias": ("embed",),
        "variables/params/Dense_1/kernel": ("mlp", "embed"),
        "x": ("batch", "embed"),
    }
    for names, says in (
        ({"variables": {"params": {"Dense_9": P("embed")}}}, "matches no argument"),
        ({"x": P("batch", "embed", "mlp")}, "3 dims"),
        ({"x": 3}, "write its dims, 'embed hidden', or a PartitionSpec"),
    ):
        with pytest.raises(OwnError, match=says):
            subject(step, nn.unbox(variables), x, mesh=mesh, names=names)


def test_mesh_axes_are_no_names(mesh):
    """`nn.Partitioned` may say where an axis lies instead of what it is."""
    _, step, variables, x = linen((None, "model"))
    found = dims(subject(step, variables, x, mesh=mesh))
    assert "model" not in {dim for row in found.values() for dim in row}
    assert found["variables/params/Dense_1/kernel"][0] == found["variables/params/Dense_0/kernel"][1]


def test_names_that_do_not_fit_leave_the_others(mesh):
    """Two names for one axis: the first stays, and so do all that have nothing to do with it."""
    nn = pytest.importorskip("flax.linen")

    def box(shape, *names):
        return nn.Partitioned(jax.ShapeDtypeStruct(shape, jnp.float32), names)

    def step(params, x):
        return x @ params["a"].value @ params["b"].value

    params = {"a": box((16, 32), "embed", "mlp"), "b": box((32, 8), "other", "out")}
    found = dims(subject(step, params, jax.ShapeDtypeStruct((4, 16), jnp.float32), mesh=mesh))
    assert found["params/a"] == ("embed", "mlp")
    assert found["params/b"][0] == "mlp"
    assert found["x"][1] == "embed"


def nnx_state(mesh: Mesh, metadata: str):
    nnx = pytest.importorskip("flax.nnx")

    class Network(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            kernel = nnx.initializers.lecun_normal()
            up, down = ({metadata: names} for names in (("embed", "mlp"), ("mlp", "embed")))
            self.first = nnx.Linear(16, 64, use_bias=False, kernel_init=nnx.with_metadata(kernel, **up), rngs=rngs)
            self.second = nnx.Linear(64, 16, use_bias=False, kernel_init=nnx.with_metadata(kernel, **down), rngs=rngs)

        def __call__(self, x):
            return self.second(jax.nn.relu(self.first(x)))

    with jax.set_mesh(mesh), nnx.logical_axis_rules(RULES):
        graph, state = nnx.split(nnx.eval_shape(lambda: Network(nnx.Rngs(0))))
    return nnx, graph, state


@pytest.mark.parametrize("metadata", ["sharding_names", "out_sharding"])
@pytest.mark.filterwarnings("ignore:.*is deprecated.*")
def test_metadata_of_nnx_names_dims(mesh, metadata):
    nnx, graph, state = nnx_state(mesh, metadata)

    def loss(state, x):
        return (nnx.merge(graph, state)(x) ** 2).mean()

    found = subject(jax.grad(loss), state, jax.ShapeDtypeStruct((8, 16), jnp.float32), mesh=mesh)
    assert dims(found) == {
        "state/first/kernel/value": ("embed", "mlp"),
        "state/second/kernel/value": ("mlp", "embed"),
        "x": ("x.0", "embed"),
    }
    assert found.jitted.outputs == ("out/first/kernel/value", "out/second/kernel/value")


def test_a_module_of_nnx_under_its_own_jit(mesh):
    nnx, graph, state = nnx_state(mesh, "out_sharding")
    column, row = NamedSharding(mesh, P(None, "model")), NamedSharding(mesh, P("model"))

    @jax.jit
    def forward(state, x):
        return nnx.merge(graph, state)(x)

    state = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=column if leaf.shape[0] == 16 else row),
        state,
    )
    (only,) = ml.explain(forward, state, jax.ShapeDtypeStruct((8, 16), jnp.float32)).collectives
    assert (only.kind, only.dims) == ("all-reduce", ("mlp",))


def test_a_name_of_two_sizes_is_an_error_where_it_is_given_and_left_out_where_it_came_along(mesh):
    """As of Adafactor, whose state has a placeholder of one element under the name of a parameter's dim."""

    def fn(weight, state):
        return (weight * state).sum()

    small, large = (jax.ShapeDtypeStruct((size,), jnp.float32) for size in (1, 16))
    named = [ml.f32[ml.Dim("embed", array.shape[0])] for array in (large, small)]
    found = dims(subject(lambda *tensors: fn(*(t.array for t in tensors)), *named, mesh=mesh))
    assert sum(names == ("embed",) for names in found.values()) == 1
    with pytest.raises(OwnError, match="The names that were given do not fit the program: A dim has one size"):
        subject(fn, large, small, mesh=mesh, names={"*": "embed"})
