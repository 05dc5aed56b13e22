"""Tensors: names, arithmetic by name, and what is refused."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.code.operations import walk
from meshlab.engine.tensors.marks import rename_p
from tests.engine.drawn import draw

A, B, C = ml.dims(a=2, b=3, c=4)
SOME = st.lists(st.sampled_from((A, B, C)), unique=True, max_size=3)


def on(x, dims):
    """A tensor's numbers, or a scalar's, along other dims."""
    if not isinstance(x, ml.Tensor):
        return np.asarray(x)
    order = [dim for dim in dims if dim in x.dims]
    numbers = np.transpose(np.asarray(x.array), [x.dims.index(dim) for dim in order])
    return numbers.reshape([dim.size if dim in order else 1 for dim in dims])


def test_a_tensor_has_the_shape_of_its_dims():
    x = draw(A, B)
    assert (x.dims, x.shape, x.dtype) == ((A, B), (2, 3), jnp.float32)


def test_tensor_takes_names_and_lists_and_makes_them_what_jax_would():
    x = ml.tensor([[1.0, 2.0]], "a", ml.Dim("b", 2))
    assert x.dims == (ml.Dim("a", 1), ml.Dim("b", 2))
    assert x.dtype == jnp.float32
    assert ml.tensor(np.arange(3), B).dtype == jnp.int32


def test_without_dims_a_tensor_is_a_scalar_array():
    assert isinstance(ml.tensor(3.0), jax.Array)


@pytest.mark.parametrize(
    ("array", "dims", "message"),
    [
        (np.zeros((2, 3)), (A,), r"tensor was given a=2 for an array of shape \(2, 3\); it takes one dim"),
        (np.zeros((2, 3)), (), r"tensor was given no dims for an array of shape \(2, 3\)"),
        (np.zeros((2, 3)), (B, A), r"A tensor of \[b=3, a=2\] was given an array of shape \(2, 3\)"),
        (np.zeros((2, 2)), (A, A), r"A tensor has the dim `a` twice"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(array, dims, message):
    with pytest.raises(ml.DimError, match=message):
        ml.tensor(array, *dims)


def test_a_tensor_is_not_named_again():
    with pytest.raises(ml.DimError, match=r"tensor was given a tensor of \[a=2\]; use x.rename"):
        ml.tensor(draw(A), A)


def test_repr_shows_dtype_dims_and_numbers():
    assert repr(ml.tensor([1, 2], A)) == "i32[a=2]([1 2])"
    assert repr(ml.f32[A, B]) == "f32[a=2, b=3]"
    assert repr(jax.tree.map(lambda _: object(), draw(A))) == "Tensor[a=2]"
    seen = []
    jax.jit(lambda x: seen.append(repr(x)))(draw(A))
    assert seen == ["f32[a=2]"]


def test_abstract_tensors_are_shapes_without_data():
    x = ml.bf16[A, B]
    assert (x.dims, x.dtype, repr(ml.bf16), repr(ml.bool_)) == ((A, B), jnp.bfloat16, "bf16", "bool")
    assert ml.f32[A].dims == (A,)
    assert ml.f32[()] == jax.ShapeDtypeStruct((), jnp.float32)
    with pytest.raises(ml.DimError, match=r"f32\[\.\.\.\] was given 'a'; it takes dims"):
        ml.f32["a"]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.DimError, match=r"add was given bf16\[a=2, b=3\], which is a shape without data"):
        _ = x + 1


def test_a_tensor_is_a_tree_whose_path_names_its_array():
    x = draw(A, B)
    assert jax.tree.map(lambda leaf: leaf.shape, x).array == (2, 3)
    ((path, leaf),), structure = jax.tree_util.tree_flatten_with_path({"w": x})
    assert jax.tree_util.keystr(path) == "['w'].array"
    assert jax.tree.unflatten(structure, [None])["w"].dims == x.dims
    assert leaf is x.array
    assert jax.tree.structure(x) != jax.tree.structure(draw(B, A))


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "operate",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
        operator.eq,
        operator.ne,
    ],
    ids=lambda operate: operate.__name__,
)
@settings(max_examples=10)
@given(first=SOME, second=SOME)
def test_arithmetic_broadcasts_by_name(operate, first, second):
    x, y = draw(*first), draw(*second, seed=1)
    result = operate(x, y)
    dims = getattr(result, "dims", ())
    assert set(dims) == {*first, *second}
    np.testing.assert_allclose(on(result, dims), operate(on(x, dims), on(y, dims)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), jnp.float32(2), np.array(2.0, np.float32)])
@pytest.mark.parametrize(
    "operate",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow],
)
def test_numbers_go_without_names_on_either_side(operate, number):
    x = ml.tensor(np.array([1.5, 4.0], np.float32), A)
    assert operate(x, number).dtype == operate(number, x).dtype == jnp.float32
    np.testing.assert_allclose(operate(x, number).array, operate(x.array, np.float32(2)), rtol=1e-6)
    np.testing.assert_allclose(operate(number, x).array, operate(np.float32(2), x.array), rtol=1e-6)


def test_signs_and_logic():
    x = ml.tensor([-1, 2], A)
    np.testing.assert_array_equal((-x).array, [1, -2])
    np.testing.assert_array_equal(abs(x).array, [1, 2])
    assert +x is x
    np.testing.assert_array_equal((~(x > 0)).array, [True, False])
    np.testing.assert_array_equal(((x > 0) & (x > 5)).array, [False, False])
    np.testing.assert_array_equal(((x > 0) | (x < 5)).array, [True, True])


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean"])
@settings(max_examples=15)
@given(dims=SOME, gone=st.sets(st.sampled_from((A, B, C))))
def test_reductions_use_up_the_dims_listed_or_all(name, dims, gone):
    x = draw(*dims, C) if C not in dims else draw(*dims)
    listed = [dim for dim in x.dims if dim in gone]
    result = getattr(x, name)(*(dim.name for dim in listed))
    axes = tuple(x.dims.index(dim) for dim in listed or x.dims)
    np.testing.assert_allclose(
        getattr(result, "array", result), getattr(np, name)(x.array, axis=axes), rtol=1e-5, atol=1e-6
    )
    left = tuple(dim for dim in x.dims if listed and dim not in listed)
    assert isinstance(result, ml.Tensor) == bool(left)
    assert getattr(result, "dims", ()) == left


def test_means_of_integers_and_truths_are_fractions():
    assert (ml.tensor([1, 2], A) == 1).mean() == 0.5


def test_rename_keeps_sizes_and_is_one_relayout():
    x = draw(A, B).rename(a="b", b="a")
    assert x.dims == (ml.Dim("b", 2), ml.Dim("a", 3))
    jaxpr = jax.make_jaxpr(lambda x: x.rename(a="p", b="q"))(draw(A, B)).jaxpr
    (equation,) = jaxpr.eqns
    assert equation.primitive is rename_p
    assert equation.params == {"before": ("a", "b"), "after": ("p", "q")}
    assert draw(A).rename(a=ml.Dim("p", 2)).dims == (ml.Dim("p", 2),)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "rename was called without names"),
        ({"aa": "c"}, "rename was asked for the dim `aa` of .*Did you mean `a`"),
        ({"a": "b"}, "The result of rename has the dim `b` twice"),
        ({"a": ml.Dim("c", 4)}, "rename was asked to make a=2 into c=4; a rename keeps the size"),
    ],
)
def test_a_rename_that_cannot_be_is_refused(names, message):
    with pytest.raises(ml.DimError, match=message):
        draw(A, B).rename(**names)


def test_astype_takes_both_kinds_of_dtypes():
    assert draw(A).astype(ml.bf16).dtype == draw(A).astype(jnp.bfloat16).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda x: x + np.ones(3), r"add was given an array of shape \(3,\) without names\. Name its axes"),
        (lambda x: jnp.ones(3) * x, r"multiply was given an array of shape \(3,\) without names"),
        (lambda x: x[0], r"A tensor of \[a=2\] was indexed, but its axes have names"),
        (list, "was indexed"),
        (lambda x: x @ x, "`@` does not say which dims to sum over"),
        (lambda x: np.ones(2) @ x, "`@` does not say which dims to sum over"),
        (bool, r"A tensor of \[a=2\] has no single truth value"),
        (np.asarray, r"A tensor of \[a=2\] was passed to NumPy"),
        (lambda x: x + draw(ml.Dim("a", 5)), "add met two sizes of the dim `a`: a=2 and a=5"),
    ],
)
def test_misuse_says_what_to_do(misuse, message):
    with pytest.raises(ml.DimError, match=message):
        misuse(draw(A))


def test_what_is_no_number_is_left_to_python():
    assert (draw(A) == None) is False  # noqa: E711
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = draw(A) + "text"
    with pytest.raises(TypeError, match="unhashable"):
        hash(draw(A))


@pytest.mark.parametrize(
    "transform", [lambda f, x: jax.vmap(f)(x), lambda f, x: jax.lax.scan(lambda c, x: (c, f(x)), 0, x)]
)
def test_under_a_raw_transform_the_first_operation_refuses(transform):
    with pytest.raises(
        ml.DimError, match=r"square was given a tensor of \[a=2, b=3\] whose array has the shape \(3,\)"
    ):
        transform(ml.square, draw(A, B))
    with pytest.raises(ml.DimError, match=r"use ml\.scan, ml\.vmap or ml\.checkpoint"):
        transform(lambda x: x.sum(), draw(A, B))


def test_every_result_has_names():
    program = ml.trace(lambda x, y: ml.exp((x + y) * 2).sum(A), draw(A, B), draw(B))
    made = [program.names[value] for each in walk(program.code.block) for value in each.outputs]
    assert made.count(("a", "b")) >= 3
    assert made[-1] == ("b",)
    assert not any(name is None or name.startswith("~") for names in made for name in names)


def test_a_tensor_that_was_put_together_has_names_from_its_first_operation_on():
    def cube_root(array):
        return jax.pure_callback(np.cbrt, jax.ShapeDtypeStruct(array.shape, array.dtype), array)

    program = ml.trace(lambda x: jax.tree.map(cube_root, x) * 2, draw(A, B))
    (doubled,) = program.code.block.outputs
    assert isinstance(doubled, int)
    assert program.names[doubled] == ("a", "b")


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: x.sum(),
        lambda x: x.mean(),
        lambda x: (x * 2).sum(),
        lambda x: (x.sum(B) * 2).sum(),
        lambda x: ml.where(x > 0, x, 0.0).sum(A).sum(),
        lambda x: ml.logsumexp(x, B).sum(),
        lambda x: x.max(),
    ],
)
def test_the_gradient_of_every_loss_has_names(loss):
    program = ml.trace(jax.grad(loss), draw(A, B))
    (gradient,) = program.code.block.outputs
    assert isinstance(gradient, int)
    assert program.names[gradient] == ("a", "b")


def test_gradients_are_tensors_and_have_names():
    x, y = draw(A, B), draw(B)
    value, gradient = jax.value_and_grad(lambda x: (x * y).sum())(x)
    assert value.shape == ()
    assert gradient.dims == (A, B)
    np.testing.assert_allclose(gradient.array, np.broadcast_to(y.array, (2, 3)))
