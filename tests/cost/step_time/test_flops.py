"""Operations of one device: those of products equal what XLA counts."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import meshlab as ml
from meshlab.cost.step_time.flops import matmul_of
from meshlab.cost.workload.scenario import Scenario
from meshlab.engine.planning.shared_steps import counted
from meshlab.engine.planning.steps import Compute

B, S, E, F = ml.dims(b=8, s=16, e=32, f=64)
X2Y2 = ml.mesh(x=2, y=2)
IMAGES, FILTERS = ml.f32[B, ml.Dim("h", 16), E], ml.f32[ml.Dim("taps", 3), E, F]


def convolved(x, w):
    return lax.conv_general_dilated(x.array, w.array, (1,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"))


def sizes(plan):
    return Scenario(plan, {}, plan.grid, ())


def products(plan):
    """The operations of all products of one run on one device."""
    steps = ((step, times) for step, times in counted(plan.planned.steps) if isinstance(step, Compute))
    matmuls = ((matmul_of(step, sizes(plan)), times) for step, times in steps)
    return sum(times * product.flops for product, times in matmuls if product is not None)


@pytest.mark.parametrize(
    ("fn", "args", "layout"),
    [
        (lambda x, w: x.array @ w.array, (ml.f32[B, E], ml.f32[E, F]), "b:x f:y"),
        (lambda x, w: x.array @ w.array, (ml.f32[B, E], ml.f32[E, F]), "e:x+y"),
        (lambda x, y: jnp.einsum("bse,bfe->bsf", x.array, y.array), (ml.f32[B, S, E], ml.f32[B, F, E]), "b:x s:y"),
        (convolved, (IMAGES, FILTERS), "b:x f:y"),
        (convolved, (IMAGES, FILTERS), "e:x"),
    ],
)
def test_products_count_as_xla_counts_them(fn, args, layout):
    """XLA adds the elements of the all-reduce behind a sum that is split."""
    plan = ml.trace(fn, *args).plan(X2Y2, layout)
    analysis = plan.compile().cost_analysis()
    assert analysis is not None
    counted = analysis["flops"]
    assert products(plan) == pytest.approx(counted, rel=0.07)


def test_a_loop_counts_as_often_as_it_turns():
    def fn(x, w):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x.array, None, length=5)[0]

    square = ml.named(jax.ShapeDtypeStruct((32, 32), jnp.float32), "e _")
    plan = ml.trace(fn, ml.f32[B, E], square).plan(X2Y2, "b:x")
    assert products(plan) == 5 * 2 * 4 * 32 * 32


def test_what_is_no_product_has_no_operations():
    plan = ml.trace(lambda x: jnp.tanh(x.array).sum(0), ml.f32[B, E]).plan(X2Y2, "b:x")
    assert products(plan) == 0


@pytest.mark.parametrize(("dtype", "counted"), [("complex64", 8), ("complex128", 8), ("uint4", 2), ("bool", 0)])
def test_products_of_other_numbers_count_what_machines_compute_of_them(dtype, counted):
    """A product of complex numbers is four of their parts; of truth values the vector units compute it."""
    with jax.enable_x64():
        x, w = (jax.ShapeDtypeStruct(shape, dtype) for shape in ((16, 32), (32, 64)))
        program = ml.trace(lax.dot, ml.named(x, "b e"), ml.named(w, "e f"))
        plan = program.plan(ml.mesh("cpu", x=2), "b:x")
        assert plan.time.flops == counted * 8 * 32 * 64
        assert plan.time.estimate > 0


@pytest.mark.parametrize("shapes", [((0, 32), (32, 64)), ((16, 0), (0, 64)), ((16, 32), (32, 0))])
@pytest.mark.parametrize("machine", ["v5e", "h100", "cpu"])
def test_a_matmul_of_nothing_takes_no_operations(shapes, machine):
    x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    plan = ml.trace(lax.dot, ml.named(x, "b e"), ml.named(w, "e f")).plan(ml.mesh(machine, x=2), "")
    assert (plan.time.flops, plan.time.compute_bound) == (0, 0)
    assert 0 <= plan.time.lower <= plan.time.estimate <= plan.time.upper


M, K, N, G = ml.dims(m=64, k=32, n=16, g=4)
RAGGED = ml.f32[M, K], ml.f32[G, K, N], ml.i32[G]


def ragged(x, w, sizes):
    return lax.ragged_dot(x.array, w.array, sizes.array)


def test_a_ragged_product_counts_as_one_matmul():
    """Each row meets the matrix of its group: as many operations as with one for all rows, not g times as many."""
    dense = ml.trace(lambda x, w: x.array @ w.array, ml.f32[M, K], ml.f32[K, N]).plan(ml.mesh("v5e", x=1), {})
    plan = ml.trace(ragged, *RAGGED).plan(ml.mesh("v5e", x=1), {})
    assert plan.time.flops == dense.time.flops == 2 * 64 * 32 * 16


def test_gradients_of_a_ragged_product_count_as_its_own():
    """One of the rows, whose groups are those of the matrices; one of the matrices, of which each sums its own rows."""

    def step(x, w, sizes):
        return jax.grad(lambda x, w: lax.ragged_dot(x, w, sizes.array).sum(), (0, 1))(x.array, w.array)

    plan = ml.trace(step, *RAGGED).plan(ml.mesh("v5e", x=1), {})
    assert plan.time.flops == 2 * 2 * 64 * 32 * 16


def test_a_ragged_product_in_batches():
    def fn(x, w, sizes):
        return jax.vmap(lax.ragged_dot)(x.array, w.array, sizes.array)

    Times = ml.Dim("times", 3)
    plan = ml.trace(fn, ml.f32[Times, M, K], ml.f32[Times, G, K, N], ml.i32[Times, G]).plan(ml.mesh("v5e", x=1), {})
    assert plan.time.flops == 3 * 2 * 64 * 32 * 16


def test_a_large_ragged_product_is_limited_by_the_matrix_units():
    (M, K, N), (G,) = ml.dims(m=8192, k=4096, n=8192), ml.dims(g=8)
    plan = ml.trace(ragged, ml.bf16[M, K], ml.bf16[G, K, N], ml.i32[G]).plan(ml.mesh("v5e", x=1), {})
    assert plan.time.limited_by == "compute"
    assert plan.time.estimate >= 2 * 8192 * 4096 * 8192 / 197e12


# Operations of textbook algorithms, counted one by one for m rows and n columns: what each step of the elimination
# does to the rows and columns that are left.


def eliminated(m, n):
    return sum((m - k - 1) + 2 * (m - k - 1) * (n - k - 1) for k in range(min(m, n)))


def reflected(m, n, count):
    return sum(4 * (m - k) * (n - k) for k in range(count))


def applied(m, n, count):
    return sum(4 * (m - k) * n for k in range(count))


LONG, WIDE, SQUARE = (120, 80), (80, 120), (100, 100)
SYMMETRIC = sum((100 - k) + (100 - k - 1) * (100 - k) for k in range(100))


@pytest.mark.parametrize(
    ("function", "shapes", "operations"),
    [
        (lax.linalg.cholesky, [SQUARE], SYMMETRIC),
        (lax.linalg.lu, [SQUARE], eliminated(100, 100)),
        (lax.linalg.lu, [LONG], eliminated(120, 80)),
        (lax.linalg.lu, [WIDE], eliminated(80, 120)),
        (lambda a: lax.linalg.qr(a, full_matrices=False), [LONG], reflected(120, 80, 80) + reflected(120, 80, 80)),
        (lambda a: lax.linalg.qr(a, full_matrices=True), [LONG], reflected(120, 80, 80) + reflected(120, 120, 80)),
        (lambda a: lax.linalg.qr(a, full_matrices=False), [WIDE], reflected(80, 120, 80) + reflected(80, 80, 80)),
        (lax.linalg.householder_product, [LONG, (80,)], reflected(120, 80, 80)),
        (
            lambda *a: lax.linalg.ormqr(*a, left=True),
            [(120, 40), (40,), LONG],
            applied(120, 80, 40),
        ),
        (
            lambda *a: lax.linalg.ormqr(*a, left=False),
            [(80, 40), (40,), LONG],
            applied(80, 120, 40),
        ),
        (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), [SQUARE, (100, 30)], 100 * 100 * 30),
        (lambda a, b: lax.linalg.triangular_solve(a, b), [SQUARE, (30, 100)], 100 * 100 * 30),
        (lambda a, b: lax.linalg.symmetric_product(a, b), [LONG, (120, 120)], 2 * 120 * 120 * 80),
        # What iterates cannot be counted one by one: Golub and Van Loan, "Matrix Computations", 4th edition, 7.5.6,
        # 8.3.5 and figure 8.6.1.
        (lambda a: lax.linalg.eigh(a), [SQUARE], 9 * 100**3),
        (lambda a: lax.linalg.eig(a), [SQUARE], 25 * 100**3),
        (lambda a: lax.linalg.schur(a), [SQUARE], 25 * 100**3),
        (lambda a: lax.linalg.schur(a, compute_schur_vectors=False), [SQUARE], 10 * 100**3),
        (lax.linalg.hessenberg, [SQUARE], 10 * 100**3 / 3),
        (lax.linalg.tridiagonal, [SQUARE], 4 * 100**3 / 3),
        (lambda a: lax.linalg.svd(a, compute_uv=False), [WIDE], 4 * 120 * 80**2 - 4 * 80**3 / 3),
        (lambda a: lax.linalg.svd(a, full_matrices=False), [WIDE], 14 * 120 * 80**2 + 8 * 80**3),
        (lambda a: lax.linalg.svd(a), [LONG], 4 * 120**2 * 80 + 8 * 120 * 80**2 + 9 * 80**3),
    ],
)
def test_factorizations_count_what_textbooks_count(function, shapes, operations):
    """To the leading order; three of a stack count three times."""
    for stack in ((), (3,)):
        arguments = [
            ml.named(jax.ShapeDtypeStruct((*stack, *shape), jnp.float32), " ".join("_" * (len(stack) + len(shape))))
            for shape in shapes
        ]
        plan = ml.trace(function, *arguments).plan(ml.mesh("v5e", x=1), {})
        assert plan.time.flops == pytest.approx(operations * (3 if stack else 1), rel=0.03)


STACK = jax.ShapeDtypeStruct((8, 30, 30), jnp.float32)


def test_a_stack_of_factorizations_is_divided():
    program = ml.trace(lambda a: lax.linalg.cholesky(a), ml.named(STACK, "b _ _"))
    whole, split = (program.plan(ml.mesh("h100", x=2), layout) for layout in ({}, "b:x"))
    assert split.time.flops == whole.time.flops / 2
