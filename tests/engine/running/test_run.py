"""Running takes what was traced, in any of its forms, and tells all that does not fit."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import RunError
from meshlab.engine.running.run import stored
from tests.engine.small_programs import X4, A, B


def fn(params, x, n):
    return ml.dot(x, params["w"], "b") * n, {"w": params["w"] * 2.0}


PROGRAM = ml.trace(fn, {"w": ml.f32[A, B]}, ml.f32[B], ml.i32[()])
PLAN = PROGRAM.plan(X4, "a:x")
W = np.arange(128, dtype=np.float32).reshape(8, 16)
V = np.ones(16, np.float32)


@pytest.mark.parametrize(
    "args",
    [
        ({"w": W}, V, np.int32(3)),
        ({"w": jnp.asarray(W)}, jnp.asarray(V), jnp.int32(3)),
        ({"w": ml.tensor(W, A, B)}, ml.tensor(V, B), 3),
        ({"w": W.astype(np.float64)}, V, 3),
    ],
    ids=["numpy", "jax", "tensors", "wider"],
)
def test_tensors_numpy_and_jax_arrays_may_be_given(args):
    product, params = PLAN.run(*args)
    assert isinstance(product, ml.Tensor)
    assert product.dims == (A,)
    assert params["w"].dims == (A, B)
    np.testing.assert_array_equal(product.array, W.sum(1) * 3)
    np.testing.assert_array_equal(params["w"].array, W * 2)


def test_results_come_in_as_arguments():
    _, params = PLAN.run({"w": W}, V, 1)
    _, params = PLAN.run(params, V, 1)
    np.testing.assert_array_equal(params["w"].array, W * 4)


def test_what_is_donated_is_used_up():
    params = {"w": jax.device_put(jnp.asarray(W), PLAN.run({"w": W}, V, 1)[1]["w"].array.sharding)}
    PLAN.run(params, V, 1)
    assert not params["w"].is_deleted()
    _, result = PLAN.run(params, V, 1, donate=True)
    assert params["w"].is_deleted()
    np.testing.assert_array_equal(result["w"].array, W * 2)


@pytest.mark.parametrize(
    ("carry", "order", "message"),
    [
        ({"p": 0, "e": 1, "v": 2}, "aab", "^`p` and `e` are the same array, whose memory cannot be donated twice: "),
        ({"p": 0, "e": 1}, "aaa", "^`p`, `e` and `v` are the same array, .* donated where it is read as well: copy"),
        ({"p": 0}, "aba", r"`p` and `v` are the same array, .*: copy one \(jnp.copy\) or run without donate=True"),
    ],
)
@pytest.mark.parametrize("split", ["a:x", None])
def test_no_array_is_donated_twice(carry, order, message, split):
    plan = ml.trace(lambda p, e, v: (p * 2, p + e, v * 3), ml.f32[A], ml.f32[A], ml.f32[A], carry=carry).plan(X4, split)
    ones = np.ones(8, np.float32)
    first = dict(zip("abc", plan.run(ones, ones, ones), strict=True))
    args = [first[letter] for letter in order]
    with pytest.raises(RunError, match=message):
        plan.run(*args, donate=True)
    assert not any(arg.array.is_deleted() for arg in args)
    plan.run(*args)


def test_every_array_that_is_donated_twice_is_told():
    plan = ml.trace(lambda p, e: (jax.tree.map(jnp.add, p, e), p), [ml.f32[A]] * 2, [ml.f32[A]] * 2, carry={"p": 0})
    plan = plan.plan(X4, "a:x")
    (one, two), _ = plan.run([np.ones(8)] * 2, [np.ones(8)] * 2)
    with pytest.raises(RunError, match=r"`p/0` and `e/0` are the same.*; `p/1` and `e/1` are the same"):
        plan.run([one, two], [one, two], donate=True)


def test_what_is_copied_may_be_donated_twice():
    plan = ml.trace(lambda p, e: (p * 2, p + e), ml.f32[A], ml.f32[A], carry={"p": 0, "e": 1}).plan(X4, "a:x")
    for array in (np.ones(8, np.float32), jnp.ones(8)):
        np.testing.assert_array_equal(plan.run(array, array, donate=True)[1].array, 2)
        np.testing.assert_array_equal(array, 1)


def test_a_plan_is_compiled_once():
    assert PLAN.compile() is PLAN.compile()


def test_one_error_lists_all_that_does_not_fit():
    with pytest.raises(RunError) as caught:
        PLAN.run({"w": W[:, :3]}, V.astype(np.complex64), ml.i32[()])
    assert str(caught.value).startswith("These arguments do not fit the plan: ")
    for problem in (
        "`params/w` has shape (8, 3), where (8, 16) was traced",
        "`x` has dtype complex64, where float32 was traced",
        "`n` is abstract; running needs data",
    ):
        assert problem in str(caught.value)


def test_dims_in_another_order_are_told():
    Square = ml.dims(p=4, q=4)
    plan = ml.trace(lambda x: x * 2.0, ml.f32[Square]).plan(ml.mesh())
    with pytest.raises(RunError, match="`x` has the dims q p, where p q were traced"):
        plan.run(ml.tensor(np.zeros((4, 4), np.float32), *reversed(Square)))


@pytest.mark.parametrize("args", [(), ({"w": W}, V), ({"v": W}, V, 1), ({"w": W}, V, 1, 1)])
def test_another_tree_is_told(args):
    with pytest.raises(RunError, match=r"The plan (takes|is missing|does not know) .* Give run\(\) the same arguments"):
        PLAN.run(*args)
    if args:  # without any, a check draws them
        with pytest.raises(RunError, match=r"The plan (takes|is missing|does not know) .* Give check\(\) the same"):
            PLAN.check(*args)


def test_what_is_missing_and_too_much_is_named():
    with pytest.raises(RunError, match=r"The plan is missing `params/w` and does not know `params/v`\."):
        PLAN.run({"v": W}, V, 1)
    with pytest.raises(RunError, match=r"has the right arrays, but in trees of different types"):
        PLAN.run(collections.namedtuple("Params", "w")(W), V, 1)


def test_a_plan_without_arguments_or_axes_runs():
    plan = ml.trace(lambda: jnp.arange(4.0) * 2).plan(ml.mesh())
    np.testing.assert_array_equal(plan.run(), [0.0, 2.0, 4.0, 6.0])
    assert plan.check().ok
    assert ml.trace(lambda: jnp.arange(4.0) * 2).plan(ml.mesh(x=4)).check().ok


def test_keys_go_in_and_come_out():
    def draw(key, x):
        return x + jax.random.uniform(key, (8,)), jax.random.split(key, 2)

    plan = ml.trace(lambda key, x: draw(key, x.array), jax.random.key(0), ml.f32[A]).plan(X4, "a:x")
    x = np.zeros(8, np.float32)
    for expected, drawn in zip(draw(jax.random.key(5), x), plan.run(jax.random.key(5), x), strict=True):
        is_key = jnp.issubdtype(expected.dtype, jax.dtypes.prng_key)
        as_numbers = jax.random.key_data if is_key else np.asarray
        np.testing.assert_array_equal(as_numbers(expected), as_numbers(drawn))


def test_few_of_many_differences_are_listed():
    many = {f"w{i:02}": np.zeros(8, np.float32) for i in range(90)}
    plan = ml.trace(lambda many, x: many["w00"] + x[0], many, [many["w00"]]).plan(X4)
    with pytest.raises(RunError, match=r"missing `many/w00`, .*`many/w07` and 83 more and does not know") as caught:
        plan.run([many["w00"]], many)
    assert len(str(caught.value)) < 600
    wrong = dict.fromkeys(many, np.zeros(4, np.float32))
    with pytest.raises(RunError, match=r"`many/w07` has shape \(4,\), where \(8,\) was traced; and 82 more\."):
        plan.run(wrong, [many["w00"]])


def test_static_data_that_differ_are_told():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: jax.Array
        train: bool = dataclasses.field(metadata={"static": True})

    plan = ml.trace(lambda layers: layers[0].w * 2.0, [Layer(jnp.ones(8), train=True)]).plan(X4)
    with pytest.raises(RunError, match=r"the right arrays, but the static data of a `Layer` differ .* model\.eval\(\)"):
        plan.run([Layer(jnp.ones(8), train=False)])
    with pytest.raises(
        RunError, match=r"in trees of different types: `list` was traced, but `tuple` was given\. Give run"
    ):
        plan.run((Layer(jnp.ones(8), train=True),))


@pytest.mark.parametrize(
    ("traced", "given", "message"),
    [
        (jnp.float32, np.full(8, 1e300), r"`x` holds 1e\+300, which float32 cannot hold"),
        (jnp.float32, np.array([np.inf, np.nan, 1, -1e39] * 2), r"`x` holds -1e\+39, which float32"),
        (jnp.float16, np.full(8, 1e6, np.float32), r"`x` holds 1,000,000\.0, which float16"),
        (jnp.bfloat16, np.full(8, 3.4e38), r"`x` holds 3\.4e\+38, which bfloat16"),
        (jnp.complex64, np.full(8, 1e300j), r"`x` holds 1e\+300j, which complex64"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_finite_numbers_stay_finite_or_are_refused(traced, given, message):
    plan = ml.trace(lambda x: x, ml.named(jax.ShapeDtypeStruct((8,), traced), "a")).plan(X4, "a:x")
    with pytest.raises(RunError, match=message):
        plan.run(given)


@pytest.mark.filterwarnings("error")
def test_what_is_infinite_or_no_number_is_given_as_it_is():
    plan = ml.trace(lambda x: x, ml.f32[A]).plan(X4, "a:x")
    given = np.array([np.inf, -np.inf, np.nan, 1e-300, 3.4e38, 0, 1, 2])
    np.testing.assert_array_equal(plan.run(given).array, given.astype(np.float32))
    scalar = ml.trace(lambda x: x, 1.0).plan(X4)
    assert scalar.run(2) == 2.0
    with pytest.raises(RunError, match=r"`x` holds 1e\+300, which float32 cannot hold"):
        scalar.run(1e300)


def test_a_key_of_the_old_style_is_told_from_a_typed_one():
    one, two = jax.random.key(0), jax.random.split(jax.random.key(0))
    for key, write in ((one, r"jax\.random\.key\(0\)"), (two, r"jax\.random\.split\(jax\.random\.key\(0\), \(2,\)\)")):
        plan = ml.trace(lambda key: jax.random.bits(key.ravel()[0], (8,)), key).plan(X4)
        with pytest.raises(RunError, match=f"of shape .2,. and dtype uint32, not a typed key: give {write}\\."):
            plan.run(jax.random.PRNGKey(0))


def test_an_array_is_stored_as_the_plan_has_it_and_one_that_is_stays_where_it_is():
    x = np.arange(10 * 12, dtype=np.float32).reshape(10, 12)
    plan = ml.trace(jnp.square, ml.named(x, "rows cols")).plan(ml.mesh(y=4), "rows:y", pad=True)
    for place in plan.program.places:
        array = stored(plan, place, x)
        assert array.shape == (12, 12), "padding included"
        for shard, device in zip(array.addressable_shards, range(4), strict=True):
            (start, stop), _ = plan.shard(place, device)
            np.testing.assert_array_equal(shard.data[: stop - start], x[start:stop])
    even = ml.trace(jnp.square, ml.named(x, "rows cols")).plan(ml.mesh(y=4), "cols:y")
    there = stored(even, "out", even.run(x))
    again = stored(even, "out", there)
    pointers = [[shard.data.unsafe_buffer_pointer() for shard in each.addressable_shards] for each in (there, again)]
    assert pointers[0] == pointers[1]
