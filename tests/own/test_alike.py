"""Causes that a plan says, and those that are found in XLA's program for its shardings, are the same."""

from __future__ import annotations

import dataclasses

import pytest

import meshlab as ml
from meshlab.models import zoo
from meshlab.own.alike import Alike, alike, is_alike
from meshlab.own.report import Report

pytestmark = pytest.mark.share(2, of="file")

PATTERNS = {
    "data parallelism": lambda program, mesh: ml.layouts.data_parallel(program, mesh, data="data"),
    "tensor parallelism": lambda program, mesh: ml.layouts.tensor_parallel(program, mesh, model="model"),
}


def compared(report: Report) -> Alike:
    assert report.plan is not None
    return alike(report.beside, report.plan.collectives, report.collectives, report.axes)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", ["mlp_sgd", "block"])
def test_both_say_the_same(name, pattern):
    program = next(each for each in zoo.models() if each.name == name).trace()
    mesh = ml.mesh(data=2, model=4)
    both = compared(ml.explain(program.plan(mesh, PATTERNS[pattern](program, mesh))))
    assert both.of
    assert both.same == both.of, both.apart


def test_other_dims_and_other_causes_are_not_alike():
    Batch, Embed, Hidden = ml.dims(batch=8, embed=16, hidden=32)
    program = ml.trace(lambda x, w: ml.dot(x, w, "embed"), ml.f32[Batch, Embed], ml.f32[Embed, Hidden])
    plan = program.plan(ml.mesh(model=4), "embed:model")
    report = ml.explain(plan)
    (planned,), (inserted,) = plan.collectives, report.collectives
    assert (planned.cause, planned.split) == ("sum", ("embed",))
    assert compared(report).same == compared(report).of == 1
    assert is_alike(planned, inserted)
    assert not is_alike(planned, dataclasses.replace(inserted, dims=("hidden",)))
    assert not is_alike(planned, dataclasses.replace(inserted, cause="otherwise"))
    assert not is_alike(dataclasses.replace(planned, cause="operand"), inserted)


def test_one_result_is_alike_whatever_its_axes_are_called():
    Batch, Embed = ml.dims(batch=8, embed=16)
    program = ml.trace(lambda x: ml.relu(x), ml.f32[Batch, Embed])
    report = ml.explain(program.plan(ml.mesh(model=4), {"out": {"batch": None}, "batch": "model"}))
    assert report.plan is not None
    (planned,), (inserted,) = report.plan.collectives, report.collectives
    assert (planned.cause, inserted.cause, planned.value, inserted.value) == ("stored", "stored", "out", "out")
    renamed = dataclasses.replace(inserted, dims=("x.0",))
    assert is_alike(planned, inserted)
    assert is_alike(planned, renamed)
    assert not is_alike(planned, dataclasses.replace(renamed, value="out/1"))
    assert not is_alike(planned, dataclasses.replace(renamed, cause="summed"))


@pytest.mark.parametrize(
    ("layout", "cause", "split"),
    [
        ({"params/*": {"embed": "model"}, "batch": "model"}, "operand", ("embed",)),
        ({"out": {"batch": None}, "batch": "model"}, "stored", ("batch",)),
    ],
)
def test_a_plan_says_what_a_collective_is_there_for(layout, cause, split):
    Batch, Embed, Hidden = ml.dims(batch=8, embed=16, hidden=32)
    weights = {"w": ml.f32[Embed, Hidden]}
    program = ml.trace(lambda params, x: ml.dot(x, params["w"], "embed"), weights, ml.f32[Batch, Embed])
    planned = program.plan(ml.mesh(model=4), layout).collectives
    assert (cause, split) in {(c.cause, c.split) for c in planned}
