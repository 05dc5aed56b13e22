"""What the backward pass computes again has the names of the first run, so that a layout splits both."""

import pytest

import meshlab as ml
from meshlab.engine.code.operations import walk
from tests import checkpointed


@pytest.mark.parametrize("name", ["grouped", "accumulated"])
def test_a_layout_of_a_made_up_dim_splits_the_second_run_as_the_first(name):
    program = checkpointed.PROGRAMS[name]().rename({"~seq": "kv"})
    plan = program.plan(ml.mesh(x=2, y=2), "batch:x kv:y")
    scores = [v for v in range(len(program.names)) if {"seq", "kv"} <= set(program.names[v])]
    runs = {operation.rematerialised for operation in walk(program.code.block) if set(operation.outputs) & set(scores)}
    assert runs == {True, False}
    assert plan.work.share < 1 / 2
    assert plan.check().ok


@pytest.mark.parametrize("name", checkpointed.PROGRAMS)
def test_second_runs_have_the_names_of_the_first(name):
    """Of each matmul: its line, and the names of its result."""
    program = checkpointed.PROGRAMS[name]()
    first, again = set(), set()
    for operation in walk(program.code.block):
        if operation.name == "dot_general":
            made = operation.source, program.names[operation.outputs[0]]
            if operation.rematerialised:
                again.add(made)
            elif not operation.backward:
                first.add(made)
    assert again
    assert again <= first
