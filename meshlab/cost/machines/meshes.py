"""Meshes on machines: `ml.mesh`, `ml.lay` and `ml.collective_time`, and the machines and slices that they name.

ml.mesh(data=2, model=4)                          no machine: traffic, but no times
ml.mesh("v5e", data=4, model=4)                   a slice of 16 chips, as even as it can be
ml.mesh("v5p:4x4x8", data=8, model=16)            a slice of this shape
ml.mesh("v5e:2*16x16", data=32, model=16)         two slices, joined by the data-centre network
ml.mesh("h100:4x8", data=4, model=8)              four nodes of eight
ml.mesh("attached", data=8)                       the attached devices, as `meshlab calibrate` measured them
"""

from __future__ import annotations

import math
import numbers
import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...engine.argument_checks import is_whole
from ...engine.axes.axis import Axis
from ...engine.axes.axis_kinds import read_axis
from ...engine.errors import MeshError, MeshlabError, listed, numbered, shown
from ...engine.plans.plan_data import Plan
from ...engine.specs.mesh import Mesh
from .attached import ATTACHED, attached
from .collective_time import seconds
from .hardware import Hardware, HardwareError, hardware
from .placed import AxisPlacement, Placement
from .placement import check_shape, devices_of, place_mesh

# What is proposed where a mesh is on no machine: the first that it fits.
_USUAL = ("v5e", "h100")
# Several axes as Mesh TensorFlow writes them: "x:4,y:2".
_AXES = re.compile(r"\s*\w+:\d+(?:\s*[,;\s]\s*\w+:\d+)+\s*")
_SHAPE = re.compile(r"(?:([0-9]{1,9})\*)?([0-9]{1,9}(?:x[0-9]{1,9})*)\Z")


def mesh(on: Any = None, *unnamed: Any, **axes: int | Axis | Mapping[str, Any]) -> Mesh:
    """Makes a mesh from axis sizes, major first.

    Args:
        on: the machine to place it on: `name` or `name:shape`, as in "v5e", "v5e:4x4", "v5e:2*16x16" (two slices),
            "h100:4x8" (nodes by devices); "attached", the devices here as they were measured; or a `Hardware`. None:
            no machine, and no predicted times.
        unnamed: none may be given: a size without a name is refused.
        axes: name=size of each mesh axis; without any, one device. A size that `ml.serial` makes is that of an axis in
            time, which has no devices. So `mesh(**old.to_dict())`, and what JSON keeps of it, is the old one again.

    Returns:
        The `Mesh`.

    Raises:
        MeshError: a size is not a positive integer, or has no name.
        HardwareError: there is no such machine or slice, or the mesh does not fit it.

    Example:
        >>> str(mesh(data=2, model=4))
        'data=2 × model=4'
        >>> mesh("v5e:4x4", data=4, model=4)
        mesh(data=4, model=4) on Google TPU v5e, 4x4
    """
    is_machine = isinstance(on, str | Hardware)
    if not unnamed and isinstance(on, str) and "=" in on:
        raise MeshError(
            f"ml.mesh() was given {shown(on)}; axes must be keywords, not text: ml.mesh({on.replace(' ', ', ')})."
        )
    if not unnamed and isinstance(on, str) and _AXES.fullmatch(on):
        pairs = re.sub(r"\s*[,;\s]\s*", ", ", on.strip()).replace(":", "=")
        raise MeshError(f"ml.mesh() was given the axes {shown(on)} as a text; they must be keywords: ml.mesh({pairs}).")
    refusals: list[MeshlabError] = []
    if unnamed or not (axes or on is None or is_machine):
        refusals.append(MeshError(_unnamed(on, unnamed)))
    bare = _tried(refusals, lambda: Mesh(tuple((name, read_axis(size)) for name, size in axes.items())))
    if axes or is_machine:
        _tried(refusals, lambda: _known_machine(on))
    if len(refusals) > 1:
        raise type(refusals[0])(f"ml.mesh() was given several invalid arguments:\n{numbered(refusals)}")
    if refusals:
        raise refusals[0]
    if is_machine and not axes and (size := _slice_size(on)) > 1:
        raise MeshError(
            f"ml.mesh() was given {shown(str(on))} and no axes; name them: ml.mesh({shown(on)}, data={size})."
        )
    return bare if on is None else Mesh(bare.shape, placed(on, bare))


def _tried(refusals: list[MeshlabError], make: Callable[[], Any]) -> Any:
    """Returns what `make` returns, or None where it is refused; appends the refusal."""
    try:
        return make()
    except MeshlabError as refusal:
        refusals.append(refusal)
        return None


def _known_machine(on: Any):
    """Refuses an unknown machine, or an invalid slice; attached devices are not looked up."""
    if on is not None and not isinstance(on, Hardware) and (name := slice_of(on)[0]) != ATTACHED:
        hardware(name)


def _slice_size(on: Any) -> int:
    """The number of devices of the slice in a name; 1 where it has none."""
    shape, count = machine_and_slice(on)[1:] if isinstance(on, str) and ":" in on else (None, 1)
    return math.prod(shape or ()) * count


def _unnamed(on: Any, unnamed: Sequence[Any]) -> str:
    """The message for axes that were given without names: how to write them."""
    machine = isinstance(on, str | Hardware)
    given = [*unnamed] if machine or on is None else [on, *unnamed]
    sizes = list(given[0]) if len(given) == 1 and isinstance(given[0], tuple | list) else given
    arguments, first = ", ".join(map(shown, given)), f'"{on}", ' if machine else ""
    if len(given) == 1 and isinstance(given[0], Mesh):
        return (
            f"ml.mesh() was given the mesh {given[0]}, which is one already; ml.lay(mesh, ...) places it on a machine."
        )
    if len(given) == 1 and isinstance(given[0], Mapping):
        return f"ml.mesh() was given the dict {arguments}; write its axes as keywords: ml.mesh(**{arguments})."
    named = ("data", "model", "expert") if len(sizes) <= 3 and all(map(is_whole, sizes)) else ()
    write = ", ".join(f"{name}={size}" for name, size in zip(named, sizes, strict=False)) or "data=2, model=4"
    return (
        f"ml.mesh() was given {arguments} without a name. Each mesh axis has one: write ml.mesh({first}{write}). A"
        ' machine may come first: ml.mesh("v5e:4x4", data=4, model=4).'
    )


def lay(mesh: Mesh, on: str | Hardware | None = None, /, **along: AxisPlacement) -> Mesh:
    """Chooses which axis of the torus each mesh axis runs along, or whether inside or across nodes.

    Args:
        mesh: the mesh.
        on: the machine, as in `mesh`; None for the mesh's own.
        along: for mesh axes, the axis of the slice that they are placed on, or several, major first (`model=0`,
            `data=(1, 2)`); behind switches "inside" a node, wholly, or "across" as many nodes as there are. All others
            are derived.

    Raises:
        HardwareError: `mesh` is not a mesh or is on no machine, there is no such machine or slice, or the placement is
            invalid.

    Example:
        >>> lay(mesh("v5e:4x4", data=4, model=4), model=0).on.describe("model")
        '4 along axis 0, a line'
    """
    _check_mesh(mesh, "ml.lay")
    along = {name: operator.index(where) if isinstance(where, np.integer) else where for name, where in along.items()}
    if on is not None:
        return Mesh(mesh.shape, placed(on, mesh, along))
    if not isinstance(mesh.on, Placement):
        raise HardwareError(f"The mesh {mesh} is on no machine. {_write_machine(mesh)}")
    old = mesh.on
    return Mesh(mesh.shape, place_mesh(old.hardware, old.shape, mesh, count=old.count, requested=along))


def machine_of(mesh: Mesh, wanted: str, write: str = "") -> Placement:
    """Returns the placement of a mesh on its machine; refuses a mesh on none.

    Args:
        mesh: the mesh.
        wanted: the function that needs it, for the error.
        write: the function that takes a machine's name, where that is not `ml.mesh`.
    """
    _check_mesh(mesh, wanted)
    if isinstance(mesh.on, Placement):
        return mesh.on
    raise HardwareError(f"{wanted} needs a machine, and the mesh {mesh} is on none. {_write_machine(mesh, write)}")


def _write_machine(mesh: Mesh, write: str = "") -> str:
    """Says how a mesh is placed on a machine that it fits, and on the devices here; see `machine_of` for `write`."""
    arguments = [""] if write or not mesh.shape else ["", mesh.sources]
    names = (*machines_for(mesh)[:1], ATTACHED)
    calls = [f"""{write or "ml.mesh"}("{name}"{", ".join(arguments)})""" for name in names]
    return f"Write {', say, or '.join(calls)} for the devices here."


def machines_for(mesh: Mesh) -> list[str]:
    """Returns usual machines that a mesh fits, each with its slice: "v5e:2x4"."""
    return [written for name in _USUAL for written in _fitting(name, hardware(name), mesh, {})]


def _check_mesh(mesh: Any, wanted: str):
    if not isinstance(mesh, Mesh):
        raise HardwareError(f'{wanted} was given {shown(mesh)}, and needs a mesh: ml.mesh("v5e:4x4", data=4, model=4).')


def check_plan(plan: Any, wanted: str):
    """Refuses anything but a plan; the error names `wanted`, the function that needs it."""
    if not isinstance(plan, Plan):
        raise HardwareError(f"{wanted} was given {shown(plan)}, and needs a plan: program.plan(mesh, layout).")


def placed(on: Any, mesh: Mesh, along: dict[str, AxisPlacement] | None = None) -> Placement:
    """Returns the placement of a mesh on a machine; see `lay`."""
    machine, shape, count = machine_and_slice(on, mesh.size)
    try:
        return place_mesh(machine, shape, mesh, count=count, requested=along or {})
    except HardwareError as error:
        if shape is None:
            raise
        slices = [f"`{each}`" for each in _fitting(slice_of(on)[0], machine, mesh, along or {})]
        fitting = slices + _sizes_for(machine, shape, count, mesh)
        raise HardwareError(f"{error}{' Take ' * bool(fitting)}{', or '.join(fitting)}{'.' * bool(fitting)}") from None


def _fitting(name: str, machine: Hardware, mesh: Mesh, along: dict[str, AxisPlacement]) -> list[str]:
    """The slice that would fit a mesh, if there is one."""
    try:
        return [f"{name}:{place_mesh(machine, None, mesh, requested=along).slice}"]
    except HardwareError:
        return []


def _sizes_for(machine: Hardware, shape: Sequence[int], count: int, mesh: Mesh) -> list[str]:
    """The mesh sizes that would fill a slice with another number of devices, if there is such a slice."""
    there = devices_of(machine, shape, count)
    try:
        check_shape(machine, shape, there, count)
    except HardwareError:
        return []
    return [f"mesh sizes whose product is {there:,}"] if there != mesh.size else []


def machine_and_slice(on: Any, devices: int | None = None) -> tuple[Hardware, tuple[int, ...] | None, int]:
    """Returns a machine, the shape of a slice if it is given, and the number of slices; see `slice_of`.

    Args:
        on: a name, with a shape or without, "attached", or a `Hardware`.
        devices: of the mesh, if they are known.
    """
    if isinstance(on, Hardware):
        return on, None, 1
    name, shape, count = slice_of(on)
    return attached(devices) if name == ATTACHED else hardware(name), shape, count


def slice_of(on: Any) -> tuple[str, tuple[int, ...] | None, int]:
    """Parses a machine and slice: the machine's name, the shape of a slice if it is given, and the number of slices.

    Example:
        >>> slice_of("v5e:2*16x16")
        ('v5e', (16, 16), 2)
    """
    if not isinstance(on, str):
        raise HardwareError(
            f"A mesh must be placed on a machine's name, such as `v5e:4x4`, or a Hardware, not {shown(on)}."
        )
    name, colon, text = on.partition(":")
    if not colon:
        return name, None, 1
    shape = _SHAPE.match(text)
    if shape is None:
        long = " A number in it has more than nine digits." if re.search("[0-9]{10}", text) else ""
        raise HardwareError(
            f"`{text}` in `{on}` is an invalid shape.{long} Write sizes with an x between them, and several slices"
            " ahead of it: `v5e:4x4`, `v5e:2*16x16`, `h100:4x8`."
        )
    count, sizes = shape.groups()
    return name, tuple(map(int, sizes.split("x"))), int(count or 1)


def collective_time(kind: str, nbytes: float, mesh: Mesh, axes: str | Sequence[str]) -> float:
    """Returns the predicted seconds of one collective, by the function that plans use.

    Where the TPU compiler would substitute an all-reduce, `plan.time` counts that, and says so; this function does not.

    Args:
        kind: "all-reduce", "all-gather", "reduce-scatter", "all-to-all" or "collective-permute".
        nbytes: bytes of the full array, unsharded along `axes`.
        mesh: a mesh on a machine.
        axes: the mesh axis, or several, major first.

    Raises:
        HardwareError: the mesh is on no machine, there is no such kind or axis, an axis is in time or is named twice,
            `nbytes` is not a number of bytes, or the machine has no figure for a network that is crossed.

    Example:
        >>> round(collective_time("all-gather", 2 * 4096 * 8192, mesh("v5p:4x4x4", data=16, model=4), "model") * 1e6, 1)
        279.6
    """
    over = (axes,) if isinstance(axes, str) else tuple(axes) if isinstance(axes, tuple | list) else ()
    if not over or not all(isinstance(axis, str) for axis in over):
        raise HardwareError(
            f'`axes` must be the name of a mesh axis, or several, ("data", "model"), not {shown(axes)}.'
        )
    if len(set(over)) < len(over):
        raise HardwareError(f"`axes` must name each mesh axis once, not {listed(over)}.")
    is_number = isinstance(nbytes, numbers.Real) and not isinstance(nbytes, bool)
    if not is_number or not 0 <= nbytes <= sys.float_info.max:
        raise HardwareError(
            f"`nbytes` must be the bytes of the full array, a finite number, 0 or more, not {shown(nbytes)}."
        )
    if isinstance(axes, str) and "+" in axes:
        names = ", ".join(f'"{axis}"' for axis in axes.split("+"))
        raise HardwareError(f"`axes` must be written ({names}), not {shown(axes)}.")
    placement = machine_of(mesh, "ml.collective_time")
    if in_time := [axis for axis in over if axis in mesh.in_time]:
        raise HardwareError(
            f"`{in_time[0]}` is {mesh.in_time[in_time[0]].noun}: its blocks meet on one device, and nothing is sent"
            f" over it. Give axes of devices: {listed(mesh.devices.axes)}."
        )
    return seconds(kind, nbytes, placement, over)
