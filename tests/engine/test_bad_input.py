"""What cannot be traced is told with the user's own line, and with what to write instead."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml

SHAPE = (8, 16)
MESH = ml.mesh(x=2, y=4)


X = ml.named(jax.ShapeDtypeStruct(SHAPE, jnp.float32), "a b")


def refused(fn, *arguments):
    """The message with which a function is refused; it speaks of the user's files alone."""
    with pytest.raises(ml.TraceError) as caught:
        ml.trace(fn, *(arguments or (X,)))
    message = str(caught.value)
    assert "meshlab/engine" not in message
    assert not re.search(r"\bflat\b", message)
    return message


# Functions that fail while they are traced


def lookup(x):
    weights = {"w1": x}
    return weights["w2"] * 2.0


def mismatched(x):
    return x @ x


@pytest.mark.parametrize(
    "wrapped",
    [
        lookup,
        jax.jit(lookup),
        jax.grad(lambda v: lookup(v).sum()),
        lambda x: lax.scan(lambda c, row: (c, lookup(row)), 0.0, x),
        jax.checkpoint(lookup),
    ],
    ids=["plain", "jit", "grad", "scan", "checkpoint"],
)
def test_an_exception_is_told_with_the_line_that_raised_it(wrapped):
    message = refused(wrapped)
    assert "could not be traced: KeyError: 'w2'" in message
    assert re.search(r'test_bad_input\.py:\d+: `return weights\["w2"\] \* 2\.0`', message)


def test_what_jax_raises_is_told_with_the_users_line():
    message = refused(mismatched)
    assert "`mismatched` could not be traced: TypeError: dot_general requires contracting dimensions" in message
    assert re.search(r"test_bad_input\.py:\d+: `return x @ x`", message)


def test_meshlabs_own_errors_keep_the_users_line():
    def fn(x):
        return ml.tensor(x, "a", "b").sum("c")

    with pytest.raises(ml.DimError, match="`c`") as caught:
        ml.trace(fn, X)
    assert any(entry.name == "fn" for entry in caught.traceback)


# Python that asks for numbers


def branches(x):
    y = jnp.tanh(x)
    if y.sum() > 0:
        return y
    return -y


def branches_in_a_scan(x):
    def turn(total, row):
        if row.sum() > 0:
            total = total + row
        return total, row

    return lax.scan(turn, x[0], x)


def converts(x):
    return x * float(x.max())


def counts(x):
    return [x] * int(x[0, 0])


def in_numpy(x):
    return np.tanh(x)


@pytest.mark.parametrize(
    ("fn", "error", "line", "fix"),
    [
        (branches, "TracerBoolConversionError", "if y.sum() > 0:", "jnp.where or jax.lax.cond"),
        (branches_in_a_scan, "TracerBoolConversionError", "if row.sum() > 0:", "jnp.where or jax.lax.cond"),
        (converts, "ConcretizationTypeError", "return x * float(x.max())", "jnp.array(x, float)"),
        (counts, "ConcretizationTypeError", "return [x] * int(x[0, 0])", "must be known before"),
        (in_numpy, "TracerArrayConversionError", "return np.tanh(x)", "jax.numpy"),
    ],
)
def test_python_that_asks_for_numbers_is_told_what_to_write_instead(fn, error, line, fix):
    message = refused(fn)
    assert f"`{fn.__name__}` could not be traced: {error}: " in message
    assert re.search(rf"test_bad_input\.py:\d+: `{re.escape(line)}`", message)
    assert fix in message


def test_jaxs_own_words_name_the_function_and_its_argument():
    message = refused(branches)
    assert re.search(r"function branches at .*test_bad_input\.py:\d+ .* the argument x\.", message)
    assert "the argument params['w']" in refused(lambda params: branches(params["w"]), {"w": X})


# Shapes that depend on data


def nonzero(x):
    return jnp.nonzero(x)


def boolean_index(x):
    return x[x > 0].sum()


def unique(x):
    return jnp.unique(x)


def counted(x):
    return jnp.arange(x.argmax())


@pytest.mark.parametrize(
    ("fn", "line"),
    [
        (nonzero, "return jnp.nonzero(x)"),
        (boolean_index, "return x[x > 0].sum()"),
        (unique, "return jnp.unique(x)"),
        (counted, "return jnp.arange(x.argmax())"),
    ],
)
def test_shapes_that_depend_on_data_are_refused(fn, line):
    message = refused(fn)
    assert re.search(rf"test_bad_input\.py:\d+: `{re.escape(line)}`", message)
    assert "sizes of all arrays must be known before" in message


# Side effects


def effect(x):
    return io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def ordered_effect(x):
    return io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)


@pytest.mark.parametrize(
    "fn",
    [
        effect,
        ordered_effect,
        jax.jit(effect),
        lambda x: lax.cond(x.sum() > 0, effect, jnp.negative, x),
        lambda x: lax.while_loop(lambda v: v.sum() < 3.0, effect, x),
        lambda x: lax.scan(lambda c, row: (c, effect(row)), 0.0, x),
        jax.vmap(effect),
    ],
    ids=["plain", "ordered", "jit", "cond", "while", "scan", "vmap"],
)
def test_effects_in_python_are_refused(fn):
    message = refused(fn)
    assert re.search(r"cannot be laid out: `io_callback` at test_bad_input\.py:\d+ has a side effect; do that", message)
    assert "do that outside the step" in message


def calls_back(x):
    total = x.sum(1)
    jax.debug.callback(lambda v: None, total)
    return total


@pytest.mark.parametrize(
    "fn",
    [
        calls_back,
        jax.vmap(lambda row: calls_back(row[None])),
        lambda x: lax.scan(lambda c, i: (c, calls_back(x * i)), 0.0, jnp.arange(3.0))[1],
        lambda x: lax.cond(x.sum() > 0, calls_back, lambda v: v.max(1), x),
        jax.grad(lambda v: calls_back(v).sum()),
    ],
    ids=["plain", "vmap", "scan", "cond", "grad"],
)
def test_callbacks_are_refused_each_once(fn):
    message = refused(fn)
    assert len(re.findall(r"`debug_callback` at test_bad_input\.py:\d+ has a side effect; do", message)) == 1


def test_arrays_that_are_written_to_are_refused():
    def fn(x):
        reference = jax.new_ref(x)
        reference[...] = reference[...] * 2.0
        return reference[...]

    assert re.search(r"`new_ref` at test_bad_input\.py:\d+ has a side effect; do", refused(fn))


# What says itself where it runs


def test_what_is_laid_out_by_hand_is_refused():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",), axis_types=(AxisType.Auto,))
    explicit = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",), axis_types=(AxisType.Explicit,))

    def sharded(x):
        return jax.shard_map(lambda v: lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(x)

    def mapped(x):
        return jax.pmap(jnp.sin)(x)

    def resharded(x):
        return jax.sharding.reshard(x, NamedSharding(explicit, P("x")))

    for fn, message in (
        (sharded, r"`shard_map` at test_bad_input\.py:\d+ already says what each device does; pass the"),
        (mapped, r"`shard_map` at test_bad_input\.py:\d+ already says what each device does; pass the"),
        (resharded, r"`reshard` at test_bad_input\.py:\d+ already says what each device does; pass the"),
    ):
        assert re.search(message, refused(fn))


def test_a_collective_without_its_mesh_is_refused():
    def fn(x):
        return lax.psum(x, "x")

    assert re.search(
        r"unbound axis name: x.*(.|\n)*test_bad_input\.py:\d+: `return lax\.psum\(x, \"x\"\)`", refused(fn)
    )


# Arguments and results that are no arrays


def first(params, x):
    return x


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ("text", r"`params/w` is 'text' \(str\)"),
        (jnp.tanh, r"`params/w` is .*tanh"),
        (np.array(["text"]), r"`params/w` is an array of shape \(1,\) and dtype <U4 \(ndarray\)"),
        (np.array([None]), "`params/w` is an array of .* and dtype object"),
        (np.array(["2026-01-01"], "datetime64[D]"), "`params/w` is an array of .* dtype datetime64"),
    ],
)
def test_leaves_that_are_no_arrays_are_told_with_their_place(leaf, message):
    with pytest.raises(ml.TraceError, match=message + ".*Close over values that are not arrays, or leave them out"):
        ml.trace(first, {"w": leaf}, X)


def returns_text(x):
    return {"sum": x.sum(), "unit": "metres"}


def test_results_that_are_no_arrays_are_told_with_their_place():
    message = refused(returns_text)
    assert re.search(r"`returns_text` \(test_bad_input\.py:\d+\) returns 'metres' \(str\) at `out/unit`", message)
    assert re.search(r"returns .*tanh.* at `out`: return arrays alone", refused(lambda x: jnp.tanh))


def test_what_is_no_function_is_told():
    with pytest.raises(
        ml.TraceError, match=r"ml.trace was given 3 for its function; write ml.trace\(step, params, x\)"
    ):
        ml.trace(3, X)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.TraceError, match=r"takes \(\) but 1 arguments were given"):
        ml.trace(lambda *, x: x, X)


def test_nothing_to_lay_out_is_told():
    with pytest.raises(ml.TraceError, match="`<lambda>` returns nothing: it must end with `return`"):
        ml.trace(lambda params: params, {})
    with pytest.raises(ml.TraceError, match="`<lambda>` returns nothing: it must end with `return`"):
        ml.trace(lambda x: None, ml.f32[ml.Dim("batch", 8)])


# Values of another trace

LEFT: list[jax.Array] = []


def leaves_behind(x):
    LEFT.append(x)
    return x


def test_a_value_that_an_earlier_trace_left_behind_is_refused():
    LEFT.clear()
    ml.trace(leaves_behind, X)

    def fn(x):
        return jnp.tanh(x) + LEFT[0]

    message = refused(fn)
    assert re.search(r"`fn` computes with float32\[8,16\] of another trace, at test_bad_input\.py:\d+", message)
    assert "Make it an argument" in message


def test_a_trace_inside_a_trace_may_not_close_over_what_is_traced():
    def outer(x):
        ml.trace(lambda y: x + y, X)
        return x

    assert "of another trace" in refused(outer)
    assert ml.trace(lambda x: x * float(len(ml.trace(jnp.tanh, X).values)), X).place("out").dims == ("a", "b")


# Names that do not fit


def test_names_that_do_not_fit_are_told_with_their_places():
    vector = jax.ShapeDtypeStruct((16,), jnp.float32)
    with pytest.raises(ml.DimError, match="the array has the dim `a` twice"):
        ml.named(jax.ShapeDtypeStruct((8, 8), jnp.float32), "a a")
    with pytest.raises(ml.DimError, match=r"`a` has size 8 at argument `x` and size 16 at argument `y`"):
        ml.trace(lambda x, y: x + y, X, ml.named(vector, "a"))
    with pytest.raises(ml.DimError, match=r"for which 'a b c' has 3 names"):
        ml.named(jax.ShapeDtypeStruct(SHAPE, jnp.float32), "a b c")
    with pytest.raises(ml.TraceError, match=r"`b` \(named at argument `x`\) and `c` \(named at argument `y`\)"):
        ml.trace(lambda x, y: x + y, X, ml.named(vector, "c"))


def test_where_two_names_meet_is_told():
    def fn(x, y):
        shifted = x + 1.0
        return shifted * y

    vector = ml.named(jax.ShapeDtypeStruct((16,), jnp.float32), "c")
    message = refused(fn, X, vector)
    assert re.search(r"`b` \(named at .*`c` \(named at .*\), in `mul` at test_bad_input\.py:\d+", message)


def test_one_size_in_many_places_is_told_once():
    arrays = {f"w{i}": jax.ShapeDtypeStruct((16 if i else 8,), jnp.float32) for i in range(9)}
    with pytest.raises(
        ml.DimError, match="has size 8 at argument `params/w0` and size 16 at argument `params/w1`"
    ) as e:
        ml.trace(lambda params: params, ml.named(arrays, "a"))
    assert str(e.value).count("size 16") == 1


def test_the_size_of_a_part_may_be_written_with_any_of_the_merged_axes():
    arrays = {name: jax.ShapeDtypeStruct((24,), jnp.float32) for name in ("key", "query")}
    program = ml.trace(lambda p: p, ml.named(arrays, {"key": "(heads head)", "query": "(heads=4 head)"}))
    assert dict(program.dims) == {"heads": 4, "head": 6}


def test_arguments_that_do_not_fit_what_was_traced_are_told():
    plan = ml.trace(lambda x: x * 2.0, X).plan(MESH, "a:x")
    with pytest.raises(ml.RunError, match=r"`x` has shape \(4, 16\), where \(8, 16\) was traced"):
        plan.run(np.ones((4, 16), np.float32))
    with pytest.raises(ml.RunError, match="`x` has dtype int32, where float32 was traced"):
        plan.run(jnp.ones(SHAPE, jnp.int32))
    with pytest.raises(ml.RunError, match="`x` is abstract; running needs data"):
        plan.run(X)
