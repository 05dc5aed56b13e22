"""The doctor's report says what is there, and what is wrong."""

import re
import types

import jax
import pytest

import meshlab as ml
from meshlab.commands import doctor
from meshlab.cost.machines import calibration
from meshlab.cost.machines.units import seconds_text
from meshlab.engine.devices import simulate
from tests.commands.small import called


@pytest.fixture
def measured(monkeypatch):
    """The devices that would be measured, and a machine that stands for them."""
    seen = []

    def calibrate(devices, largest):
        seen.append((len(devices), largest))
        return calibration.Calibration(ml.hardware("h100"), (), {"copy": 0.25})

    monkeypatch.setattr(calibration, "calibrate", calibrate)
    return seen


def parts(out):
    """The lines of each part, by its name."""
    return {name: text.splitlines() for name, text in re.findall(r"^== (.*)\n((?:(?!==).*\n)*)", out, re.MULTILINE)}


def test_a_report_says_what_is_there_and_holds_a_step_against_what_was_measured(measured, monkeypatch, capsys):
    simulate(8)
    timed = []
    monkeypatch.setattr(doctor, "_seconds", lambda plan: timed.append(plan) or 0.25)
    status, out, err = called(capsys, "doctor")
    found = parts(out)
    assert (status, err) == (0, "")
    assert list(found)[-1] == "all parts are well"
    assert f"jax {jax.__version__}, " in found["versions"][0]
    assert found["devices"] == str(ml.devices()).splitlines()
    plan = doctor._program().plan(ml.mesh(data=4, model=2), doctor._LAYOUT)
    used = plan.shardings[0][1].mesh.devices.flat
    assert found["order"] == [
        "The mesh data=4 × model=2 takes, in this order:",
        *(f"  device {device.id} of process 0" for device in used),
    ]
    assert measured == [(8, calibration.QUICK)]
    assert "Predictions are off by (median): copy 25%." in found["measured"]
    assert "  ✓ all-reduce over data" in "\n".join(found["checked"])
    estimate = float(doctor._program().plan(doctor._mesh(ml.hardware("h100")), doctor._LAYOUT).time.estimate)
    ratio = f"a ratio of {estimate / 0.25:.2f}"
    assert found["step"][0] == f"predicted {seconds_text(estimate)}, measured {seconds_text(0.25)}: {ratio}"
    assert found["step"][1].startswith("Simulated devices share this machine's cores")
    assert [dict(each.mesh.axes) for each in timed] == [{"data": 4, "model": 2}]


def test_a_step_that_goes_on_from_the_one_before_is_timed():
    simulate(2)
    assert doctor._seconds(doctor._program().plan(ml.mesh(data=2), "batch:data")) > 0


def test_a_part_that_fails_is_told_and_others_follow(monkeypatch, capsys):
    def calibrate(devices, largest):
        raise ml.HardwareError("no clock")

    monkeypatch.setattr(calibration, "calibrate", calibrate)
    status, out, _ = called(capsys, "doctor")
    found = parts(out)
    assert status == 1
    assert re.fullmatch(r"✗ HardwareError: no clock \(.*test_doctor.py:\d+\)", found["measured"][-1])
    assert found["checked"][1].startswith("✓ checked")
    assert found["step"] == ["No step was timed: a part above has failed."]
    assert list(found)[-1] == "something is wrong: see above"


def test_a_plan_that_is_not_what_runs_is_wrong(measured, monkeypatch, capsys):
    monkeypatch.setattr(ml.Plan, "check", lambda plan: "✗ checked against the compiled program")
    status, out, _ = called(capsys, "doctor")
    assert status == 1
    assert list(parts(out))[-1] == "something is wrong: see above"


def test_devices_that_stand_somewhere_are_listed_with_it(monkeypatch):
    chips = [types.SimpleNamespace(id=3 - i, process_index=i // 2, coords=[i, 0, 0]) for i in range(4)]
    monkeypatch.setattr(jax, "devices", lambda: chips)
    monkeypatch.setattr(doctor, "devices", lambda count, order: chips)
    assert list(doctor._Tried().order())[1:3] == [
        "  device 3 of process 0 at (0, 0, 0)",
        "  device 2 of process 0 at (1, 0, 0)",
    ]


def test_a_number_of_devices_is_refused(capsys):
    status, _, err = called(capsys, "doctor", "--simulate", "0")
    assert (status, err) == (2, "--simulate was given 0; it takes 1 to 64 devices.\n")
