"""What every layout costs at least, for all of them at once, from the plan that splits nothing.

    compute_bounds    its kernels, each divided by the devices that can share it
    memory_bounds     what is in memory at its peak, each value in as many parts as its dims allow

At most one dim of an operation, or of a value, is on an axis. So each amount is divided axis by axis, and the sum over
all of them is one contraction, with an axis of the result for each mesh axis. What is done or held as parameters are
stored, or as a tag says, may be divided by all devices. Where a scope may be computed otherwise, an axis of any of its
dims may divide it; where there is an axis in time, what has a dim that may be on it may be held for one iteration.
Where there is an axis of stages, these may share all of it; but layers in stages wait for each other at both ends of a
step, as long as a schedule without W apart lets them.
"""

from __future__ import annotations

import math
import string
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from ...engine.code.operations import Operation, walk
from ...engine.planning.step import Step
from ...engine.programs.axis_conflicts import scans_by_scope
from ...engine.specs.scopes import matches
from .extras import Dims, Rules
from .points import SearchSpace
from .pricer import LayoutPrice, multiplies

_ALL: Dims = frozenset()


Amounts = Sequence[tuple[Dims, float]]


def compute_bounds(space: SearchSpace, unsplit: LayoutPrice) -> np.ndarray:
    """Returns the least seconds of kernels, for all points of what is computed: an axis for each mesh axis."""
    return divided(space, kernel_seconds(space, unsplit))


def memory_bounds(space: SearchSpace, unsplit: LayoutPrice) -> np.ndarray:
    """Returns the least bytes at the peak, for all points of what is computed: an axis for each mesh axis."""
    return divided(space, peak_bytes(space, unsplit))


def least_under(space: SearchSpace, amounts: Amounts, rules: Rules) -> float:
    """Returns the sum of amounts that some rules leave to each device: rules that no point of the space may have."""
    sums, others = by_dims(space, amounts)
    split = [(size, {dim for dim, axes in rules.items() if axis in axes}) for axis, size in space.axes.items()]
    return others + sum(a / math.prod(size for size, own in split if own & dims) for dims, a in sums.items())


def kernel_seconds(space: SearchSpace, unsplit: LayoutPrice, *, in_stages: bool = True) -> Amounts:
    """Returns the seconds of kernels of the plan that splits nothing, with the dims that may divide each.

    Args:
        space: the space.
        unsplit: what the plan costs that splits nothing.
        in_stages: whether stages may share them, where there are some: all kernels, and those of layers take turns.
    """
    kernels, extras = unsplit.time.spent.kernels, space.extras
    count = extras.stage_count if in_stages else 1
    waits = _in_layers(space) if count > 1 else frozenset()
    shares = ((extras.ticks if step.computes in waits else 1.0) / count for step, _, _ in kernels)
    each = zip(kernels, shares, strict=True)
    return [(_sharing(space, step), float(times * kernel.seconds) * share) for (step, times, kernel), share in each]


def _in_layers(space: SearchSpace) -> frozenset[Operation]:
    """The operations of the scans that step through layers that may be in stages."""
    by_scope, dims = scans_by_scope(space.program).values(), space.extras.stepped
    scans = [each for found in by_scope for dim, each in found.items() if dim in dims]
    return frozenset(operation for scan in scans for block in scan.blocks for operation in walk(block))


def peak_bytes(space: SearchSpace, unsplit: LayoutPrice, *, in_stages: bool = True) -> Amounts:
    """Returns the bytes at the peak of the plan that splits nothing, with the dims that may divide each value.

    Args:
        space: the space.
        unsplit: what the plan costs that splits nothing.
        in_stages: whether stages may hold parts of them, where there are some.
    """
    held = [(_splitters(space, alive.dims), alive.bytes) for alive in unsplit.memory.at_peak]
    return [(_holding(space, dims), nbytes / _iterations(space, dims, in_stages)) for dims, nbytes in held]


def by_dims(space: SearchSpace, amounts: Amounts) -> tuple[dict[Dims, float], float]:
    """Returns the amount that each set of dims may divide, and what is left on each device of all the others."""
    sums: dict[Dims, float] = defaultdict(float)
    for dims, amount in amounts:
        sums[dims] += amount
    return sums, sums.pop(_ALL, 0.0) / math.prod(space.axes.values())


def _holding(space: SearchSpace, dims: Dims) -> Dims:
    """The dims of which a rule must split one for a value to be held in parts; none where it may be anyway."""
    if _is_elsewhere(space, dims):
        return _ALL
    return dims.union(*(scope.dims for scope in space.extras.scopes.values() if scope.dims & dims))


def _iterations(space: SearchSpace, dims: Dims, in_stages: bool) -> int:
    """The number of parts in which a value may be made one after the other, and be held by stages."""
    extras = space.extras
    times = extras.ways([extras.loop]) if any(own & dims for own in extras.in_time) else 1
    return times * (extras.stage_count if in_stages and dims & extras.stepped else 1)


def divided(space: SearchSpace, amounts: Amounts) -> np.ndarray:
    """Divides amounts by the axes that split one of their dims; those of no dims by all axes."""
    sums, others = by_dims(space, amounts)
    shares = [
        np.array([[1 / size if own & dims else 1.0 for dims in sums] for own in sets]).reshape(len(sets), -1)
        for size, sets in zip(space.axes.values(), space.sets, strict=True)
    ]
    each = string.ascii_lowercase[: len(shares)]
    spelt = ",".join([*(f"{letter}Z" for letter in each), "Z"]) + f"->{each}"
    return np.einsum(spelt, *shares, np.array(list(sums.values())), optimize=True) + others


def _sharing(space: SearchSpace, step: Step) -> Dims:
    """The dims of which a rule must split one for devices to share a step; none where they may share it anyway."""
    operation = step.computes
    if operation is None or operation not in space.program.factor_dims:
        return _ALL
    dims = _splitters(space, (name for _, name in space.program.factor_dims[operation]))
    scopes = space.extras.scopes.items()
    dims = dims.union(*(scope.dims for glob, scope in scopes if matches(glob, operation.scope)))
    return dims if multiplies(operation) or not _is_elsewhere(space, dims) else _ALL


def _splitters(space: SearchSpace, names: Iterable[str | None]) -> Dims:
    """The dims whose rules may split axes of some names."""
    return frozenset(dim for name in names for dim in space.program.splitters(name))


def _is_elsewhere(space: SearchSpace, dims: Dims) -> bool:
    """Whether what has these dims is laid out as parameters are stored, or as a tag says."""
    return dims <= space.parameter_dims | space.tag_dims
