"""Operations equal their jax.numpy references, trace to plain primitives, and refuse what cannot be."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.tensors.marks import tag_p
from tests.engine.drawn import close, draw, primitives

pytestmark = pytest.mark.share(2, of="file")

A, B, C, K = ml.dims(a=2, b=3, c=4, k=5)


REFERENCES = {
    "abs": jnp.abs,
    "cos": jnp.cos,
    "exp": jnp.exp,
    "gelu": jax.nn.gelu,
    "log": jnp.log,
    "relu": jax.nn.relu,
    "rsqrt": jax.lax.rsqrt,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "sin": jnp.sin,
    "sqrt": jnp.sqrt,
    "square": jnp.square,
    "tanh": jnp.tanh,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_unary_functions_keep_dims(name):
    x = abs(draw(A, B))
    result = getattr(ml, name)(x)
    assert result.dims == (A, B)
    close(result, REFERENCES[name](x.array))
    close(getattr(ml, name)(2.0), REFERENCES[name](2.0))
    assert getattr(ml, name).__doc__.startswith("Returns")


def test_unary_functions_refuse_arrays_without_names():
    with pytest.raises(ml.DimError, match=r"exp was given an array of shape \(3,\) without names"):
        ml.exp(jnp.ones(3))
    with pytest.raises(ml.DimError, match="exp was given 'x', a str; it takes tensors and numbers"):
        ml.exp("x")


def test_choices_broadcast_by_name():
    x, y = draw(A, B), draw(B, seed=1)
    close(ml.maximum(x, y), np.maximum(x.array, y.array))
    close(ml.minimum(y, x), np.minimum(x.array, y.array))
    result = ml.where(y > 0, x, -1)
    assert result.dims == (A, B)
    close(result, np.where(y.array > 0, x.array, -1))
    close(ml.where(y > 0, 1.0, 0.0), np.where(y.array > 0, 1.0, 0.0))
    close(ml.where(True, x, 0.0), x.array)
    assert "jit" not in primitives(lambda x, y: ml.where(y > 0, x, 0.0), x, y)


def test_dot_is_a_matrix_product():
    x, w = draw(A, B), draw(B, C)
    result = ml.dot(x, w, B)
    assert result.dims == (A, C)
    close(result, np.asarray(x.array) @ np.asarray(w.array))
    assert primitives(lambda x, w: ml.dot(x, w, B), x, w) == ["dot_general", "dim_names"]


def test_dot_lets_shared_dims_ride_along_in_the_order_of_appearance():
    query, key = draw(A, B, C, K), draw(A, ml.Dim("kv", 3), C, K, seed=1)
    result = ml.dot(query, key, K)
    assert [dim.name for dim in result.dims] == ["a", "b", "c", "kv"]
    close(result, np.einsum("abck,avck->abcv", query.array, key.array))
    assert primitives(lambda *x: ml.dot(*x, K), query, key) == ["dot_general", "transpose", "dim_names"]


def test_dot_of_products_sums_and_scalars():
    x, y = draw(A, B), draw(B, seed=1)
    close(ml.dot(x, y), np.asarray(x.array) * np.asarray(y.array))
    assert ml.dot(y, x).dims == (B, A)
    close(ml.dot(x, A), np.asarray(x.array).sum(0))
    close(ml.dot(x, 2.0, A), 2 * np.asarray(x.array).sum(0))
    total = ml.dot(x, y, "a", "b")
    assert isinstance(total, jax.Array)
    close(total, (np.asarray(x.array) * np.asarray(y.array)).sum())
    assert ml.dot(draw(A), draw(C)).dims == (A, C)
    assert ml.dot(draw(A), draw(B).astype(jnp.bfloat16)).dtype == jnp.float32


LETTERS = st.lists(st.sampled_from((A, B, C, K)), unique=True, max_size=3)


@settings(max_examples=30)
@given(st.lists(LETTERS, min_size=1, max_size=3), st.data())
def test_dot_of_any_tensors_is_their_einsum(shapes, data):
    union = list(dict.fromkeys(dim for dims in shapes for dim in dims))
    summed = data.draw(st.lists(st.sampled_from(union), unique=True)) if union else []
    tensors = [draw(*dims, seed=seed) for seed, dims in enumerate(shapes)]
    result = ml.dot(*tensors, *summed)
    left = [dim for dim in union if dim not in summed]
    spec = ",".join("".join(dim.name for dim in dims) for dims in shapes) + "->" + "".join(dim.name for dim in left)
    assert list(getattr(result, "dims", ())) == left
    close(result, np.einsum(spec, *(getattr(x, "array", x) for x in tensors)))


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ((), "dot was given no tensor"),
        ((A,), "dot was given no tensor"),
        ((A, 1.0), "dot was given a tensor after a dim"),
        ((1.0, A), r"dot was asked for the dim `a` of \[\]"),
        ((2.0, A, A), "dot was asked for the dim `a`"),
    ],
)
def test_dot_without_what_it_needs_is_refused(operands, message):
    with pytest.raises(ml.DimError, match=message):
        ml.dot(*operands)


def test_dot_refuses_unknown_repeated_and_resized_dims():
    with pytest.raises(ml.DimError, match=r"dot was asked for the dim `k` of \[a=2, b=3\]"):
        ml.dot(draw(A), draw(B), K)
    with pytest.raises(ml.DimError, match="dot was given a dim twice: `a`, `a`"):
        ml.dot(draw(A), draw(A), A, "a")
    with pytest.raises(ml.DimError, match="dot met two sizes of the dim `a`: a=2 and a=7"):
        ml.dot(draw(A), draw(ml.Dim("a", 7)), "a")
    with pytest.raises(ml.DimError, match=r"dot was given an array of shape \(3,\) without names"):
        ml.dot(draw(A), jnp.ones(3))


def test_gradients_of_dot_are_dots():
    x, w = draw(A, B), draw(B, C)
    names = primitives(jax.grad(lambda x, w: ml.dot(x, w, B).sum(), argnums=(0, 1)), x, w)
    assert names.count("dot_general") == 3
    assert "reshape" not in names


@pytest.mark.parametrize("dims", [("b",), ("a", "c")])
def test_softmax_and_its_relatives(dims):
    x = draw(A, B, C)
    axis = tuple("abc".index(name) for name in dims)
    close(ml.softmax(x, *dims), jax.nn.softmax(x.array, axis))
    close(ml.log_softmax(x, *dims), jax.nn.log_softmax(x.array, axis))
    close(ml.logsumexp(x, *dims), jax.nn.logsumexp(x.array, axis))
    weights = draw(A, B, C, seed=1)
    close(
        jax.grad(lambda x: (ml.softmax(x, *dims) * weights).sum())(x),
        jax.grad(lambda x: (jax.nn.softmax(x, axis) * weights.array).sum())(jnp.asarray(x.array)),
    )


def test_softmax_does_not_overflow():
    close(ml.softmax(draw(A, B) * 1e30, B).sum(B), np.ones(2))
    assert isinstance(ml.logsumexp(draw(A, B)), jax.Array)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cumsum", "sort", "argmax"])
def test_what_goes_along_a_dim_refuses_unknown_ones_and_arrays(name):
    with pytest.raises(ml.DimError, match=r"was asked for the dim `k` of \[a=2, b=3\]"):
        getattr(ml, name)(draw(A, B), K)
    with pytest.raises(
        ml.DimError, match=rf"{name} was given an array of shape \(3,\) without names; it takes a tensor"
    ):
        getattr(ml, name)(jnp.ones(3), K)


LABELS = ml.tensor(np.array([[1, 0, 4], [2, 2, 3]], np.int32), A, B)


@pytest.mark.share(3)
@pytest.mark.parametrize("dims", [(A, B, K), (K, A, B), (B, K, A)])
def test_cross_entropy_is_minus_the_log_of_the_softmax_at_the_label(dims):
    logits = draw(*dims)
    order = [dims.index(dim) for dim in (A, B, K)]

    def reference(array):
        return -jnp.take_along_axis(jax.nn.log_softmax(array.transpose(order)), LABELS.array[..., None], 2)[..., 0]

    result = ml.cross_entropy(logits, LABELS, K)
    assert result.dims == tuple(dim for dim in dims if dim != K)
    close(result.array if result.dims == (A, B) else result.array.T, reference(logits.array))
    close(
        jax.grad(lambda x: ml.cross_entropy(x, LABELS, K).mean())(logits),
        jax.grad(lambda x: reference(x).mean())(jnp.asarray(logits.array)),
    )


def test_cross_entropy_neither_gathers_nor_reshapes_nor_differentiates_the_maximum():
    names = primitives(jax.grad(lambda x: ml.cross_entropy(x, LABELS, K).mean()), draw(A, B, K))
    assert not {"gather", "scatter-add", "reshape", "transpose"} & set(names)
    assert names.count("reduce_max") == 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS.astype(jnp.float32), r"labels of f32\[a=2, b=3\]; they must be integers"),
        (ml.tensor([1, 2, 3, 4], C), r"labels of \[c=4\] for logits of \[a=2, b=3, k=5\].*so not \[c=4\]"),
        (ml.one_hot(LABELS, K, ml.i32), r"labels must have the dims of logits without `k`, so not \[k=5\]"),
    ],
)
def test_cross_entropy_refuses_labels_that_do_not_fit(labels, message):
    with pytest.raises(ml.DimError, match=message):
        ml.cross_entropy(draw(A, B, K), labels, K)


def test_take_looks_up_rows_by_one_gather():
    table = draw(K, C)
    result = ml.take(table, LABELS, K)
    assert result.dims == (A, B, C)
    close(result, np.asarray(table.array)[LABELS.array])
    second = ml.take(draw(C, K), LABELS, "k")
    close(second, np.moveaxis(np.asarray(draw(C, K).array)[:, LABELS.array], 0, -1))
    close(ml.take(table, 3, K), table.array[3])
    close(ml.take(table, ml.tensor([-3, 9], A), K), table.array[np.array([0, 4])])
    assert isinstance(ml.take(draw(K), 0, K), jax.Array)
    names = primitives(jax.grad(lambda table: ml.take(table, LABELS, K).sum()), table)
    assert names.count("gather") == names.count("scatter-add") == 1
    assert "reshape" not in names


def test_take_refuses_fractions_and_shared_dims():
    with pytest.raises(ml.DimError, match=r"take was given f32\[a=2\] to count with; it takes integers"):
        ml.take(draw(K, C), draw(A), K)
    with pytest.raises(ml.DimError, match=r"which share \[a=2\]\. Rename one"):
        ml.take(draw(A, K), LABELS, K)
    with pytest.raises(ml.DimError, match="take was given an array"):
        ml.take(jnp.ones((2, 3)), LABELS, K)  # pyright: ignore[reportArgumentType]


def test_positions():
    close(ml.arange(C), np.arange(4))
    assert ml.arange(C, ml.f32).dtype == jnp.float32
    hot = ml.one_hot(LABELS, K)
    assert hot.dims == (A, B, K)
    close(hot, jax.nn.one_hot(LABELS.array, 5))
    assert ml.one_hot(1, K).dims == (K,)
    with pytest.raises(ml.DimError, match="arange was given 'c'; it needs a dim with a size"):
        ml.arange("c")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.DimError, match="one_hot was given 'k'; it needs a dim with a size"):
        ml.one_hot(LABELS, "k")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.DimError, match="The result of one_hot has the dim `a` twice"):
        ml.one_hot(LABELS, A)


def test_split_and_concat_are_inverse():
    Half = ml.Dim("half", 2)
    x = draw(A, C, B)
    parts = ml.split(x, C, Half)
    assert [part.dims for part in parts] == [(A, Half, B)] * 2
    joined = ml.concat(parts, Half, C)
    assert joined.dims == x.dims
    close(joined, x.array)
    turned = ml.concat((ml.tensor(np.asarray(parts[0].array).T, B, Half, A), parts[1]), "half", C)
    assert turned.dims == (B, C, A)


def test_split_and_concat_refuse_sizes_and_dims_that_do_not_fit():
    Half = ml.Dim("half", 2)
    with pytest.raises(ml.DimError, match="split was asked to cut b=3 into parts of half=2"):
        ml.split(draw(B), B, Half)
    with pytest.raises(ml.DimError, match="The result of split has the dim `a` twice"):
        ml.split(draw(A, C), C, A)
    with pytest.raises(ml.DimError, match="concat was given no tensors"):
        ml.concat((), Half, C)
    with pytest.raises(ml.DimError, match=r"different dims: part 0 has \[half=2\], part 1 \[half=2, a=2\]"):
        ml.concat((draw(Half), draw(Half, A)), Half, C)
    with pytest.raises(
        ml.DimError, match="concat was asked to join 2 times half=2 into b=3, whose size must be their sum, 4"
    ):
        ml.concat((draw(Half), draw(Half)), Half, B)
    with pytest.raises(ml.DimError, match="The result of concat has the dim `a` twice"):
        ml.concat((draw(Half, A),), Half, A)


def test_order_along_a_dim():
    x = draw(A, C, B)
    close(ml.cumsum(x, C), np.cumsum(x.array, 1))
    close(ml.sort(x, C), np.sort(x.array, 1))
    result = ml.argmax(x, C)
    assert (result.dims, result.dtype) == ((A, B), jnp.int32)
    close(result, np.argmax(x.array, 1))
    values, positions = ml.top_k(x, C, ml.Dim("best", 2))
    assert [dim.name for dim in values.dims] == ["a", "best", "b"]
    close(values, -np.sort(-np.asarray(x.array), 1)[:, :2])
    close(positions, np.argsort(-np.asarray(x.array), 1)[:, :2])
    with pytest.raises(ml.DimError, match="top_k was asked for best=5 of c=4"):
        ml.top_k(x, C, ml.Dim("best", 5))
    with pytest.raises(ml.DimError, match="The result of top_k has the dim `a` twice"):
        ml.top_k(x, C, A)


def test_stop_gradient_holds_for_trees():
    x = draw(A)
    gradient = jax.grad(lambda x: (ml.stop_gradient({"x": x})["x"] * x).sum())(x)
    close(gradient, x.array)


def test_tag_marks_every_leaf():
    tree = {"w": draw(A, B), "count": 3}
    jaxpr = jax.make_jaxpr(lambda tree: ml.tag(tree, "grads"))(tree).jaxpr
    assert [equation.params for equation in jaxpr.eqns if equation.primitive is tag_p] == [{"tag": "grads"}] * 2
    assert ml.tag(tree, "grads")["w"].dims == (A, B)
    with pytest.raises(ml.DimError, match="tag was given the name ''"):
        ml.tag(tree, "")


@pytest.mark.parametrize("offset", [0, 1, -1, 3, -2, 4, -5, 9])
@pytest.mark.parametrize("wrap", [True, False])
def test_shift_moves_elements(offset, wrap):
    x = np.arange(1.0, 9.0, dtype=np.float32).reshape(2, 4)
    expected = np.roll(x, offset, 1)
    if not wrap:
        came_from = np.arange(4) - offset
        expected = np.where((came_from >= 0) & (came_from < 4), expected, 0.0)
    np.testing.assert_array_equal(ml.shift(ml.tensor(x, A, C), C, offset, wrap=wrap).array, expected)


def test_shift_wants_an_integer_and_survives_vmap():
    x = ml.tensor(np.arange(8.0, dtype=np.float32).reshape(2, 4), A, C)
    wrong: tuple[Any, ...] = (1.5, True, "c")
    for offset in wrong:
        with pytest.raises(ml.DimError, match="shift was given the offset .*; it must be an integer"):
            ml.shift(x, C, offset)
    for dims in ((A, C), (C, A)):
        turned = ml.tensor(x.array if dims[0] is A else x.array.T, *dims)
        shifted = ml.vmap(lambda row: ml.shift(row, C, 1), A)(turned)
        np.testing.assert_array_equal(shifted.array, ml.shift(x, C, 1).array)
