"""Calibration: devices are measured, written down, read back, and plans on them have times."""

import os

import pytest

import meshlab as ml
from meshlab import cli
from meshlab.cost.attached import file_of
from meshlab.cost.calibrate import calibrate, errors, fitted
from meshlab.cost.hardware import known, read
from meshlab.cost.measure import Sample
from meshlab.cost.writing import to_toml


@pytest.mark.parametrize("machine", known().values(), ids=known())
def test_machines_are_read_as_they_were_written(machine, tmp_path):
    path = tmp_path / f"{machine.name}.toml"
    path.write_text(to_toml(machine))
    assert read(path) == machine


class Device:
    device_kind, platform = "NVIDIA H100 80GB HBM3", "gpu"

    @staticmethod
    def memory_stats():
        return {"bytes_limit": 75e9}


def perfect(n=8):
    """What a machine takes that does just what its model says."""
    yield Sample("product", "bfloat16", 8192, 2 * 8192**3 / 8e14)
    yield Sample("product", "bfloat16", 4096, 2 * 4096**3 / 8e14)
    yield Sample("copy", "float32", 2**28, 2**28 / 3e12)
    yield Sample("launch", "float32", 8, 2e-6)
    for size in (2**14, 2**18, 2**22, 2**26):
        yield Sample("all-gather", "float32", size, 2e-5 + size * (n - 1) / n / 4e11)
        yield Sample("all-reduce", "float32", size, 2e-5 + 2 * size * (n - 1) / n / 4e11)


def test_figures_are_found_again():
    samples = tuple(perfect())
    machine = fitted([Device()] * 8, samples)
    assert machine.flops_per_second("bfloat16") == pytest.approx(8e14)
    assert machine.bytes_per_second == pytest.approx(3e12)
    assert machine.memory_bytes == 75e9
    assert isinstance(machine.network, ml.Switch)
    assert machine.network.egress.value == pytest.approx(4e11)
    assert machine.network.base.value == pytest.approx(2e-5)
    assert machine.outside == ml.hardware("h100").outside  # not to be measured in one node
    off = errors(machine, 8, samples)
    assert off == pytest.approx(dict.fromkeys(("product", "copy", "all-gather", "all-reduce"), 0), abs=1e-9)


class Lonely:
    device_kind, platform = "something new", "gpu"

    @staticmethod
    def memory_stats():
        return None


def test_the_best_of_what_was_reached_counts_and_of_memory_the_largest():
    samples = [
        Sample("product", "float32", 1024, 2 * 1024**3 / 1e13),
        Sample("product", "float32", 2048, 2 * 2048**3 / 3e13),
        Sample("product", "float32", 4096, 2 * 4096**3 / 2e13),
        Sample("copy", "float32", 2**26, 2**26 / 9e12),  # in a cache
        Sample("copy", "float32", 2**28, 2**28 / 2e12),
        Sample("launch", "float32", 8, 5e-6),
        Sample("launch", "float32", 8, 3e-6),
    ]
    machine = fitted([Lonely()], samples)
    assert machine.flops_per_second("float32") == pytest.approx(3e13)
    assert machine.bytes_per_second == pytest.approx(2e12)
    assert machine.efficiency.launch.value == 3e-6
    assert (machine.outside, machine.tile) == (None, 1)
    # It tells nothing of its memory, and has what the machine has.
    assert machine.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # One device sends nothing, so nothing is told of that; all others are held against the figures.
    off = errors(machine, 1, samples)
    assert off.keys() == {"product", "copy"}
    assert off["product"] == pytest.approx(1 / 3)  # of errors of 0, 1/3 and 2/3
    assert off["copy"] == pytest.approx((0 + (9 / 2 - 1)) / 2)


def test_gathers_that_figures_were_made_of_are_not_held_against_them():
    """Every other size is held out: where these took twice as long, predictions are off by a half."""
    gathers = [s for s in perfect() if s.kind == "all-gather"]
    halting = [Sample(s.kind, s.dtype, s.size, s.seconds * (1 + position % 2)) for position, s in enumerate(gathers)]
    samples = [s for s in perfect() if s.kind not in ("all-gather", "all-reduce")] + halting
    assert errors(fitted([Device()] * 8, samples), 8, samples)["all-gather"] == pytest.approx(0.5)


def test_what_is_off_is_told():
    slow = [Sample(s.kind, s.dtype, s.size, s.seconds * (2 if s.kind == "all-reduce" else 1)) for s in perfect()]
    assert errors(fitted([Device()] * 8, slow), 8, slow)["all-reduce"] == pytest.approx(0.5)


def test_simulated_devices_are_measured_and_plans_on_them_have_times(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MESHLAB_HOME", str(tmp_path))
    assert cli.main(["calibrate", "--simulate", "4", "--quick"]) == 0
    told = capsys.readouterr().out
    assert "cpu, 4 devices" in told
    assert "collective-permute of " in told
    assert "Predictions are off by (median): product " in told
    assert f"Written to {file_of('cpu')}." in told
    batch, embed = ml.dims(batch=64, embed=64)
    plan = ml.trace(lambda x, w: ml.dot(x, w, embed), ml.f32[batch, embed], ml.f32[embed])
    time = plan.plan(ml.mesh("attached", data=4), "embed:data").time
    assert time.hardware.title == "cpu, as measured"
    assert 0 < time.lower <= time.estimate
    assert set(time.hardware.errors) >= {"product", "copy", "all-gather"}
    assert not time.recalled


def test_nothing_to_measure_and_unknown_words_are_told(capsys):
    with pytest.raises(ml.HardwareError, match=r"There are no devices to measure."):
        calibrate([])
    assert cli.main(["calibrate", "now"]) == 1
    assert "meshlab calibrate does not know now; `meshlab calibrate --help`" in capsys.readouterr().err
    assert cli.main(["calibrate", "--simulate", "1000"]) == 1
    assert "64" in capsys.readouterr().err


def test_stopping_writes_nothing(monkeypatch, tmp_path, capsys):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setenv("MESHLAB_HOME", str(tmp_path))
    monkeypatch.setattr("meshlab.cost.calibrate.calibrate", stopped)
    assert cli.main(["calibrate", "--simulate", "2"]) == 1
    assert capsys.readouterr().err == "Stopped; nothing was written.\n"
    assert not list(tmp_path.iterdir())
