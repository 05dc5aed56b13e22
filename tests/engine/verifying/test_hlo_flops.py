"""The FLOPs of compiled programs, counted by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from meshlab.engine.devices import compiler_options
from meshlab.engine.verifying.hlo_flops import flops


def counted(fn, *shapes, dtype=jnp.float32) -> float:
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    compiled = jax.jit(fn).lower(*arguments).compile(compiler_options=compiler_options("cpu"))
    return flops(compiled.as_text() or "")


def convolved(x, kernel):
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@pytest.mark.parametrize(
    ("fn", "shapes", "dtype", "expected"),
    [
        (jnp.matmul, [(8, 16), (16, 32)], jnp.float32, 2 * 8 * 16 * 32),
        (jnp.matmul, [(3, 8, 16), (3, 16, 32)], jnp.float32, 2 * 3 * 8 * 16 * 32),
        (lambda x, y: jnp.einsum("ab,cab->c", x, y), [(8, 16), (4, 8, 16)], jnp.float32, 2 * 4 * 8 * 16),
        (lambda x: jax.lax.fori_loop(0, 7, lambda _, x: x @ x, x), [(8, 8)], jnp.float32, 7 * 2 * 8**3),
        (jnp.matmul, [(8, 16), (16, 32)], jnp.complex64, 8 * 8 * 16 * 32),
        (jnp.matmul, [(8, 16), (16, 32)], jnp.int32, 0),
        (convolved, [(2, 10, 10, 3), (3, 3, 3, 5)], jnp.float32, 2 * 2 * 8 * 8 * 5 * 3 * 3 * 3),
        (jnp.tanh, [(8, 16)], jnp.float32, 0),
    ],
)
def test_by_hand(fn, shapes, dtype, expected):
    assert counted(fn, *shapes, dtype=dtype) == expected
