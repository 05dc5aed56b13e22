"""Programs are traced again at other sizes: equal to what is traced at them, or refused with the line."""

from __future__ import annotations

import functools

import pytest

import meshlab as ml
from meshlab.engine.programs.closed_over import closed_over
from meshlab.models import zoo
from meshlab.models.imported.full_sizes import Config
from tests.widgets import small

MODELS = {model.name: model for model in zoo.models()}
# The batch dim of models that call it otherwise, and what follows it.
FOLLOW = {"moe": {"groups"}, "moe_sgd": {"groups"}, "moe_switch": {"groups"}}


def doubled(program, *dims):
    """Resizes dims to twice their sizes; returns the program, and all dims that are twice as long now."""
    again = program.resize(**{dim: 2 * program.dims[dim] for dim in dims})
    assert list(again.dims) == list(program.dims)
    changed = {dim for dim, size in again.dims.items() if size != program.dims[dim]}
    assert all(again.dims[dim] == 2 * program.dims[dim] for dim in changed)
    return again, changed


@pytest.mark.share(8)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_batch_of_each_model_is_resized(model):
    program = model.trace()
    again, changed = doubled(program, "batch")
    assert changed == {"batch"} | FOLLOW.get(model.name, set())
    assert again.places == program.places
    assert again.carry == program.carry
    assert again.plan(ml.mesh(data=2), "batch:data")


@pytest.mark.share(3)
@pytest.mark.parametrize("model", zoo.imported_models(Config(layers=1)), ids=lambda model: model.name)
def test_the_batch_of_imported_models_is_resized(model):
    assert doubled(model.trace(), "batch")[1] == {"batch"}


def test_it_is_the_program_that_is_traced_at_that_size():
    again = small.program().resize(batch=32)
    shapes = {"w1": ml.f32[small.Rows, small.Cols, small.Hidden], "w2": ml.f32[small.Hidden, small.Classes]}
    batch = ml.Dim("batch", 32)
    direct = ml.trace(small.step, shapes, ml.f32[batch, small.Rows, small.Cols], ml.i32[batch])
    mesh, layout = ml.mesh(data=2, model=4), "batch:data hidden:model"
    assert str(again.plan(mesh, layout)) == str(direct.plan(mesh, layout))
    assert again.dims == direct.dims
    assert again.plan(ml.mesh(data=1)).check().ok


def test_several_are_resized_together():
    program = MODELS["moe"].trace()
    with pytest.raises(ml.TraceError, match=r"failed at moe.py:\d+, `.*`: it closes over a size there, or another dim"):
        program.resize(experts=8)
    again = program.resize(experts=8, routes=8)
    assert (again.dims["experts"], again.dims["routes"], again.dims["capacity"]) == (8, 8, 5)


def test_dims_that_are_renamed_inside_follow():
    program = MODELS["llama"].trace()
    assert doubled(program, "seq")[1] == {"seq", "kv"}
    with pytest.raises(
        ml.DimError, match=r"`kv` is not a dim of an argument: its size follows `seq`, which is renamed at"
    ):
        program.resize(kv=32)


def test_names_that_were_given_stay():
    weight = ml.named(ml.f32[ml.Dim("a", 24), ml.Dim("b", 4)].array, "(heads=6 head) b")
    program = ml.trace(lambda w, x: w @ x, weight, ml.named(ml.f32[ml.Dim("b", 4)].array, "b")).rename({"b": "inner"})
    again, changed = doubled(program, "heads")
    assert changed == {"heads"}
    assert again.place("w").shape == (48, 4)
    assert doubled(again, "inner")[0].place("x").shape == (8,)
    assert again.place("w").dims == ("heads*head", "inner")


def test_a_size_that_is_closed_over_is_refused_with_its_line():
    with pytest.raises(ml.TraceError, match=r"small.py:\d+, `hidden = ml.relu.*met two sizes of the dim `rows`"):
        small.program().resize(rows=8)
    with pytest.raises(ml.TraceError, match=r"test_resize.py:\d+, `.*reshape\(8\)"):
        ml.trace(lambda x: x.array.reshape(8), ml.f32[ml.Dim("a", 8)]).resize(a=16)


def test_the_error_shows_how_a_function_that_closes_over_dims_is_written():
    with pytest.raises(ml.TraceError) as caught:
        small.program().resize(rows=8, classes=5)
    message = str(caught.value)
    assert "The function closes over `Rows` (rows=4) and `Classes` (classes=10). Where " in message
    assert 'the name does as well: "rows", "classes".' in message
    assert "    def build(rows=8, classes=5):\n        Rows, Classes = ml.dims(rows=rows, classes=classes)" in message


def _by_names(params, images, labels):
    hidden = ml.relu(ml.dot(images, params["w1"], "rows", "cols"))
    return ml.cross_entropy(ml.dot(hidden, params["w2"], "hidden"), labels, "classes").mean()


def _built(rows=4, classes=10):
    """As the error shows it."""
    Rows, Classes = ml.dims(rows=rows, classes=classes)

    def loss(params, images, labels):
        hidden = ml.relu(ml.dot(images, params["w1"], Rows, small.Cols))
        return ml.cross_entropy(ml.dot(hidden, params["w2"], small.Hidden), labels, Classes).mean()

    return ml.trace(loss, *_arguments(Rows, Classes))


def _arguments(rows, classes):
    shapes = {"w1": ml.f32[rows, small.Cols, small.Hidden], "w2": ml.f32[small.Hidden, classes]}
    return shapes, ml.f32[small.Batch, rows, small.Cols], ml.i32[small.Batch]


def test_names_instead_of_dims_and_a_program_that_is_built_have_other_sizes():
    again = ml.trace(_by_names, *_arguments(small.Rows, small.Classes)).resize(rows=8, classes=5)
    mesh = ml.mesh(data=2)
    assert again.dims == _built(8, 5).dims
    assert again.plan(mesh, "batch:data").wire_bytes == _built(8, 5).plan(mesh, "batch:data").wire_bytes
    with pytest.raises(ml.TraceError, match=r"The function closes over `Rows` \(rows=4\)"):
        _built().resize(rows=8)


def test_closed_over_dims_are_found_in_functions_that_are_called():
    assert set(closed_over(small.step)) == {"Rows", "Cols", "Hidden", "Classes"}
    assert closed_over(functools.partial(small.step)) == closed_over(small.step)
    assert closed_over(len) == {}


def test_sizes_go_by_name():
    with pytest.raises(ml.DimError, match=r"given {'rows': 8}; give sizes by name: program.resize\(batch=128\)"):
        small.program().resize({"rows": 8})


@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ({}, r"resize\(\) was given no size; write program.resize\(batch=128\)"),
        ({"bach": 8}, "`bach` is not a dim of this program. Did you mean `batch`"),
        ({"batch": 0, "rows": "4"}, "`batch` was given the size 0; .* `rows` was given the size '4'; .* at least 1"),
        ({"batch": True}, "`batch` was given the size True"),
    ],
)
def test_what_cannot_be_resized_is_refused(sizes, match):
    with pytest.raises(ml.DimError, match=match):
        small.program().resize(**sizes)


def test_the_same_sizes_are_the_same_program():
    program = small.program()
    assert program.resize(batch=8) is program
