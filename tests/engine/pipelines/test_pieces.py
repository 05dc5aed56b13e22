"""Which piece of a pipeline a step is in, and how a stage comes by what others make."""

from typing import Any

import pytest

import meshlab as ml
from meshlab.engine.planning.staged import BACKWARD, FORWARD, MID, PIECES, POST, PRE
from tests.engine.pipelines import stacks


def pipeline(name: str, layout: Any = "batch:micro layers:pipe", **axes: Any) -> Any:
    mesh = ml.mesh(pipe=ml.stages(2), micro=ml.serial(4), **axes)
    program = stacks.program(name)
    return program, stacks.pipeline(program.plan(mesh, layout))


def names(piece):
    return [step.title for step in piece.steps]


def test_the_ends_of_a_step_are_on_the_ends_of_the_pipeline():
    _, staged = pipeline("plain")
    assert [*staged.pieces] == [*PIECES]
    assert names(staged.pieces[PRE]) == ["slice", "dot_general"]
    assert names(staged.pieces[FORWARD]) == names(staged.pieces[BACKWARD]) == ["scan"]
    assert names(staged.pieces[MID]).count("dot_general") == 3
    assert names(staged.pieces[POST]) == ["dot_general"]
    # The block of the batch is sliced again rather than kept.
    assert [step.title for step in staged.pieces[POST].again] == ["slice"]
    assert staged.stacks[0].forward.times == 2


def test_accumulators_are_where_addends_are_made():
    program, staged = pipeline("tied")
    made = {name: {program.value(r.value).shape for r in piece.results} for name, piece in staged.pieces.items()}
    table = (stacks.WORDS, stacks.WIDTH)
    assert table in made[MID]
    assert table in made[POST]
    assert made[BACKWARD] == {(4, 4, 4), (4, 4)}
    assert made[PRE] == made[FORWARD] == set()


@pytest.mark.parametrize(
    ("name", "passed", "returned"), [("plain", 0, 0), ("balanced", 0, 0), ("context", 1, 0), ("scaled", 0, 1)]
)
def test_what_goes_along(name, passed, returned):
    """A product that all layers read is sent on, what is known behind them is sent back; a mask is made again."""
    _, staged = pipeline(name)
    (stack,) = staged.stacks
    assert (len(stack.passed), len(stack.returned)) == (passed, returned)
    if name == "context":
        again = {step.title for step in staged.pieces[FORWARD].again}
        assert {"slice", "reduce_sum", "gt"} <= again
        assert "dot_general" not in again


def test_a_stage_holds_its_own():
    program, staged = pipeline("remat")
    # The input of each layer, as the scan stacks it, and what the last stage's head reads.
    assert sorted(program.value(value).shape for value, _ in staged.held) == [(4, 8, 4), (8, 4)]


def test_a_result_that_is_carried_is_held():
    """It was lost once: bytes are equal without it, and only the results tell."""
    program, staged = pipeline("balanced")
    (balance,) = (
        r
        for r in staged.pieces[MID].results
        if not program.value(r.value).shape and r.value in {v for v, _ in staged.held}
    )
    assert balance.outside.partial == ("pipe",)


def test_gathered_weights_are_gathered_on_the_stage_that_reads_them():
    layout = {"batch": "data+micro", "layers": "pipe", "params/table": {"embed": "data"}}
    _, staged = pipeline("tied", layout, data=2)
    gathers = {name: [step.title for step in piece.every].count("all-gather") for name, piece in staged.pieces.items()}
    assert gathers == {PRE: 1, FORWARD: 0, MID: 1, BACKWARD: 0, POST: 0}
    assert not staged.stacks[0].passed


def test_what_a_piece_runs_is_one_list():
    """Costs are known by the list: one that was made anew each time had the costs of another once."""
    _, staged = pipeline("tied")
    for piece in staged.pieces.values():
        assert piece.every is piece.every
        assert piece.every == (*piece.again, *piece.steps)


def test_what_the_backward_scan_starts_from_may_be_made_in_front():
    """Zeros for the gradient of a matrix that all layers read: they were looked for in the wrong piece once."""
    _, staged = pipeline("shared")
    scan, count = staged.stacks[0].backward, len(staged.stacks[0].carried[1])
    assert count == 2
    made = {key for step in staged.pieces[MID].every for key in step.makes({})}
    starts = zip(scan.operation.inputs[:count], scan.operands[:count], strict=True)
    assert all(key in made for key in starts)


def test_steps_inside_count_as_compiled_and_in_truth():
    program, staged = pipeline("plain")
    assert [(part.times, part.runs) for part in staged.parts] == [(6, 4)] * 5
    assert [part.steps for part in staged.parts] == [piece.every for piece in staged.pieces.values()]
    # What one piece makes for another is not read from around.
    arguments = {argument.value for argument in program.arguments}
    assert {value for value, _ in staged.reads(program.original_of)} <= arguments
