"""What tests of tensors and operations share: tensors of drawn numbers, results within rounding, and what is traced."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params

import meshlab as ml


def draw(*dims, seed=0):
    """Returns a tensor of normal numbers in 32 bits."""
    values = np.random.default_rng(seed).normal(size=[dim.size for dim in dims]).astype(np.float32)
    return ml.tensor(jnp.asarray(values), *dims)


def close(result, wanted, tolerance=1e-5):
    """Asserts that a tensor or an array is as wanted, within a tolerance."""
    np.testing.assert_allclose(getattr(result, "array", result), wanted, rtol=tolerance, atol=tolerance)


def equations(function, *args):
    """Returns all equations of a program, those of nested programs too."""

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            yield equation
            for inner in jaxprs_in_params(equation.params):
                yield from walk(getattr(inner, "jaxpr", inner))

    return list(walk(jax.make_jaxpr(function)(*args).jaxpr))


def primitives(function, *args):
    """Returns the names of all primitives of a program, those of nested programs too."""
    return [equation.primitive.name for equation in equations(function, *args)]
