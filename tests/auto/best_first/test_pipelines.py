"""A search on a mesh with stages: pipelines are among what it begins with, and no other dim is put on the stages."""

import pytest

import meshlab as ml
from meshlab.auto.best_first.recipes import recipes
from tests.engine.pipelines import stacks


@pytest.fixture(scope="module")
def program():
    return stacks.program("plain")


def test_recipes_put_layers_alone_on_stages(program):
    mesh = ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(2))
    found = dict(recipes(program, mesh))
    on = {dim for layout in found.values() for dim, axes in layout.rules.items() if "pipe" in axes}
    assert on == {"layers"}
    assert str(found["data pipeline_parallel"]) == "batch:data+micro layers:pipe"


def test_a_pipeline_is_found_where_nothing_else_divides_the_work(program):
    best = ml.auto.layout(program, ml.mesh(pipe=ml.stages(2), micro=ml.serial(2)))
    assert str(best.layout) == "batch:micro layers:pipe"
    assert "pipelines beside layouts that no preset makes" in str(best)


def test_stages_without_micro_batches_are_left_alone(program):
    best = ml.auto.layout(program, ml.mesh(data=2, pipe=ml.stages(2)))
    assert not [dim for dim, axes in best.layout.rules.items() if "pipe" in axes]


def test_pins_that_nothing_satisfies(program):
    with pytest.raises(ml.LayoutError) as error:
        ml.auto.layout(program, ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(2)), pin="batch:pipe")
    assert "`batch` cannot be on `pipe`" in str(error.value)
    assert "over none" not in str(error.value)
