"""Marks cost nothing and survive what JAX does to a program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from meshlab.engine.tensors.marks import mark_names, mark_rename, mark_tag, name_p, rename_p, tag_p

X = jnp.arange(6.0).reshape(2, 3)
NAMES = ("batch", "hidden")

MARKS = {
    "names": lambda x: mark_names(x, NAMES),
    "rename": lambda x: mark_rename(x, NAMES, ("batch", "kv")),
    "tag": lambda x: mark_tag(x, "residual"),
}


def equations(jaxpr, primitive):
    """All equations of one primitive, those of nested programs too."""
    for equation in jaxpr.eqns:
        if equation.primitive is primitive:
            yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(getattr(inner, "jaxpr", inner), primitive)


def params(function, *args, primitive=name_p):
    return [equation.params for equation in equations(jax.make_jaxpr(function)(*args).jaxpr, primitive)]


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_a_mark_is_the_identity(mark):
    np.testing.assert_array_equal(mark(X), X)
    np.testing.assert_array_equal(jax.jit(mark)(X), X)
    np.testing.assert_array_equal(jax.vmap(mark)(X[None])[0], X)
    value, tangent = jax.jvp(mark, (X,), (X + 1,))
    np.testing.assert_array_equal(value, X)
    np.testing.assert_array_equal(tangent, X + 1)
    np.testing.assert_array_equal(jax.grad(lambda x: (mark(x) * X).sum())(X), X)


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_a_mark_lowers_to_nothing(mark):
    text = jax.jit(lambda x: mark(mark(x))).lower(X).as_text()
    assert "stablehlo." not in text


def test_the_cotangent_is_named_as_the_value():
    assert params(jax.grad(lambda x: mark_names(x, NAMES).sum()), X) == [{"names": NAMES}] * 2


def test_the_cotangent_of_a_rename_is_renamed_back():
    result = params(jax.grad(lambda x: mark_rename(x, NAMES, ("batch", "kv")).sum()), X, primitive=rename_p)
    assert result == [
        {"before": NAMES, "after": ("batch", "kv")},
        {"before": ("batch", "kv"), "after": NAMES},
    ]


def test_the_cotangent_of_a_tagged_value_has_the_tag():
    assert params(jax.grad(lambda x: mark_tag(x, "residual").sum()), X, primitive=tag_p) == [{"tag": "residual"}] * 2


def test_vmap_inserts_an_unnamed_axis_where_it_is():
    batched = X[None]
    assert params(jax.vmap(lambda x: mark_names(x, NAMES)), batched) == [{"names": (None, *NAMES)}]
    middle = jax.vmap(lambda x: mark_names(x, NAMES), in_axes=1, out_axes=1)
    assert params(middle, batched.swapaxes(0, 1)) == [{"names": ("batch", None, "hidden")}]
    renamed = jax.vmap(lambda x: mark_rename(x, NAMES, ("batch", "kv")))
    assert params(renamed, batched, primitive=rename_p) == [{"before": (None, *NAMES), "after": (None, "batch", "kv")}]


def test_marks_stay_in_loops_and_checkpoints_and_on_their_gradients():
    def layer(x, _):
        return mark_tag(jnp.tanh(mark_names(x, NAMES)), "residual"), None

    def loss(x):
        return jax.lax.scan(jax.checkpoint(layer), x, length=3)[0].sum()

    # One in the forward loop; in the backward loop the recomputed one and that of the cotangent.
    assert params(jax.grad(loss), X) == [{"names": NAMES}] * 3
    assert len(params(jax.grad(loss), X, primitive=tag_p)) >= 2


def test_marks_on_integers_have_no_gradient_and_do_no_harm():
    index = jnp.arange(3)
    gradient = jax.grad(lambda x: (x * mark_names(index, ("hidden",))).sum())(X[0])
    np.testing.assert_array_equal(gradient, index)
