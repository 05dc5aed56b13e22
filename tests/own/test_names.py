"""What values and axes are called in explanations: no name stands for another array than its own."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.code.flatten import flatten
from meshlab.engine.code.operations import walk
from meshlab.engine.devices import devices
from meshlab.own.naming.errors import OwnError
from meshlab.own.naming.targets import assigned

pytestmark = pytest.mark.share(2, of="file")


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def array(mesh: Mesh, shape: tuple[int, ...], *spec) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def called(fn) -> list[tuple[str, str]]:
    """Primitives with the name that what they make is assigned to."""
    code = flatten(jax.make_jaxpr(fn)(jnp.ones((4, 4)), jnp.ones((4, 4))))
    readers: dict = {}
    for operation in walk(code.block):
        for value in operation.reads:
            readers.setdefault(value, []).append(operation)
    names = assigned(code, readers)
    return [(one.name, names[one.outputs[0]]) for one in walk(code.block) if one.outputs and one.outputs[0] in names]


def squashed(x):
    return jnp.tanh(x) * 2.0


def step(x, w):
    y = squashed(x @ w)
    hidden = jax.nn.relu(y @ w)
    chances = jax.nn.softmax(hidden)
    for _ in range(2):
        chances = jnp.sin(chances @ w)
    tree = {"sum": chances + hidden, "product": chances @ hidden}
    rows = jax.tree.map(lambda leaf: leaf.reshape(2, 8), tree)
    pair = jax.lax.top_k(rows["sum"], 2)
    return (pair[0] ** 2).sum() + rows["product"].sum()


NAMES = [
    ("max", "hidden"),  # neither y, which is made in another line, nor the product that squashed and relu are given
    ("div", "chances"),
    ("sin", "chances"),
    ("sin", "chances"),
    ("add", "tree"),
    ("dot_general", "tree"),
    ("reshape", "rows"),
    ("reshape", "rows"),
    ("top_k", "pair"),
]


def test_a_name_is_that_of_what_its_line_assigns():
    assert called(step) == NAMES


def test_differentiation_and_loops_change_no_name():
    """What is kept for the backward pass, and what that makes, is no line's."""
    assert called(jax.grad(step)) == NAMES

    def layer(h, w):
        h = jnp.tanh(h @ w)
        return h, None

    def scanned(x, w):
        return jax.lax.scan(layer, x, jnp.stack([w, w]))[0].sum()

    assert called(scanned) == called(jax.grad(scanned)) == [("tanh", "h")]


def test_the_sentence_names_what_is_split(mesh):
    """The product was called `y`, which comes of it."""

    def fn(x, w):
        y = squashed(x @ w)
        return jnp.cumsum(y, 1) + 1.0

    def other(x, w):
        y = jnp.cumsum(x @ w, 1)
        return y + 1.0

    args = array(mesh, (8, 16)), array(mesh, (16, 32), None, "model")
    for function in (fn, other):
        assert {c.value for c in ml.explain(function, *args).collectives}.isdisjoint({"x", "w", "y"})


def test_a_partial_sum_is_called_after_the_result(mesh):
    def fn(x, w):
        hidden = x @ w
        return hidden * 2.0

    (only,) = ml.explain(fn, array(mesh, (8, 16), None, "model"), array(mesh, (16, 4), "model")).collectives
    assert only.value == "hidden"


def test_what_a_loop_carries_is_not_what_it_begins_with(mesh):
    def layer(h, w):
        return jnp.tanh(h @ w), None

    def fn(x, ws):
        return jax.lax.scan(layer, x, ws)[0]

    report = ml.explain(fn, array(mesh, (8, 16), "data", "model"), array(mesh, (3, 16, 16), None, "data"))
    assert [report.subject.called(value) for value in report.subject.carried] == ["x (carried)"]
    assert "x" not in {c.value for c in report.collectives if c.times == 3}


def test_axes_that_no_argument_has_are_called_after_their_value(mesh):
    halves = functools.partial(jax.shard_map, mesh=mesh, in_specs=P("data"), out_specs=P("data"))

    def fn(x):
        doubled, tripled = halves(lambda x: x * 2.0)(x), halves(lambda x: x * 3.0)(x)
        return doubled.sum(0), tripled.sum(0)

    report = ml.explain(fn, array(mesh, (16, 8), "data"))
    assert {c.dims for c in report.collectives} == {("shard_map.0",), ("shard_map_2.0",)}


def test_arguments_by_keyword(mesh):
    @functools.partial(jax.jit, static_argnames="axis")
    def fn(x, *, scale, axis, mask=None):
        return jnp.sum(x * scale["by"], axis=axis)

    x, scale = np.ones((8, 16), np.float32), np.full((8, 16), 2, np.float32)
    given = {"scale": {"by": array(mesh, (8, 16), "data")}, "axis": 0}
    report = ml.explain(fn, x, kwargs=given, names={"scale/by": "batch embed"})
    (only,) = report.collectives
    assert only.dims == ("batch",)
    assert only.started_by == ("`scale/by` came in as P('data')",)
    run = report.apply()
    assert np.array_equal(run(x, scale={"by": scale}, axis=0), fn(x, scale={"by": scale}, axis=0))
    with pytest.raises(OwnError, match="explained with other arguments"):
        run(x, scale={"by": scale}, axis=1)
    with pytest.raises(OwnError, match="must be arguments by keyword"):
        ml.explain(fn, x, kwargs=[("axis", 0)])  # pyright: ignore[reportArgumentType]


def test_arguments_without_names_of_their_own_stand_beside_those_by_keyword(mesh):
    def fn(x, *layers, scale):
        return sum((x @ layer).sum() for layer in layers) * scale.sum()

    report = ml.explain(fn, *[array(mesh, (8, 8), "data")] * 3, kwargs={"scale": array(mesh, (8,), "model")})
    assert report.subject.jitted.arguments == ("x", "layers0", "layers1", "scale")


def test_what_a_line_constrains_has_its_name(mesh):
    whole = NamedSharding(mesh, P())

    def held(x, w):
        total = jax.lax.with_sharding_constraint(jnp.cumsum(x @ w, 0), whole)
        return jnp.tanh(total) * 2.0

    def inside(x, w):
        y = squashed(jax.lax.with_sharding_constraint(jnp.cumsum(x @ w, 0), whole))
        return jnp.tanh(y)

    args = array(mesh, (8, 16)), array(mesh, (16, 32), None, "model")
    assert {c.value for c in ml.explain(held, *args).collectives} == {"total"}
    assert {c.value for c in ml.explain(inside, *args).collectives} == {"jnp.cumsum(x @ w, 0)"}


@pytest.mark.parametrize(
    ("reduced", "said"),
    [
        (jnp.max, "reduce_max takes the maximum over `x.0` of `x`, split over data."),
        (jnp.min, "reduce_min takes the minimum over `x.0` of `x`, split over data."),
        (jnp.sum, "reduce_sum sums `x.0` of `x`, split over data."),
        (jnp.prod, "reduce_prod multiplies over `x.0` of `x`, split over data."),
        (jnp.any, "takes the disjunction over"),
    ],
)
def test_a_maximum_is_no_sum(mesh, reduced, said):
    (found,) = ml.explain(lambda x: reduced(x, axis=0), array(mesh, (8, 4), "data")).collectives
    assert said in found.because
