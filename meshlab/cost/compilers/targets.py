"""What a plan can be compiled for: "v5e:4x4", "h100:1x1x8", and how each compiler calls it.

    target("v5e:4x4", devices=16)        # a slice of 4 x 4 TPU v5e
    target("h100:2x8", devices=16)       # 2 nodes of 8 H100
    target("v5e", devices=16)            # the evenest slice of 16: v5e:4x4

Names of machines are those of `ml.Hardware` (`machines/`). A TPU's shape counts chips by axis of the torus, a GPU's the
slices, hosts and GPUs of a host (leading ones may be left out). The TPU compiler lists two devices for each chip of
some generations, so that `v4:2x2x1` is eight devices.

Nothing here starts a compiler: what cannot be is refused before.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from ...engine.errors import CompilerError, listed
from ...engine.specs.mesh import Mesh
from ..machines.hardware import Hardware, HardwareError, Torus, hardware
from ..machines.placement import CHIP, HOST, Leg, Placement, check_shape, slice_shape

# How the TPU compiler calls the generations, and how many devices it lists for one of their chips (libtpu 0.0.42).
_TPUS = {"v2": ("v2", 2), "v3": ("v3", 2), "v4": ("v4", 2), "v5e": ("v5e", 1), "v5p": ("v5p", 1), "v6e": ("v6e", 1)} | {
    "v7x": ("tpu7x", 2)
}
_GPUS = pathlib.Path(__file__).parent / "gpus.toml"


@dataclasses.dataclass(frozen=True)
class Target:
    """A machine that a compiler knows, in a number.

    Attributes:
        name: "v5e:4x4".
        machine: what it is made of.
        shape: by axis of the torus, in chips; (slices, hosts, GPUs of a host) for GPUs.
        platform: "tpu" or "cuda", in JAX's words.
        topology: how the compiler calls it.
        devices: how many it lists.
        options: what the compiler is told beside.
    """

    name: str
    machine: Hardware
    shape: tuple[int, ...]
    platform: str
    topology: str
    devices: int
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self):
        return self.name


def target(name: str | None, mesh: Mesh) -> Target:
    """Returns what to compile for.

    Args:
        name: a machine and a shape, such as "v5e:4x4" or "h100:1x1x8"; a machine alone for its evenest slice; None for
            the slice on which the mesh lies.
        mesh: of the plan.

    Raises:
        HardwareError: there is no such machine, it has no slice of that shape, or the mesh has another number of
            devices.
        CompilerError: no compiler here knows the machine, or none is named.
    """
    if name is None and isinstance(mesh.on, Placement):
        if mesh.on.hardware.name not in {*_TPUS, *gpus()}:
            raise _unknown(mesh.on.hardware)
        name = _name_of(mesh.on)
    if not isinstance(name, str):
        given = "the plan's mesh lies on no machine" if name is None else f"compile_for was given {name!r}"
        raise CompilerError(f'A machine and a shape were expected, such as "v5e:4x4" or "h100:1x1x8"; {given}.')
    devices = mesh.size
    machine_name, colon, printed = name.partition(":")
    machine = hardware(machine_name)
    if machine.name in _TPUS:
        return _tpu(machine, _numbers(printed, name, "v5e:4x4") if colon else None, devices)
    if machine.name in gpus():
        return _gpu(machine, _numbers(printed, name, "h100:1x1x8") if colon else None, devices)
    raise _unknown(machine)


def _unknown(machine: Hardware) -> CompilerError:
    return CompilerError(
        f"No compiler here knows {machine}. There are compilers for {listed([*_TPUS, *gpus()])}; ml.Hardware's other"
        " machines are estimated only."
    )


def _name_of(placement: Placement) -> str:
    if placement.count > 1:
        raise CompilerError(
            f"The mesh lies on {placement}, and several slices are not compiled for. Plan on one of them:"
            f" {placement.hardware.name}:{'x'.join(map(str, placement.shape))}."
        )
    return f"{placement.hardware.name}:{'x'.join(map(str, placement.shape))}"


def _numbers(printed: str, name: str, example: str) -> tuple[int, ...]:
    if "*" in printed:
        raise CompilerError(
            f"`{name}` was asked for, and several slices are not compiled for. Compile for one of them."
        )
    if not re.fullmatch(r"\d+(x\d+)*", printed):
        raise HardwareError(
            f'`{name}` was asked for; a shape is numbers with an `x` between them, such as "{example}".'
        )
    return tuple(int(number) for number in printed.split("x"))


def _tpu(machine: Hardware, shape: tuple[int, ...] | None, devices: int) -> Target:
    called, cores = _TPUS[machine.name]
    assert isinstance(machine.network, Torus)
    # Of a v4 JAX lists one device for a chip, and its compiler two.
    own = machine.devices_per_chip
    if shape is None:
        shape = slice_shape(machine, max(1, devices // cores) * own)
    # A slice of one axis less than the torus lies flat in it.
    shape = (*shape, *(1,) * (len(machine.network.limits) - len(shape)))
    name = f"{machine.name}:{'x'.join(map(str, shape))}"
    check_shape(machine, shape, math.prod(shape) * own)
    _check_devices(name, math.prod(shape) * cores, devices, f" ({cores} on each chip)" if cores > 1 else "")
    host = (*shape, 1)[:3]
    if all(size % least == 0 for size, least in zip(host, HOST, strict=False)):
        return Target(name, machine, shape, "tpu", f"{called}:{'x'.join(map(str, shape))}", devices)
    if math.prod(shape) > math.prod(HOST):
        raise HardwareError(
            f"There is no slice {name}: hosts have 2 x 2 chips, and a slice of several hosts is made of whole ones, so"
            " that its first two axes are even."
        )
    # Part of a host: the compiler wants to be told that a host has no more.
    options = {"chips_per_host_bounds": list(host)}
    return Target(name, machine, shape, "tpu", f"{called}:{'x'.join(map(str, shape))}", devices, options)


def _gpu(machine: Hardware, shape: tuple[int, ...] | None, devices: int) -> Target:
    if shape is None:
        shape = slice_shape(machine, devices)
    shape = (*(1,) * (3 - len(shape)), *shape)
    name = f"{machine.name}:{'x'.join(map(str, shape))}"
    if len(shape) > 3 or min(shape) < 1:
        raise HardwareError(
            f"There is no {name}: the shape of GPUs is slices x hosts x GPUs of a host, such as {machine.name}:1x1x8."
        )
    check_shape(machine, shape, math.prod(shape))
    _check_devices(name, math.prod(shape), devices, "")
    topology = "x".join(map(str, shape))
    return Target(name, machine, shape, "cuda", topology, devices, {"target_config": gpu_description(machine.name)})


def _check_devices(name: str, found: int, devices: int, told: str) -> None:
    if found != devices:
        raise HardwareError(
            f"{name} has {found:,} devices{told}, and the plan's mesh {devices:,}. Compile for a slice of {devices:,}"
            f" devices, or plan on a mesh of {found:,}."
        )


def device_order(found: Target, mesh: Mesh) -> list[tuple[int, int, int, int]] | None:
    """Returns where each device of a mesh stands on a slice: its chip, by axis of the torus, and which of the chip's.

    Args:
        found: the slice.
        mesh: whose devices are numbered row-major.

    Returns:
        Three coordinates and a number for each device; None where the mesh does not lie on this slice, or behind
        switches, where devices are numbered as they stand.
    """
    on = mesh.on
    if not isinstance(on, Placement) or not on.legs or (on.hardware, on.shape) != (found.machine, found.shape):
        return None
    legs = [leg for name, _ in mesh.shape for leg in on.legs[name]]
    return [_stand(legs, indices) for indices in itertools.product(*(range(leg.size) for leg in legs))]


def _stand(legs: Sequence[Leg], indices: Sequence[int]) -> tuple[int, int, int, int]:
    where = [0, 0, 0, 0]
    for leg, index in zip(legs, indices, strict=True):
        where[3 if leg.along == CHIP else leg.along] += index * leg.stride
    return where[0], where[1], where[2], where[3]


# What XLA needs to know of a GPU


@functools.cache
def gpus() -> Mapping[str, Mapping[str, Any]]:
    """Returns the GPUs of which XLA's figures are here, by the names of machines."""
    data = tomllib.loads(_GPUS.read_text())
    return {name: {**data["common"], **figures} for name, figures in data.items() if name != "common"}


def gpu_description(name: str) -> str:
    """Returns what XLA's compiler is told of a GPU: the text of its message `GpuTargetConfigProto`."""
    figures = dict(gpus()[name])
    title, (major, minor, accelerated), (cudnn, *rest) = (figures.pop(key) for key in ("name", "capability", "cudnn"))
    links = figures.pop("active_links", None)
    figures.pop("spec")
    features = "ACCELERATED_FEATURES" if accelerated else "NONE"
    device = [f"{key}: {value}" for key, value in figures.items()]
    device.append(f"cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {features} }}")
    device.append(f'name: "{title}"')
    if links is not None:
        device.append(f"device_interconnect_info {{ active_links: {links} }}")
    return "\n".join(
        [
            "gpu_device_info {",
            *(f"  {line}" for line in device),
            "}",
            'platform_name: "CUDA"',
            f"dnn_version_info {{ major: {cudnn} minor: {rest[0]} patch: {rest[1]} }}",
            f'device_description_str: "{title}"',
        ]
    )
