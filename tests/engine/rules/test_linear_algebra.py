"""Sharded stacks of matrices are factored and solved without communication; a sharded matrix is gathered first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, checked, moved

Stack, More, N, M, K = ml.dims(stack=8, more=2, n=4, m=4, k=6)
MATRICES, RIGHT = ml.f32[Stack, More, N, M], ml.f32[Stack, More, N, K]
RANDOM = np.random.default_rng(5)


def matrices():
    x = RANDOM.normal(size=(8, 2, 4, 4)).astype(np.float32)
    return x + 4 * np.eye(4, dtype=np.float32) * np.arange(1, 5, dtype=np.float32)


def symmetric(x):
    return x @ jnp.swapaxes(x, -1, -2) + jnp.eye(4)


def unsigned(*parts):
    """Vectors that are fixed but for their sign, compared by size."""
    return [jnp.abs(part) for part in parts]


def schur(x):
    """The eigenvalues come in an order that a rounding can change, and with them the columns of the form's basis."""
    form, basis = lax.linalg.schur(symmetric(x))
    return jnp.sort(jnp.diagonal(form, axis1=-2, axis2=-1), -1), basis @ form @ jnp.swapaxes(basis, -1, -2)


ALONE = {
    "cholesky": lambda x: jnp.linalg.cholesky(symmetric(x)),
    "lu": lax.linalg.lu,
    "qr": lambda x: unsigned(*jnp.linalg.qr(x)),
    "householder": lambda x: unsigned(lax.linalg.householder_product(x, x[..., 0])),
    "eigh": lambda x: unsigned(*jnp.linalg.eigh(symmetric(x))),
    "svd": lambda x: unsigned(*jnp.linalg.svd(x)),
    "eigenvalues": lambda x: jnp.sort(jnp.linalg.eigvals(x).real, -1),
    "schur": schur,
    "hessenberg": lax.linalg.hessenberg,
    "tridiagonal": lambda x: lax.linalg.tridiagonal(symmetric(x), lower=True)[1:3],
    "product": lambda x: lax.linalg.symmetric_product(x, symmetric(x), symmetrize_output=True),
    "pivots": lambda x: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(x)[1], 4),
    "determinant": jnp.linalg.slogdet,
}
WITH_RIGHT = {
    "triangular": lambda x, b: lax.linalg.triangular_solve(x, b, left_side=True, lower=True),
    "triangular from the right": lambda x, b: lax.linalg.triangular_solve(x, jnp.swapaxes(b, -1, -2), lower=True),
    "tridiagonal": lambda x, b: lax.linalg.tridiagonal_solve(
        x[..., 0].at[..., 0].set(0.0) / 9, x[..., 1] + 9.0, x[..., 2].at[..., -1].set(0.0) / 9, b
    ),
    "cholesky": lambda x, b: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(symmetric(x)), True), b),
}


@pytest.mark.share(5)
@pytest.mark.parametrize("layout", ["stack:y+x", "more:x stack:y", "n:x", "m:y stack:x"])
@pytest.mark.parametrize("name", ALONE)
def test_stacks_are_factored_under_every_layout(name, layout):
    plan = checked(lambda x: ALONE[name](x.array), (MATRICES,), layout, mesh=X2Y2, data=(matrices(),))
    assert "n:" in layout or "m:" in layout or moved(plan) == []


@pytest.mark.parametrize("layout", ["more:x stack:y", "k:x", "n:x k:y"])
@pytest.mark.parametrize("name", WITH_RIGHT)
def test_stacks_are_solved_under_every_layout(name, layout):
    data = matrices(), RANDOM.normal(size=(8, 2, 4, 6)).astype(np.float32)
    fn = WITH_RIGHT[name]
    plan = checked(lambda x, b: fn(x.array, b.array), (MATRICES, RIGHT), layout, mesh=X2Y2, data=data)
    # Each column of the right side is a problem of its own.
    assert "n:" in layout or "m:" in layout or moved(plan) == []


def test_a_matrix_is_gathered_along_the_axis_that_is_split_alone():
    plan = checked(lambda x: unsigned(*jnp.linalg.svd(x.array)), (MATRICES,), "n:x", mesh=X4, data=(matrices(),))
    assert moved(plan) == [("all-gather", ("x",), 8 * 2 * 1 * 4 * 4, 1)]
    plan = checked(lambda x: lax.linalg.lu(x.array), (MATRICES,), "stack:x m:y", mesh=X2Y2, data=(matrices(),))
    assert moved(plan) == [("all-gather", ("y",), 4 * 2 * 4 * 2 * 4, 1)]


def test_gradients_of_factorizations_are_the_same():
    def fn(x, b):
        def total(x, b):
            solved = WITH_RIGHT["cholesky"](x, b)
            return (solved**2).sum() + jnp.linalg.slogdet(symmetric(x))[1].sum()

        return jax.grad(total, (0, 1))(x.array, b.array)

    program = ml.trace(fn, MATRICES, RIGHT)
    data = matrices(), RANDOM.normal(size=(8, 2, 4, 6)).astype(np.float32)
    for mesh, layout in draw(program, seed=9, count=3):
        report = program.plan(mesh, layout).check(*data)
        assert report.ok, f"{layout} on {mesh}:\n{report}"
