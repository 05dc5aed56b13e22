"""The factor by which published steps took longer, of machines that have one."""

import dataclasses
import json

import pytest

import meshlab as ml
from meshlab.cost.machines import accuracy
from meshlab.cost.machines.accuracy import TimeFactor, time_factor
from meshlab.cost.machines.hardware import known
from meshlab.cost.machines.units import seconds_text

FACTORS = {"v5e": {"factor": 1.25, "spread": 0.25, "runs": 4}, "v4": {"factor": 0.5, "spread": None, "runs": 1}}
BATCH, EMBED, FFN = ml.dims(batch=1024, embed=512, ffn=2048)
PROGRAM = ml.trace(lambda x, w: ml.dot(x, w, EMBED), ml.bf16[BATCH, EMBED], ml.bf16[EMBED, FFN])
ROW = "expected step time"


@pytest.fixture
def told(monkeypatch, tmp_path):
    """What the page tells."""
    file = tmp_path / "accuracy.json"
    file.write_text(json.dumps({"time": {"anchor": "time", "texts": {"v5e": "!"}, "factors": FACTORS}}))
    monkeypatch.setattr(accuracy, "FILE", file)


def plan(machine):
    return PROGRAM.plan(ml.mesh(machine, data=4), "batch:data")


@pytest.mark.usefixtures("told")
def test_a_step_is_expected_to_take_as_much_longer_as_published_ones_did():
    time = plan("v5e").time
    assert time.factor == TimeFactor(1.25, 0.25, 4)
    assert time.expected == time.to_dict()["expected"] == 1.25 * time.estimate
    assert time.to_dict()["factor"] == FACTORS["v5e"]
    # Predictions are up to a quarter too long, or too short.
    least, most = (seconds_text(time.estimate * by) for by in (1.0, 1.25 / 0.75))
    row = dict(time.rows())[ROW]
    assert row.endswith(f" ({least} to {most}): 1.25 times the estimate, as in 4 published runs")


@pytest.mark.usefixtures("told")
def test_one_run_alone_has_no_spread():
    assert dict(plan("v4").time.rows())[ROW].endswith(": 0.5 times the estimate, as in the one published run")


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("machine", ["l4", "v5e, changed"])
def test_nothing_is_expected_of_machines_without_published_steps(machine):
    if machine != "l4":
        v5e = ml.hardware("v5e")
        machine = dataclasses.replace(v5e, memory=dataclasses.replace(v5e.memory, value=1e12))
    time = plan(machine).time
    assert time.factor is None
    assert time.expected is None
    assert time.to_dict()["expected"] is time.to_dict()["factor"] is None
    assert dict(time.rows())[ROW] == f"not known: no steps on {time.hardware} are published"


@pytest.mark.usefixtures("told")
def test_of_many_points_it_is_an_array():
    swept = ml.sweep(plan("v5e"), on=["v5e", "v4", "h100"])
    assert swept.figures["expected"] / swept.estimate == pytest.approx([1.25, 0.5, float("nan")], nan_ok=True)


def test_machines_with_published_steps_have_a_factor():
    published = {name for name, machine in known().items() if time_factor(machine)}
    assert published >= {"v4", "v5e", "v5p", "v6e", "v7x", "h100", "a100", "a100_40g"}
