"""What a layout may do is decided at once, with every reason and what would fit."""

import jax
import pytest

import meshlab as ml
from meshlab.engine.errors import LayoutError
from meshlab.engine.legality.examine import examine, refusals, resolve
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.basic import mesh_tf
from meshlab.models.parts.initial import shapes
from meshlab.models.zoo import models

Batch, Embed, Ffn, Out = ml.dims(batch=6, embed=8, ffn=16, out=12)


def net(params, x):
    hidden = ml.tag(ml.relu(ml.dot(x, params["up"], "embed")), "hidden")
    return ml.dot(hidden, params["down"], "ffn")


PARAMS = {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Out]}
PROGRAM = ml.trace(net, PARAMS, ml.f32[Batch, Embed])
MESH = ml.mesh(data=2, model=4)


def problems(layout, program=PROGRAM, mesh=MESH):
    with pytest.raises(LayoutError) as caught:
        program.plan(mesh, layout)
    assert all(str(p) in str(caught.value) for p in caught.value.problems)
    return {p.code: p for p in caught.value.problems}


def test_one_error_lists_all_problems_with_what_would_fit():
    listed = problems("btach:data embed:modle batch:model ffn:data out:data")
    assert set(listed) == {"unknown_dim", "unknown_axis", "not_divisible", "conflict"}
    assert listed["unknown_dim"].fix == "Did you mean `batch`?"
    assert listed["unknown_axis"].fix == "Did you mean `model`?"
    assert "`batch` has size 6, which 4 (`model`) does not divide" in listed["not_divisible"].text
    assert listed["not_divisible"].fix == "Sizes that fit: 4 or 8; or plan with pad=True."
    assert (
        "`ffn` and `out` cannot both be on `data`: both are dims of `dot_general` at test_examine.py"
        in listed["conflict"].text
    )
    assert listed["conflict"].source is not None
    with pytest.raises(LayoutError, match=r"on the mesh data=2 × model=4 has 4 problems:\n  1\. .*\n  2\. .*\n  3\. "):
        PROGRAM.plan(MESH, "btach:data embed:modle batch:model ffn:data out:data")


def test_one_problem_is_one_problem():
    with pytest.raises(
        LayoutError,
        match="has one problem:\n  1. `zebra` is not a dim of this program. Its dims are `ffn`, `out`, `embed`, ",
    ):
        PROGRAM.plan(MESH, "zebra:data")
    assert problems("ffn:zebra")["unknown_axis"].fix == "Its axes are `data`, `model`."
    assert problems("ffn:data+data")["repeated_axis"].text == "`ffn:data+data` names one axis twice."


def test_a_dim_smaller_than_the_axis_fits_only_when_larger():
    assert problems("batch:data+model")["not_divisible"].fix == "Sizes that fit: 8; or plan with pad=True."


def test_optional_names_may_be_missing():
    rules = resolve(PROGRAM, MESH, "zebra?:data zebra_2?:zebra batch?:data")
    assert dict(rules.compute) == {"batch": ("data",)}
    assert resolve(PROGRAM, MESH, {"zebra/*?": {"embed": "data"}}).storage == {}
    assert resolve(PROGRAM, MESH, {"params/w9?": {"embed": "data"}}).storage == {}
    # Optional is only whether a name exists: what it says must still be legal.
    assert set(problems("batch?:model")) == {"not_divisible"}
    # The `?` of a dim that is there excuses no mesh axis.
    assert problems("ffn?:modle")["unknown_axis"].fix == "Did you mean `model`?"
    assert set(problems({"params/*": {"ffn?": "modle"}})) == {"unknown_axis"}


def test_a_place_under_an_argument_without_arrays_says_so():
    program = ml.trace(lambda p, x: x * 2, {}, ml.f32[ml.Dim("batch", 8)])
    assert problems({"p/*": {"batch": "data"}}, program)["unknown_place"].fix == "Argument `p` holds no arrays."


def test_who_cannot_pad_is_not_told_to():
    with pytest.raises(LayoutError, match=r"Sizes that fit: 4 or 8\.$"):
        resolve(PROGRAM, MESH, "batch:model")
    refused = refusals(PROGRAM, MESH, None)["batch"]["model"]
    assert refused is not None
    assert refused.fix == "Sizes that fit: 4 or 8."


def test_mesh_tensorflows_own_readme_command_is_refused_with_what_was_meant():
    config = mesh_tf.Autoencoder()
    params = shapes(mesh_tf.init_autoencoder, config)
    x = ml.f32[ml.Dim("batch", config.batch), ml.Dim("io", config.io)]
    program = ml.trace(mesh_tf.train(mesh_tf.autoencoder_loss), params, x)
    listed = problems("hidden:all", program, ml.mesh(all=8))
    assert listed["unknown_dim"].fix == "Did you mean `hidden_odd` or `hidden_even`?"
    # Mesh TensorFlow's counters for the name that exists: 4,096 elements over 8 processors, once.
    plan = program.plan(ml.mesh(all=8), "hidden_odd:all")
    assert [c.kind for c in plan.collectives] == ["all-reduce"]


def test_two_dims_of_one_contraction_that_no_tensor_has_together_share_no_axis():
    def fn(x, y):
        return jax.lax.dot_general(x.array, y.array, (((), ()), ((), ()))).sum()

    program = ml.trace(fn, ml.f32[Embed], ml.f32[Out])
    assert set(problems("embed:data out:data", program)) == {"conflict"}
    program.plan(MESH, "embed:data out:model")


def test_an_axis_splits_one_dim_of_a_value():
    program = ml.trace(lambda x: x * 2.0, ml.f32[Embed, Ffn])
    assert (
        "`embed` and `ffn` cannot both be on `data`" in problems("embed:data ffn:data+model", program)["conflict"].text
    )


def test_dims_of_no_common_operation_may_share_an_axis():
    PROGRAM.plan(MESH, "embed:model out:model")
    program = ml.trace(lambda x: x.rename(embed="kv") * 2.0, ml.f32[Embed])
    program.plan(MESH, "embed:data kv:data")


def test_places_are_matched_and_judged():
    rules = resolve(PROGRAM, MESH, {"batch": "data", "params/*": {"ffn": "data"}, "params/up": {"embed": "model"}})
    assert dict(rules.storage["params/down"]) == {"ffn": ("data",)}
    # Of several globs the last one counts.
    assert dict(rules.storage["params/up"]) == {"embed": ("model",)}
    assert problems({"parmas/up": {"embed": "data"}})["unknown_place"].fix.startswith("Did you mean `params/up`")
    assert "Its places are `params/down`, `params/up`, `x`" in problems({"zzz": {"embed": "data"}})["unknown_place"].fix
    unused = problems({"params/down": {"batch": "data"}})["unused_dim"]
    assert str(unused) == "At `params/down`: no value there has the dim `batch`. The dims there are `ffn`, `out`."
    assert problems({"params/*": {"zebra": "data"}})["unknown_dim"].text.startswith("At `params/*`: ")
    assert problems({"params/*": {"ffn": "zebra"}})["unknown_axis"].text.startswith("At `params/*`: ")
    assert "At `x`: `batch` has size 6" in problems({"x": {"batch": "model"}})["not_divisible"].text
    both = problems({"params/up": {"embed": "data", "ffn": "data"}})["conflict"]
    assert both.text == "At `params/up`: `embed` and `ffn` cannot both be on `data`: both are dims of it."
    # The compute rules hold at a place for the dims that it does not name.
    assert "both be on `data`" in problems({"ffn": "data", "params/up": {"embed": "data"}})["conflict"].text
    PROGRAM.plan(MESH, {"ffn": "data", "params/up": {"embed": "data", "ffn": None}})
    both_places = {"hidden": {"batch": "data", "ffn": "model"}, "out": {"out": "model", "batch": "model"}}
    listed = problems(both_places, mesh=ml.mesh(data=2, model=2))
    assert "At `out`: `batch` and `out` cannot both be on `model`" in listed["conflict"].text


def test_a_tag_may_name_dims_that_only_some_of_its_values_have():
    def fn(x, y):
        return ml.tag(x, "t") * 2.0, ml.tag(y, "t") * 2.0

    program = ml.trace(fn, ml.f32[Embed, Ffn], ml.f32[Ffn, Out])
    plan = program.plan(ml.mesh(data=2), {"t": {"embed": "data", "out": "data"}})
    assert plan.spec("t").splits == (("data",), ())


def test_the_dim_of_a_scan_may_be_stored_split_but_not_computed_so():
    (Layers,) = ml.dims(layers=4)

    def fn(x, w):
        return ml.scan(lambda x, w: (x * w, None), x, w, "layers")[0]

    program = ml.trace(fn, ml.f32[Embed], ml.f32[Layers, Embed])
    listed = problems("layers:data", program)["pipeline"]
    assert "needs a pipeline schedule" in listed.text
    assert listed.source is not None
    plan = program.plan(MESH, {"w": {"layers": "data"}})
    assert [c.kind for c in plan.collectives] == ["all-gather"]


def codes_of(program, mesh, layout):
    """The codes of a layout's problems; none if it is legal."""
    try:
        resolve(program, mesh, layout)
    except LayoutError as error:
        return {p.code for p in error.problems}
    return set()


@pytest.mark.share(8)
@pytest.mark.parametrize("model", models(), ids=lambda m: m.name)
def test_the_table_of_refusals_agrees_with_what_is_refused(model):
    program = ml.trace(model.step, *model.shapes)
    for mesh, layout in draw(program, seed=5, count=6):
        table = refusals(program, mesh, layout)
        assert list(table) == list(program.dims)
        for dim, by_axis in table.items():
            assert list(by_axis) == list(mesh.axes)
            for axis, refusal in by_axis.items():
                moved = layout.with_rule(dim, (axis,))
                refused = codes_of(program, mesh, moved)
                assert (refusal.code in refused) if refusal else not refused, f"{dim}:{axis} in {layout} on {mesh}"


def test_axes_of_size_one_split_nothing():
    rules = resolve(PROGRAM, ml.mesh(data=1, model=2), {"ffn": ("data", "model"), "x": {"embed": "data"}})
    assert dict(rules.compute) == {"ffn": ("model",)}
    assert dict(rules.storage["x"]) == {"embed": ()}


def test_a_plan_needs_a_mesh():
    with pytest.raises(ml.MeshlabError, match=r"plan\(\) was given .*'data': 2.* for its mesh; write program.plan"):
        PROGRAM.plan({"data": 2}, "batch:data")  # pyright: ignore[reportArgumentType]


def test_in_a_place_a_question_mark_stands_for_one_character():
    arrays = {"w": jax.ShapeDtypeStruct((8,), "float32"), "w1": jax.ShapeDtypeStruct((8,), "float32")}
    program = ml.trace(lambda p: p, ml.named(arrays, "a"), carry={})
    mesh = ml.mesh(x=2)
    assert set(resolve(program, mesh, {"p/w?": {"a": "x"}}).storage) == {"p/w1"}
    assert set(resolve(program, mesh, {"p/?1": {"a": "x"}}).storage) == {"p/w1"}
    # Where it matches nothing as a glob, it says that the place may be missing.
    assert set(resolve(program, mesh, {"p/w1?": {"a": "x"}}).storage) == {"p/w1"}
    assert resolve(program, mesh, {"p/b?": {"a": "x"}}).storage == {}


def test_a_made_up_name_is_refused_with_the_rename_that_makes_it_ones_own():
    x = ml.named(jax.ShapeDtypeStruct((8, 16), "float32"), "seq embed")
    program = ml.trace(lambda x: x @ x.T, x)
    listed = problems("~seq:data", program)["unknown_dim"]
    assert str(listed) == (
        "`~seq` is a name that meshlab made up, which layouts cannot address. "
        'Rename it: program.rename({"~seq": "seq_2"}).'
    )
    assert program.rename({"~seq": "seq_2"}).plan(MESH, "seq_2:data")


def test_a_dim_of_a_scan_is_told_where_it_can_be_stored():
    x = ml.named(jax.ShapeDtypeStruct((8, 16), "float32"), "time embed")
    many = {"a": x, "b": {"c": x}}

    def run(xs, ys):
        return jax.lax.scan(lambda c, row: (c + row[0] * row[1]["a"] + row[1]["b"]["c"], None), xs[0], (xs, ys))[0]

    assert problems("time:data", ml.trace(run, x, many))["pipeline"].fix == (
        'To store it sharded, write {"xs": {"time": "data"}}.'
    )
    program = ml.trace(lambda ys: run(ys["a"], ys), many)
    layout = {"ys/*": {"time": "data"}}
    assert problems("time:data", program)["pipeline"].fix == 'To store it sharded, write {"ys/*": {"time": "data"}}.'
    assert program.plan(MESH, layout)
    mapped = ml.trace(lambda x: jax.lax.map(jax.numpy.tanh, x), x)
    assert problems("time:data", mapped)["pipeline"].fix == 'To store it sharded, write {"x": {"time": "data"}}.'


def test_a_dim_of_a_scan_that_is_stored_nowhere_is_told_no_place():
    A = ml.Dim("a", 4)

    def run(x):
        # Ones would be constants, of which a scan takes no slices.
        steps = ml.tensor(jax.numpy.arange(32.0).reshape(8, 4), "time", A)
        return ml.scan(lambda c, step: (c + step, None), x, steps, "time")[0]

    assert problems("time:data", ml.trace(run, ml.f32[A]))["pipeline"].fix == ""


def test_a_size_is_refused_once_for_all_places_that_have_the_dim():
    def step(params, state, x):
        grads = jax.grad(lambda p: ml.square(ml.dot(x, p["w"], "embed")).mean())(params)
        return grads, {"count": state["count"] + 1, "mu": grads, "nu": grads}

    params = {"w": ml.f32[Embed, Ffn]}
    state = {"count": jax.ShapeDtypeStruct((), "int32"), "mu": params, "nu": params}
    program = ml.trace(step, params, state, ml.f32[Batch, Embed])
    (problem,) = [p for p in examine(program, ml.mesh(data=5), {"state/*": {"embed": "data"}}).problems]
    assert problem.text.startswith("At `state/mu/w`, `state/nu/w`: `embed` has size")
