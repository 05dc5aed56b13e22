"""Checks the varying arguments of a sweep: machines and sizes, before any array is made of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ..api.stages import Plan
from ..cost.machines.hardware import HardwareError
from ..cost.workload.scenario import together
from ..engine.argument_checks import is_whole
from ..engine.errors import closest, listed, shown

ON = "on"
UNEVEN = "is not divided by"
# Dims, each with the mesh axes that split it.
Splits = list[tuple[str, tuple[str, ...]]]
# A point takes 1.5 kB of memory and 12 µs (measured on the README's step, with 250 thousand and with a million points).
MOST_POINTS = 10_000_000
# The greatest integer of NumPy.
_LARGEST = np.iinfo(np.int64).max


def values_of(plan: Plan, on: Any, varied: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Returns the checked values of each varying argument, by name; machines, if they vary, first."""
    check_names(plan, varied)
    machines = on if isinstance(on, list | tuple) else [on]
    _check_points({ON: machines, **varied})
    values_by_name: dict[str, tuple[Any, ...]] = {} if on is None else {ON: tuple(machines)}
    problems = [] if machines else ["`on` was given no machine"]
    if any(machine in machines[:i] for i, machine in enumerate(machines)):
        problems.append(f"`on` was given {shown(on)}, in which a machine appears twice")
    for name, sizes in varied.items():
        values = _array(sizes)
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu" or values.min() < 1:
            is_large = any(is_whole(size) and size > _LARGEST for size in _members(sizes))
            most = f", and a size is at most {_LARGEST:,}" if is_large else ""
            problems.append(f"`{name}` was given {shown(sizes)}{most}")
        elif len(set(values.tolist())) < len(values):
            problems.append(f"`{name}` was given {shown(sizes)}, in which a size appears twice")
        elif name in plan.mesh.in_time and plan.mesh.axes[name] == 1:
            problems.append(
                f"the serial axis `{name}` has one iteration, so there is no loop: plan it with ml.serial(2)"
            )
        elif name in plan.mesh.axes and plan.mesh.axes[name] == 1:
            problems.append(f"the mesh axis `{name}` has one device, so it shards nothing: plan it with 2")
        elif name in plan.grid.uneven:
            problems.append(
                f"`{name}` has layers={plan.grid.uneven[name]}, a number for each stage: make a plan for each size"
            )
        elif uneven_on := [axis for axis in plan.rules.compute.get(name, ()) if axis in plan.grid.uneven]:
            problems.append(
                f"`{name}` is on stages that have layers={plan.grid.uneven[uneven_on[0]]}: make a plan for each size"
            )
        elif plan.program.dims.get(name) == 0:
            problems.append(f"`{name}` has size 0 in this program, so no other size can scale with it: trace it with 1")
        same = [other for other in values_by_name if name != other and name in together(plan.program, {other: 0})]
        if same:
            problems.append(
                f"`{name}` is as long as {listed(same)}, which is renamed to it or from it: vary one of them"
            )
        values_by_name[name] = tuple(values.tolist())
    if problems:
        raise HardwareError(
            f"Invalid variation: {'; '.join(problems)}. Give positive integers, batch=[8, 16, 32], and machines,"
            f' {ON}=["v5e", "h100"].'
        )
    return values_by_name


def _check_points(varied: Mapping[str, Any]):
    """Refuses more points than memory has room for, before any is made."""
    counts = {name: count for name, sizes in varied.items() if (count := _count(sizes)) > 1}
    points = math.prod(counts.values())
    if points > MOST_POINTS:
        factors = " × ".join(f"{count:,} of `{name}`" for name, count in counts.items())
        raise HardwareError(
            f"ml.sweep takes at most {MOST_POINTS:,} points, not {points:,} ({factors}): each needs about"
            " 1,500 bytes of memory. Vary fewer things, or give fewer sizes: batch=[8, 16, 32]."
        )


def _count(sizes: Any) -> int:
    """The number of given sizes; makes no list of them."""
    if isinstance(sizes, range):  # whose len() knows only what an index can be
        return max(0, -((sizes.start - sizes.stop) // sizes.step))
    return len(_members(sizes))


def _members(sizes: Any) -> Collection[Any]:
    return sizes if isinstance(sizes, list | tuple | range) or getattr(sizes, "ndim", 0) else (sizes,)


def _array(sizes: Any) -> np.ndarray:
    """Given sizes as an array; an empty one of floats, if they are no integers."""
    if isinstance(sizes, range | list | tuple) and not all(map(is_whole, sizes)):
        return np.empty(0)
    try:
        return np.atleast_1d(np.asarray(sizes))
    except (ValueError, TypeError):  # no array can be made of it
        return np.empty(0)


def check_names(plan: Plan, varied: Collection[str]):
    """Refuses names that are no dims of a plan and no axes of its mesh, and dims of size 0."""
    empty = [name for name in varied if plan.program.dims.get(name) == 0]
    if empty:
        raise HardwareError(
            f"{listed(empty)} has size 0 in this program, so no other size can scale with it: trace it with 1."
        )
    known = (*plan.program.dims, *plan.mesh.axes)
    unknown = [str(name) for name in varied if name not in known]
    if unknown:
        raise HardwareError(
            f"There is no dim and no mesh axis {listed(unknown)}.{closest(unknown[0], known)} There are"
            f" {listed(known)}."
        )


def splits_of(plan: Plan) -> Splits:
    """Returns the dims that the layout shards and the plan does not pad, each with their mesh axes, at any place."""
    splits = set()
    for rules in (plan.layout.rules, *plan.layout.places.values()):
        for name, axes in rules.items():
            dim, split = name.removesuffix("?"), tuple(axes or ())
            is_split = split and all(axis in plan.mesh.axes and axis not in plan.grid.uneven for axis in split)
            if is_split and dim in plan.program.dims and plan.program.dims[dim] not in plan.grid.padded:
                splits.add((dim, split))
    return sorted(splits)


def uneven(splits: Splits, sizes: Mapping[str, int], axes: Mapping[str, int]) -> str:
    """Says which dims of these sizes their mesh axes do not divide; "" where they divide all."""
    ways = ((dim, split, math.prod(axes[axis] for axis in split)) for dim, split in splits)
    wrong = [f"`{dim}` of {sizes[dim]} {UNEVEN} {n} ({'+'.join(split)})" for dim, split, n in ways if sizes[dim] % n]
    return "; ".join(wrong) + "." if wrong else ""
