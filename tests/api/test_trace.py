"""Tracing finds places and carries, on shapes alone, and says what it cannot trace."""

import inspect
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml

A, B = ml.dims(a=4, b=6)
AB = ml.f32[A, B]


class State(NamedTuple):
    mu: ml.Tensor
    steps: Any


def test_places_are_parameters_paths_outputs_and_tags():
    def fn(params, state, x, *rest):
        return x.sum(), {"w": ml.tag(params["w"][1] * 2.0, "scaled")}, state

    state = State(AB, jax.ShapeDtypeStruct((), jnp.int32))
    program = ml.trace(fn, {"w": [AB, AB]}, state, AB, AB, AB)
    arguments = ("params/w/0", "params/w/1", "state/mu", "state/steps", "x", "rest0", "rest1")
    assert program.places == (*arguments, "out/0", "out/1/w", "out/2/mu", "out/2/steps", "scaled")
    assert program.place("params/w/1").dims == ("a", "b")
    assert program.place("params/w/1").place == "params/w/1"
    assert program.place("scaled").dims == ("a", "b")


def test_a_single_output_is_out():
    assert ml.trace(lambda x: x * 2.0, AB).places == ("x", "out")
    assert ml.trace(lambda x: {"y": x * 2.0}, AB).places == ("x", "out/y")


def test_shapes_are_enough():
    Huge = ml.dims(p=2**20, q=2**20)
    program = ml.trace(lambda x: x * 2.0, ml.f32[Huge])
    assert program.place("x").nbytes == 2**42


def test_concrete_tensors_numbers_and_arrays_may_be_given():
    program = ml.trace(lambda x, y, s: x + y * s, ml.tensor(np.zeros((4, 6), np.float32), A, B), AB, 3.0)
    assert program.place("s").shape == ()
    assert dict(program.dims) == {"a": 4, "b": 6}


def test_an_output_that_fits_one_argument_is_carried():
    def step(params, x):
        return x.sum(), {"w": params["w"] * 2.0}

    program = ml.trace(step, {"w": AB}, ml.f32[B])
    assert program.carry == {"params": 1}
    # It is stored as that argument is, unless a rule says otherwise.
    plan = program.plan(ml.mesh(x=2), {"params/*": {"a": "x"}})
    assert plan.spec("out/1/w") == plan.spec("params/w")
    plan = program.plan(ml.mesh(x=2), {"params/*": {"a": "x"}, "out/1/*": {"a": None}})
    assert plan.spec("out/1/w").splits == ((), ())


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda x: (x * 2.0, x * 3.0), (AB,)),
        (lambda x, y: x + y, (AB, AB)),
        (lambda x: x.sum("a"), (AB,)),
        (lambda x: x.astype(jnp.bfloat16), (AB,)),
    ],
    ids=["two outputs", "two arguments", "another shape", "another dtype"],
)
def test_nothing_is_carried_where_it_is_not_certain(fn, args):
    assert ml.trace(fn, *args).carry == {}


def test_a_carry_may_be_said():
    assert ml.trace(lambda x: (x * 2.0, x * 3.0), AB, carry={"x": 1}).carry == {"x": 1}
    assert ml.trace(lambda x: x * 2.0, AB, carry={}).carry == {}


def test_all_that_is_wrong_with_a_carry_is_told_at_once():
    with pytest.raises(ml.TraceError) as caught:
        ml.trace(lambda x, y: (x, y.sum()), AB, AB, carry={"z": 0, "x": 2, "y": 1})
    for problem in (
        "Invalid `carry`: `z` is not an argument of",
        "`x` must come from one of the outputs 0 to 1, not 2",
        "output 1 has a different tree, shapes or dtypes than argument `y`",
    ):
        assert problem in str(caught.value)


def step(params, images):
    return params


@pytest.mark.parametrize("args", [(), (AB,), (AB, AB, AB)])
def test_a_wrong_number_of_arguments_is_told(args):
    with pytest.raises(ml.TraceError, match=rf"`step` takes \(params, images\) but {len(args)} arguments were given"):
        ml.trace(step, *args)


def test_what_is_no_array_is_told_with_its_place():
    with pytest.raises(ml.TraceError, match=r"but `params/w` is 'text' \(str\). Close over values that are not arrays"):
        ml.trace(step, {"w": "text"}, AB)


def test_what_the_function_raises_is_told_with_its_name():
    def broken(x):
        raise KeyError("w1")

    with pytest.raises(ml.TraceError, match="`broken` could not be traced: KeyError: 'w1'"):
        ml.trace(broken, AB)


def test_meshlabs_own_errors_come_as_they_are():
    with pytest.raises(ml.DimError, match="zebra"):
        ml.trace(lambda x: x.sum("zebra"), AB)


def test_values_tell_what_they_are():
    def fn(x):
        doubled = x * 2.0
        return ml.relu(doubled).sum("a")

    program = ml.trace(fn, AB)
    value = next(v for v in program.values if v.label == "doubled")
    assert value.dims == ("a", "b")
    assert value.nbytes == 4 * 6 * 4
    assert value.source is not None
    assert str(value.source).startswith("test_trace.py:")
    assert value.source.code == "doubled = x * 2.0"
    assert "fn: " in repr(program)
    assert "a=4 b=6" in repr(program)


def test_a_place_that_is_not_there_is_told():
    with pytest.raises(ml.MeshlabError, match="There is no value at `parms`. Did you mean `params`?"):
        ml.trace(step, AB, AB).place("parms")


def test_places_are_not_shared():
    A = ml.Dim("a", 4)
    with pytest.raises(ml.TraceError, match="parameter `out` would share a place with another value"):
        ml.trace(lambda out: out * 2.0, ml.f32[A])
    with pytest.raises(ml.TraceError, match="tag `x` would share a place .* Give it another name"):
        ml.trace(lambda x: ml.tag(x, "x") * 2.0, ml.f32[A])


def test_a_program_without_names_says_so():
    assert repr(ml.trace(lambda x: x * 2.0, np.ones(3, np.float32))).endswith(": 1 operations over no named dims)")


@pytest.mark.parametrize(
    ("fn", "error"), [(lambda w, images: ml.dot(images, w, A), ml.DimError), (lambda w, images: jnp.sin(images), None)]
)
@pytest.mark.parametrize("shape", [(8, 4, 4), [8, 4, 4]])
def test_sizes_that_are_meant_as_a_shape_are_told(fn, error, shape):
    message = r"`images` was given as .8, 4, 4.: for an array of that shape, write ml.f32\[Batch"
    with pytest.raises(error or ml.TraceError, match=message):
        ml.trace(fn, ml.f32[A, B], shape)


def test_a_tuple_of_numbers_is_a_tree():
    assert ml.trace(lambda x, n: x * n[0] + n[1], ml.f32[A], (8, 4)).parameters == ("x", "n")


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda *, a: a, r"takes \(\) but 1 arguments were given.* `a` is keyword-only: bind by functools.partial"),
        (lambda x, *, a, b: a, r"but 2 arguments were given .* `a`, `b` are keyword-only: bind by functools.partial"),
    ],
)
def test_parameters_that_are_keywords_alone_are_told(fn, message):
    args = [ml.f32[A]] * (2 if "x" in inspect.signature(fn).parameters else 1)
    with pytest.raises(ml.TraceError, match=message):
        ml.trace(fn, *args)


def test_a_line_that_cannot_be_read_is_left_out():
    lines = {}
    exec(compile("def f(a):\n    return a if a else -a", "<text>", "exec"), lines)
    with pytest.raises(ml.TraceError, match=r"It was raised at <text>:2\. Use jnp.where"):
        ml.trace(lines["f"], ml.f32[()])
