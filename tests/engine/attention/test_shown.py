"""Masks of positions: a mask that is told is the one that the program computes, at every position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.attention.recognise import recognised
from meshlab.engine.attention.shown import Shown
from meshlab.engine.code.operations import walk

Mask = Callable[[Any, Any], Any]


def told(mask: Mask, queries: int, keys: int, dtype: str = "int32") -> Shown | None:
    """Which keys are shown, by the operation of attention that a program with a mask becomes; None for none."""

    def attend(q, k, v):
        at = (jax.lax.iota(dtype, size).reshape(shape) for size, shape in ((queries, (-1, 1)), (keys, (1, -1))))
        scores = jnp.where(mask(*at), jnp.einsum("bqd,bkd->bqk", q, k), -1e9)
        return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), v)

    q, k = (
        ml.named(jax.ShapeDtypeStruct((1, n, 4), "float32"), f"batch {name} _")
        for n, name in ((queries, "seq"), (keys, "kv"))
    )
    program = recognised(ml.trace(attend, q, k, k), "seq", "kv")
    found = [operation for operation in walk(program.code.block) if operation.name == "attention"]
    return Shown(found[0].params["how"].causal, found[0].params["how"].window) if found else None


# --- all positions count, however many --------------------------------------------------------------------------------

MANY = 8192
TOLD: dict[str, tuple[Mask, Shown]] = {
    "causal": (lambda i, j: i >= j, Shown(causal=True)),
    "of what is hidden": (lambda i, j: ~(j > i), Shown(causal=True)),
    "shifted and scaled": (lambda i, j: 3 * i + 2 >= 3 * j + 1, Shown(causal=True)),
    "a difference": (lambda i, j: jnp.maximum(i - j, -1) >= 0, Shown(causal=True)),
    "a window": (lambda i, j: (i >= j) & (i - j < 300), Shown(True, 300)),
    "to both sides": (lambda i, j: abs(i - j) < 300, Shown(False, 300)),
    "in floats": (lambda i, j: i.astype(float) - j.astype(float) > -0.5, Shown(causal=True)),
    "all": (lambda i, j: i + 1 > i + 0 * j, Shown()),
}
NOT_TOLD: dict[str, Mask] = {
    "a hole": lambda i, j: (i >= j) & ~((i == 4001) & (j == 3001)),
    "a hole of a distance": lambda i, j: (i >= j) & (i - j != 4001),
    "blocks": lambda i, j: (i >= j) & (i // 8 == j // 8),
    "one key": lambda i, j: (i >= j) | (j == 5003),
    "off by one": lambda i, j: i > j,
    "one ahead": lambda i, j: i + 1 >= j,
    "strided": lambda i, j: (i >= j) & ((i - j) % 2 == 0),
    "to the end": lambda i, j: i <= j,
    "rounded": lambda i, j: i.astype("bfloat16") >= j.astype("bfloat16"),
    "wrapped": lambda i, j: i.astype("int8") >= j.astype("int8"),
}


@pytest.mark.parametrize("name", TOLD)
def test_masks_of_distances_are_told(name: str):
    mask, shown = TOLD[name]
    assert told(mask, MANY, MANY) == shown


@pytest.mark.parametrize("name", NOT_TOLD)
def test_a_mask_that_differs_somewhere_is_not_told(name: str):
    assert told(NOT_TOLD[name], MANY, MANY) is None


# --- as the program computes them -------------------------------------------------------------------------------------

UNARY: tuple[Any, ...] = (
    lambda x: x + 3,
    lambda x: x - 1,
    lambda x: 2 * x,
    lambda x: -x,
    lambda x: ~x if jnp.issubdtype(x.dtype, jnp.integer) else x,
    lambda x: abs(x) if jnp.issubdtype(x.dtype, jnp.signedinteger) else x,
    lambda x: x.astype("float32"),
    lambda x: x.astype("int8"),
    lambda x: x.astype("bfloat16"),
    lambda x: x.astype("uint8"),
    lambda x: x // 2,
)
BINARY: tuple[Any, ...] = (jnp.add, jnp.subtract, jnp.maximum, jnp.multiply)
COMPARE: tuple[Any, ...] = (jnp.greater_equal, jnp.greater, jnp.less, jnp.less_equal, jnp.equal, jnp.not_equal)
LOGIC: tuple[Any, ...] = (jnp.logical_and, jnp.logical_or, jnp.logical_xor)


def drawn(random: np.random.Generator) -> Mask:
    """A mask of positions, of a few operations."""

    def pick(options: tuple[Any, ...]) -> Any:
        return options[random.integers(len(options))]

    def number() -> Any:
        steps = [pick(UNARY) for _ in range(random.integers(3))]
        joined = pick((None, None, *BINARY))
        first, second = (pick((0, 1)) for _ in range(2))

        def of(*at: Any) -> Any:
            x = at[first]
            for step in steps:
                x = step(x)
            return x if joined is None else joined(x, at[second].astype(x.dtype))

        return of

    def compared() -> Any:
        one, other, how, fixed = number(), number(), pick(COMPARE), random.integers(-2, 9)
        plain = random.random() < 0.3
        return lambda i, j: how(one(i, j), jnp.asarray(fixed).astype(one(i, j).dtype) if plain else other(i, j))

    one, other, how = compared(), compared(), pick((None, *LOGIC))
    return lambda i, j: one(i, j) if how is None else how(one(i, j), other(i, j))


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["int32", "uint32", "uint8", "float32"])
def test_what_is_told_is_what_the_program_computes(seed: int, dtype: str):
    random, queries, keys = np.random.default_rng(seed), 9, 12 if seed % 2 else 9
    at = jnp.arange(queries)[:, None].astype(dtype), jnp.arange(keys)[None].astype(dtype)
    distance, count = np.arange(queries)[:, None] - np.arange(keys), 0
    for _ in range(25):
        mask = drawn(random)
        shown = told(mask, queries, keys, dtype)
        if shown is not None:
            count += 1
            np.testing.assert_array_equal(shown.at(distance), np.broadcast_to(mask(*at), distance.shape))
    # Some of them are told.
    assert seed or count
