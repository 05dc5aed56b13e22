"""Presets find axes, parameters, state and the batch; where they cannot, they say what to write."""

import ast
import functools
import re

import jax
import pytest

import meshlab as ml
from meshlab.layouts.axis_names import NAMES
from meshlab.models.zoo import models

layouts = ml.layouts
MODELS = {model.name: model for model in models()}
Batch, Time, Width, Out = ml.dims(batch=8, time=4, width=16, out=4)
X, WEIGHT = ml.f32[Batch, Width], ml.f32[Width, Out]
XY = ml.mesh(x=2, y=2)
X4 = ml.mesh(x=4)


def loss(w, x):
    return ml.square(ml.dot(x, w, "width")).sum()


def sgd(w, x):
    return w - 0.1 * jax.grad(loss)(w, x)


@pytest.fixture(scope="module")
def program():
    """A weight and its data; nothing is tagged, and there is no optimizer's state."""
    return ml.trace(sgd, WEIGHT, X)


@pytest.fixture(scope="module")
def adamw():
    return MODELS["transformer_adamw"].trace()


# Axes


def test_the_axis_is_the_only_one_or_has_the_conventional_name(program):
    assert layouts.data_parallel(program, ml.mesh(anything=2)) == ml.Layout.of("batch:anything")
    assert layouts.data_parallel(program, ml.mesh(model=2, data=4)) == ml.Layout.of("batch:data")
    assert layouts.tensor_parallel(program, ml.mesh(model=2, data=4), dims="out") == ml.Layout.of("out:model")
    assert layouts.expert_parallel(program, ml.mesh(data=2, model=2), dims="out") == ml.Layout.of("out:data")
    assert layouts.expert_parallel(program, ml.mesh(data=2, expert=2), dims="out") == ml.Layout.of("out:expert")


@pytest.mark.parametrize(
    ("preset", "purpose"),
    [
        (layouts.data_parallel, "data"),
        (layouts.fsdp, "shards"),
        (functools.partial(layouts.tensor_parallel, dims="out"), "model"),
        (functools.partial(layouts.expert_parallel, dims="out"), "expert"),
    ],
)
def test_every_name_of_an_axis_is_known_in_whatever_case(program, preset, purpose):
    for name in NAMES[purpose]:
        for axis in (name, name.upper()):
            assert axes_of(preset(program, ml.mesh(stage=2, **{axis: 2}))) == {axis}
    first, second = NAMES[purpose][:2]
    assert axes_of(preset(program, ml.mesh(**{second: 2, first: 2}))) == {first}


def test_one_axis_is_never_for_two_purposes(program):
    assert axes_of(layouts.fsdp(program, ml.mesh(batch=2, fsdp=2))) == {"fsdp"}
    assert axes_of(layouts.data_parallel(program, ml.mesh(batch=2, fsdp=2))) == {"batch"}
    hybrid = layouts.hsdp(program, ml.mesh(batch=2, fsdp=2))
    assert hybrid.rules["batch"] == ("batch", "fsdp")
    assert {axes for rules in hybrid.places.values() for axes in rules.values()} == {("fsdp",)}
    assert layouts.hsdp(program, ml.mesh(dp=2, replica=2)).rules["batch"] == ("replica", "dp")
    # What is left is called for something else: no axis is proposed.
    for mesh, found in ((ml.mesh(data=2, stage=2), "`data`, `stage`"), (ml.mesh(tp=2, ep=2), "`tp`, `ep`")):
        with pytest.raises(ml.LayoutError, match=rf"Its axes are {found}\. Choose one with (replica|data)="):
            layouts.hsdp(program, mesh)


def axes_of(layout):
    return {axis for rules in (layout.rules, *layout.places.values()) for axes in rules.values() for axis in axes}


def test_axes_may_be_said(program):
    assert layouts.data_parallel(program, XY, data="y") == ml.Layout.of("batch:y")
    both = ml.Layout.of({"batch": ("y", "x")})
    assert layouts.data_parallel(program, XY, data="y+x") == layouts.data_parallel(program, XY, data=["y", "x"]) == both


@pytest.mark.parametrize(
    ("preset", "keyword", "names"),
    [
        (layouts.fsdp, "data", "`fsdp`, `shard`, `zero`, `data`"),
        (layouts.tensor_parallel, "model", "`model`, `tp`, `tensor`, `mp`"),
        (layouts.expert_parallel, "expert", "`expert`, `experts`, `ep`"),
    ],
)
def test_an_axis_that_is_not_said_is_asked_for(program, preset, keyword, names):
    said = rf'called {names}.*, so the choice is ambiguous\. Its axes are `x`, `y`. Write {keyword}="x"\.'
    with pytest.raises(ml.LayoutError, match=said):
        preset(program, XY)
    with pytest.raises(ml.LayoutError, match=r"It has no axes: write ml.mesh\(data=8\)"):
        preset(program, ml.mesh())


@pytest.mark.parametrize("axis", ["xx", "x+z", ["x", "x"], (), 3, ""])
def test_an_axis_that_is_not_there_is_refused(program, axis):
    with pytest.raises(ml.LayoutError, match=r"data=.* names no axes of the mesh\. Its axes are `x`, `y`\."):
        layouts.data_parallel(program, XY, data=axis)
    with pytest.raises(ml.LayoutError, match=r"Did you mean `data`\?"):
        layouts.data_parallel(program, ml.mesh(data=2, model=2), data="dat")


def test_program_and_mesh_come_in_order(program):
    with pytest.raises(ml.MeshlabError, match=r"write ml.layouts.fsdp\(program, ml.mesh.*The program comes first"):
        layouts.fsdp(X4, program)  # pyright: ignore
    with pytest.raises(ml.MeshlabError, match=r"tensor_parallel\(\) was given .* and 'x=4'; write"):
        layouts.tensor_parallel(program, "x=4")  # pyright: ignore


# The batch


def test_the_batch_is_what_all_data_share_and_no_parameter_has():
    Seq = ml.Dim("seq", 4)

    def step(w, x, positions, labels):
        return w - 0.1 * jax.grad(lambda w: (ml.dot(x, w, "width") * positions * labels).sum() ** 2)(w)

    data = ml.f32[Seq, Batch, Width], ml.f32[Seq, Batch], ml.f32[Batch,]
    assert layouts.data_parallel(ml.trace(step, WEIGHT, *data), X4) == ml.Layout.of("batch:x")


def test_the_batch_may_be_said(program):
    traced = ml.trace(lambda x, y: x + y, X, ml.f32[Width,])
    assert layouts.data_parallel(traced, X4, batch="width") == ml.Layout.of("width:x")
    assert layouts.data_parallel(traced, X4, batch=Batch) == ml.Layout.of("batch:x")
    with pytest.raises(ml.LayoutError, match=r"batch='bach': 'bach' is not a dim .* Did you mean `batch`"):
        layouts.data_parallel(program, X4, batch="bach")
    with pytest.raises(ml.LayoutError, match=r"batch=batch.* has size 9; in this program it has 8\. Name it \"batch\""):
        layouts.data_parallel(program, X4, batch=ml.Dim("batch", 9))
    with pytest.raises(ml.LayoutError, match=r"batch='batch width' names several dims\. It must be one"):
        layouts.data_parallel(program, X4, batch="batch width")


def test_where_no_dim_is_the_batch_the_dims_are_listed():
    def step(w, x, weights):
        return w - 0.1 * jax.grad(lambda w: (ml.dot(x, w, "width") * weights).sum() ** 2)(w)

    traced = ml.trace(step, WEIGHT, X, ml.f32[Time,])
    match = (
        r'(?s)No dim is common to all its data and absent from all its parameters.*batch="batch"; '
        r".*Data are `x` \[batch width\], `weights` \[time\]\."
        r"\nFor batch=: Of its dims `batch` \(8\), `width` \(16\), `time` \(4\) may be on `x`\."
    )
    with pytest.raises(ml.LayoutError, match=match):
        layouts.data_parallel(traced, X4)
    with pytest.raises(ml.LayoutError, match="Data are no arguments with dims"):
        layouts.fsdp(ml.trace(lambda w: w - jax.grad(lambda w: ml.dot(w, w, "width", "out") ** 2)(w), WEIGHT), X4)


def test_a_batch_that_the_axis_does_not_divide_is_refused_with_what_would_fit(program):
    with pytest.raises(
        ml.LayoutError, match=r"(?s)`batch` has size 8.*For batch=: Of its dims .*; `batch` \(8\).* may not"
    ):
        layouts.data_parallel(program, ml.mesh(x=16))
    with pytest.raises(
        ml.LayoutError, match=r"For batch=: None of its dims may be on `x`; `batch` \(8\), `width` \(16\)"
    ):
        layouts.data_parallel(program, ml.mesh(x=3))


# Parameters and state


def test_parameters_that_nothing_tells_are_named():
    traced = ml.trace(lambda weights, x: loss(weights["w"], x), {"w": WEIGHT}, X)
    match = r'unknown.*params="weights/\*"; its arguments are `weights/\*`, `x`\.'
    with pytest.raises(ml.LayoutError, match=match):
        layouts.fsdp(traced, X4)
    assert layouts.fsdp(traced, X4, params="weights/*") == ml.Layout.of({"batch": "x", "weights/*": {"width": "x"}})
    with pytest.raises(ml.LayoutError, match=r"params='weight/\*' is not a glob.* Did you mean `weights/\*`"):
        layouts.fsdp(traced, X4, params="weight/*")
    with pytest.raises(ml.LayoutError, match=r"state=3 is not a glob that matches an argument\. Its arguments are"):
        layouts.zero1(traced, X4, params="weights/*", state=3)  # pyright: ignore


def test_moments_that_the_trace_does_not_carry_are_named():
    """Where several arguments have the shapes of one output, `ml.trace` carries none of them of itself."""

    def step(weights, moments, x):
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, jax.grad(loss)(weights, x))
        return jax.tree.map(lambda w, m: w - 0.1 * m, weights, moments), moments

    traced = ml.trace(step, WEIGHT, WEIGHT, X)
    assert not traced.carry
    with pytest.raises(ml.LayoutError, match=r"state= or carry of ml\.trace\. Data are `moments` \[width out\], `x` "):
        layouts.fsdp(traced, X4)
    expected = ml.Layout.of({"batch": "x", "weights": {"width": "x"}, "moments": {"width": "x"}})
    assert layouts.fsdp(traced, X4, state="moments") == expected
    carried = ml.trace(step, WEIGHT, WEIGHT, X, carry={"weights": 0, "moments": 1})
    assert layouts.fsdp(carried, X4) == expected


def test_a_place_with_the_signs_of_globs_is_stored_by_its_name():
    params = {"w[0]": WEIGHT, "w*": ml.f32[Out, ml.Dim("wide", 32)]}

    def of(params, x):
        return ml.square(ml.dot(x, params["w[0]"], params["w*"], "width", "out")).sum()

    traced = ml.trace(lambda params, x: jax.tree.map(lambda w, g: w - g, params, jax.grad(of)(params, x)), params, X)
    plan = traced.plan(X4, layouts.fsdp(traced, X4))
    assert [plan.spec(f"params/{name}").splits for name in params] == [(("x",), ()), ((), ("x",))]


def test_what_is_named_goes_before_what_is_found(adamw):
    embedding = layouts.fsdp(adamw, X4, params="params/embedding")
    assert embedding.places["params/embedding"] == {"vocab": ("x",)}
    # All else that is carried counts as state.
    assert "opt_state/*" in embedding.places
    assert "params/layers/*" in embedding.places
    moments = layouts.zero1(adamw, X4, state="opt_state/*/mu/*")
    assert all("mu" in glob for glob in moments.places)


def test_without_state_or_gradient_all_is_said_at_once(program):
    match = (
        r"(?s)has 2 problems:\n  1\. It carries nothing to the next call, and no optimizer state\."
        r' Name it, as in state="opt_state/\*"; .*'
        r"\n  2\. It computes no gradient of a parameter\. Trace the whole step"
    )
    traced = ml.trace(lambda w, x: loss(w, x), WEIGHT, X)
    with pytest.raises(ml.LayoutError, match=match) as raised:
        layouts.zero2(traced, X4, params="w")
    assert [problem.code for problem in raised.value.problems] == ["unknown_place", "unknown_place"]
    with pytest.raises(ml.LayoutError, match="It carries `w` to the next call, and no optimizer state"):
        layouts.zero1(program, X4)


def test_what_nothing_divides_is_refused_with_its_dims(program, adamw):
    match = (
        r"No parameter has a dim that `x`=3 divides\. Their dims are `width` \(16\), `out` \(4\); take a smaller axis,"
        r" or pad: program\.plan\(mesh, \{'batch': 'x', 'w': \{'width': 'x'\}\}, pad=True\)\."
    )
    with pytest.raises(ml.LayoutError, match=match):
        layouts.fsdp(program, ml.mesh(x=3))
    for preset in (layouts.zero1, layouts.zero2):
        with pytest.raises(ml.LayoutError, match=r"No array of the optimizer's state has a dim that `x`=64 divides"):
            preset(adamw, ml.mesh(x=64))


def test_gradients_are_stored_as_the_state_of_their_parameters(adamw):
    plan = adamw.plan(X4, layouts.zero2(adamw, X4))
    seen = 0
    for place, parameter in adamw.gradients.items():
        moments = [a.place for a in adamw.arguments if a.place.endswith(parameter.removeprefix("params"))]
        assert len(moments) == 3  # the parameter and its two moments
        assert {plan.spec(moment) for moment in moments[1:]} == {plan.spec(place)}
        seen += any(plan.spec(place).splits)
    assert seen == len(adamw.gradients) == 11
    assert not any(glob.startswith("grads") for glob in layouts.fsdp(adamw, X4).places)


def test_the_layout_beside_decides_what_is_left_to_divide(program):
    mesh = ml.mesh(data=8, model=4)
    alone = layouts.fsdp(program, mesh)
    assert alone.places["w"] == {"width": ("data",)}
    # 32 do not divide `width`; `out` is left, but 8 do not divide that.
    with pytest.raises(ml.LayoutError, match="No parameter has a dim"):
        layouts.fsdp(program, mesh, beside="width:model")
    smaller = ml.mesh(data=4, model=8)
    beside = layouts.fsdp(program, smaller, beside="width:model")
    assert beside == ml.Layout.of({"batch": "data", "width": "model", "w": {"out": "data"}})
    assert program.plan(smaller, beside).check().ok


# The model


def test_dims_that_are_said_must_all_fit(adamw):
    assert layouts.tensor_parallel(adamw, X4, dims=("ffn", "heads")) == ml.Layout.of("ffn:x heads:x")
    with pytest.raises(ml.LayoutError, match=r"dims='fn heads': 'fn' is not a dim .* Did you mean `ffn`"):
        layouts.tensor_parallel(adamw, X4, dims="fn heads")
    with pytest.raises(ml.LayoutError, match=r"(?s)`embed` and `ffn` cannot both be on `x`"):
        layouts.tensor_parallel(adamw, X4, dims="embed ffn")
    with pytest.raises(ml.LayoutError, match=r"dims=\(\): \(\) is not a dim of this program"):
        layouts.tensor_parallel(adamw, X4, dims=())
    with pytest.raises(ml.LayoutError, match=r"dims=3: 3 is not a dim of this program"):
        layouts.tensor_parallel(adamw, X4, dims=3)  # pyright: ignore


@pytest.mark.parametrize(("given", "wrong"), [({"ffn"}, "{'ffn'}"), ([["ffn"]], "['ffn']"), ({"a": 1}, "{'a': 1}")])
def test_what_cannot_be_a_name_is_no_dim(adamw, given, wrong):
    calls = {
        "dims": lambda: layouts.tensor_parallel(adamw, X4, dims=given),
        "batch": lambda: layouts.fsdp(adamw, X4, batch=given),
        "seq": lambda: layouts.sequence_parallel(adamw, X4, seq=given),
        "heads": lambda: layouts.context_parallel(adamw, X4, kind="ulysses", heads=given),
    }
    for keyword, call in calls.items():
        with pytest.raises(ml.LayoutError, match=f"{keyword}=.*{re.escape(wrong)} is not a dim of this program"):
            call()


def test_of_the_zoos_names_those_are_taken_that_fit_the_earlier_first(adamw):
    assert set(layouts.tensor_parallel(adamw, ml.mesh(x=4)).rules) == {"heads", "ffn", "vocab"}
    # There are 4 heads, in 2 groups each: neither is for 8.
    assert set(layouts.tensor_parallel(adamw, ml.mesh(x=8)).rules) == {"ffn", "vocab"}
    grouped = ml.trace(lambda q, k: (q * k).sum(), ml.f32[ml.dims(heads=2, group=8)], ml.f32[ml.dims(heads=2)])
    assert set(layouts.tensor_parallel(grouped, ml.mesh(x=8)).rules) == {"group"}


def test_where_no_name_fits_the_candidates_are_listed(program, adamw):
    match = (
        r'(?s)No dim is called `heads`, .*dims="heads ffn"\.'
        r"\nOf its dims `width` \(16\), `out` \(4\), `batch` \(8\) may be on `x`"
    )
    with pytest.raises(ml.LayoutError, match=match):
        layouts.tensor_parallel(program, X4)
    with pytest.raises(ml.LayoutError, match=r"None of `heads`, `ffn`, `vocab`, `group` fits: `heads` has size 4"):
        layouts.tensor_parallel(adamw, ml.mesh(x=64))
    with pytest.raises(ml.LayoutError, match=r"(?s)No dim is called `experts`.*`layers` \(2, scanned\)"):
        layouts.expert_parallel(adamw, X4)


def test_sequence_parallelism_needs_its_tag_and_a_sequence(adamw):
    with pytest.raises(ml.LayoutError, match=r'it has no tags\. Tag the residual .* x = ml\.tag\(x, "residual"\)'):
        layouts.sequence_parallel(MODELS["mlp"].trace(), X4)
    with pytest.raises(ml.LayoutError, match=r"its tags are `hidden`"):
        layouts.sequence_parallel(ml.trace(lambda w, x: ml.tag(loss(w, x), "hidden"), WEIGHT, X), X4)
    images = MODELS["resnet_adamw"].trace()
    with pytest.raises(
        ml.LayoutError, match=r'no dim called `seq`.* as in seq="length": .*`height` \(16\).* would fit'
    ):
        layouts.sequence_parallel(images, X4)
    said = layouts.sequence_parallel(images, X4, seq="height")
    assert dict(said.places["residual*"]) == {"height": ("x",)}
    with pytest.raises(ml.LayoutError, match=r"seq='sec': 'sec' is not a dim of this program"):
        layouts.sequence_parallel(adamw, X4, seq="sec")
    with pytest.raises(ml.LayoutError, match=r"no value there has the dim `kv`"):
        layouts.sequence_parallel(adamw, X4, seq="kv")
    with pytest.raises(ml.LayoutError, match=r"called `model`"):
        layouts.sequence_parallel(adamw, XY)


@pytest.mark.parametrize("preset", [layouts.fsdp, layouts.data_parallel])
def test_padding_that_is_offered_is_legal_as_it_stands(program, preset):
    """Five devices divide neither the weight nor the batch: what the error says is planned as it says it."""
    mesh = ml.mesh(x=5)
    with pytest.raises(ml.LayoutError, match="or pad: program") as raised:
        preset(program, mesh)
    text = str(raised.value)
    written = ast.literal_eval(
        text[text.index("program.plan(mesh, ") + len("program.plan(mesh, ") : text.rindex(", pad=True")]
    )
    plan = program.plan(mesh, written, pad=True)
    assert plan.grid.padded
    assert plan.check().ok
