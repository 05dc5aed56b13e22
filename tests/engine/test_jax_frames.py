"""Where an equation of JAX comes from: frames, parts of lines, and the pass that it belongs to."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp

from meshlab.engine import jax_compat
from tests.engine.test_jax_compat import V, equations, the


def test_the_innermost_frame_that_is_wanted_is_found():
    def inner(x):
        return jnp.sin(x)  # this line

    def outer(x):
        return inner(x)

    equation = the("sin", outer, V)
    own = jax_compat.innermost(equation, __file__.__eq__)
    assert own is not None
    lines, start = inspect.getsourcelines(inner)
    assert own.function.rsplit(".", 1)[-1] == "inner"
    assert own.starts == start
    assert "this line" in lines[own.line - start]
    assert jax_compat.innermost(equation, "nowhere".__eq__) is None
    assert jax_compat.was_made_in(equation, __file__, inspect.getsourcelines(outer)[1])
    assert not jax_compat.was_made_in(equation, __file__, 1)


def test_each_frame_says_which_part_of_its_line_it_runs():
    def outer(x):
        return jax.tree.map(lambda y: jnp.sin(y * 2), x) + 1

    lines, start = inspect.getsourcelines(outer)

    def parts(name):
        columns = jax_compat.columns(the(name, outer, V), __file__, start + 1)
        return [lines[1][begin:end] for begin, end in columns]

    assert parts("mul") == ["y * 2", "jax.tree.map(lambda y: jnp.sin(y * 2), x)"]
    assert parts("sin") == ["jnp.sin(y * 2)", "jax.tree.map(lambda y: jnp.sin(y * 2), x)"]
    assert parts("add") == ["jax.tree.map(lambda y: jnp.sin(y * 2), x) + 1"]
    assert jax_compat.columns(the("sin", outer, V), __file__, 1) == ()


def test_the_backward_pass_is_told_from_the_forward_pass():
    result = equations(jax.value_and_grad(lambda x: jnp.sin(x).sum()), V)
    assert {e.primitive.name: jax_compat.is_backward(e) for e in result}["mul"]
    assert not jax_compat.is_backward(result[0])


def test_what_runs_again_is_told_from_what_runs_first():
    def loss(x):
        return jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum()

    forward = [e for e in equations(jax.value_and_grad(loss), V) if e.primitive.name == "sin"]
    assert [jax_compat.is_rematerialised(e) for e in forward] == [False, False]
    region = the("remat2", jax.value_and_grad(loss), V).params["jaxpr"].eqns
    assert {e.primitive.name: jax_compat.is_rematerialised(e) for e in region} == {
        "sin": True,
        "cos": True,
        "mul": False,
    }


def test_a_jaxpr_says_where_its_function_is_defined():
    def fn(x):
        return x + 1

    place = __file__, inspect.getsourcelines(fn)[1]
    assert jax_compat.defined_at(jax.make_jaxpr(fn)(V)) == place
    assert jax_compat.defined_at(jax_compat.call(the("jit", jax.jit(fn), V))) == place
    assert jax_compat.defined_at(jax.make_jaxpr(jnp.sin.__call__)(V)) is None
