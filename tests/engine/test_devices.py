"""Simulated devices come before and after JAX was first used, and never more than can be trusted."""

import subprocess
import sys

import jax
import pytest

from meshlab.engine.devices import compiler_options, describe, devices, simulate
from meshlab.engine.errors import MeshError


def python(code, **environment):
    """Runs code in a fresh process, warnings as errors, and returns what it prints."""
    import os

    clean = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS")}
    start = "import jax\nfrom meshlab.engine.devices import *\nfrom meshlab.engine.devices import _started\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", start + code],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_before_the_first_use_of_jax():
    assert python("simulate(8); print(_started(), len(jax.devices()), jax.default_backend())") == "False 8 cpu"


def test_after_the_first_use_of_jax_and_old_arrays_stay_readable():
    code = """
import jax.numpy as jnp
old = jnp.arange(3.0)
before = len(jax.devices())
simulate(8)
print(before, len(jax.devices()), old.tolist(), (old + jnp.ones(3)).tolist())
"""
    assert python(code) == "1 8 [0.0, 1.0, 2.0] [1.0, 2.0, 3.0]"


def test_enough_devices_are_left_alone():
    code = (
        "simulate(8); first = jax.devices(); simulate(4); simulate(8); print(jax.devices()[0] is first[0], len(first))"
    )
    assert python(code) == "True 8"


SIX = {"XLA_FLAGS": "--xla_force_host_platform_device_count=6"}


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("asked", "environment", "found"),
    [
        ("simulate(8); simulate(2)", {}, 8),
        ("simulate(2)", {"JAX_NUM_CPU_DEVICES": "5"}, 5),
        ("simulate(2)", SIX, 6),
        ("simulate(8)", SIX, 8),
    ],
)
def test_fewer_never_replace_more(asked, environment, found):
    assert python(f"{asked}; print(len(jax.devices()))", **environment) == str(found)


def test_only_the_cpu_platform_is_started():
    code = "simulate(2); jax.devices(); from jax.extend.backend import backends; print(list(backends()))"
    assert python(code) == "['cpu']"


def test_devices_simulate_what_is_not_attached_and_say_so_once():
    code = """
import sys; sys.stderr = sys.stdout
print(len(devices(4)), [d.platform for d in devices(2)], len(devices(4)))
"""
    first, second, *rest = python(code).splitlines()
    said = "running on {} simulated CPU devices (results and traffic are real, times are not)."
    assert first == "No 4 accelerators are attached: " + said.format(4)
    assert second == "No 2 accelerators are attached: " + said.format(2)
    assert rest == ["4 ['cpu', 'cpu'] 4"]


def test_nothing_is_said_of_devices_that_were_asked_for():
    assert python("import sys; sys.stderr = sys.stdout; simulate(4); print(len(devices(4)))") == "4"


class Attached:
    """What an accelerator looks like to JAX's users."""

    platform, device_kind = "gpu", "NVIDIA H100"


def test_attached_accelerators_are_used_if_there_are_enough(monkeypatch):
    simulate(8)
    gpus, cpus = [Attached() for _ in range(4)], jax.devices("cpu")
    monkeypatch.setattr(jax, "devices", lambda platform=None: cpus if platform == "cpu" else gpus)
    setting = jax.config.values["jax_platforms"]
    jax.config.update("jax_platforms", "")
    try:
        assert devices(4) == gpus
        assert devices(2) == gpus[:2]
        assert devices(8) == cpus[:8]
    finally:
        jax.config.update("jax_platforms", setting)
    assert describe(gpus) == "4 GPU devices (NVIDIA H100)"
    assert compiler_options(gpus[0].platform) == {}


def test_after_simulate_accelerators_are_left_alone(monkeypatch):
    simulate(8)
    cpus = jax.devices("cpu")
    monkeypatch.setattr(jax, "devices", lambda platform=None: cpus if platform == "cpu" else [Attached()] * 4)
    assert devices(4) == cpus[:4]


def test_options_for_simulated_devices_are_accepted():
    simulate(8)
    options = compiler_options("cpu")
    assert options["xla_cpu_collective_call_terminate_timeout_seconds"] == 600
    assert jax.jit(lambda x: x + 1).lower(1.0).compile(compiler_options=options)(1.0) == 2.0
    assert describe(devices(1)).startswith("1 simulated CPU device (")


@pytest.mark.parametrize("n", [0, -1, 2.0, "8", None, True])
def test_a_number_of_devices_is_a_positive_integer(n):
    for ask, called in ((simulate, r"ml\.simulate"), (devices, r"devices\(\)")):
        message = rf"{called} was given .* it must be an integer of at least 1, and at most 64 .*: ml\.simulate\(8\)"
        with pytest.raises(MeshError, match=message):
            ask(n)


def test_at_most_64_are_simulated():
    with pytest.raises(MeshError, match=r"ml\.simulate asks for 65 devices, and at most 64 are simulated: .* deadlock"):
        simulate(65)
    with pytest.raises(MeshError, match=r"The mesh asks for 512 devices, .* a mesh of at most 64, or attach 512"):
        devices(512)
