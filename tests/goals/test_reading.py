"""What a goal is given is read, and all that is wrong with it is said at once, also for a program and a mesh."""

from __future__ import annotations

import pytest

from tests.given import PROGRAM, ml, refused


def test_all_that_is_wrong_with_a_goal_is_said_at_once():
    with pytest.raises(ml.MeshlabError, match="invalid conditions") as caught:
        ml.goal(
            fits="v5",
            sends="8 kg",
            step="8 kB",
            busy=0.5,
            silent=3,
            keeps={"batch": 3, 4: None, "embed": ("data", "data")},
            collectives={"allreduce": 1, "all-reduce": "x"},
            stored={"params/w1": True, "params/w2": "i:j:k"},
            quiet=2,
        )
    lines = str(caught.value).splitlines()[1:]
    wanted = [
        "quiet",
        *["fits"],
        "sends",
        "step",
        "busy",
        "silent",
        *["keeps"] * 3,
        *["collectives"] * 2,
        *["stored"] * 2,
    ]
    assert [line.split(". ", 1)[1].split(":")[0] for line in lines] == wanted
    assert "Did you mean `v5p` or `v5e`?" in str(caught.value)
    assert "Did you mean `all-reduce`?" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ml.goal(busy=False), "it has no condition"),
        (lambda: ml.goal(busy=float("nan")), "nan must be True, False"),
        (lambda: ml.goal(fits=3), r"3 is not a machine: write fits=True or fits=\"v5e\""),
        (lambda: ml.goal(keeps="batch"), r"'batch' must be a dict: keeps="),
        (lambda: ml.goal(keeps={"batch": ""}), "`batch` is given ''"),
        (lambda: ml.goal(silent=["model", 3]), "3 is not the name of a mesh axis"),
        (lambda: ml.goal(stored={"": 3}), "'' is not the name of a place"),
        (lambda: ml.goal(collectives={3: 3}), "3 is not the name of a kind of collective"),
    ],
)
def test_a_condition_that_is_none_is_refused(make, match):
    refused(make, ml.MeshlabError, match)


def test_what_a_program_and_a_mesh_have_not_got_is_refused_at_once():
    goal = ml.goal(
        fits=True,
        step=1,
        silent="modl",
        keeps={"bach": "modl"},
        stored={"param": 1, "params/w1": "batch:x", "params/w2": {"bach": None}},
        collectives={"all-reduce over micro": 1},
    )
    with pytest.raises(ml.MeshlabError, match="The goal does not fit the program on the mesh data=2") as caught:
        goal.judge(PROGRAM.plan(ml.mesh(data=2, model=2, micro=ml.serial(2)), None))
    text = str(caught.value)
    for part in (
        "fits: fits needs a machine",
        'Or name one: fits="v5e".',
        "step: step needs a machine",
        "has no axis of devices `modl`. Did you mean `model`?",
        "keeps: the program has no dim `bach`. Did you mean `batch`?",
        "has no axis of devices `micro`",
        "stored: there is no place `param`. Did you mean `params/w",
        "stored: nothing at `params/w1` has the dim `batch`",
        "stored: the program has no dim `bach`",
    ):
        assert part in text, part
    refused(lambda: ml.goal().judge(3), ml.HardwareError, "goal.judge\\(\\) was given 3, and needs a plan")
