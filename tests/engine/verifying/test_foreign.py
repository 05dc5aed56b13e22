"""What programs that nobody here wrote found: each a small program that once broke a promise, and its relatives."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import meshlab as ml
from tests.engine.small_programs import X4

pytestmark = pytest.mark.share(2, of="file")

X2, X8 = ml.mesh(x=2), ml.mesh(x=8)
F32 = jnp.float32


def like(names, *shape, dtype=F32):
    return ml.named(jax.ShapeDtypeStruct(shape, dtype), names)


AB = like("a b", 8, 8)


def sort(x):
    return jnp.sort(x, -1)


# The bytes of the largest merge here, of spellings that only the compiler knows to be one value.
SMALL = 256


def holds(fn, args, layout, mesh=X2, merges=0, **options):
    """A plan whose collectives are the compiled ones but for so many merges, and whose results are the function's."""
    plan = ml.trace(fn, *args).plan(mesh, layout, **options)
    report = plan.check()
    assert report.ok, report
    assert len(report.merged) == merges, report
    assert all(m.compiled < m.predicted and m.payload_bytes <= SMALL for m in report.merged)
    return plan


# Values that are spelt twice: `test_terms` has the spellings


def test_a_penalty_beside_logged_norms():
    def step(w, x):
        value, grads = jax.value_and_grad(lambda w: jnp.square(x @ w).mean() + 1e-4 * (w**2).sum())(w)
        return value, grads, optax.tree.norm(w), jnp.sqrt(jnp.vdot(w, w)), jnp.linalg.norm(w)

    # `vdot` is a contraction, the others are sums of squares: two scalars are sent where the compiler sends one.
    plan = holds(step, (like("b c", 8, 8), AB), "b:x", merges=1)
    assert [c.payload_bytes for c in plan.collectives if not c.shape] == [4, 4]


def test_a_mean_and_the_mean_inside_a_variance():
    def norm(x):
        m, v = x.mean(0), x.var(0)
        return (x - m) * lax.rsqrt(v + 1e-5), m, v

    holds(norm, (AB,), {"a": "x", "out/1": {"b": "x"}, "out/2": {"b": "x"}})


def test_a_scan_that_stacks_one_value_twice():
    def fn(x, c):
        return jax.tree.map(sort, lax.scan(lambda c, x: (c + x, (jnp.sin(c), jnp.sin(c))), c, x)[1])

    plan = holds(fn, (like("t a b", 4, 4, 8), like("a b", 4, 8)), "b:x", merges=1)
    assert len(plan.collectives) == 2


def test_a_scan_that_slices_one_value_twice():
    def riccati(p, a, b):
        return p - b @ jnp.linalg.solve(jnp.eye(2) + b.T @ p @ b, b.T @ p @ a)

    def cost(a, b):
        return lax.scan(lambda p, _: (riccati(p, a, b), None), jnp.eye(4), None, length=4)[0].sum()

    holds(jax.grad(cost, argnums=(0, 1)), (like("_ _", 4, 4), like("_ ctrl", 4, 2)), "ctrl:x", merges=1)


# What is known before it runs


def center(train):
    return lambda x: lax.cond(train, lambda x: x - x.mean(1, keepdims=True), lambda x: x, x)


NEVER_RUN = {
    "a branch by a flag": center(False),
    "a loop without iterations": lambda x: lax.fori_loop(3, 3, lambda i, c: sort(c) + i, x),
    "a scan without iterations": lambda x: lax.scan(lambda c, r: (sort(c) + r, None), x, jnp.ones((0, 8, 8)))[0],
    "what a constant mask leaves out": lambda x: jnp.where(jnp.ones((8, 8), bool), x, sort(x)),
    "a zeroth power": lambda x: sort(x) ** 0 + x,
    "no elements": lambda x: sort(x)[:, :0],
}


@pytest.mark.parametrize("name", NEVER_RUN)
def test_what_is_not_needed_sends_nothing(name):
    assert not holds(NEVER_RUN[name], (AB,), "b:x", X4).collectives


def test_a_branch_that_is_always_taken_is_no_branch():
    plan = holds(lambda x: lax.switch(1, [sort, lambda x: -sort(x * 2), jnp.tanh], x), (AB,), "b:x", X4)
    assert len(plan.collectives) == 1
    assert "cond" not in str(plan.steps)


def test_the_smallest_of_a_partition():
    holds(lambda x: jnp.partition(x, 3, axis=1)[:, :3].sum(1), (AB,), "b:x", X4, merges=1)


def test_integers_that_cancel():
    ints = like("a b", 8, 8, dtype=jnp.int32)

    def fn(x):
        return sort(x) * 0, sort(x) - sort(x), jnp.greater_equal(sort(x), sort(x))

    assert not holds(fn, (ints,), "b:x", X4).collectives


def test_the_branch_of_the_platform_is_the_only_one():
    for fn in (lambda x: jnp.diagonal(x * x), lambda x: jnp.trace(x * x), lambda x: jnp.diag(x @ x.T)):
        plan = holds(fn, (like("a b", 8, 8),), "b:x")
        assert not plan.explain().warnings


# What is the same everywhere, or in every iteration


def test_the_softmax_of_zeros():
    assert not holds(lambda x: jax.nn.softmax(jnp.zeros((8, 8)), 1) * x, (AB,), "b:x").collectives


@pytest.mark.parametrize("reduce", [jnp.max, jnp.min, jnp.sum, jnp.mean, jax.nn.logsumexp])
def test_what_one_number_reduces_to(reduce):
    def fn(x, s):
        return reduce(jnp.full((8, 8), s), axis=1)[:, None] * x

    assert not holds(fn, (AB, like("", dtype=F32)), "b:x").collectives


def test_what_a_scan_slices_from_ones():
    def fn(w, c):
        return lax.scan(lambda c, x: (jnp.tanh(c) + x @ w, None), c, jnp.ones((4, 8, 8)))[0]

    (reduced,) = holds(fn, (like("k o", 8, 8), like("_ o", 8, 8)), "k:x", merges=1).collectives
    assert reduced.times == 4


def test_what_a_scan_slices_from_what_is_repeated():
    def fn(x, a, s):
        turned = lax.scan(lambda v, q: (v @ q, None), x, jnp.broadcast_to(a, (3, 4, 4)))[0]
        scaled = lax.scan(lambda v, q: (v * q, None), x, jnp.full((3,), s))[0]
        spread = lax.scan(lambda v, q: (v * q, None), x, jnp.broadcast_to(a[0], (3, 8, 4)))[0]
        return turned, scaled, spread

    args = like("batch f", 8, 4), like("_ _", 4, 4), like("", dtype=F32)
    for layout in ("batch:x", "f:x"):
        holds(fn, args, layout)


def test_the_cotangent_of_what_a_scan_stacks():
    def fn(b, p):
        return lax.scan(lambda p, _: (p @ (b @ (b.T @ p)), b.T @ p), p, None, length=4)[1].sum()

    holds(jax.grad(fn), (like("_ ctrl", 4, 2), like("_ _", 4, 4)), "ctrl:x", merges=1)


# Shards of one element


@pytest.mark.parametrize("other", [sort, lax.cummax, jnp.prod, jnp.argmax, lambda e: e[::-1]])
def test_a_running_sum_of_shards_of_one_element(other):
    holds(lambda e: (jnp.cumsum(e), other(e)), (like("edge", 8),), "edge:x", X8)


def test_running_sums_along_an_axis_of_shards_of_one_element():
    holds(lambda e: (lax.cummax(e, 1), jnp.cumsum(e, 1)), (like("a edge", 8, 8),), "edge:x", X8)


# Not a number


@pytest.mark.parametrize("fn", [lambda x: x.max(1), lambda x: x.min(1), lambda x: jnp.abs(x).max(), jnp.ptp])
def test_nan_survives_an_extreme(fn):
    x = np.zeros((2, 8), np.float32)
    x[0, 1] = x[1, 6] = np.nan
    plan = ml.trace(fn, like("a b", 2, 8)).plan(X2, "b:x")
    np.testing.assert_array_equal(plan.run(x), fn(x))
    assert plan.check(x).ok


def test_where_nothing_was_a_number_it_is_said():
    report = ml.trace(lambda x: jnp.log(x - 2), AB).plan(X2, "b:x").check()
    assert "of all data drawn `out` is NaN or infinite everywhere" in str(report)
    report = ml.trace(jnp.log, AB).plan(X2, "b:x").check(np.full((8, 8), -1.0, np.float32))
    assert "of the arguments `out` is NaN" in str(report)
    assert not ml.trace(jnp.log, AB).plan(X2, "b:x").check(np.ones((8, 8), np.float32)).notes


# Complex numbers


def test_complex_numbers_are_compared_by_their_precision():
    args = [like(names, 8, 8, dtype=jnp.complex64) for names in ("a b", "b c")]
    plan = holds(lambda x, w: x @ w, args, "b:x")
    ((_, _, allowed),) = plan.check().errors
    assert allowed == 2e-4


@pytest.mark.parametrize("layout", ["", "h:x", "w:x", "b:x"])
def test_transforms_whose_operands_lie_in_another_order(layout):
    def loss(o, z, m):
        return jnp.square(jnp.abs(jnp.fft.fft2(o[None] * z)) - m).mean()

    c = jnp.complex64
    args = like("h w", 8, 8, dtype=c), like("b h w", 4, 8, 8, dtype=c), like("b h w", 4, 8, 8)
    holds(jax.grad(loss), args, layout)


# What is carried


def test_an_output_of_other_dims_is_not_carried():
    args = like("a b", 8, 8), like("b c z", 8, 8, 2)
    program = ml.trace(lambda x, w: jnp.einsum("ab,bcz->ac", x, w), *args)
    assert program.carry == {}
    assert program.plan(X2, {"c": "x", "x": {"a": "x"}}).check().ok


def test_rules_of_a_carried_output_are_judged():
    args = like("a b", 8, 8), like("b c z", 8, 8, 2)
    program = ml.trace(lambda x, w: jnp.einsum("ab,bcz->ac", x, w), *args, carry={"x": 0})
    reason = "At `out`: `a` and `c` cannot both be on `x`.*It is the next `x`, and has its rules.*Give `out` rules"
    with pytest.raises(ml.LayoutError, match=reason):
        program.plan(X2, {"c": "x", "x": {"a": "x"}})
    assert program.plan(X2, {"c": "x", "x": {"a": "x"}, "out": {"a": None}}).check().ok


# Sizes of zero


@pytest.mark.parametrize("pad", [False, True])
def test_a_dim_of_size_zero_is_not_split(pad):
    program = ml.trace(lambda e: e.sum(0), like("e b", 0, 8))
    with pytest.raises(ml.LayoutError, match="`e` has size 0: there is nothing to shard. Leave it replicated."):
        program.plan(X2, "e:x", pad=pad)
    assert program.plan(X2, "b:x", pad=pad).check().ok


# Loops under vmap


def test_a_loop_whose_test_is_made_for_each_of_several():
    def one(x):
        def going(s):
            return (s[0] < 5) & (s[1].sum() < 20.0)

        return lax.while_loop(going, lambda s: (s[0] + 1, s[1] * 1.5), (0, x))

    x = np.random.default_rng(0).random((8, 4)).astype(np.float32) * np.arange(1, 9, dtype=np.float32)[:, None]
    for layout in ("a:x", "b:x"):
        plan = holds(jax.vmap(one), (like("a b", 8, 4),), layout)
        assert plan.check(x).ok


def test_keys_are_padded():
    def fn(keys):
        return jax.vmap(lambda k: jax.random.normal(k, (4,)))(keys)

    keys = jax.random.split(jax.random.key(0), 6)
    program = ml.trace(fn, ml.named(keys, "a"))
    assert program.plan(X4, "a:x", pad=True).check(keys).ok


# What a compiler merges beyond what the plan knows


def test_what_is_merged_is_told():
    """The first is without a name, and the plan keeps what layouts address."""

    def fn(x):
        return sort((x.reshape(2, 4, 8) * 2).reshape(8, 8)), sort(x * 2)

    report = ml.trace(fn, AB).plan(X2, "b:x").check()
    (merged,) = report.merged
    assert report.ok
    assert report.bytes_equal
    assert report.predicted != report.compiled
    assert (merged.kind, merged.axes, merged.predicted, merged.compiled) == ("all-gather", ("x",), 2, 1)
    assert re.search(r"≈ all-gather over x +256 +128\n", str(report))
    assert "merged by the compiler: all-gather over x of float32[4×8] runs once where 2 were predicted" in str(report)
