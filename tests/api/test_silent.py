"""An assertion that nothing is sent over a mesh axis."""

import pytest

import meshlab as ml
from meshlab.models.zoo import models
from tests.given import refused

PROGRAM = next(model for model in models() if model.name == "mlp").trace()
MESH = ml.mesh(data=2, model=2, micro=ml.serial(2))


def test_what_is_silent_passes():
    plan = PROGRAM.plan(MESH, "batch:data")
    assert plan.collectives
    plan.assert_silent("model")
    PROGRAM.plan(MESH).assert_silent("data", "model")


def test_what_is_sent_is_listed_with_its_line_and_cause():
    plan = PROGRAM.plan(MESH, "batch:data hidden:model")
    with pytest.raises(
        ml.LayoutError, match=r"sends .*B over `model` in a step, which must stay silent:\n  1\. "
    ) as caught:
        plan.assert_silent("model")
    over = [c for c in plan.collectives if "model" in c.axes]
    assert len(str(caught.value).splitlines()) == 1 + len(over)
    assert all(c.because in str(caught.value) and str(c.source) in str(caught.value) for c in over)


def test_an_axis_that_there_is_not_is_refused():
    plan = PROGRAM.plan(MESH, "batch:data")
    refused(
        lambda: plan.assert_silent("modle"), ml.MeshError, r"has no axis of devices `modle`. Did you mean `model`\?"
    )
    refused(
        lambda: plan.assert_silent("micro"), ml.MeshError, r"has no axis of devices `micro`. .*It has `data`, `model`"
    )
    refused(lambda: plan.assert_silent(), ml.MeshError, "Name the mesh axes that must stay silent")
