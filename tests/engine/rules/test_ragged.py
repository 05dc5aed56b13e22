"""Ragged matmuls are the same however rows, groups, summed and free dims are sharded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.api.explain import warnings
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4

pytestmark = pytest.mark.share(2, of="file")

NAMES = {"x": "rows embed", "w": "experts embed ffn", "sizes": "_"}
LAYOUTS = (
    "rows:x",
    "experts:x",
    "embed:x",
    "ffn:x",
    "rows:y experts:x",
    "embed:y experts:x",
    "experts:x+y",
    "rows:y+x",
    "rows:x ffn:y",
    "rows:x+y",
)


def data(rows=16, embed=8, experts=4, ffn=12, sizes=(5, 0, 7, 4)):
    random = np.random.default_rng(5)
    return (
        random.normal(size=(rows, embed)).astype(np.float32),
        random.normal(size=(experts, embed, ffn)).astype(np.float32),
        np.asarray(sizes, np.int32),
    )


def step(x, w, sizes):
    def loss(x, w):
        return (jnp.sin(lax.ragged_dot(x, w, sizes)) ** 2).sum()

    return lax.ragged_dot(x, w, sizes), jax.grad(loss, (0, 1))(x, w)


def traced(fn, given):
    return ml.trace(fn, *(ml.named(array, names) for array, names in zip(given, NAMES.values(), strict=True)))


@pytest.mark.share(5)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_groups_and_their_gradients(layout):
    # No group, one alone, and rows that are in none.
    for sizes in ((5, 0, 7, 4), (0, 0, 0, 16), (1, 2, 3, 4)):
        given = data(sizes=sizes)
        program = traced(step, given)
        report = program.plan(X2Y2, layout).check(*given)
        assert report.ok, f"{layout}: {report}"


def test_random_layouts_of_two_layers_on_padded_dims():
    def fn(x, w, sizes):
        def loss(w):
            hidden = jax.nn.relu(lax.ragged_dot(x, w, sizes))
            return (lax.ragged_dot(hidden, w.swapaxes(1, 2), sizes) ** 2).sum()

        return jax.value_and_grad(loss)(w)

    given = data(18, 6, 3, 10, (7, 2, 9))
    program = traced(fn, given)
    for layout in ("rows:x", "experts:x", "experts:y rows:x", "embed:x", "ffn:x rows:y", "experts:x+y"):
        report = program.plan(X2Y2, layout, pad=True).check(*given)
        assert report.ok, f"{layout}: {report}"
    given = data()
    program = traced(fn, given)
    for mesh, layout in draw(program, seed=3, count=8):
        report = program.plan(mesh, layout).check(*given)
        assert report.ok, f"{layout} on {mesh}: {report}"


def test_nothing_is_sent_but_sums():
    program = traced(lax.ragged_dot, data())
    for layout, sent in (("ffn:x", 0), ("rows:x", 0), ("embed:x", 16 * 12 * 4), ("experts:x", 16 * 12 * 4)):
        plan = program.plan(X4, layout)
        assert sum(c.payload_bytes for c in plan.collectives) == sent
        assert {c.kind for c in plan.collectives} <= {"all-reduce"}
        assert not warnings(plan)


def test_stacks_of_ragged_products():
    """Sizes of their own for each; then experts are not split."""

    def fn(x, w, sizes):
        return jax.vmap(lax.ragged_dot)(x, w, sizes)

    x, w = (np.random.default_rng(5).normal(size=s).astype(np.float32) for s in ((4, 16, 8), (4, 4, 8, 12)))
    sizes = np.asarray([[5, 0, 7, 4], [16, 0, 0, 0], [1, 2, 3, 4], [0, 8, 8, 0]], np.int32)
    named = (
        ml.named(x, "stack rows embed"),
        ml.named(w, "stack experts embed ffn"),
        ml.named(sizes, "stack _"),
    )
    program = ml.trace(fn, *named)
    for layout in ("stack:x", "rows:x", "experts:x", "stack:y rows:x", "embed:x ffn:y"):
        plan = program.plan(X2Y2, layout)
        report = plan.check(x, w, sizes)
        assert report.ok, f"{layout}: {report}"
        assert ("all-gather" in {c.kind for c in plan.collectives}) == (layout == "experts:x")
