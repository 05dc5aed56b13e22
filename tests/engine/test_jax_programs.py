"""Whole programs of JAX: what `jit` is around them, and numbers that XLA keeps."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from meshlab.engine.jax_programs import equations, inside, number_of, numbered, numbers_in, of_each_device
from meshlab.own.hlo_shardings import of_each, splits

X = jax.ShapeDtypeStruct((4, 4), jnp.float32)


def step(w, x):
    def layer(x, _):
        return jax.nn.relu(x @ w), None

    return jax.lax.scan(layer, x, None, 3)[0], x


def test_what_is_inside_jit_has_its_inputs_and_results_in_place():
    bare, jitted = (inside(jax.make_jaxpr(fn)(X, X)) for fn in (step, jax.jit(step)))
    assert [v.aval.shape for v in jitted.closed.jaxpr.invars] == [(4, 4)] * 2
    assert [e.primitive.name for e in bare.closed.jaxpr.eqns] == [e.primitive.name for e in jitted.closed.jaxpr.eqns]
    ones = np.ones((4, 4), np.float32)
    for mine, theirs in zip(jaxpr_as_fun(jitted.closed)(ones, 2 * ones), step(ones, 2 * ones), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_what_each_device_runs_is_inside_a_shard_map():
    table, spec = np.arange(4.0, dtype=np.float32), jax.P("data")
    mesh = jax.sharding.AbstractMesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    whole = jax.shard_map(lambda y, x: x * table + y, mesh=mesh, in_specs=(jax.P(), spec), out_specs=spec)
    arrays = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((), (8,))]
    closed = of_each_device(jax.make_jaxpr(whole)(*arrays))
    assert [v.aval.shape for v in closed.jaxpr.invars] == [(), (4,)]
    assert [np.array_equal(each, table) for each in closed.consts] == [True]


def test_every_equation_has_a_number_and_the_program_is_the_same():
    closed = jax.make_jaxpr(jax.jit(jax.grad(lambda w: step(w, w)[0].sum())))(X)
    named = numbered(closed)
    numbers = [number_of(equation) for equation in equations(named)]
    assert None not in numbers
    assert len(set(numbers)) == len(numbers) == len([*equations(closed)]) > 10
    assert str(named) == str(closed)
    lowered = jax.jit(jaxpr_as_fun(named)).lower(X)
    assert lowered.as_text() == jax.jit(jaxpr_as_fun(closed)).lower(X).as_text()
    paths = re.findall(r'op_name="([^"]*)"', lowered.compile().as_text() or "")
    assert {number for path in paths for one in numbers_in(path) for number in one} <= set(numbers)
    assert any(map(numbers_in, paths))


AXES = {"data": 2, "model": 4}


@pytest.mark.parametrize(
    ("printed", "rank", "expected"),
    [
        ("{replicated}", 2, ((), ())),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 2, (("data",), ())),
        ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2, ((), ("model",))),
        ("{devices=[8,1]<=[8]}", 2, (("data", "model"), ())),
        ("{devices=[8,1]<=[2,4]T(1,0)}", 2, (("model", "data"), ())),
        ("{devices=[2,4]<=[8] last_tile_dims={replicated}}", 1, (("data",),)),
        ("{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}", 2, (("data",), ())),
        ("{mesh['data'=2,'model'=4], [{'data','model'}, {}]}", 2, (("data", "model"), ())),
        ("{mesh['data'=2,'model'=4], [{'model':(1)2}, {}]}", 2, None),
        ("{devices=[4,2]<=[8] last_tile_dim_replicate}", 1, None),  # half of `model` with `data`
        ("{maximal device=0}", 1, None),
    ],
)
def test_a_sharding_as_hlo_prints_it(printed, rank, expected):
    assert splits(printed, AXES, rank) == expected


def test_the_shardings_of_a_tuple():
    printed = "{{replicated}, /*index=5*/{devices=[2,1]<=[2]}}"
    assert of_each(printed) == ["{replicated}", "{devices=[2,1]<=[2]}"]
    assert of_each("{devices=[2,1]<=[2]}") == ["{devices=[2,1]<=[2]}"]
