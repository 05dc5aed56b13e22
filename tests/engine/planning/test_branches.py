"""`while` and `cond`: blocks that run as often as data say, on all devices alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.programs.random_arguments import drawn_arguments

pytestmark = pytest.mark.share(2, of="file")

A, B = ml.dims(a=8, b=16)
LAYOUTS = ("", "a:x", "b:x", "a:x b:y", "a:y+x", "b:x+y")


def holds(fn, *arguments, layouts=LAYOUTS):
    program = ml.trace(fn, *arguments)
    for layout in layouts:
        report = program.plan(ml.mesh(x=2, y=4), layout).check()
        assert report.ok, f"{layout}: {report}"
    return program


def test_a_while_whose_turns_data_decide():
    def fn(x):
        def turn(state):
            value, turns = state
            return value - 0.1 * value.sum(1, keepdims=True), turns + 1

        return lax.while_loop(lambda s: (jnp.abs(s[0]).max() > 0.1) & (s[1] < 20), turn, (x.array, 0))

    program = holds(fn, ml.f32[A, B])
    plan = program.plan(ml.mesh(x=2), "b:x")
    assert plan.spec("out/0") == ml.Spec(((), ("x",)))
    # One sum a turn, and one maximum a test: a loop is tested once more than it turns.
    assert [(c.kind, c.times) for c in plan.collectives] == [("all-reduce", 1), ("all-reduce", 2)]


def test_a_while_that_counts_is_counted():
    def fn(x):
        return lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * s[1].sum()), (0, x.array))[1]

    program = holds(fn, ml.f32[A, B])
    (reduced,) = program.plan(ml.mesh(x=2), "a:x").collectives
    assert reduced.times == 5


@pytest.mark.parametrize(
    ("start", "test", "step", "turns"),
    [
        (0, lambda i: i < 7, 2, 4),
        (0, lambda i: i <= 6, 2, 4),
        (9, lambda i: i > 0, -4, 3),
        (9, lambda i: 1 <= i, -4, 3),
        (3, lambda i: i < 3, 1, 0),
    ],
)
def test_turns_are_counted_as_python_counts_them(start, test, step, turns):
    def fn(x):
        return lax.while_loop(lambda s: test(s[0]), lambda s: (s[0] + step, s[1] + s[1].sum()), (start, x.array))[1]

    program = ml.trace(fn, ml.f32[A, B])
    plan = program.plan(ml.mesh(x=2), "a:x")
    assert [c.times for c in plan.collectives] == [turns] * bool(turns)
    assert plan.check().ok


def test_a_carry_is_as_split_as_the_body_leaves_it():
    def fn(x, w):
        return lax.while_loop(lambda s: s.sum() < 100.0, lambda s: s @ w + 1.0, x.array)

    program = holds(fn, ml.f32[A, B], ml.named(jnp.ones((16, 16)), "b _"))
    assert program.plan(ml.mesh(x=2), "a:x").spec("out") == ml.Spec((("x",), ()))


def test_branches_of_which_one_is_taken():
    def fn(x, y):
        return lax.cond(
            x.array.sum() > 0, lambda a, b: a.sum(1) * b[0, 0], lambda a, b: a.max(1) + b.sum(), x.array, y.array
        )

    program = holds(fn, ml.f32[A, B], ml.f32[A, B])
    kinds = [(c.kind, c.payload_bytes) for c in program.plan(ml.mesh(x=2), "b:x").collectives]
    assert ("all-reduce", 4) in kinds


def test_branches_return_what_all_can_return():
    def fn(x, i):
        return lax.switch(i, [lambda a: a * 2, lambda a: a @ jnp.ones((16, 16)), jnp.zeros_like], x.array)

    program = holds(fn, ml.f32[A, B], jax.ShapeDtypeStruct((), jnp.int32))
    assert program.plan(ml.mesh(x=2), "a:x").spec("out") == ml.Spec((("x",), ()))
    assert program.plan(ml.mesh(x=2), "b:x").spec("out").splits[0] == ()


@pytest.mark.parametrize("turned", [False, True])
def test_what_one_branch_returns_whole_is_cut(turned):
    """It is not gathered in the other one, and told with no loop where there is none."""

    def fn(x, w):
        branches = [lambda x: jnp.sort(x, 1), lambda x: x * 2, jnp.zeros_like]
        y = lax.switch(w, branches[::-1] if turned else branches, x.array)
        return y, y + 1

    program = holds(fn, ml.f32[A, B], jax.ShapeDtypeStruct((), jnp.int32))
    plan = program.plan(ml.mesh(x=2), "b:x")
    assert plan.spec("out/0") == ml.Spec(((), ("x",)))
    assert [(c.kind, c.because) for c in plan.collectives] == [
        ("all-gather", "`sort` needs `b` whole, but it is split over `x`.")
    ]
    padded = ml.trace(fn, ml.f32[A, ml.Dim("b", 13)], jax.ShapeDtypeStruct((), jnp.int32))
    assert padded.plan(ml.mesh(x=2, y=2), "b:x a:y", pad=True).check().ok


def test_branches_that_lie_otherwise_meet_where_the_least_is_sent():
    """One branch leaves a split of its argument alone, the other one has the same axis on another dim."""

    def fn(x, w, flag):
        return lax.cond(flag > 0, lambda: x.array * 2, lambda: w.array + 1)

    program = ml.trace(fn, ml.f32[A, B], ml.f32[A, B], jax.ShapeDtypeStruct((), jnp.int32))
    for out in ("a", "b"):
        plan = program.plan(ml.mesh(p=2), {"x": {"a": "p"}, "w": {"b": "p"}, "out": {out: "p"}})
        assert plan.check().ok
        (moved,) = plan.collectives
        assert (moved.kind, moved.payload_bytes) == ("all-to-all", 8 * 16 * 4 // 2)
        other = "ab".replace(out, "")
        assert moved.because == f"The branches return it with `{other}` whole, but one makes it split over `p`."
        assert moved.remedy == f"Take `{other}` off `p`."


def test_a_partial_sum_of_one_branch_is_scattered_to_what_the_other_makes():
    def fn(x, w, flag):
        return lax.cond(flag > 0, lambda: x.array @ w.array, lambda: x.array[:, :8] * 2)

    named = ml.f32[A, B], ml.f32[B, ml.Dim("c", 8)], jax.ShapeDtypeStruct((), jnp.int32)
    program = ml.trace(fn, *named)
    for layout in ("b:x", "a:y b:x", "b:x+y", "a:x c:y", "b:x c:y"):
        plan = program.plan(ml.mesh(x=2, y=2), layout)
        report = plan.check()
        assert report.ok, f"{layout}: {report}"


def test_gradients_go_through_branches():
    def loss(x, w, flag):
        return lax.cond(flag > 0, lambda h: (h**2).sum(), lambda h: jnp.abs(h).sum(), x.array @ w.array)

    holds(jax.grad(loss, argnums=1), ml.f32[A, B], ml.f32[B, ml.Dim("c", 8)], jax.ShapeDtypeStruct((), jnp.int32))


def test_a_predicate_that_is_one_of_many_is_a_select():
    def fn(x, y):
        return jax.vmap(lambda a, b: lax.cond(a.sum() > 0, lambda: a * 2, lambda: b))(x.array, y.array)

    holds(fn, ml.f32[A, B], ml.f32[A, B])


def test_a_scan_with_branches_and_a_while_inside():
    def fn(x):
        def layer(h, i):
            h = lax.cond(i % 2 == 0, lambda v: v - v.mean(1, keepdims=True), lambda v: v / 2, h)
            return lax.while_loop(lambda v: jnp.abs(v).max() > 1.0, lambda v: v * 0.5, h), (h**2).sum()

        return lax.scan(layer, x.array, jnp.arange(4))

    holds(fn, ml.f32[A, B])


def test_linear_solves_are_what_solves_them():
    def fn(m, x):
        matvec = lambda v: m @ v  # noqa: E731 - as jax.scipy has it
        return jax.scipy.sparse.linalg.cg(matvec, x.array.sum(1), maxiter=3)[0]

    program = ml.trace(fn, ml.named(jnp.eye(8), "a _"), ml.f32[A, B])
    assert program.plan(ml.mesh(x=2), "b:x").check(jnp.eye(8) * 2.0, ml.tensor(jnp.ones((8, 16)), A, B)).ok


def test_xla_is_handed_loops_and_branches_as_well():
    def fn(x):
        y = lax.while_loop(lambda v: jnp.abs(v).max() > 1.0, lambda v: v * 0.5, x.array)
        return lax.cond(y.sum() > 0, lambda: y @ y.T, lambda: -y @ y.T)

    plan = ml.trace(fn, ml.f32[A, B]).plan(ml.mesh(x=2), "b:x")
    (x,) = drawn_arguments(plan.program, positive=False)
    np.testing.assert_allclose(plan.xla().run(x), fn(x), rtol=1e-5)
