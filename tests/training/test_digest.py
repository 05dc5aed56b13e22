"""A digest is of an array's bits: any change shows, and no sharding does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from meshlab.training.digest import digest, sums

DRAW = np.random.default_rng(0)
ARRAYS = {
    "f32": DRAW.normal(size=(8, 16)).astype(np.float32),
    "bf16": DRAW.normal(size=(8, 6)).astype(jnp.bfloat16),
    "f8": DRAW.normal(size=(8, 6)).astype(jnp.float8_e4m3fn),
    "i8": DRAW.integers(-128, 127, (16,)).astype(np.int8),
    "bool": DRAW.integers(0, 2, (8, 3)).astype(bool),
    "complex": (DRAW.normal(size=8) + 1j * DRAW.normal(size=8)).astype(np.complex64),
    "scalar": np.float32(3),
    "empty": np.zeros((0, 8), np.float32),
    "i4": DRAW.integers(-8, 7, (16,)).astype(jnp.int4),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_digest_does_not_depend_on_the_sharding(name: str) -> None:
    array = jnp.asarray(ARRAYS[name])
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    expected = digest(array)
    for spec in (PartitionSpec(), PartitionSpec("x"), PartitionSpec(("y", "x")), PartitionSpec(None, "x")):
        if len(spec) <= array.ndim and (len(spec) < 2 or array.shape[1] % 2 == 0):
            assert digest(jax.device_put(array, NamedSharding(mesh, spec))) == expected, spec
    assert len(expected) == 16


@pytest.mark.parametrize("name", [name for name in ARRAYS if name not in ("empty", "i4")])
def test_every_bit_counts(name: str) -> None:
    array = np.array(ARRAYS[name], ndmin=1)
    digests = {digest(jnp.asarray(array))}
    data = array.view(np.uint8).reshape(-1)
    bits = [bit for bit in range(data.size * 8) if name != "bool" or bit % 8 == 0]
    for bit in bits[:: max(1, len(bits) // 64)]:
        other = data.copy()
        other[bit // 8] ^= 1 << bit % 8
        digests.add(digest(jnp.asarray(other.view(array.dtype).reshape(array.shape))))
    assert len(digests) == 1 + len(bits[:: max(1, len(bits) // 64)])


def test_order_counts() -> None:
    array = ARRAYS["f32"]
    others = [array[::-1], array[:, ::-1], np.roll(array, 1, 0), array.T.reshape(array.shape), np.zeros_like(array)]
    assert len({digest(jnp.asarray(each)) for each in (array, *others)}) == 6


def test_a_digest_is_what_saved_checkpoints_have() -> None:
    """Written out in Python's integers: with another digest all of them would be damaged."""

    def mixed(bits: int) -> int:
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            bits = (bits ^ (bits >> shift)) * factor % 2**32
        return bits

    array = ARRAYS["f32"]
    numbers = array.view(np.uint32).ravel().tolist()
    sums = (
        sum(mixed(bits ^ mixed(place ^ seed)) for place, bits in enumerate(numbers)) % 2**32
        for seed in (0x9E3779B9, 0x7F4A7C15)
    )
    assert digest(jnp.asarray(array)) == "".join(f"{each:08x}" for each in sums)


def test_keys_have_digests() -> None:
    assert digest(jax.random.key(0)) != digest(jax.random.key(1))
    assert digest(jax.random.key(1)) == digest(jax.random.key_data(jax.random.key(1)))


def test_a_digest_stores_no_second_array() -> None:
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    for spec in (PartitionSpec("x"), PartitionSpec("x", "y"), PartitionSpec(None, ("y", "x"))):
        array = jax.device_put(np.zeros((1024, 1024), np.float32), NamedSharding(mesh, spec))
        memory = sums.lower(array).compile().memory_analysis()
        assert memory is not None
        assert memory.temp_size_in_bytes < 10_000, spec
