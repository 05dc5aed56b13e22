"""The normal form keeps the operations that a compiler keeps, and computes the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.code.flatten import flatten
from meshlab.engine.code.operations import walk
from meshlab.engine.passes.normalize import normalize, outside_reads
from meshlab.engine.programs.constants import uniform_values

A, B = ml.dims(a=4, b=6)


def code(fn, *args):
    return normalize(flatten(jax.make_jaxpr(fn)(*args)))


def operations(fn, *args):
    return [operation.name for operation in code(fn, *args).block.operations]


X = jnp.ones((4, 6))


def test_what_no_output_needs_is_dropped():
    assert operations(lambda x: (jnp.sin(x), x * 2)[1], X) == ["mul"]


def test_equal_operations_are_one_and_unequal_ones_are_not():
    assert operations(lambda x: jnp.sin(x) + jnp.exp(jnp.sin(x)), X) == ["sin", "exp", "add"]
    assert operations(lambda x: x[0] + x[1] * 2, X).count("slice") == 2
    assert operations(lambda x: (x * 2.0) + (x * 3.0), X) == ["mul", "mul", "add"]
    # Equal but for the bits of a literal: -0 is not 0.
    assert operations(lambda x: jnp.atan2(x, 0.0) + jnp.atan2(x, -0.0), X).count("atan2") == 2


def test_the_order_of_what_is_added_or_multiplied_makes_no_difference():
    def fn(x, y):
        return x * y, y * x, x + y, y + x, x - y, y - x

    assert sorted(operations(fn, X, X + 1)) == ["add", "mul", "sub", "sub"]


def test_operations_that_return_their_operand_are_taken_out():
    def fn(x):
        return x * 1.0, x + 0.0, x - 0.0, x / 1, x**1, x.reshape(4, 6), x.T.T, jnp.where(True, x, -x)

    assert operations(fn, X) == []


def test_calls_are_inlined_and_marks_taken_out():
    def fn(x):
        named = ml.tensor(x, A, B)
        return jax.jit(lambda y: ml.relu(y * 1.5))(named).array

    assert not {"pjit", "jit", "custom_jvp_call", "dim_names"}.intersection(operations(fn, X))


def test_what_a_loop_does_not_change_moves_in_front_of_it():
    def fn(x, w):
        return jax.lax.scan(lambda c, _: (c * jnp.sin(w), jnp.cos(c)), x, None, length=3)

    block = code(fn, X, X).block
    assert [operation.name for operation in block.operations] == ["sin", "scan"]
    (loop,) = [operation for operation in block.operations if operation.body]
    assert loop.body is not None
    assert {operation.name for operation in loop.body.operations} == {"mul", "cos"}
    assert outside_reads(loop.body) == {block.operations[0].outputs[0]}


def test_loops_in_loops_hand_out_all_the_way():
    def fn(x, w):
        inner = lambda c: jax.lax.scan(lambda d, _: (d * jnp.exp(w), None), c, None, length=2)[0]  # noqa: E731
        return jax.lax.scan(lambda c, _: (inner(c), None), x, None, length=3)[0]

    assert operations(fn, X, X) == ["exp", "scan"]


def _scaled(w):
    """A loop that scales by what does not change inside."""
    return lambda x: jax.lax.scan(lambda c, _: (c * jnp.sin(w), None), x, None, length=3)[0]


@pytest.mark.parametrize(
    ("fn", "left"),
    [
        (lambda x, w: _scaled(w)(x) + jnp.sin(w), ["sin", "scan", "add"]),
        (lambda x, w: _scaled(w)(_scaled(w)(x)), ["sin", "scan", "scan"]),
        (lambda x, w: _scaled(w)(x) + jnp.sin(w[None])[0], ["sin", "scan", "add"]),
        (
            lambda x, w: jax.lax.scan(lambda c, _: (_scaled(w)(c) + jnp.sin(w), None), x, None, length=2)[0],
            ["sin", "scan"],
        ),
        # Equal loops are one when what they read is one.
        (lambda x, w: _scaled(jnp.exp(w))(x) + _scaled(jnp.exp(w))(x), ["exp", "sin", "scan", "add"]),
    ],
    ids=["after it", "in two loops", "in another shape", "in a loop around it", "in front of both"],
)
def test_what_moves_out_of_a_loop_is_one_with_its_equals(fn, left):
    assert [name for name in operations(fn, X, X) if name != "reshape"] == left


def test_what_is_recomputed_is_not_merged_with_the_first_computation():
    def fn(x):
        return jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum())(x)

    block = code(fn, X).block
    (recomputed,) = [operation for operation in walk(block) if operation.body is not None]
    assert recomputed.body is not None
    assert "sin" in {operation.name for operation in recomputed.body.operations}


def test_values_of_one_number_are_known():
    def fn(x):
        return jnp.zeros(3), jnp.full(3, 2.0), x, jnp.broadcast_to(x[:, :1], (4, 6))

    flat = flatten(jax.make_jaxpr(fn)(X))
    uniform, zeros = uniform_values(flat)
    outputs = flat.block.outputs
    assert [v in uniform for v in outputs] == [True, True, False, False]
    assert [v in zeros for v in outputs] == [True, False, False, False]


def test_the_normal_form_computes_the_same():
    def fn(x, y):
        def body(c, row):
            return c * jnp.sin(y).sum() + row, (c + row, jnp.zeros(6))

        (c, (stacked, _)) = jax.lax.scan(body, y[0], x)
        return c, stacked, x * 1.0 + 0.0 * x

    args = ml.f32[A, B], ml.f32[A, B]
    program = ml.trace(lambda x, y: fn(x.array, y.array), *args)
    x, y = (np.random.default_rng(i).random((4, 6), np.float32) for i in (0, 1))
    for expected, result in zip(fn(x, y), program.plan(ml.mesh()).run(x, y), strict=True):
        np.testing.assert_allclose(expected, result, rtol=1e-6)


def test_loops_that_compute_the_same_are_one():
    def fn(x, w):
        def run():
            return jax.lax.scan(lambda c, row: (jnp.tanh(c * row.sum()), c), x.array, w.array)

        (a, b), (c, d) = run(), run()
        return a + c, b * d

    program = ml.trace(fn, ml.f32[A], ml.f32[ml.Dim("layers", 4), B])
    assert [op.name for op in program.code.block.operations].count("scan") == 1
    assert program.plan(ml.mesh(x=2), "b:x").check().ok


def test_loops_that_differ_inside_stay_two():
    def fn(x, w):
        one = jax.lax.scan(lambda c, row: (c * row.sum(), None), x.array, w.array)[0]
        other = jax.lax.scan(lambda c, row: (c + row.sum(), None), x.array, w.array)[0]
        return one + other

    program = ml.trace(fn, ml.f32[A], ml.f32[ml.Dim("layers", 4), B])
    assert [op.name for op in program.code.block.operations].count("scan") == 2
    assert program.plan(ml.mesh(x=2), "b:x").check().ok


def test_what_is_equal_but_for_its_names_stays_apart():
    Left, Right = ml.dims(left=4, right=4)

    def fn(x, y):
        return jax.tree.map(lambda u: u + jnp.exp(jnp.zeros_like(u)), (x, y))

    program = ml.trace(fn, ml.f32[Left], ml.f32[Right])
    assert program.plan(ml.mesh(m=2), "left:m right:m").check().ok


def test_a_sum_of_a_sum_is_one_sum():
    D, C = ml.dims(d=8, c=4)

    def step(a, b, t, x):
        return jax.grad(lambda a, b: ml.square(ml.tanh(x + a + (t + b))).mean(), (0, 1))(a, b)

    program = ml.trace(step, ml.f32[C], ml.f32[C], ml.f32[D, C], ml.f32[D, A, C])
    plan = program.plan(ml.mesh(x=2), "d:x")
    assert plan.check().ok
    assert [c.payload_bytes for c in plan.collectives] == [16]
