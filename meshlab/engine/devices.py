"""Finds the devices to run on: the attached ones, or simulated CPU devices where there are too few.

    simulate(8)             # from here on this process has 8 simulated CPU devices, whether or not JAX was used before
    devices(8)              # 8 attached accelerators if there are as many, else 8 simulated CPU devices

Simulated devices are real devices to JAX: programs are compiled for them, sharded over them, and their collectives move
data from one to the other, so that results and traffic can be trusted. Times cannot: all share this machine's cores.

JAX fixes the number of CPU devices when it is first used. If there are too few by then, its back ends are dropped
and start anew; arrays made before stay readable, but meshes and compiled programs over the old devices do not fit
the new ones. `simulate` selects the CPU platform by JAX's own setting `jax_platforms`, since JAX starts the back ends
of all platforms at once otherwise: a GPU or TPU is never started for a simulation. `devices` asks JAX for what is
attached, as any first use of JAX does; call `simulate` before it to leave accelerators alone. Where the only plugins
beside JAX are compilers of absent hardware, JAX is kept from trying them (`leave_absent_hardware_alone`).
"""

from __future__ import annotations

import functools
import logging
import operator
import os
import re
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import backend

from .absent_hardware import only_absent
from .argument_checks import is_whole
from .errors import MeshError, shown
from .jax_compat import PLAIN_GENERATOR, setting
from .processes import is_joined

# Collectives among 320 and more simulated devices were seen to deadlock, after which XLA ends the process.
LIMIT = 64

# Where small programs are compiled for CPU, and run once or twice: machine code without optimization, from the plainer
# of XLA's two generators. Measured: compiled four to eight times as fast, with the same collectives. That generator's
# scatters at int8 positions are wrong (jaxlib 0.10.2), so nobody is given its results, and no failure of a check is
# believed before all is compiled as users run it.
_QUICK = {"xla_backend_optimization_level": 0, **PLAIN_GENERATOR}
# The same for XLA_FLAGS, where a whole process does nothing else.
QUICK_COMPILES = " ".join(f"--{name}={str(value).lower()}" for name, value in _QUICK.items())

_LOG = logging.getLogger("meshlab")

# The platforms in JAX's settings that were chosen here, and not by the user.
_UNASKED: set[str] = set()


def leave_absent_hardware_alone() -> None:
    """Selects the CPU platform where JAX would try nothing else but compilers of absent hardware.

    JAX would come to the CPU as well, after it has logged what they say. `absent_hardware.hide` does this where JAX is
    not imported yet; where it is, its plugins stay, for its user may compile with them.
    """
    if not setting("jax_platforms") and only_absent() and not _started():
        jax.config.update("jax_platforms", "cpu")
        _UNASKED.add("cpu")


def simulate(n: int = 8) -> None:
    """Gives this process simulated CPU devices, before or after JAX was first used.

    Nothing happens if JAX has as many CPU devices already. Several processes (`ml.distributed()`) share them, and
    their number was fixed when the processes were started.

    Args:
        n: how many, 1 to 64.

    Example:
        >>> simulate(8)
        >>> len(jax.devices("cpu")) >= 8
        True
    """
    count = _check_limit(_check_count(n, "ml.simulate"), "ml.simulate")
    jax.config.update("jax_platforms", "cpu")
    _UNASKED.clear()
    if is_joined():
        _check_together(jax.devices("cpu"), count, "ml.simulate")
        return
    if _started():
        if len(_cpu_devices()) >= count:
            return
        _LOG.info("Restarting JAX's back ends with %d simulated CPU devices, because there were too few.", count)
        backend.clear_backends()
    jax.config.update("jax_num_cpu_devices", max(count, _configured()))


def devices(n: int, order: Sequence[Sequence[int]] | None = None) -> list[Any]:
    """Returns devices to run on: attached accelerators if there are enough, else simulated CPU devices.

    After `simulate` these are CPU devices. Where nobody asked for simulated devices and they are used, that is said
    once, by a warning of the logger `meshlab`; `describe` has the words.

    Args:
        n: how many; at most 64 are simulated.
        order: the coordinates at which they are to be, where the devices have any (`Mesh.order`).

    Returns:
        `n` JAX devices of one platform.
    """
    count = _check_count(n, "devices()")
    if is_joined():
        return _of_all_processes(count, order)
    if not _started() and count <= LIMIT:
        # Whatever else is attached, the CPU back end that starts now will have enough devices.
        jax.config.update("jax_num_cpu_devices", max(count, _configured()))
    asked_for_cpu = setting("jax_platforms") == "cpu" and not _UNASKED
    if not asked_for_cpu:
        attached = jax.devices()
        if attached[0].platform != "cpu" and len(attached) >= count:
            return (in_order(attached, order) or attached)[:count]
    _check_limit(count, "The mesh")
    if len(_cpu_devices()) < count:
        simulate(count)
    simulated = _cpu_devices()[:count]
    if not asked_for_cpu:
        _say_once(f"No {count} accelerators are attached: running on {describe(simulated)}.")
    return simulated


def _of_all_processes(count: int, order: Sequence[Sequence[int]] | None) -> list[Any]:
    """Returns as many devices of each process: one without a device of the mesh could not take part in its steps."""
    attached, processes = jax.devices(), jax.process_count()
    _check_together(attached, count, "The mesh")
    if count % processes:
        raise MeshError(
            f"The mesh has {count} devices, which {processes} processes cannot share equally. Use a mesh of"
            f" {max(1, count // processes) * processes} devices, or another number of processes."
        )
    own = [[d for d in attached if d.process_index == process] for process in range(processes)]
    if count == len(attached) or any(len(each) < count // processes for each in own):
        return (in_order(attached, order) or attached)[:count]
    return [device for each in own for device in each[: count // processes]]


def _check_together(attached: Sequence[Any], count: int, asking: str) -> None:
    """Refuses more devices than several processes have together: their number cannot change any more."""
    if len(attached) < count:
        processes = jax.process_count()
        how = (
            f"Start each with more: `meshlab run FILE --processes {processes} --simulate {count}`, or on a cluster"
            f" JAX_NUM_CPU_DEVICES={-(-count // processes)}."
            if attached[0].platform == "cpu"
            else "Use a smaller mesh, or more processes."
        )
        raise MeshError(
            f"{asking} asks for {count} devices, and {processes} process{'es' * (processes != 1)} have"
            f" {len(attached)} together. {how}"
        )


def in_order(listed: Sequence[Any], order: Sequence[Sequence[int]] | None) -> list[Any] | None:
    """Returns those of the devices of a TPU's slice that are at some coordinates, counted from the slice's corner.

    Returns:
        The devices; None where no coordinates are given, or not all of them are there.
    """
    if order is None or not all(hasattr(device, "coords") for device in listed):
        return None
    corner = [min(each) for each in zip(*map(standing, listed), strict=True)]
    at = {tuple(a - b for a, b in zip(standing(device), corner, strict=True)): device for device in listed}
    found = [at.get(tuple(where)) for where in order]
    return None if None in found else found


def standing(device: Any) -> tuple[int, ...]:
    """Returns a TPU's coordinates: those of its chip, and its number within the chip."""
    return (*device.coords, device.core_on_chip)


@functools.cache
def _say_once(text: str) -> None:
    _LOG.warning(text)


def platform() -> str:
    """Returns the platform that programs run on: "cpu", "tpu", "gpu" or, where JAX's settings say so, "cuda" or "rocm".

    JAX's back ends are not started for it: where none has started and none was chosen, devices are simulated on CPU.
    """
    chosen = (setting("jax_platforms") or "").split(",")[0]
    return chosen or (jax.default_backend() if _started() else "cpu")


def describe(used: Sequence[Any]) -> str:
    """Describes devices in words: "8 simulated CPU devices", "4 GPU devices (NVIDIA H100)"."""
    kind, plural = used[0].device_kind, "s" * (len(used) != 1)
    if used[0].platform == "cpu":
        return f"{len(used)} simulated CPU device{plural} (results and traffic are real, times are not)"
    return f"{len(used)} {used[0].platform.upper()} device{plural} ({kind})"


def compiler_options(platform: str) -> dict[str, Any]:
    """Returns the options with which to compile for devices of a platform.

    XLA for CPU ends the process when devices reach a collective more than 40 seconds apart, which simulated devices on
    few cores do; they are given ten minutes. It also takes out the barriers around rematerialised regions before it
    merges equal expressions, which would undo the rematerialisation, and is kept from it; then it must not make a
    function of its own of a small loop either, since its generator for those knows no barriers and ends the process.
    """
    if platform != "cpu":
        return {}
    return {
        "xla_cpu_collective_call_terminate_timeout_seconds": 600,
        "xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting",
    }


def quick_options(platform: str) -> dict[str, Any]:
    """Returns options for a platform with which small programs compile sooner, and run slower."""
    return dict(_QUICK) if platform == "cpu" else {}


def _check_count(n: int, asking: str) -> int:
    if not is_whole(n) or operator.index(n) < 1:
        raise MeshError(
            f"{asking} was given {shown(n)} for a number of devices; it must be an integer of at least 1, and at most"
            f" {LIMIT} are simulated: ml.simulate(8)."
        )
    return operator.index(n)


def _check_limit(count: int, asking: str) -> int:
    if count > LIMIT:
        raise MeshError(
            f"{asking} asks for {count} devices, and at most {LIMIT} are simulated: collectives among 320 or more"
            " simulated devices deadlock, and XLA then ends the process. Plan on any number of devices, which needs"
            f" none; to run, use a mesh of at most {LIMIT}, or attach {count} accelerators."
        )
    return count


def _started() -> bool:
    """Says whether JAX has started its back ends; from then on it refuses other numbers of CPU devices."""
    configured = setting("jax_num_cpu_devices")
    try:
        jax.config.update("jax_num_cpu_devices", configured + 1)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", configured)
    return False


def _configured() -> int:
    """Returns how many CPU devices JAX is set to make: by its setting, else by XLA's flag, else one."""
    configured = setting("jax_num_cpu_devices")
    flag = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return configured if configured > 0 else int(flag[1]) if flag else 1


def _cpu_devices() -> list[Any]:
    try:
        return jax.devices("cpu")
    except RuntimeError:  # JAX was started on other platforms only
        return []
