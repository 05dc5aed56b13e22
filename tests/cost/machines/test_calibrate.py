"""Calibration: devices are measured, written down, read back, and plans on them have times."""

import dataclasses
import itertools
import math
import os
import subprocess
import sys

import pytest

import meshlab as ml
from meshlab import cli
from meshlab.cost.machines import measure
from meshlab.cost.machines.attached import file_of
from meshlab.cost.machines.calibration import Calibration, calibrate, disturbed, errors, fitted, save, training_samples
from meshlab.cost.machines.hardware import known, read
from meshlab.cost.machines.measure import Run, Sample, measured, summarize
from meshlab.cost.machines.toml import to_toml

pytestmark = pytest.mark.share(2, of="file")


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
    yield Sample("matmul", "bfloat16", 8192, 2 * 8192**3 / 8e14)
    yield Sample("matmul", "bfloat16", 4096, 2 * 4096**3 / 8e14)
    yield Sample("copy", "float32", 2**24, 2**24 / 3e12)
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
    assert machine.inter_node == ml.hardware("h100").inter_node  # not to be measured in one node
    off = errors(machine, 8, samples)
    assert off == pytest.approx(dict.fromkeys(("matmul", "copy", "all-gather", "all-reduce"), 0), abs=1e-9)


class Lonely:
    device_kind, platform = "something new", "gpu"

    @staticmethod
    def memory_stats():
        return None


def test_the_best_of_what_was_reached_counts_and_of_memory_the_largest():
    samples = [
        Sample("matmul", "float32", 512, 2 * 512**3 / 1.5e13),
        Sample("matmul", "float32", 1024, 2 * 1024**3 / 3e13),
        Sample("matmul", "float32", 2048, 2 * 2048**3 / 4e13),
        Sample("matmul", "float32", 4096, 2 * 4096**3 / 2e13),
        Sample("copy", "float32", 2**26, 2**26 / 9e12),  # in a cache
        Sample("copy", "float32", 2**28, 2**28 / 2e12),
        Sample("launch", "float32", 8, 5e-6),
        Sample("launch", "float32", 8, 3e-6),
    ]
    machine = fitted([Lonely()], samples)
    assert machine.flops_per_second("float32") == pytest.approx(3e13)
    assert machine.bytes_per_second == pytest.approx(2e12)
    assert machine.efficiency.launch.value == 3e-6
    assert (machine.inter_node, machine.tile) == (None, 1)
    # It tells nothing of its memory, and has what the machine has.
    assert machine.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # One device sends nothing, so nothing is told of that; what had no part in a figure is held against it.
    off = errors(machine, 1, samples)
    assert off.keys() == {"matmul", "copy"}
    assert off["matmul"] == pytest.approx((1 / 3 + 1 / 2) / 2)  # at 2048 it took less by a quarter, at 512 twice that
    assert off["copy"] == pytest.approx(9 / 2 - 1)


def test_what_is_held_out_has_no_part_in_any_figure():
    """Whatever it measures, the machine is the same."""
    samples = list(perfect())
    held_out = [sample for sample in samples if sample not in training_samples(samples)]
    kinds = {sample.kind for sample in held_out}
    assert kinds == {"matmul", "copy", "all-gather", "all-reduce"}
    machine = fitted([Device()] * 8, samples)
    for factor in (0.01, 100):
        others = [dataclasses.replace(s, seconds=s.seconds * factor) if s in held_out else s for s in samples]
        assert fitted([Device()] * 8, others) == machine
        assert errors(machine, 8, others) == pytest.approx(dict.fromkeys(kinds, abs(1 / factor - 1)))
    # All others have: each of them moves a figure.
    for sample in training_samples(samples):
        others = [dataclasses.replace(s, seconds=s.seconds / 100) if s is sample else s for s in samples]
        assert fitted([Device()] * 8, others) != machine
    alone = [sample for sample in samples if sample.kind == "copy"][-1:]
    assert errors(machine, 8, alone) == {}


def test_gathers_that_figures_were_made_of_are_not_held_against_them():
    """Every other size is held out: where these took twice as long, predictions are off by a half."""
    gathers = [s for s in perfect() if s.kind == "all-gather"]
    halting = [Sample(s.kind, s.dtype, s.size, s.seconds * (2 - position % 2)) for position, s in enumerate(gathers)]
    samples = [s for s in perfect() if s.kind not in ("all-gather", "all-reduce")] + halting
    assert errors(fitted([Device()] * 8, samples), 8, samples)["all-gather"] == pytest.approx(0.5)


def test_what_is_off_is_told():
    slow = [Sample(s.kind, s.dtype, s.size, s.seconds * (2 if s.kind == "all-reduce" else 1)) for s in perfect()]
    assert errors(fitted([Device()] * 8, slow), 8, slow)["all-reduce"] == pytest.approx(0.5)


# Seconds of one and the same addition, 16,777,216 bytes on each of 8 simulated devices, on an idle machine with two
# cores, and beside three busy loops.
IDLE = (2.13e-3, 2.16e-3, 2.2e-3, 2.29e-3, 2.33e-3, 2.44e-3, 2.46e-3, 2.5e-3, 2.51e-3, 2.6e-3)
BUSY = (1.98e-3, 2.48e-3, 2.9e-3, 2.93e-3, 3.1e-3, 3.59e-3, 4.8e-3, 6.9e-3, 7.0e-3, 9.1e-3)


def test_repetitions_come_to_their_lower_quartile():
    idle, busy = summarize("copy", "float32", 2**24, IDLE), summarize("copy", "float32", 2**24, BUSY)
    assert (idle.kind, idle.dtype, idle.size) == ("copy", "float32", 2**24)
    assert idle.seconds == pytest.approx(2.2225e-3)
    assert idle.spread == pytest.approx(2.49e-3 / 2.2225e-3 - 1)
    # Other work tripled the longest and moved the figure by a third; the spread tells that it is not to be trusted.
    assert busy.seconds < 1.35 * idle.seconds
    assert disturbed([idle]) == ()
    assert disturbed([busy]) == ("copy",)
    assert disturbed([idle, busy, idle]) == ()  # most of the sizes were not disturbed


def test_a_disturbance_meets_some_repetitions_of_each_size(monkeypatch):
    """A spell in which all takes ten times as long leaves every figure as it is, for sizes take turns.

    Each turn is a run that does not count and two that do; the spell is as long as three turns.
    """
    monkeypatch.setattr(measure, "_LEAST_SECONDS", 0.0)
    calls = itertools.count()
    slow = range(18, 27)
    runs = [Run("copy", "float32", size, lambda: 1e-5 if next(calls) in slow else 1e-6) for size in (1, 2, 3)]
    samples = list(measured(runs))
    assert [sample.size for sample in samples] == [1, 2, 3]
    assert [sample.seconds for sample in samples] == [1e-6] * 3
    assert next(calls) == 3 * 3 * 5


def calibrated(samples, devices=8):
    machine = fitted([Device()] * devices, samples)
    return Calibration(machine, samples, errors(machine, devices, samples))


def test_a_busy_machine_is_told_in_words_and_no_error_of_it(tmp_path):
    kinds = ("copy", "all-reduce")
    busy = tuple(dataclasses.replace(s, spread=0.9 if s.kind in kinds else 0.1) for s in perfect())
    calibration = calibrated(busy)
    assert calibration.errors.keys() == {"matmul", "all-gather"}
    assert "Predictions are off by (median): matmul 0%, all-gather 0%.\n" in str(calibration)
    assert (
        "The machine was busy: repeated measurements of copy, all-reduce disagree by more than 50%: their error"
        " is unknown. Repeat `meshlab calibrate`"
    ) in str(calibration)
    # Wherever a figure is shown its source is: that says so too, of those that come of what was disturbed.
    written = read(save(calibration, "any", tmp_path / "any.toml"))
    assert written.errors.keys() == {"matmul", "all-gather"}
    assert {name for name, figure in written.figures.items() if "busy" in figure.source} == {"bandwidth"}
    assert "busy" not in str(calibrated(tuple(perfect())))
    nothing = calibrated(tuple(dataclasses.replace(s, spread=0.9) for s in perfect()))
    assert not nothing.errors
    assert "off by" not in str(nothing)
    assert "B/s sent by a device" in str(nothing)


def test_errors_beyond_the_whole_are_told_as_multiples():
    quick = tuple(dataclasses.replace(s, seconds=s.seconds / (100 if s.kind == "all-reduce" else 1)) for s in perfect())
    assert "all-reduce 100.0 times what was measured" in str(calibrated(quick))


def test_what_was_not_measured_is_not_shown(tmp_path):
    """Only 32 bits run on CPU devices; their matmuls of 16 bits are computed in 32."""
    samples = (Sample("matmul", "float32", 1024, 2 * 1024**3 / 4e10), Sample("copy", "float32", 2**26, 2**26 / 5e9))
    machine = fitted([Simulated()], samples)
    assert list(machine.flops) == ["f32"]
    assert "f16" not in str(Calibration(machine, samples, {}))
    assert "f16" not in to_toml(machine)
    for dtype in ("bfloat16", "float16", "float32"):
        assert machine.flops_per_second(dtype) == pytest.approx(4e10)
    with pytest.raises(ml.HardwareError, match="no figure for matmuls in float64; it has `f32`"):
        machine.rate("float64")
    assert "on 1 device" in machine.bandwidth.source
    assert "1 devices" not in machine.bandwidth.source
    assert "on 8 devices" in fitted([Simulated()] * 8, tuple(perfect())).bandwidth.source


class Simulated(Lonely):
    device_kind, platform = "cpu", "cpu"


RATES = """
import meshlab as ml
ml.simulate(4)
import jax
from meshlab.cost.machines.measure import copies
print(*(sample.size / sample.seconds for sample in copies(jax.devices()[:4], (2**20, 2**26))))
"""


def test_memory_is_measured_beyond_caches():
    """What a small addition reaches is what memory gives: repeated on one small array it was ten times that.

    In a process of its own, for what tests compile is too slow for memory to matter.
    """
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    process = subprocess.run([sys.executable, "-c", RATES], env=environment, capture_output=True, text=True, check=True)
    small, large = map(float, process.stdout.split())
    assert 1 / 3 < small / large < 3


def test_simulated_devices_are_measured_and_plans_on_them_have_times(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measure, "_BEYOND_CACHES", 2**24)  # what tests compile is slow, and no figure is looked at
    monkeypatch.setattr(
        "meshlab.cost.machines.calibration.MOST_SPREAD", math.inf
    )  # nor is the machine idle that tests run on
    monkeypatch.setenv("MESHLAB_HOME", str(tmp_path))
    assert cli.main(["calibrate", "--simulate", "4", "--quick"]) == 0
    text = capsys.readouterr().out
    assert "cpu, 4 devices" in text
    assert "f16" not in text
    assert "f16" not in file_of("cpu").read_text()
    assert "collective-permute of " in text
    assert "Predictions are off by (median): matmul " in text
    assert f"Written to {file_of('cpu')}." in text
    batch, embed = ml.dims(batch=64, embed=64)
    plan = ml.trace(lambda x, w: ml.dot(x, w, embed), ml.f32[batch, embed], ml.f32[embed])
    time = plan.plan(ml.mesh("attached", data=4), "embed:data").time
    assert time.hardware.title == "cpu, as measured"
    assert 0 < time.lower <= time.estimate
    assert set(time.hardware.errors) >= {"matmul", "copy", "all-gather"}
    assert not time.recalled


def test_nothing_to_measure_and_unknown_words_are_told(capsys):
    with pytest.raises(ml.HardwareError, match=r"There are no devices to measure."):
        calibrate([])
    assert cli.main(["calibrate", "now"]) == 2
    assert "meshlab calibrate does not know now; `meshlab calibrate --help`" in capsys.readouterr().err
    assert cli.main(["calibrate", "--simulate", "1000"]) == 2
    assert "64" in capsys.readouterr().err


def test_what_cannot_be_written_leaves_nothing_behind(monkeypatch, tmp_path):
    def full(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(tmp_path), "replace", full)
    with pytest.raises(ml.HardwareError, match=r"cannot be written to .*mine.toml .*No space left .* Give a file that"):
        save(calibrated(tuple(perfect())), "cpu", tmp_path / "mine.toml")
    assert not list(tmp_path.iterdir())


def test_stopping_writes_nothing(monkeypatch, tmp_path, capsys):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setenv("MESHLAB_HOME", str(tmp_path))
    monkeypatch.setattr("meshlab.cost.machines.calibration.calibrate", stopped)
    assert cli.main(["calibrate", "--simulate", "2"]) == 1
    assert capsys.readouterr() == ("cpu, 2 devices\n", "Stopped; nothing was written.\n")
    assert cli.main(["calibrate", "--simulate", "1"]) == 1
    assert capsys.readouterr().out == "cpu, 1 device\n"
    assert not list(tmp_path.iterdir())
