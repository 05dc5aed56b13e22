"""One result of an operation may add up what another one keeps: each is partial over what it lacks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

import meshlab as ml
from meshlab.engine.rules.table import RULES, Factors
from meshlab.engine.rules.traits import FIRST, TRAITS, opaque

Rows, Cols = ml.dims(rows=8, cols=4)

both_sums = Primitive("both_sums")
both_sums.multiple_results = True


@both_sums.def_impl
def _run(x: jax.Array) -> list[jax.Array]:
    return [x.sum(1), x.sum(0)]


@both_sums.def_abstract_eval
def _shapes(x: ShapedArray) -> list[ShapedArray]:
    return [ShapedArray(x.shape[:1], x.dtype), ShapedArray(x.shape[1:], x.dtype)]


mlir.register_lowering(both_sums, mlir.lower_fun(_run, multiple_results=True))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    """A function of the sums over columns, and over rows, that one operation makes."""
    summed = Factors(((0, 1),), ((0,), (1,)), summed=frozenset((0, 1)))
    monkeypatch.setitem(RULES, "both_sums", lambda _operation, _facts: summed)
    monkeypatch.setitem(TRAITS, "both_sums", opaque(linear=FIRST, multiplies=None))

    def function(x):
        of_rows, of_cols = both_sums.bind(jnp.tanh(x.array))
        return jnp.square(of_rows), jnp.square(of_cols)

    return ml.trace(function, ml.f32[Rows, Cols])


@pytest.mark.parametrize(
    ("layout", "reduced"),
    [
        ("rows:x", {"x": 4 * Cols.size}),
        ("cols:y", {"y": 4 * Rows.size}),
        ("rows:x cols:y", {"x": 4 * Cols.size // 2, "y": 4 * Rows.size // 2}),
    ],
)
def test_each_result_is_partial_over_what_it_lacks(program, layout: str, reduced: dict[str, int]) -> None:
    plan = program.plan(ml.mesh(x=2, y=2), layout)
    assert {axis: each.payload_bytes for each in plan.collectives for axis in each.axes} == reduced
    assert plan.check().ok
    x = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
    for mine, its in zip(plan.run(x), (np.tanh(x).sum(1) ** 2, np.tanh(x).sum(0) ** 2), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5)
