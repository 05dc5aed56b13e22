"""Dtypes, numbers and keys that an operation does not take are refused in its own words; what it takes is promoted."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.given import ml, refused

INTEGERS = ml.tensor([1, 2], "q")
FLOATS = ml.tensor([1.0, 2.0], "q")
BOOLEANS = ml.tensor([True, False], "q")
COMPLEX = ml.tensor([1j, 2], "q")
BYTES, SMALL = INTEGERS.astype(ml.u8), INTEGERS.astype(ml.i8)
KEY, KEYS = jax.random.key(0), jax.random.split(jax.random.key(0), 2)
NAMED_KEYS = ml.tensor(KEYS, "draw")
A, B, R, LONG = ml.dims(a=8, b=1, r=3, long=300)
IMAGE = ml.tensor(np.ones((4, 4), np.float32), "h", "w")
POOL = {"window": {"q": 2}, "out": {"q": "r"}}


def padded(x, value):
    return ml.pad(x, "q", R, value=value)


# Dtypes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ml.normalize(INTEGERS), r"^normalize was given i32\[q=2\]; it takes floats: x.astype\(ml.f32\), say"),
        (lambda: ml.normalize(BOOLEANS), r"^normalize was given bool\[q=2\]; it takes floats"),
        (lambda: ml.categorical(KEY, BOOLEANS, "q"), r"^categorical was given bool\[q=2\]; it takes floats"),
        (lambda: ml.categorical(KEY, COMPLEX, "q"), r"^categorical was given complex64\[q=2\]; it takes floats"),
        (lambda: ml.softmax(BOOLEANS), r"^softmax was given bool\[q=2\]; it takes numbers: x.astype\(ml.f32\), say"),
        (lambda: ml.log_softmax(BOOLEANS), r"^log_softmax was given bool\[q=2\]; it takes numbers"),
        (lambda: ml.logsumexp(BOOLEANS), r"^logsumexp was given bool\[q=2\]; it takes numbers"),
        (lambda: ml.cross_entropy(BOOLEANS, 1, "q"), r"^cross_entropy was given bool\[q=2\]; it takes numbers"),
        (lambda: ml.cumsum(BOOLEANS, "q"), r"^cumsum was given bool\[q=2\]; it takes numbers"),
        (lambda: ml.max_pool(BOOLEANS, **POOL), r"^max_pool was given bool\[q=2\]; it takes numbers"),
        (lambda: ml.mean_pool(BOOLEANS, **POOL), r"^mean_pool was given bool\[q=2\]; it takes numbers"),
        (lambda: ml.argmax(COMPLEX, "q"), r"^argmax was given complex64\[q=2\]; these have no order: .* ml.abs\(x\)"),
        (lambda: ml.top_k(COMPLEX, "q", B), r"^top_k was given complex64\[q=2\]; these have no order"),
        (lambda: ml.uniform(KEY, A, dtype=jnp.complex64), "uniform was given the dtype complex64; it draws floats"),
        (lambda: ml.sign(BOOLEANS), r"^sign was given bool\[q=2\]; it takes numbers: x.astype\(ml.i32\), say"),
        (lambda: ml.sign(True), "^sign was given True; it takes numbers"),
        (lambda: -BOOLEANS, r"^negative was given bool\[q=2\]; it takes numbers"),
        (lambda: BOOLEANS - BOOLEANS, r"^subtract was given bool\[q=2\] and bool\[q=2\]; it takes numbers"),
        (lambda: ~FLOATS, r"^invert was given f32\[q=2\]; it takes booleans and integers: compare first, x > 0"),
        (lambda: FLOATS | 1.5, r"^or was given f32\[q=2\] and 1.5; it takes booleans and integers"),
        (lambda: FLOATS & FLOATS, r"^and was given f32\[q=2\] and f32\[q=2\]; it takes booleans and integers"),
        (lambda: COMPLEX % 2, r"^remainder was given complex64\[q=2\] and 2; it takes no complex numbers"),
        (lambda: COMPLEX // 2, r"^floor_divide was given complex64\[q=2\] and 2; it takes no complex numbers"),
        (lambda: ml.arange(A, bool), "^arange was given the dtype bool, which does not count: .* give ml.i32"),
        (
            lambda: ml.arange(LONG, ml.u8),
            "^arange was given long=300 and the dtype uint8, which counts up to 255: give a",
        ),
        (
            lambda: ml.arange(LONG, ml.i8),
            "^arange was given long=300 and the dtype int8, which counts up to 127: give a",
        ),
    ],
)
def test_dtypes_that_an_operation_does_not_take(call, message):
    refused(call, ml.DimError, message)


def test_jaxs_own_refusal_is_the_cause():
    with pytest.raises(ml.DimError, match="subtract was given") as caught:
        _ = BOOLEANS - True
    assert isinstance(caught.value.__cause__, TypeError)


def test_what_is_not_for_dtypes_stays_what_it_is():
    left: list[jax.Array] = []
    jax.make_jaxpr(lambda x: left.append(x) or x)(True)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        _ = BOOLEANS * left[0]

    def wrong(x):
        raise TypeError("the user's own")

    with pytest.raises(TypeError, match="the user's own"):
        ml.vmap(wrong, "q")(BOOLEANS)
    with pytest.raises(TypeError, match="the user's own"):
        ml.scan(lambda carry, x: wrong(x), 0.0, BOOLEANS, "q")


@pytest.mark.parametrize("name", ["sigmoid", "silu", "rsqrt"])
def test_functions_of_floats_take_what_those_of_jax_numpy_take(name):
    apply = getattr(ml, name)
    for given in (INTEGERS, BOOLEANS, INTEGERS.astype(ml.i8), 1, True):
        result, like = apply(given), ml.tanh(given)
        assert (result.dtype, getattr(result, "dims", ())) == (like.dtype, getattr(like, "dims", ()))
    np.testing.assert_allclose(apply(INTEGERS).array, apply(FLOATS).array, rtol=1e-6)


def test_concat_promotes_as_stack_does():
    joined = ml.concat((INTEGERS, FLOATS), "q", ml.Dim("z", 4))
    assert joined.array.tolist() == [1, 2, 1, 2]
    assert joined.dtype == ml.stack((INTEGERS, FLOATS), "z").dtype == jnp.float32


def test_ids_of_few_bits_count_along_a_long_dim():
    ids = ml.tensor(np.array([5], np.uint8), "q")
    assert ml.one_hot(ids, LONG).array.nonzero()[1].tolist() == [5]
    assert ml.take(ml.arange(LONG), ids, LONG).array.tolist() == [5]
    assert ml.arange(ml.Dim("q", 256), ml.u8).array.tolist() == list(range(256))


# Numbers


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: padded(INTEGERS, 1.5),
            "^pad was given the value 1.5 for i32, which holds integers from -2,147,483,648",
        ),
        (lambda: padded(INTEGERS, jnp.float32(1.5)), "^pad was given the value 1.5 for i32, which holds integers"),
        (lambda: padded(INTEGERS, float("inf")), "^pad was given the value inf for i32, which holds integers"),
        (lambda: padded(INTEGERS, 2**40), "^pad was given the value 1099511627776 for i32, which holds integers"),
        (
            lambda: padded(INTEGERS, jnp.complex64(1)),
            r"^pad was given the value \(1\+0j\) for i32, which holds no compl",
        ),
        (lambda: padded(FLOATS, jnp.complex64(1)), r"^pad was given the value \(1\+0j\) for f32, which holds no compl"),
        (lambda: padded(BOOLEANS, 7), "^pad was given the value 7 for bool, which holds integers from 0 to 1: give"),
        (
            lambda: jax.jit(lambda v: padded(INTEGERS, v))(1.5),
            "^pad was given the value f32 for i32, which holds integ",
        ),
        (lambda: INTEGERS + 2**40, "^add was given the number 1099511627776 for i32, which holds integers from -2,14"),
        (lambda: BOOLEANS + 2**40, r"^add was given bool\[q=2\] and 1099511627776; an integer is too large"),
        (lambda: ml.maximum(BYTES, -1), "^maximum was given the number -1 for u8, which holds integers from 0 to 255:"),
        (lambda: ml.minimum(SMALL, 200), "^minimum was given the number 200 for i8, which holds integers from -128 to"),
        (lambda: BYTES > -1, "^greater was given the number -1 for u8"),
        (lambda: SMALL + 300, "^add was given the number 300 for i8"),
        (lambda: 200 * SMALL, "^multiply was given the number 200 for i8"),
        (lambda: 300**SMALL, "^power was given the number 300 for i8"),
        (lambda: ml.where(BOOLEANS, SMALL, 300), "^where was given the number 300 for i8"),
        (
            lambda: FLOATS + 2**80,
            r"^add was given f32\[q=2\] and 1208925.*; .* use a float, float\(n\)",
        ),
        (lambda: ml.where(BOOLEANS, INTEGERS, 2**40), "^where was given the number 1099511627776 for i32, which hold"),
        (lambda: ml.stack((2**40, 3), "z"), "^stack was given 1099511627776; an integer is too large"),
        (lambda: ml.dot(2**40, INTEGERS, "q"), "^dot was given 1099511627776; an integer is too large"),
        (lambda: ml.one_hot(2**40, A), "^one_hot was given 1099511627776; an integer is too large"),
        (
            lambda: ml.normalize(FLOATS, epsilon=2**80),
            "^normalize was given f32 and 1208925.*; an integer is too",
        ),
        (
            lambda: ml.tensor([2**80], "a"),
            r"^tensor was given \[1208925.*\], with an integer that is too large; give fl",
        ),
        (lambda: ml.tensor([2**40], "a"), "^tensor was given 1,099,511,627,776, which int32 cannot hold; give floats"),
        (lambda: ml.tensor([-(2**40)], "a"), "^tensor was given -1,099,511,627,776, which int32 cannot hold"),
        (lambda: ml.dot(FLOATS, FLOATS, 1), r"^dot was given 1 last; .* Name the dims to sum over, dot\(x, w, Embed\)"),
        (
            lambda: ml.dims(a=10**30),
            "^Dim `a` was given the size 1000.*; a size must be at most 9,223,372,036,",
        ),
        (lambda: ml.dims(3, a=0), r"^dims\(\) was given 3 without a name; .* Dim `a` was given the size 0"),
        (lambda: ml.uniform(KEY, A, high=float("inf")), "^uniform was given low=0.0 and high=inf; both must be finite"),
        (
            lambda: ml.uniform(KEY, A, high=np.float32("inf")),
            "^uniform was given low=0.0 and high=.*; both must be fin",
        ),
        (lambda: ml.uniform(KEY, A, high=10**400), "^uniform was given low=0.0 and high=1000.*; both must be finite"),
        (lambda: ml.uniform(KEY, A, low=-3e38, high=3e38), "at most as far apart as float32 allows: 3.4e[+]38"),
        (
            lambda: ml.max_pool(IMAGE, {"h": 2}, padding=(3, 3), out={"h": "i"}),
            "^max_pool .* would contain only padding",
        ),
        (
            lambda: ml.mean_pool(IMAGE, {"h": 2}, padding=(0, 2), out={"h": "i"}),
            "padded by .0, 2.: some windows would contain",
        ),
    ],
)
def test_numbers_that_cannot_be(call, message):
    refused(call, ml.DimError, message)


def test_numbers_that_fit_are_taken():
    assert padded(INTEGERS, 2.0).array.tolist() == [1, 2, 2]
    assert padded(INTEGERS, np.bool_(True)).array.tolist() == [1, 2, 1]
    assert padded(BOOLEANS, 1).array.tolist() == [True, False, True]
    assert padded(FLOATS, -jnp.inf).array.tolist() == [1, 2, -np.inf]
    assert jax.jit(lambda v: padded(INTEGERS, v))(3).array.tolist() == [1, 2, 3]
    assert ml.dot(FLOATS, 2.0).array.tolist() == ml.dot(2, FLOATS).array.tolist() == [2, 4]
    assert ml.mean_pool(IMAGE, {"h": 2}, padding=(1, 1), out={"h": "i"}).array.tolist() == [[1] * 4] * 3
    assert ml.tensor(np.array([2**31 - 1]), "a").array.tolist() == [2**31 - 1]
    assert (SMALL + 125).array.tolist() == [126, 127]
    assert (SMALL**200).array.tolist() == [1, 0]
    assert (BOOLEANS + 300).array.tolist() == [301, 300]
    assert ml.where(BOOLEANS, 300, SMALL.astype(ml.f32)).array.tolist() == [300, 2]


# Keys


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ml.normal(KEYS, A),
            r"^normal was given keys of shape \(2,\), and draws with one. .*ml.vmap\(lambda key",
        ),
        (lambda: ml.uniform(KEYS, A), r"^uniform was given keys of shape \(2,\), and draws with one"),
        (lambda: ml.dropout(KEYS, FLOATS, 0.1), r"^dropout was given keys of shape \(2,\), and draws with one"),
        (lambda: ml.categorical(KEYS, FLOATS, "q"), r"^categorical was given keys of shape \(2,\), and draws with one"),
        (lambda: ml.normal(NAMED_KEYS, A), r"^normal was given keys of shape \(2,\)"),
        (
            lambda: ml.normal(jax.random.key_data(KEYS), A),
            r"^normal was given keys of shape \(2,\), and draws with one",
        ),
        (
            lambda: ml.normal(jnp.zeros(8, jnp.uint32), A),
            r"array of shape \(8,\) and dtype uint32 for a key; the first",
        ),
        (lambda: NAMED_KEYS + 1, r"^add was given key<fry>\[draw=2\] and 1; keys are not numbers: .* under ml.vmap"),
        (lambda: NAMED_KEYS.astype(ml.f32), r"^astype was given key<fry>\[draw=2\]; keys are not numbers"),
        (lambda: ml.cumsum(NAMED_KEYS, "draw"), r"^cumsum was given key<fry>\[draw=2\]; keys are not numbers"),
        (lambda: ml.dot(NAMED_KEYS, NAMED_KEYS, "draw"), r"^dot was given key<fry>\[draw=2\]; keys are not numbers"),
        (lambda: ml.stack((NAMED_KEYS, 1), "z"), "stack was given tensors of different dims"),
    ],
)
def test_keys_where_they_cannot_be(call, message):
    refused(call, ml.DimError, message)


def test_keys_may_be_named_told_and_drawn_with():
    assert repr(NAMED_KEYS) == "key<fry>[draw=2]"
    drawn = ml.vmap(lambda key: ml.normal(key, A), "draw")(NAMED_KEYS)
    np.testing.assert_array_equal(drawn.array[1], ml.normal(KEYS[1], A).array)
    assert ml.normal(jax.random.PRNGKey(0), A).dims == (A,)


# NumPy


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: np.sum(FLOATS), r"tensor of \[q=2\] was passed to NumPy or jax.numpy, which have no named axes"),
        (lambda: np.max(FLOATS), "was passed to NumPy or jax.numpy"),
        (lambda: np.exp(FLOATS), "was passed to NumPy or jax.numpy"),
        (lambda: np.add(FLOATS, 1), "was passed to NumPy or jax.numpy"),
        (lambda: FLOATS.sum(axis=0), r'sum was given axis=0, but the axes of \[q=2\] have names, .*: x.sum\("q"\)'),
    ],
)
def test_numpys_functions_are_told_of_names(call, message):
    refused(call, ml.DimError, message)


@pytest.mark.parametrize("number", [np.float32(2), np.float64(2), np.int64(2), np.asarray(2.0), jnp.float32(2), 2])
@pytest.mark.parametrize("operate", [operator.sub, operator.truediv, operator.pow, operator.lt, operator.eq])
def test_numbers_of_numpy_stand_on_either_side(number, operate):
    for result, wanted in (
        (operate(number, FLOATS), operate(np.float32(2), FLOATS.array)),
        (operate(FLOATS, number), operate(FLOATS.array, np.float32(2))),
    ):
        assert result.dims == FLOATS.dims
        np.testing.assert_array_equal(result.array, wanted)


# Results


def cut(x):
    return {"y": jax.tree.map(lambda array: array[:4], x)}


def test_a_result_that_contradicts_its_dims_is_refused():
    message = r"`cut` \(test_dtypes.py:\d+\) returns at `out/y` a tensor of \[a=8\] whose array has the shape \(4,\)"
    refused(lambda: ml.trace(cut, ml.f32[A]), ml.TraceError, message)


def test_what_an_optimizer_keeps_in_a_weights_place_may_be_returned():
    smaller = jax.tree.map(lambda array: array[:4], ml.tensor(np.ones(8, np.float32), A))
    same = ml.trace(lambda state: jax.tree.map(lambda array: array * 2, state), smaller)
    assert dict(same.dims) != {"a": 8}
    weight = ml.tensor(np.ones((8, 3), np.float32), A, R)
    for smaller in (lambda array: array.mean(1), lambda array: array[:1, :1]):
        assert ml.trace(lambda w, f=smaller: jax.tree.map(f, w), weight).outputs == ("out",)
