"""What a step may take, for all points of a large space at once, from plans that split one mesh axis alone.

A hundred plans, each of which splits what one mesh axis may split, tell how much of each kernel that leaves, and which
values are partial sums along the axis. Both follow from the dims of an operation on that axis alone. So in a point of
several axes a kernel takes the product of what they leave, and a value is summed along those axes along which it is
partial, as far as the others split it. These are arrays over all points, and so are

    waited      kernels, and the sums of activations, for which kernels wait
    busy        the seconds of each link: all sums, those of gradients too, whose parameters are gathered again; these
                begin behind the kernels of the forward pass

The larger of the two is the estimate. What is sent otherwise, and for what is partly known, is in none of it: this is
no bound, and proves nothing. It says where to look first (`search.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...cost.step_time.links import links_of
from ...cost.workload.scenario import Scenario
from ...engine.collectives.kinds import Kind
from ...engine.planning.step_keys import Key
from .extras import Dims
from .points import Point, SearchSpace
from .pricer import LayoutPrice, Pricer, multiplies

# Kernels that are told apart: by their dims, and whether they are matmuls of the forward pass.
_Kind = tuple[Dims, bool]


@dataclasses.dataclass
class _Summed:
    """A value that is a partial sum.

    Attributes:
        partial: for each mesh axis whether it is, for each set of dims.
        seconds: of all its sums in a step: two of each mesh axis, without it and with.
        waited: whether kernels wait for them.
    """

    partial: list[np.ndarray]
    seconds: np.ndarray
    waited: bool


@dataclasses.dataclass
class _Singles:
    """What plans tell that split one axis alone.

    Attributes:
        kernels: what is left of the seconds of kernels, for each mesh axis for each set of dims.
        summed: what is summed, by value and collective.
    """

    kernels: dict[_Kind, list[np.ndarray]]
    summed: dict[tuple[int, Kind], _Summed]


def estimates(
    space: SearchSpace, pricer: Pricer, unsplit: LayoutPrice, kernels: np.ndarray, is_over: Callable[[], bool]
) -> np.ndarray:
    """Returns the seconds that a step may take, for all points of what is computed: an axis for each mesh axis.

    Args:
        space: the space.
        pricer: of the program, on a machine.
        unsplit: what the plan costs that splits nothing.
        kernels: the least seconds of kernels, of the same points: all that is returned where the time is over.
        is_over: whether the time is over: it is asked before each plan.
    """
    singles, placement = _singles(space, pricer, unsplit, is_over), unsplit.scenario.placements[0]
    if singles is None:
        return kernels
    links = [links_of(placement, axis) for axis in space.axes]
    waited, forward = np.zeros_like(kernels), np.zeros_like(kernels)
    for (dims, is_forward), whole in _kernels(unsplit).items():
        each = functools.reduce(np.multiply.outer, singles.kernels[dims, is_forward]) * whole
        waited += each
        forward += each if is_forward else 0.0
    waited = np.maximum(waited, kernels)
    busy = {link: forward.copy() for link in frozenset().union(*links)}
    for (value, _), summed in singles.summed.items():
        ways = _ways(space, frozenset(filter(None, space.program.dims_of(value))), summed)
        if summed.waited:
            waited += _at_all(summed.seconds, ways)
        for link in busy:
            used = functools.reduce(np.logical_or.outer, [np.array([False, link in own]) for own in links])
            busy[link] += _at_all(np.where(used, summed.seconds, 0.0), ways)
    return functools.reduce(np.maximum, busy.values(), waited)


def _singles(space: SearchSpace, pricer: Pricer, unsplit: LayoutPrice, is_over: Callable[[], bool]) -> _Singles | None:
    """Plans each set of dims on the first axis that may split it; None where the time is over before that."""
    axes = tuple(space.axes)
    whole = _kernels(unsplit)
    singles = _Singles({kind: [np.zeros(len(sets)) for sets in space.sets] for kind in whole}, {})
    for own in dict.fromkeys(own for sets in space.sets for own in sets):
        if is_over():
            return None
        where = [(i, sets.index(own)) for i, sets in enumerate(space.sets) if own in sets]
        first = where[0][0]
        computed = tuple(own if i == first else frozenset[str]() for i in range(len(axes)))
        stored = next(one for one in space.storages(computed) if {*one.over} <= {axes[first]})
        price = pricer.price(space.layout(Point(computed, stored)))
        if price is None:
            continue
        of_each = _kernels(price)
        for (kind, each), (i, number) in itertools.product(singles.kernels.items(), where):
            share = (1 - of_each.get(kind, 0.0) / whole[kind]) / (1 - 1 / space.axes[axes[first]])
            each[i][number] = 1 - min(1.0, max(0.0, share)) * (1 - 1 / space.axes[axes[i]])
        _add_sums(singles, space, price, where)
    return singles


def _kernels(price: LayoutPrice) -> Mapping[_Kind, float]:
    program, found = price.plan.program, defaultdict[_Kind, float](float)
    for step, times, kernel in price.time.spent.kernels:
        operation = step.computes
        names = program.factor_dims.get(operation, ()) if operation else ()
        dims = frozenset(dim for _, name in names for dim in program.splitters(name))
        is_forward = operation is not None and multiplies(operation) and not operation.backward
        found[dims, is_forward] += float(times * kernel.seconds)
    return {kind: seconds for kind, seconds in found.items() if seconds}


def _add_sums(singles: _Singles, space: SearchSpace, price: LayoutPrice, where: Sequence[tuple[int, int]]):
    """Adds what a plan sums; `where` has the axes, and the number of its set of dims on each."""
    seconds = defaultdict[tuple[int, Kind], float](float)
    rows = ((step, step.collective, times) for step, times, _ in price.time.spent.rows)
    moves = [(via, *step.reads({})[0], times) for step, via, times in rows if via is not None]
    for via, value, _, times in moves:
        if via.kind.sums:
            # A gradient that is summed in shards comes back as the parameter that is gathered of it.
            comes_back = via.kind.cuts and price.is_parameter(value)
            seconds[value, via.kind] += float(times) * (2 if comes_back else 1)
    for via, value, start, _ in moves:
        key = value, via.kind
        if not seconds.get(key):
            continue
        if key not in singles.summed:
            each = _seconds(price.scenario, (value, start), via.kind, tuple(space.axes)) * seconds[key]
            singles.summed[key] = _Summed([np.zeros(len(s)) for s in space.sets], each, not price.is_parameter(value))
        for i, number in where:
            singles.summed[key].partial[i][number] = 1.0


def _seconds(scenario: Scenario, key: Key, kind: Kind, axes: tuple[str, ...]) -> np.ndarray:
    """The seconds to sum a whole value along some of the axes: two of each, without it and with."""
    nbytes, found = scenario.nbytes(key), np.zeros((2,) * len(axes))
    for ways in itertools.product((0, 1), repeat=len(axes)):
        if over := tuple(itertools.compress(axes, ways)):
            found[ways] = scenario.seconds(kind, over, nbytes)
    return found


def _ways(space: SearchSpace, dims: Dims, summed: _Summed) -> list[np.ndarray]:
    """For each axis, for each set of dims on it, what is left of a value if it is not summed along it, and if it is.

    Gradients may be stored in shards along any axis.
    """
    left = [
        np.array([1 / size if own & dims or not summed.waited else 1.0 for own in sets])
        for size, sets in zip(space.axes.values(), space.sets, strict=True)
    ]
    return [np.stack([(1 - own) * rest, own]) for own, rest in zip(summed.partial, left, strict=True)]


def _at_all(seconds: np.ndarray, ways: Sequence[np.ndarray]) -> np.ndarray:
    """Adds up over both ways of each axis, for all points."""
    for own in ways:
        seconds = np.tensordot(seconds, own, ([0], [0]))
    return seconds
