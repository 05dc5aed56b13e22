"""What plans would run on is what they do run on, in words and as numbers."""

import jax
import pytest

import meshlab as ml
from meshlab.engine import attached_devices
from meshlab.engine.devices import devices as devices_to_run_on
from meshlab.engine.devices import simulate
from meshlab.engine.errors import MeshError


def test_of_simulated_devices_it_says_what_runs():
    simulate(8)
    found = ml.devices()
    count = len(jax.devices())
    assert found == ml.Devices("cpu", "cpu", count, count, 64, 0, 1)
    assert str(found).splitlines() == [
        f"JAX has {count} CPU devices, and no accelerator.",
        "Meshes of up to 64 devices run on simulated CPU devices (results and traffic are real, times are not).",
    ]
    with pytest.raises(MeshError, match="at most 64 are simulated"):
        devices_to_run_on(found.simulated + 1)


class Attached:
    """What an accelerator looks like to JAX's users."""

    platform, device_kind = "gpu", "NVIDIA H100"


@pytest.mark.parametrize(("count", "simulated"), [(1, 64), (4, 64), (63, 64), (64, 0), (256, 0)])
def test_of_accelerators_it_says_what_larger_meshes_run_on(monkeypatch, count, simulated):
    monkeypatch.setattr(jax, "devices", lambda: [Attached()] * count)
    monkeypatch.setattr(jax, "local_devices", lambda: [Attached()] * count)
    found = ml.devices()
    assert (found.platform, found.attached, found.here, found.simulated) == ("gpu", count, count, simulated)
    first, *rest = str(found).splitlines()
    assert first == f"JAX has {count} GPU device{'s' * (count > 1)} (NVIDIA H100)."
    assert [line.split(" run on")[0] for line in rest] == ["Larger meshes of up to 64 devices"] * bool(simulated)


@pytest.mark.parametrize(("platform", "simulated"), [("cpu", 8), ("gpu", 0)])
def test_processes_that_have_joined_start_no_more_devices(monkeypatch, platform, simulated):
    monkeypatch.setattr(attached_devices, "is_joined", lambda: True)
    monkeypatch.setattr(Attached, "platform", platform)
    monkeypatch.setattr(jax, "devices", lambda: [Attached()] * 8)
    monkeypatch.setattr(jax, "local_devices", lambda: [Attached()] * 2)
    monkeypatch.setattr(jax, "process_index", lambda: 3)
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    found = ml.devices()
    assert found.simulated == simulated
    assert str(found).splitlines()[-1] == "This is process 3 of 4; it has 2 of the devices."
