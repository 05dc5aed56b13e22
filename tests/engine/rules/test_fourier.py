"""Fourier transforms gather the axes that they transform, and leave the others sharded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from tests.engine.small_programs import X2Y2, X4, A, B, checked, moved

Depth = ml.Dim("depth", 4)
DATA = np.random.default_rng(6).normal(size=(4, 8, 16)).astype(np.float32)
TABLE = ml.f32[Depth, A, B]
TRANSFORMS = {
    "complex": jnp.fft.fft,
    "back": jnp.fft.ifft,
    "real": jnp.fft.rfft,
    "to real": jnp.fft.irfft,
    "two axes": jnp.fft.rfft2,
    "first axis": lambda x: jnp.fft.fft(x, axis=0),
    "there and back": lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2.0),
}


@pytest.mark.parametrize("layout", ["depth:x", "a:x", "b:x", "a:y+x", "depth:x a:y", "b:y depth:x"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_is_the_same_under_every_layout(name, layout):
    checked(lambda x: TRANSFORMS[name](x.array), (TABLE,), layout, mesh=X2Y2, data=(DATA,))


def test_only_what_is_transformed_is_gathered():
    assert moved(checked(lambda x: jnp.fft.rfft(x.array), (TABLE,), "depth:x a:y", mesh=X2Y2, data=(DATA,))) == []
    plan = checked(lambda x: jnp.fft.rfft(x.array), (TABLE,), "a:y b:x", mesh=X2Y2, data=(DATA,))
    assert moved(plan) == [("all-gather", ("x",), 4 * 4 * 8 * 4, 1)]


def test_gradients_of_transforms_are_the_same():
    def fn(x):
        return jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum())(x.array)

    for layout in ("depth:x", "b:x", "a:x"):
        checked(fn, (TABLE,), layout, mesh=X4, data=(DATA,))
