"""Two spellings that XLA makes one value are one in the plan too, or `check()` names what the compiler merged."""

import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml

pytestmark = pytest.mark.share(2, of="file")

X2 = ml.mesh(x=2)
CLOSE_TO_THIRD = np.float32(1 / 3)

# Each row: one value, written in several ways. First what training steps mix: one value in the plan.
POWERS = [
    [jnp.square, lambda x: x * x, lambda x: x**2, lambda x: lax.pow(x, 2.0)],
    [lambda x: x**3, lambda x: x * x * x, lambda x: x * (x * x), lambda x: lax.pow(x, 3.0)],
    [lambda x: x**4, lambda x: jnp.square(jnp.square(x))],
    [lambda x: x**-1, lambda x: 1 / x, lambda x: lax.pow(x, -1.0)],
    [lambda x: x**-2, lambda x: 1 / (x * x)],
    [lambda x: x**0 + x, lambda x: 1 + x],
    [lax.rsqrt, lambda x: 1 / jnp.sqrt(x)],
    [lambda x: 2 * lax.rsqrt(x), lambda x: 2 / jnp.sqrt(x)],
    [lambda x: x / 2, lambda x: x * 0.5],
    [lambda x: x / 3, lambda x: x * CLOSE_TO_THIRD, lambda x: x / jnp.full((8, 8), 3.0)],
    [lambda x: jnp.where(True, x, jnp.sin(x)), lambda x: jnp.where(jnp.ones((8, 8), bool), x, jnp.cos(x))],
    [lambda x: x * 1, lambda x: x / 1.0, lambda x: x - 0, lambda x: 0 + x, lambda x: x],
    [lambda x: x / jnp.ones((8, 8)).sum(0), lambda x: x / 8, lambda x: x / (1 - jnp.zeros((8, 8))).sum(1)],
]
SAME = [
    [lambda x: x.T.T, lambda x: x[:, None].squeeze(1), lambda x: x[::-1][::-1], lambda x: jnp.flip(jnp.flip(x))],
    [lambda x: jnp.exp(x[None])[0] - 1, lambda x: jnp.exp(x[:, None]).squeeze(1) - 1, lambda x: jnp.exp(x) - 1],
    [lambda x: x - x.mean(0), lambda x: x - x.mean(0, keepdims=True), lambda x: x - x.sum(0) / 8],
    [lambda x: x * x.var(0), lambda x: x * jnp.square(x - x.mean(0)).mean(0)],
    [lambda x: jnp.tril(x), lambda x: jnp.where(jnp.tri(8, dtype=bool), x, 0)],
    [lambda x: x * lax.clamp(1.0, 0.0, 2.0), lambda x: x],
]
# Other spellings, of which XLA makes one value, and the plan several.
SIZES = [
    [lambda x: jnp.sqrt(x * x), jnp.abs, lambda x: jnp.abs(jnp.abs(x))],
    [lambda x: jnp.abs(x * x), lambda x: jnp.abs(x) * jnp.abs(x), jnp.square],
]
NUMBERS = [
    [lambda x: x / 2, lambda x: (2 * x) / 4],
    [lambda x: x + 1 + 2, lambda x: x + 3, lambda x: x - 1 + 4],
    [lambda x: x - 1, lambda x: x + -1],
    [lambda x: x * 2 * 3, lambda x: x * 6],
    [lambda x: 2 * x + 2 * jnp.sin(x), lambda x: 2 * (x + jnp.sin(x))],
]
QUOTIENTS = [
    [lambda x: (x / jnp.sin(x)) / jnp.cos(x), lambda x: x / (jnp.sin(x) * jnp.cos(x))],
    [lambda x: x / (jnp.sin(x) / jnp.cos(x)), lambda x: x * jnp.cos(x) / jnp.sin(x)],
    [lambda x: -x * -jnp.sin(x), lambda x: x * jnp.sin(x)],
    [lambda x: jnp.negative(-x), lambda x: x],
]
EXPONENTIALS = [
    [jax.nn.sigmoid, lambda x: 1 / (1 + jnp.exp(-x))],
    [lambda x: jnp.log(jnp.exp(x)), lambda x: x],
    [lambda x: jnp.exp(x) * jnp.exp(x + 1), lambda x: jnp.exp(x + (x + 1))],
    [lambda x: jnp.exp(x) / jnp.exp(jnp.sin(x)), lambda x: jnp.exp(x - jnp.sin(x))],
    [lambda x: x / jnp.exp(x), lambda x: x * jnp.exp(-x)],
    [lambda x: lax.pow(jnp.exp(x), 0.3), lambda x: jnp.exp(x * 0.3)],
    [lambda x: jnp.log(jnp.sqrt(x)), lambda x: 0.5 * jnp.log(x)],
    [lambda x: jnp.abs(jnp.exp(x)), jnp.exp],
    [jnp.exp2, lambda x: jnp.exp(x * np.float32(np.log(2)))],
]
BOUNDS = [
    [lambda x: jnp.clip(x, 0, 1), lambda x: lax.clamp(0.0, x, 1.0), lambda x: jnp.minimum(jnp.maximum(x, 0), 1)],
    [lambda x: jnp.maximum(jnp.minimum(x, 1), 0), lambda x: jnp.clip(x, 0, 1)],
    [lambda x: jnp.maximum(x, -jnp.inf), lambda x: x, lambda x: jnp.maximum(x, x)],
    [lambda x: jnp.where(~(x > 0), x, jnp.sin(x)), lambda x: jnp.where(x > 0, jnp.sin(x), x)],
    [lambda x: jnp.where(x > 0, x, 0), lambda x: x * (x > 0)],
]
MOVED = [
    [lambda x: x[::-1][::-1], lambda x: jnp.roll(x, 8, 0), lambda x: jnp.flip(jnp.flip(x)), lambda x: x],
    [lambda x: jnp.stack([x, x * 2])[0], lambda x: jnp.concatenate([x, x * 2])[:8], lambda x: x],
    [lambda x: jnp.concatenate([x, x * 2])[2:5], lambda x: x[2:5], lambda x: lax.dynamic_slice(x, (2, 0), (3, 8))],
    [lambda x: x[2:7][1:4], lambda x: x[3:6]],
    [lambda x: jnp.pad(x, ((2, 2), (0, 0)))[2:10], lambda x: lax.dynamic_slice(x, (0, 0), (8, 8)), lambda x: x],
    [lambda x: jnp.concatenate([x[:3], x[3:]]), lambda x: jnp.concatenate(jnp.split(x, 2)), lambda x: x],
    [lambda x: lax.dynamic_update_slice(x, x * 2, (0, 0)), lambda x: x.at[:].set(x * 2), lambda x: x * 2],
    [lambda x: jnp.tile(x, (1, 1)), lambda x: x.T.T, lambda x: x[None, :, None][0, :, 0], lambda x: x],
    [lambda x: jnp.cumsum(x[:, None], 1)[:, 0], lambda x: jnp.sort(x[:, None], 1)[:, 0], lambda x: x],
]
CONVERTED = [
    [lambda x: jnp.real(lax.complex(x, jnp.sin(x))), lambda x: jnp.imag(lax.complex(jnp.sin(x), x)), lambda x: x],
    [lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int32), jnp.float32), lambda x: x],
    [
        lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
        lambda x: x.astype(jnp.bfloat16).astype(jnp.float32).astype(jnp.bfloat16).astype(jnp.float32),
    ],
]
SUMS = [
    [lambda x: x * (-x).sum(0), lambda x: x * -(x.sum(0))],
    [lambda x: x / jnp.linalg.norm(x, axis=0), lambda x: x * lax.rsqrt(jnp.square(x).sum(0))],
    [lambda x: x * jnp.einsum("ab,ab->a", x, x)[:, None], lambda x: x * jnp.square(x).sum(1)[:, None]],
    [lambda x: x * jnp.exp(x[0])[None], lambda x: x * jnp.exp(jnp.broadcast_to(x[0], (8, 8)))],
]
ONE = [*POWERS, *SAME]
MERGED = [*SIZES, *NUMBERS, *QUOTIENTS, *EXPONENTIALS, *BOUNDS, *MOVED, *CONVERTED, *SUMS]
# Constants of integers: XLA sends nothing, so that no collective could be like one that the plan had.
CONSTANT = [
    lambda x: x * 0,
    lambda x: x - x,
    lambda x: x ^ x,
    lambda x: x & 0,
    lambda x: jnp.greater_equal(x, x).astype(jnp.int32),
    lambda x: jnp.less(x, x).astype(jnp.int32),
]
MERGED_INTEGERS = [
    [lambda x: x | 0, lambda x: x & -1, lambda x: x],
    [lambda x: x * 2 + x * 3, lambda x: x * 5],
    [lambda x: x * (x + 7) + x * (x ^ 3), lambda x: x * ((x + 7) + (x ^ 3))],
    [lambda x: jnp.abs(jnp.abs(x)), jnp.abs],
]
# Two that look alike to somebody, and are two to XLA.
APART = [
    (lambda x: x - x, jnp.zeros_like),
    (lambda x: x * 0, jnp.zeros_like),
    (lambda x: jnp.sqrt(x) * jnp.sqrt(x), lambda x: x),
    (lambda x: (x + jnp.sin(x)) + jnp.cos(x), lambda x: x + (jnp.sin(x) + jnp.cos(x))),
    (lambda x: jnp.where(x > 0, x, 0), jax.nn.relu),
    (jnp.expm1, lambda x: jnp.exp(x) - 1),
    (lambda x: x.astype(jnp.int32).astype(jnp.float32), lambda x: x),
    (lambda x: jnp.concatenate([x, x * 2])[4:12], lambda x: x),
    (lambda x: x[::-1], lambda x: x),
    (lambda x: x[:, ::-1][::-1], lambda x: x[::-1]),
    (lambda x: jnp.max(x, 0) + x, lambda x: jnp.min(x, 0) + x),
]


def traced(functions, dtype=jnp.float32):
    """A program that sorts what each function makes of one argument."""
    argument = ml.named(jax.ShapeDtypeStruct((8, 8), dtype), "a b")
    return ml.trace(lambda x: tuple(jnp.sort(f(x), -1) for f in functions), argument)


def agrees(program):
    report = program.plan(X2, "b:x").check()
    assert report.ok, report
    assert not report.merged, report


def are_named(rows, dtype=jnp.float32):
    """Functions of a row are several values to the plan; the report names what XLA merges, and no more."""
    for number, row in enumerate(rows):
        program = traced(row, dtype)
        assert len(set(program.code.block.outputs)) > 1, number
        report = program.plan(X2, "b:x").check()
        assert report.ok, report
        assert report.merged, (number, report)
        assert report.predicted != report.compiled
        for one in report.merged:
            assert one.compiled < one.predicted <= len(row)
            assert one.payload_bytes <= 8 * 8 * 4 // 2


def are_one(rows, dtype=jnp.float32):
    """Functions of a row make one value; and XLA's program has the collectives of that plan."""
    program = traced([f for row in rows for f in row], dtype)
    outputs = iter(program.code.block.outputs)
    for number, row in enumerate(rows):
        assert len({next(outputs) for _ in row}) == 1, number
    agrees(program)


@pytest.mark.parametrize("rows", [POWERS, SAME], ids=["powers", "same"])
def test_what_training_steps_spell_in_two_ways_is_one_value(rows):
    are_one(rows)


@pytest.mark.parametrize("function", CONSTANT)
def test_what_is_constant_of_integers_is_never_sent(function):
    program = traced([function], jnp.int32)
    assert not program.plan(X2, "b:x").collectives
    agrees(program)


@pytest.mark.share(5)
@pytest.mark.parametrize("rows", [MERGED[i : i + 9] for i in range(0, len(MERGED), 9)])
def test_what_the_compiler_merges_beyond_that_is_named(rows):
    are_named(rows)


def test_what_it_merges_of_integers_is_named():
    are_named(MERGED_INTEGERS, jnp.int32)


def test_a_spelling_alone_is_equal():
    """No spelling by itself is simplified to anything that sends less."""
    for rows, dtype in ((MERGED, jnp.float32), (MERGED_INTEGERS, jnp.int32)):
        for row in rows:
            agrees(traced(row[:1], dtype))


@pytest.mark.parametrize("pair", APART)
def test_what_only_looks_alike_stays_apart(pair):
    program = traced(pair)
    first, second = program.code.block.outputs
    assert first != second
    agrees(program)


def test_less_in_the_order_of_all_floats_is_not_less():
    """As NaN and -0.0 are compared there."""
    program = traced([lambda x: (x < 0.0) * x, lambda x: lax.lt_to_p.bind(x, jnp.zeros_like(x)) * x])
    assert len(set(program.code.block.outputs)) == 2


# Spellings in spellings

BINARY = [
    [lambda x, y: x + y, lambda x, y: y + x],
    [lambda x, y: x * y, lambda x, y: y * x, lambda x, y: -x * -y],
    [lambda x, y: x / y],
    [lambda x, y: x - y],
    [lambda x, y: jnp.exp(x) * jnp.exp(y), lambda x, y: jnp.exp(x + y)],
    [lambda x, y: jnp.where(x > y, x, y), lambda x, y: jnp.where(~(x > y), y, x)],
    [lambda x, y: 2 * x + 2 * y, lambda x, y: 2 * (x + y)],
]
PLAIN = [*POWERS, *SIZES, *NUMBERS, *QUOTIENTS, *EXPONENTIALS, *BOUNDS, [jnp.sin], [jnp.tanh], [jnp.negative]]


def tree(chance, depth):
    if depth == 0:
        return None
    if chance.random() < 0.35:
        return chance.randrange(len(BINARY)), tree(chance, depth - 1), tree(chance, chance.randrange(depth))
    return chance.randrange(len(PLAIN)), tree(chance, depth - 1)


def spelt(chance, grown):
    """A function that a tree stands for, each part of it in one of its spellings."""
    if grown is None:
        return lambda x: x
    number, *parts = grown
    inner = [spelt(chance, part) for part in parts]
    outer = chance.choice((PLAIN if len(parts) == 1 else BINARY)[number])
    return lambda x: outer(*(f(x) for f in inner))


@functools.cache
def drawn(seed):
    chance = random.Random(seed)
    grown = tree(chance, chance.randint(1, 4))
    return [spelt(chance, grown) for _ in range(2)]


@pytest.mark.share(5)
@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_spellings_drawn_at_random_are_equal_or_named(seed):
    program = traced([f for each in range(seed, seed + 10) for f in drawn(each)])
    report = program.plan(X2, "b:x").check()
    assert report.ok, report
    assert bool(report.merged) == (report.predicted != report.compiled)


# Shapes


def test_an_axis_of_size_1_is_no_other_value():
    def fn(x):
        m = x.mean(0)
        return jnp.sort(m - 1), jnp.sort((x.sum(0, keepdims=True) / 8 - 1)[0]), (x.mean(0, keepdims=True) - 1).T

    program = ml.trace(fn, ml.named(jax.ShapeDtypeStruct((8, 8), jnp.float32), "a b"))
    report = program.plan(X2, "b:x").check()
    assert report.ok, report
    assert sum(c.kind == "all-reduce" for c in program.plan(X2, "a:x").collectives) == 1


def test_operands_that_are_repeated_in_different_ways_stay_apart():
    def fn(x):
        row, column = x[:1], x[:, :1]
        return jnp.sort(jnp.exp(row) + column, -1), jnp.sort(jnp.exp(column) + row, -1), jnp.sort(row + row.T, -1)

    program = ml.trace(fn, ml.named(jax.ShapeDtypeStruct((8, 8), jnp.float32), "a _"))
    assert len(set(program.code.block.outputs)) == 3
    assert program.plan(X2, "a:x").check().ok


def test_what_is_equal_but_of_another_dtype_stays_apart():
    program = traced([lambda x: x.astype(jnp.bfloat16) * 1, lambda x: x * 1])
    assert len(set(program.code.block.outputs)) == 2


def test_zeros_of_different_dims_stay_apart():
    first, second = (ml.named(jax.ShapeDtypeStruct((8,), jnp.float32), name) for name in "ab")

    def fn(x, y):
        return jnp.zeros(8) + 0 * x.astype(jnp.int32), jnp.zeros(8) + 0 * y.astype(jnp.int32)

    a, b = ml.trace(fn, first, second).code.block.outputs
    assert a != b


def test_what_is_applied_to_elements_is_told_by_its_function():
    program = traced(
        [lambda x: x.at[2:4].apply(jnp.sin), lambda x: x.at[2:4].apply(jnp.cos), lambda x: x.at[:].apply(jnp.sin)]
    )
    assert len(set(program.code.block.outputs)) == 3
    agrees(program)


def test_a_complex_power_is_no_real_one():
    argument = ml.named(jax.ShapeDtypeStruct((8,), jnp.complex64), "a")
    program = ml.trace(lambda x: (lax.pow(x, jnp.complex64(2 + 1j)), x * x), argument)
    assert len(set(program.code.block.outputs)) == 2
    assert program.plan(X2, "a:x").check().ok


def test_a_square_of_integers_may_be_below_zero():
    program = traced([lambda x: jnp.abs(x * x), lambda x: x * x], jnp.int32)
    assert len(set(program.code.block.outputs)) == 2
