"""Targets that a plan can be compiled for, "v5e:4x4" or "h100:1x1x8", and their names in each compiler.

    target("v5e:4x4", mesh)        # a slice of 4 x 4 TPU v5e
    target("h100:2x8", mesh)       # 2 nodes of 8 H100
    target("v5e", mesh)            # the evenest slice for the mesh: v5e:4x4 for 16 devices

Names of machines are those of `machines/data`. A TPU's shape counts chips by axis of the torus, a GPU's the slices,
hosts and GPUs of a host (leading ones may be left out). The TPU compiler lists two devices for each chip of some
generations, so that `v4:2x2x1` is eight devices.

Nothing here starts a compiler: invalid targets are refused before.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from ...engine.errors import CompilerError, listed
from ...engine.specs.mesh import Mesh
from ..machines.hardware import Hardware, HardwareError, Torus, hardware
from ..machines.placed import Placement
from ..machines.placement import HOST, check_shape, slice_shape

# The TPU compiler's names of generations, and the number of devices that it lists for one chip (libtpu 0.0.42).
_TPUS = {"v2": ("v2", 2), "v3": ("v3", 2), "v4": ("v4", 2), "v5e": ("v5e", 1), "v5p": ("v5p", 1), "v6e": ("v6e", 1)} | {
    "v7x": ("tpu7x", 2)
}
_GPUS = pathlib.Path(__file__).parent / "gpus.toml"


@dataclasses.dataclass(frozen=True)
class Target:
    """A slice of a machine that a compiler knows.

    Attributes:
        name: "v5e:4x4".
        machine: the machine.
        shape: by axis of the torus, in chips; (slices, hosts, GPUs of a host) for GPUs.
        platform: "tpu" or "cuda", in JAX's words.
        topology: the compiler's name of the slice.
        devices: the number that it lists.
        options: further options of the topology.
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
    """Returns the target of a compilation.

    Args:
        name: a machine and a shape, such as "v5e:4x4" or "h100:1x1x8"; a machine alone for its evenest slice; None for
            the slice of the mesh.
        mesh: of the plan.
    """
    if name is None and isinstance(mesh.on, Placement):
        if mesh.on.hardware.name not in {*_TPUS, *gpus()}:
            raise _unknown(mesh.on.hardware)
        name = _name_of(mesh.on)
    if not isinstance(name, str):
        given = "the plan's mesh is on no machine" if name is None else f"compile_for was given {name!r}"
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
            f"The mesh is on {placement}, and the compiler takes one slice. Plan on one of them:"
            f" {placement.hardware.name}:{'x'.join(map(str, placement.shape))}."
        )
    return f"{placement.hardware.name}:{'x'.join(map(str, placement.shape))}"


def _numbers(printed: str, name: str, example: str) -> tuple[int, ...]:
    if "*" in printed:
        raise CompilerError(f"`{name}` has several slices, and the compiler takes one. Compile for one of them.")
    if not re.fullmatch(r"\d+(x\d+)*", printed):
        raise HardwareError(
            f'`{name}` has an invalid shape: it must be numbers with an `x` between them, such as "{example}".'
        )
    return tuple(int(number) for number in printed.split("x"))


def _tpu(machine: Hardware, shape: tuple[int, ...] | None, devices: int) -> Target:
    generation, cores = _TPUS[machine.name]
    assert isinstance(machine.network, Torus)
    # Of a v4 JAX lists one device for a chip, and its compiler two.
    own = machine.devices_per_chip
    if shape is None:
        shape = slice_shape(machine, max(1, devices // cores) * own)
    # A slice with fewer axes than the torus has size 1 along the others.
    shape = (*shape, *(1,) * (len(machine.network.limits) - len(shape)))
    name = f"{machine.name}:{'x'.join(map(str, shape))}"
    check_shape(machine, shape, math.prod(shape) * own)
    _check_devices(name, math.prod(shape) * cores, devices, f" ({cores} on each chip)" if cores > 1 else "")
    host = (*shape, 1)[:3]
    if all(size % least == 0 for size, least in zip(host, HOST, strict=False)):
        return Target(name, machine, shape, "tpu", f"{generation}:{'x'.join(map(str, shape))}", devices)
    if math.prod(shape) > math.prod(HOST):
        raise HardwareError(
            f"There is no slice {name}: hosts have 2 x 2 chips, and a slice of several hosts must have whole ones, with"
            " even first two axes."
        )
    # For part of a host the compiler needs the host's bounds.
    options = {"chips_per_host_bounds": list(host)}
    return Target(name, machine, shape, "tpu", f"{generation}:{'x'.join(map(str, shape))}", devices, options)


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


def _check_devices(name: str, available: int, devices: int, remark: str) -> None:
    if available != devices:
        raise HardwareError(
            f"{name} has {available:,} devices{remark}, and the plan's mesh {devices:,}. Compile for a slice of"
            f" {devices:,} devices, or plan on a mesh of {available:,}."
        )


def device_order(slice_: Target, mesh: Mesh) -> Sequence[tuple[int, ...]] | None:
    """Returns the coordinates of each device of a mesh, row-major: three of its chip, and its number within the chip.

    None where the mesh is not on this slice, or behind switches, where devices are numbered in order.
    """
    on = mesh.on
    if not isinstance(on, Placement) or not on.legs or (on.hardware, on.shape) != (slice_.machine, slice_.shape):
        return None
    return mesh.order


# Descriptions of GPUs for XLA


@functools.cache
def gpus() -> Mapping[str, Mapping[str, Any]]:
    """Returns XLA's figures of GPUs, by the names of machines."""
    data = tomllib.loads(_GPUS.read_text())
    return {name: {**data["common"], **figures} for name, figures in data.items() if name != "common"}


def gpu_description(name: str) -> str:
    """Returns the description of a GPU for XLA's compiler: the text of its message `GpuTargetConfigProto`."""
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
