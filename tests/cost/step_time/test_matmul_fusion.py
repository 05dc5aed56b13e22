"""What products take in and hand on without a detour by memory, by what crosses the memory."""

import jax.numpy as jnp
import pytest

import meshlab as ml

Batch, Inner, Out = ml.dims(batch=512, inner=512, out=512)
X, W = ml.bf16[Batch, Inner], ml.bf16[Inner, Out]
ARRAY = 2 * 512 * 512


def moved(function, on, *arguments, layout=None, **axes):
    """In arrays of 512 x 512 numbers of 16 bits."""
    plan = ml.trace(function, *arguments or (X, W)).plan(ml.mesh(on, **axes or {"x": 1}), layout)
    return plan.time.memory_bytes / ARRAY


def product(x, w):
    return ml.dot(x, w, "inner")


@pytest.mark.parametrize(
    ("function", "tpu", "gpu"),
    [
        # Two operands and the result.
        pytest.param(product, 3, 3, id="a product"),
        # What stands before is written and read, or not.
        pytest.param(lambda x, w: product(x * 2.0, w), 3, 5, id="a cheap one before"),
        pytest.param(lambda x, w: product(ml.tanh(x), w), 5, 5, id="a costly one before"),
        pytest.param(lambda x, w: (product(y := x * 2.0, w), product(ml.relu(y), w)), 8, 10, id="one for two"),
        pytest.param(lambda x, w: (y := x * 2.0, product(y, w)), 5, 5, id="one that is returned as well"),
        # What stands behind.
        pytest.param(lambda x, w: ml.relu(product(x, w)), 3, 5, id="one behind"),
        pytest.param(lambda x, w: ml.tanh(product(x, w)), 3, 5, id="a costly one behind"),
        pytest.param(lambda x, w: (y := product(x, w), ml.relu(y)), 5, 5, id="a product that is returned as well"),
        pytest.param(lambda x, w: product(product(x, w).rename(out="inner"), w), 6, 6, id="a product behind"),
    ],
)
@pytest.mark.parametrize("on", ["v5e", "h100", "cpu"])
def test_what_crosses_the_memory(function, tpu, gpu, on):
    assert moved(function, on) == {"v5e": tpu}.get(on, gpu)


@pytest.mark.parametrize(("on", "arrays"), [("v5e", 5), ("h100", 5), ("cpu", 7.5)])
def test_narrow_numbers_are_widened_on_the_way_into_every_product_that_reads_them(on, arrays):
    """Two other operands, two results, and half an array for each product; or widened once, and read twice."""

    def both(x, w, other):
        wide = w.astype(jnp.bfloat16)
        return product(x, wide), product(other, wide)

    assert moved(both, on, X, ml.i8[Inner, Out], X) == arrays


def test_a_sum_over_devices_is_handed_on_by_memory():
    split = moved(lambda x, w: ml.relu(product(x, w)), "v5e", layout="inner:x", x=2)
    # Halves of both operands, the partial sum, the whole sum, and what is computed of it.
    assert split == 1 + 1 + 1 + 1
