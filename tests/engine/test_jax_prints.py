"""What a `jax.debug.print` prints is read from its equation, in every version of JAX."""

import jax
import jax.numpy as jnp
import numpy as np

from meshlab.engine import jax_compat
from meshlab.engine.jax_prints import printed, unprinted


def equations(fn):
    return jax.make_jaxpr(fn)(jnp.ones(3)).jaxpr.eqns


def test_a_line_is_that_of_jax(capfd):
    def fn(x):
        with np.printoptions(precision=2):
            jax.debug.print("{} and {n:>4} {what}", x / 3, n=x.sum(), what="all")
        jax.debug.print("whole text")
        return x

    texts = [text for equation in equations(fn) if (text := printed(equation)) is not None]
    assert [text.of_shards for text in texts] == [False, False]
    lines = [texts[0].line([np.ones(3, "f4") / 3, np.float32(3)]), texts[1].line([])]
    jax.jit(fn)(jnp.ones(3))
    jax.effects_barrier()
    assert sorted(lines) == sorted(capfd.readouterr().out.splitlines())
    assert lines[0] == "[0.33 0.33 0.33] and  3.0 all"


def test_an_equation_around_prints_has_an_effect_until_they_are_taken_out():
    def fn(x):
        return jax.lax.scan(lambda c, r: (jax.debug.print("{}", r) or c + r, None), 0.0, x)[0]

    (scan,) = [equation for equation in equations(fn) if equation.primitive.name == "scan"]
    assert printed(scan) is None
    assert jax_compat.has_effects(scan)
    assert not jax_compat.has_effects(unprinted(scan))


def test_prints_of_shards_say_so():
    (equation,) = equations(lambda x: jax.debug.print("{}", x, partitioned=True))
    text = printed(equation)
    assert text is not None
    assert text.of_shards
