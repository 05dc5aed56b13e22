"""Scenarios: the sizes and machines at which a plan is costed, one of each or many at once.

    at_plan_sizes(plan)                         the plan's own sizes, on the machine of its mesh
    Scenario(plan, dims={"batch": array}, …)    other sizes, as arrays: then every figure is an array

A plan's steps do not depend on the sizes of its dims and mesh axes; only their costs do. So all costs are computed from
the local shapes of a scenario, which are numbers or NumPy arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ...engine.attention.scores import Scores
from ...engine.code.loops import carried, trip_count
from ...engine.code.operations import Operation, item_bytes, walk
from ...engine.collectives.kinds import ALL_REDUCE, Kind
from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key
from ...engine.plans.plan_data import Plan
from ...engine.programs.program import Program, analysis
from ...engine.specs.spec import Axes, Spec
from ..machines.collective_time import Rate, rate
from ..machines.hardware import Hardware
from ..machines.meshes import machine_of
from ..machines.placed import Placement
from ..machines.xla_substitutes import most_summed
from .attention import CAUSAL, STORED, as_run, fusable, supposed
from .causal_masks import unmasked
from .dataflow import local_shapes
from .expert_places import grown
from .linear import AS_WRITTEN, FP8_DTYPE, Linear, linear_matmuls, require_fp8
from .options import USUAL, Options

# A number, or an array of numbers: one for each point.
Numbers = Any
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class Scenario:
    """The sizes, machines and options at which a plan is costed.

    Attributes:
        plan: the plan.
        dims: sizes of the changed dims, by name.
        grid: sizes of all mesh axes.
        placements: the placements of the mesh on machines.
        which: for each point the position of its placement; None for one placement.
        options: assumptions about the run.
        blocks: a cache of analyses of the plan's blocks that hold at all sizes, for scenarios of one plan to share.
    """

    plan: Plan
    dims: Mapping[str, Numbers]
    grid: Mapping[str, Numbers]
    placements: tuple[Placement, ...]
    which: np.ndarray | None = None
    options: Options = USUAL
    blocks: dict[Any, Any] = dataclasses.field(default_factory=dict, repr=False)
    _known: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.options.linear != AS_WRITTEN:
            require_fp8(placement.hardware for placement in self.placements)

    @property
    def has_plan_sizes(self) -> bool:
        return not self.dims and self.grid is self.plan.grid

    @functools.cached_property
    def many(self) -> bool:
        """Whether there are many points, so that figures are arrays."""
        return self.which is not None or any(
            isinstance(size, np.ndarray) for size in (*self.dims.values(), *self.grid.values())
        )

    # The machine

    @property
    def platform(self) -> str:
        """The platform of the machines: "tpu", "gpu" or "cpu"."""
        return self.placements[0].hardware.platform

    def of_machine(self, figure: Callable[[Placement], float]) -> Numbers:
        """Returns a figure of the machine at each point."""
        figures = [figure(placement) for placement in self.placements]
        return figures[0] if self.which is None else np.array(figures)[self.which]

    def of_hardware(self, figures: Callable[[Hardware], Numbers]) -> Numbers:
        """Returns a figure at each point; `figures` gives those of one machine at all points."""
        if self.which is None:
            return figures(self.placements[0].hardware)
        each = {id(p.hardware): p.hardware for p in self.placements}
        told = {key: figures(machine) for key, machine in each.items()}
        *rows, which = np.broadcast_arrays(*(told[id(p.hardware)] for p in self.placements), self.which)
        return np.take_along_axis(np.stack(rows), which[None], axis=0)[0]

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Returns what `make` returns; at a single point it is called once for each key."""
        if self.many:
            return make()
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    @functools.cached_property
    def bytes_per_second(self) -> Numbers:
        """The bandwidth that a device's memory reaches."""
        return self.of_machine(lambda p: p.hardware.bytes_per_second * p.hardware.efficiency.memory.value)

    @functools.cached_property
    def launch(self) -> Numbers:
        """Seconds to launch a kernel."""
        return self.of_machine(lambda p: p.hardware.efficiency.launch.value)

    def matmul_base(self, dtype: Any) -> Numbers:
        """Returns the seconds that any matmul takes beside what it multiplies and moves, where that is known."""
        key = ("base", str(dtype))
        if key not in self._known:
            self._known[key] = self.of_hardware(lambda machine: _base(machine, dtype))
        return self._known[key]

    @functools.cached_property
    def overlap(self) -> Numbers:
        """By what part of its time a kernel takes longer while a collective runs beside it."""
        return self.of_machine(lambda p: getattr(p.hardware.efficiency.overlap, "value", 0.0))

    def flops_per_second(self, dtype: Any) -> Numbers:
        """Returns the FLOP/s that a device reaches in large matmuls in a dtype."""
        key = ("flops", str(dtype))
        if key not in self._known:
            self._known[key] = self.of_machine(
                lambda p: p.hardware.flops_per_second(dtype) * p.hardware.matmul_share(dtype).value
            )
        return self._known[key]

    def seconds(self, kind: Kind, axes: Sequence[str], nbytes: Numbers) -> Numbers:
        """Returns the seconds of a collective, or of its substitute, for a full array of `nbytes`."""
        most, as_asked, substitute = self._rates(kind, tuple(axes))
        if not np.any(most):
            return as_asked.seconds(nbytes)
        if isinstance(most, np.ndarray) or isinstance(nbytes, np.ndarray):
            return np.where(nbytes <= most, substitute.seconds(nbytes), as_asked.seconds(nbytes))
        return (substitute if nbytes <= most else as_asked).seconds(nbytes)

    def seconds_of(self, kind: Kind, axes: Sequence[str], operand: Numbers) -> Numbers:
        """Returns the seconds of a collective by the bytes of its operand on one device."""
        return self.seconds(kind, axes, operand * self.ways(axes) if kind.shard else operand)

    def _rates(self, kind: Kind, axes: tuple[str, ...]) -> tuple[Numbers, Rate, Rate]:
        """The most bytes for which an all-reduce substitutes a collective, its own rate, and the all-reduce's."""
        key = ("rates", kind, axes)
        if key not in self._known:
            most = 0 if self.options.book else self.of_machine(lambda p: most_summed(kind, p, axes))
            self._known[key] = most, self._rate(kind, axes), self._rate(ALL_REDUCE, axes)
        return self._known[key]

    def _rate(self, kind: Kind, axes: tuple[str, ...]) -> Rate:
        rates = [rate(kind, placement, axes, book=self.options.book) for placement in self.placements]
        return rates[0] if self.which is None else _joined(rates, self.which)

    # Sizes

    def ways(self, axes: Sequence[str]) -> Numbers:
        """Returns the number of devices along mesh axes."""
        return math.prod(self.grid[axis] for axis in axes)

    def local(self, key: Key) -> tuple[Numbers, ...]:
        """Returns the shape of one device's shard of a value."""
        if key not in self._known:
            self._known[key] = self._local(*key)
        return self._known[key]

    def nbytes(self, key: Key) -> Numbers:
        """Returns the bytes of one device's shard of a value."""
        known = ("bytes", key)
        if known not in self._known:
            each = item_bytes(self.plan.program.code.dtypes[key[0]])
            self._known[known] = 0 if self.is_score(key[0]) else math.prod(self.local(key)) * each
        return self._known[known]

    def is_score(self, value: int) -> bool:
        """Returns whether a value is among the scores of attention, and a fused kernel computes them."""
        return self.attention != STORED and value in self._scores

    @functools.cached_property
    def attention(self) -> str:
        """How attention is run: "stored", "flash" or "causal"."""
        return as_run(self.options.attention, self.platform, self.plan)

    @functools.cached_property
    def _scores(self) -> Mapping[int, Scores]:
        return fusable(self.plan)

    def linear(self, operation: Operation) -> Linear | None:
        """Returns what is known of a linear matmul that is computed in 8 bits; None of any other operation."""
        return None if self.options.linear == AS_WRITTEN else linear_matmuls(self.plan.program).get(operation)

    def dtype_of(self, operation: Operation, dtype: Any) -> Any:
        """Returns the dtype in which an operation of a dtype multiplies."""
        return dtype if self.linear(operation) is None else FP8_DTYPE

    def shown(self, operation: Operation, step: Step) -> Numbers:
        """Returns the share of an operation's scores that no causal mask hides, on the device that has most of them."""
        found = self.masked(operation)
        if found is None:
            return 1.0
        if self.options.balanced:
            return 0.5
        value, dims = found
        borders = (zip(*border, strict=True) for border in (step.read(), step.made()))
        spec = next(spec for border in borders for each, spec in border if each == value and spec is not None)
        axes = dict(zip(self.plan.program.names[value], spec.splits, strict=True))
        rows, columns = (self.ways(axes.get(dim, ())) for dim in dims)
        return unmasked(rows, columns)

    def masked(self, operation: Operation) -> tuple[int, tuple[str, str]] | None:
        """Returns a value of an operation from which a causal mask hides scores, with the dims of queries and keys."""
        dims = supposed(self.plan.program) if self.attention == CAUSAL else {}
        hidden = (value for value in (*operation.reads, *operation.outputs) if self._scores.get(value) in dims)
        value = next(hidden, None)
        return None if value is None else (value, dims[self._scores[value]])

    def trip_count(self, operation: Operation, times: int) -> Numbers:
        """Returns the trip count of a loop, which is `times` at the plan's own sizes."""
        program = self.plan.program
        if operation.name != "scan" or not self.dims:
            return times
        count, length = carried(operation), trip_count(operation) or times
        stacked = (*operation.inputs[count:], *operation.outputs[count:])
        names = (program.names[v][0] for v in stacked if isinstance(v, int) and program.code.shapes[v][:1] == (length,))
        sizes = (self._size(name, length) for name in names if name is not None)
        # A stage of a pipeline has its share of the layers.
        return next((size if times == length else size * times / length for size in sizes), times)

    def _local(self, value: int, spec: Spec) -> tuple[Numbers, ...]:
        program = self.plan.program
        shape = program.code.shapes[value]
        if self.has_plan_sizes:
            return local_shapes(program, self.plan.grid)[value, spec]
        sizes = []
        for name, size, split in zip(program.names[value], shape, spec.splits, strict=True):
            whole = self._size(name, size)
            if split and split[0] in self.plan.grid.uneven:  # whose own numbers of layers are not varied
                sizes.append(max(self.plan.grid.uneven[split[0]]))
                continue
            if split and size in self.plan.grid.padded:
                parts = self._parts(size, split)
                whole = np.ceil(whole / parts) * parts
            sizes.append(whole / self.ways(split) if split else whole)
        return tuple(sizes)

    def _parts(self, size: int, split: Axes) -> Numbers:
        """The number that padded dims of a size are multiples of: the least common one of their numbers of parts."""
        in_time = self.plan.mesh.in_time
        if split[0] in in_time:
            return self.ways(split)
        key = ("parts", size)
        if key not in self._known:
            rules, dims = self.plan.rules, self.plan.program.dims
            splits = {axes for each in rules.every for dim, axes in each.items() if axes and dims.get(dim) == size}
            splits = {axes for axes in splits if axes[0] not in in_time}
            self._known[key] = functools.reduce(np.lcm, map(self.ways, splits), 1)
        return self._known[key]

    def _size(self, name: str | None, size: int) -> Numbers:
        """The size of an axis with a name, where dims have other sizes than the plan's own."""
        key = ("size", name, size)
        if name is None or not self.dims:
            return size
        if key not in self._known:
            self._known[key] = self._changed(name, size)
        return self._known[key]

    def _changed(self, name: str, size: int) -> Numbers:
        scaled: Numbers = size
        for part in name.split("*"):
            dim = self._source_dim(part)
            if dim is None:
                continue
            before, after = self.plan.program.dims[dim], self.dims[dim]
            if "." in part and not part.endswith(".0"):
                continue  # minor parts keep their size: the major part grows
            if "*" not in name and "." not in part and size != before and before % size and size % before:
                return size + (after - before)  # a slice or a padding of it
            scaled = scaled * (after / before)
        return scaled

    def _source_dim(self, name: str) -> str | None:
        """The changed dim with which the size of a name scales: `seq` for `seq.0`, `~seq` and `~seq_2`."""
        stem = name.split(".", maxsplit=1)[0]
        candidates = (stem,) if not stem.startswith("~") else (stem[1:], re.sub(r"_\d+$", "", stem[1:]))
        return next((dim for dim in candidates if dim in self.dims), None)


def _base(machine: Hardware, dtype: Any) -> float:
    kernels = machine.kernels(dtype)
    return kernels.base.value if kernels else 0.0


def _joined(rates: Sequence[Rate], which: np.ndarray) -> Rate:
    """Returns the rates of several placements as one, whose figures are arrays, one for each point."""
    ways = [(each, *each.others) for each in rates]
    most = max(map(len, ways))
    # A placement with fewer ways than another has its first one several times: the fastest is the same.
    columns = zip(*(way + way[:1] * (most - len(way)) for way in ways), strict=True)
    first, *others = (_stacked(column, which) for column in columns)
    return dataclasses.replace(first, others=tuple(others))


def _stacked(rates: Sequence[Rate], which: np.ndarray) -> Rate:
    figures = [(rate.latency, rate.seconds_per_byte, rate.overlaps) for rate in rates]
    latency, seconds_per_byte, overlaps = (np.array(each)[which] for each in zip(*figures, strict=True))
    return Rate(latency, seconds_per_byte, overlaps)


def at_plan_sizes(plan: Plan, options: Options = USUAL, *, wanted: str = "plan.time") -> Scenario:
    """Returns the scenario of a plan's own sizes, on the machine of its mesh.

    Args:
        plan: the plan.
        options: assumptions about the run.
        wanted: the function that needs them, for the error.
    """
    placement = machine_of(plan.mesh, wanted)
    memo, key = _known_at(plan.program), (id(placement), options, plan.grid.key)
    _, known = memo.pop(key, (placement, {}))
    if len(known) > _RESULTS:
        known = {}
    # The placement is stored beside them, so that its id remains its own. What was asked for last comes last.
    memo[key] = placement, known
    for old in list(memo)[:-_SCENARIOS]:
        memo.pop(old, None)
    return Scenario(plan, {}, plan.grid, (placement,), options=options, _known=known)


# So many results are kept of one scenario, and so many scenarios of a program: of 15,000 operations a layout has some
# thousands of new results.
_RESULTS, _SCENARIOS = 131_072, 8


@analysis
def _known_at(_program: Program) -> dict[tuple, tuple[Placement, dict[Any, Any]]]:
    """The results that all plans of a program share at their own sizes, by placement, options and grid."""
    return {}


def together(program: Program, sizes: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Returns sizes of dims, and of all dims that follow: `kv` is as long as `seq`, which it was renamed from or to.

    Dims of places for rows of experts grow with the tokens.
    """
    extended = {name: size for name, size in sizes.items() if name in program.dims}
    waiting, renamed = list(extended), _renamed(program)
    while waiting:
        name = waiting.pop()
        for other in renamed.get(name, ()):
            if other not in extended and other in program.dims:
                extended[other] = extended[name]
                waiting.append(other)
    return extended | grown(program, extended)


def _renamed(program: Program) -> Mapping[str, frozenset[str]]:
    """For each name the names that it is renamed to, or from."""
    renames: dict[str, set[str]] = {}
    for operation in walk(program.code.block):
        if operation.name == "rename":
            (before,), (after,) = operation.reads, operation.outputs
            for one, other in zip(program.names[before], program.names[after], strict=True):
                if one and other and one != other:
                    renames.setdefault(one, set()).add(other)
                    renames.setdefault(other, set()).add(one)
    return {name: frozenset(others) for name, others in renames.items()}
