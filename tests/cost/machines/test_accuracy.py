"""The published errors, packed from their page; the factor by which published steps took longer."""

import dataclasses
import json

import pytest

import meshlab as ml
from benchmarks.accuracy import FILE, PAGE, packed, written
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


def test_the_packed_errors_are_those_of_the_page():
    """If not: python -m benchmarks.accuracy."""
    assert FILE.read_text(encoding="utf-8") == written(packed(PAGE.read_text(encoding="utf-8")))


def test_what_a_page_tells_is_packed():
    page = """# Errors

## Published steps

**v4**: reaches 0.7; errors up to 3%.

| model | off by |
| --- | ---: |
| a | 1% |
| b \\* | 9% |
| c | 3% |

**v2**: reaches 0.5; errors up to 0%.

| model | off by |
| --- | ---: |
| a | 0% |

### Runs that are shown and not judged

| model | factor |
| --- | ---: |
| c | 1.10 |

## Memory

**v2**: in 2 plans the median error is 1% (jaxlib 0.10.2).

| program | layout |
| --- | --- |
| a | FSDP |
| b | FSDP |

## Collectives: of compilers

| machine | compiled | equal | explained | not explained | refused by the compiler |
|---|---:|---:|---:|---:|---:|
| v5e:2x4 | 70 | 27 | 42 | 1 | 0 |

## Others

**v4**: nothing
"""
    errors = packed(page)
    assert errors["time"]["anchor"] == "published-steps"
    assert errors["time"]["texts"]["v4"] == "v4: reaches 0.7; errors up to 3%. 2 published runs."
    assert errors["time"]["texts"]["v2"] == "v2: reaches 0.5 in the one published run; of one run no error can be told."
    assert errors["memory"]["texts"] == {"v2": "v2: in 2 plans the median error is 1% (jaxlib 0.10.2)."}
    assert errors["modelled"] == {"jaxlib": "0.10.2"}
    assert "factors" not in errors["time"]
    with pytest.raises(ValueError, match=r"accuracy.md tells figures of jaxlib 0.10.2, 0.12.0: measure all anew"):
        packed(page + "and others (jaxlib 0.12.0)")
    assert errors["collectives"]["anchor"] == "collectives-of-compilers"
    assert errors["collectives"]["texts"]["v5e"] == (
        "Of 70 plans compiled for v5e:2x4, 27 send the bytes that were predicted, 42 do but for differences that are"
        " explained, 1 do not."
    )
    assert errors.keys() == {"time", "memory", "collectives", "modelled"}
    said = page.replace("reaches 0.7;", "published steps took 1.40 times the predicted time;")
    said = said.replace("reaches 0.5;", "published steps took 0.95 times the predicted time;")
    assert packed(said)["time"]["factors"] == {
        "v4": {"factor": 1.4, "spread": 0.03, "runs": 2},
        "v2": {"factor": 0.95, "spread": None, "runs": 1},
    }
