"""What goes through operations before a layout is known: the questions that the planner and auto share."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.code.operations import walk
from meshlab.engine.planning.propagation import (
    bodies,
    entering,
    going_round,
    leaving,
    lets_through,
    passes_targets_on,
)

X = ml.named(jax.ShapeDtypeStruct((4, 6), jnp.float32), "a b")


def one(fn, name, *arguments):
    """The program of a function, and its first operation of a name."""
    program = ml.trace(fn, *arguments)
    return program, next(op for op in walk(program.code.block) if op.name == name)


@pytest.mark.parametrize(
    ("fn", "name", "passes"),
    [
        (lambda x: jnp.sin(x), "sin", True),
        (lambda x: x.T + 1, "transpose", True),
        (lambda x: x + x.mean(0), "broadcast_in_dim", False),
        (lambda x: x.sum(0), "reduce_sum", False),
        (lambda x: x @ x.T, "dot_general", False),
        (lambda x: jnp.sort(x), "sort", False),
    ],
)
def test_which_operations_pass_the_target_spec_of_their_result_on(fn, name, passes):
    program, operation = one(fn, name, X)
    assert passes_targets_on(operation, program.factors[operation]) is passes


def test_partial_sums_go_through_where_the_others_are_zero():
    program, operation = one(lambda x, y: x + y, "add", X, X)
    factors = program.factors[operation]
    assert not lets_through(operation, factors, (0,), lambda value: False)
    assert lets_through(operation, factors, (0,), lambda value: value == operation.inputs[1])
    assert lets_through(operation, factors, (0, 1), lambda value: False)
    program, operation = one(lambda x, y: jnp.maximum(x, y), "max", X, X)
    assert not lets_through(operation, program.factors[operation], (0, 1), lambda value: True)


def test_a_scan_carries_first_and_slices_the_rest():
    def fn(x, y):
        return jax.lax.scan(lambda c, row: (c + row, c * 2), y, x)

    y = ml.named(jax.ShapeDtypeStruct((6,), jnp.float32), "b")
    program, loop = one(fn, "scan", X, y)
    (body,) = bodies(loop)
    assert [stacked for *_, stacked in entering(loop, body)] == [False, True]
    assert [stacked for *_, stacked in leaving(loop, body)] == [False, True]
    assert list(going_round(loop, body)) == [(body.inputs[0], body.outputs[0])]
    for outer, inner, stacked in entering(loop, body):
        assert program.code.shape_of(outer)[stacked:] == program.code.shape_of(inner)


def test_the_test_of_a_while_makes_no_results():
    _, loop = one(lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x), "while", X)
    assert bodies(loop) == loop.blocks[:1]
    assert len(loop.blocks) == 2
    assert [outer for outer, *_ in entering(loop, loop.blocks[1])] == list(loop.inputs)
