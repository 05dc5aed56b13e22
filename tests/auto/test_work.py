"""Work: what is divided, by ways to compute and by plans."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.auto.additive.dim_work import amounts_of
from meshlab.auto.best_first.bounds import least_under
from meshlab.auto.best_first.pricer import Pricer
from meshlab.auto.best_first.space import search_space
from meshlab.cost.workload.options import USUAL
from tests.auto.programs import MODELS, recorded, traced


@pytest.mark.share(4)
@pytest.mark.parametrize("name", MODELS)
def test_what_a_way_to_compute_divides_is_what_plans_do(name):
    program, mesh = traced(name), ml.mesh(a=4, b=2)
    space = search_space(Pricer(program, mesh, USUAL))
    amounts, points = tuple(amounts_of(program).items()), list(space.points())
    assert len(points) > 12
    for point in points[:: len(points) // 12]:
        least = least_under(space, amounts, space.rules(point.computed))
        assert program.plan(mesh, space.layout(point)).work.amount == pytest.approx(least, rel=1e-12), point


def test_work_counts_the_multiply_adds_of_contractions():
    # Forward, and the gradients of both weights and of the hidden units: 100 x 784 x 1024 and 100 x 1024 x 10.
    program = recorded("mlp_train")
    total = 2 * 100 * 784 * 1024 + 3 * 100 * 1024 * 10
    assert program.plan(ml.mesh(a=2)).work.amount == total
    assert program.plan(ml.mesh(a=2), "hidden:a").work.amount == total / 2
    assert program.plan(ml.mesh(a=2), "rows:a").work.amount == total - 100 * 784 * 1024


def test_a_loop_counts_each_of_its_steps():
    Layers, Embed = ml.dims(layers=3, embed=4)

    def fn(w, x):
        return ml.scan(lambda x, w: (ml.dot(x, w, Embed).rename(out="embed"), None), x, w, Layers)[0]

    program = ml.trace(fn, ml.f32[Layers, Embed, ml.Dim("out", 4)], ml.f32[Embed])
    assert program.plan(ml.mesh(a=2)).work.amount == 3 * 16


def test_ragged_matmuls_and_factorizations_are_work():
    """Beside a plain matmul, which is not all that multiplies."""
    M, K, N, G = ml.dims(m=64, k=32, n=16, g=4)

    def fn(x, w, sizes, a):
        ragged = jax.lax.ragged_dot(x.array @ jnp.ones((32, 32)), w.array, sizes.array)
        return ragged, jax.lax.linalg.cholesky(a)

    square = ml.named(jax.ShapeDtypeStruct((6, 30, 30), jnp.float32), "batch _ _")
    program = ml.trace(fn, ml.f32[M, K], ml.f32[G, K, N], ml.i32[G], square)
    dense, ragged, factors = 64 * 32 * 32, 64 * 32 * 16, 6 * 30**3 / 6
    assert program.plan(ml.mesh(a=2), {}).work.amount == pytest.approx(dense + ragged + factors)
    assert program.plan(ml.mesh(a=2), "batch:a").work.amount == pytest.approx(dense + ragged + factors / 2)
    assert sum(amounts_of(program).values()) == pytest.approx(dense + ragged + factors)


def test_without_contractions_every_result_is_divided():
    Batch, Embed = ml.dims(batch=4, embed=8)
    program = ml.trace(lambda x: ml.relu(x) + 1.0, ml.f32[Batch, Embed])
    choice = ml.auto.layout(program, ml.mesh(a=4, b=2))
    assert choice.proof.value == 0
    assert len(choice.layout.rules) == 2
    assert choice.plan.work.amount == program.plan(ml.mesh(a=4, b=2)).work.amount / 8


def test_dims_that_must_be_whole_divide_nothing():
    Batch, Embed = ml.dims(batch=4, embed=8)
    program = ml.trace(lambda x: ml.sort(x, Embed), ml.f32[Batch, Embed])
    assert str(ml.auto.layout(program, ml.mesh(a=4)).layout) == "batch:a"
