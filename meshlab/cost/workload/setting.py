"""Settings: the sizes and the machine that a plan is costed at, one of each or many at once.

    own(plan)                                  the plan's own sizes, on the machine that its mesh lies on
    Setting(plan, dims={"batch": array}, …)    the same plan with other sizes, as arrays: every figure is an array then

A plan's steps do not depend on how large its dims and mesh axes are, only what they cost does. So whatever is computed
of a plan is computed from the local shapes that its setting gives, and these are numbers or NumPy arrays alike.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...engine.code.loops import carried
from ...engine.code.operations import Operation, item_bytes, walk
from ...engine.errors import closest, listed, shown
from ...engine.plans.data import Plan
from ...engine.programs.data import Program
from ...engine.specs.spec import Spec, local_shape
from ..machines.collective_time import Rate, rate
from ..machines.hardware import Hardware, HardwareError
from ..machines.meshes import machine_of
from ..machines.placement import Placement
from ..machines.xla_substitutes import most_summed
from .attention import Scores, attentions, is_score
from .dataflow import Key

ATTENTION = STORED, FLASH, CAUSAL = "stored", "flash", "causal"
# A number, or an array of numbers: one for each point.
Numbers = Any


@dataclasses.dataclass(frozen=True)
class Options:
    """What a plan does not say of how it will run.

    Attributes:
        attention: "stored", the scores lie in memory, as the program has it; "flash", they are computed piece by piece;
            "causal", so too, and none of those that a causal mask hides.
        prefetch: whether a loop gathers ahead what the next turn needs of stored weights, and reduces gradients during
            the next turn, as PyTorch's FSDP does. Nothing hides those of one turn, the first's weights and the last's
            sums.
        book: whether collectives cost what the scaling book has: without (n-1)/n, and each as what it is called,
            whatever a compiler makes of it.
    """

    attention: str = "stored"
    prefetch: bool = False
    book: bool = False

    def __post_init__(self):
        if not isinstance(self.attention, str) or self.attention not in ATTENTION:
            raise HardwareError(
                f"There is no attention {shown(self.attention)}.{closest(self.attention, ATTENTION)} There are"
                f" {listed(ATTENTION)}."
            )
        unclear = [name for name in ("prefetch", "book") if not isinstance(getattr(self, name), bool)]
        if unclear:
            raise HardwareError(f"{listed(unclear)} was given {shown(getattr(self, unclear[0]))}; give True or False.")

    def given(self, **options: Any) -> Options:
        """Returns the same with some of them changed.

        Raises:
            HardwareError: there is no such option, or it cannot be so; the nearest names are told.
        """
        known = [field.name for field in dataclasses.fields(Options)]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise HardwareError(
                f"There is no option {listed(unknown)}.{closest(unknown[0], known)} There are {listed(known)}."
            )
        return dataclasses.replace(self, **options)


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """What a plan is costed at.

    Attributes:
        plan: the plan.
        dims: sizes of those of its dims that are changed, by name.
        grid: sizes of all mesh axes.
        placements: how the mesh lies on machines.
        which: for each point the position of its placement; None where there is one.
        options: how it will run.
        blocks: what was found of the plan's blocks at whatever sizes, for settings of one plan to share.
    """

    plan: Plan
    dims: Mapping[str, Numbers]
    grid: Mapping[str, Numbers]
    placements: tuple[Placement, ...]
    which: np.ndarray | None = None
    options: Options = Options()
    blocks: dict[Any, Any] = dataclasses.field(default_factory=dict, repr=False)
    _known: dict[Any, Any] = dataclasses.field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Whether all sizes are the plan's own."""
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
        """Whose compiler it is: "tpu", "gpu" or "cpu"."""
        return self.placements[0].hardware.platform

    def of_machine(self, figure: Callable[[Placement], float]) -> Numbers:
        """Returns a figure of the machine at each point."""
        found = [figure(placement) for placement in self.placements]
        return found[0] if self.which is None else np.array(found)[self.which]

    @functools.cached_property
    def bytes_per_second(self) -> Numbers:
        """What a device's memory reaches."""
        return self.of_machine(lambda p: p.hardware.bytes_per_second * p.hardware.efficiency.memory.value)

    @functools.cached_property
    def launch(self) -> Numbers:
        """Seconds for a kernel to begin."""
        return self.of_machine(lambda p: p.hardware.efficiency.launch.value)

    @functools.cached_property
    def tiles(self) -> tuple[Numbers, Numbers, Numbers]:
        """The sizes that products are padded to: the fewer of rows and columns, the other, and what is summed."""

        def of(machine: Hardware) -> tuple[int, int, int]:
            return {"tpu": (8, machine.tile, machine.tile), "gpu": (64, 64, 16)}.get(machine.platform, (1, 1, 1))

        few, many, deep = (self.of_machine(lambda p, i=i: of(p.hardware)[i]) for i in range(3))
        return few, many, deep

    def flops_per_second(self, dtype: Any) -> Numbers:
        """What a device reaches in large products in a dtype."""
        key = ("flops", str(dtype))
        if key not in self._known:
            self._known[key] = self.of_machine(
                lambda p: p.hardware.flops_per_second(dtype) * p.hardware.efficiency.products.value
            )
        return self._known[key]

    def seconds(self, kind: str, axes: Sequence[str], nbytes: Numbers) -> Numbers:
        """Returns the seconds of a collective, or of what is compiled for it, for a full array of `nbytes`."""
        most, itself, whole = self._rates(kind, tuple(axes))
        if not np.any(most):
            return itself.seconds(nbytes)
        if isinstance(most, np.ndarray) or isinstance(nbytes, np.ndarray):
            return np.where(nbytes <= most, whole.seconds(nbytes), itself.seconds(nbytes))
        return (whole if nbytes <= most else itself).seconds(nbytes)

    def _rates(self, kind: str, axes: tuple[str, ...]) -> tuple[Numbers, Rate, Rate]:
        """Up to how many bytes a collective is an all-reduce, what it takes itself, and what that takes."""
        key = ("rates", kind, axes)
        if key not in self._known:
            most = 0 if self.options.book else self.of_machine(lambda p: most_summed(kind, p, axes))
            self._known[key] = most, self._rate(kind, axes), self._rate("all-reduce", axes)
        return self._known[key]

    def _rate(self, kind: str, axes: tuple[str, ...]) -> Rate:
        found = [rate(kind, placement, axes, book=self.options.book) for placement in self.placements]
        return found[0] if self.which is None else _joined(found, self.which)

    # Sizes

    def ways(self, axes: Sequence[str]) -> Numbers:
        """Returns how many devices there are along mesh axes."""
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
        """Whether a value is among the scores of attention, and these are computed piece by piece."""
        return self.options.attention != STORED and is_score(self.plan.program, self._attentions, value)

    @functools.cached_property
    def _attentions(self) -> frozenset[Scores]:
        return attentions(self.plan.program)

    def turns(self, operation: Operation, times: int) -> Numbers:
        """Returns how often a loop turns."""
        program = self.plan.program
        if operation.name != "scan" or not self.dims:
            return times
        count = carried(operation)
        stacked = (*operation.inputs[count:], *operation.outputs[count:])
        names = (program.names[v][0] for v in stacked if isinstance(v, int) and program.code.shapes[v][:1] == (times,))
        return next((self._size(name, times) for name in names if name is not None), times)

    def _local(self, value: int, spec: Spec) -> tuple[Numbers, ...]:
        program = self.plan.program
        shape = program.code.shapes[value]
        if self.is_own:
            return local_shape(shape, spec, self.plan.grid)
        sizes = []
        for name, size, split in zip(program.names[value], shape, spec.splits, strict=True):
            whole = self._size(name, size)
            if split and size in self.plan.grid.padded:
                whole = np.ceil(whole / self._parts(size)) * self._parts(size)
            sizes.append(whole / self.ways(split) if split else whole)
        return tuple(sizes)

    def _parts(self, size: int) -> Numbers:
        """What dims of a size are padded to a multiple of: all numbers of parts that they are split into."""
        key = ("parts", size)
        if key not in self._known:
            rules, dims = self.plan.rules, self.plan.program.dims
            every = (rules.plain, *rules.stored.values())
            splits = {axes for own in every for dim, axes in own.items() if axes and dims.get(dim) == size}
            self._known[key] = functools.reduce(np.lcm, map(self.ways, splits), 1)
        return self._known[key]

    def _size(self, name: str | None, size: int) -> Numbers:
        """The size of an axis of a name, where dims have other sizes than the plan's own."""
        key = ("size", name, size)
        if name is None or not self.dims:
            return size
        if key not in self._known:
            self._known[key] = self._changed(name, size)
        return self._known[key]

    def _changed(self, name: str, size: int) -> Numbers:
        found: Numbers = size
        for part in name.split("*"):
            dim = self._followed(part)
            if dim is None:
                continue
            before, after = self.plan.program.dims[dim], self.dims[dim]
            if "." in part and not part.endswith(".0"):
                continue  # pieces keep their size: there are more of them
            if "*" not in name and "." not in part and size != before and before % size and size % before:
                return size + (after - before)  # a slice of it, or it with something at an end
            found = found * (after / before)
        return found

    def _followed(self, name: str) -> str | None:
        """The changed dim that the size of a name follows: `seq` for `seq.0`, `~seq` and `~seq_2`."""
        stem = name.split(".", maxsplit=1)[0]
        candidates = (stem,) if not stem.startswith("~") else (stem[1:], re.sub(r"_\d+$", "", stem[1:]))
        return next((dim for dim in candidates if dim in self.dims), None)


def _joined(rates: Sequence[Rate], which: np.ndarray) -> Rate:
    begin, each, overlaps = (
        np.array([getattr(r, name) for r in rates])[which] for name in ("begin", "each", "overlaps")
    )
    return Rate(begin, each, overlaps)  # type: ignore[arg-type]


def own(plan: Plan, options: Options = Options(), *, wanted: str = "plan.time") -> Setting:
    """Returns a plan's own sizes, on the machine that its mesh lies on.

    Args:
        plan: the plan.
        options: how it will run.
        wanted: what they are for, to say so where there is no machine.

    Raises:
        HardwareError: the mesh lies on no machine.
    """
    return Setting(plan, {}, plan.grid, (machine_of(plan.mesh, wanted),), options=options)


def together(program: Program, sizes: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Returns sizes of dims with those of all dims that they were renamed from or to: `kv` is as long as `seq`."""
    found = {name: size for name, size in sizes.items() if name in program.dims}
    waiting, renamed = list(found), _renamed(program)
    while waiting:
        name = waiting.pop()
        for other in renamed.get(name, ()):
            if other not in found and other in program.dims:
                found[other] = found[name]
                waiting.append(other)
    return found


def _renamed(program: Program) -> Mapping[str, frozenset[str]]:
    """For each name those that it is renamed to, or from."""
    found: dict[str, set[str]] = {}
    for operation in walk(program.code.block):
        if operation.name == "rename":
            (before,), (after,) = operation.reads, operation.outputs
            for one, other in zip(program.names[before], program.names[after], strict=True):
                if one and other and one != other:
                    found.setdefault(one, set()).add(other)
                    found.setdefault(other, set()).add(one)
    return {name: frozenset(others) for name, others in found.items()}
