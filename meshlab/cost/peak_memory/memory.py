"""The memory of a plan: the most that one device holds at once, when that is, and what it is made of.

    plan.memory.peak_bytes          bytes of one device at the worst moment
    plan.memory.fits                whether a device of the machine holds so many
    plan.memory.parts               what they are: parameters, optimizer state, activations, …
    plan.memory.at_peak             every value that is in memory then, the largest first, with name and source line
    plan.memory.timeline            bytes after each step
    plan.memory.donated             the same where arguments that the next call gets anew are overwritten
    plan.memory.other_compiler      a sentence, where the installed compiler is not the one that is followed

The steps of a plan are taken for what a compiler makes of them: some values are never stored (`clusters`), the others
are made and read in the compiler's order (`liveness`), and those that are gone before an output is made lie in its
space (`placing`). Arguments, and the space of outputs, are there from the first step to the last.

How far the figures are from those of XLA is measured for every program and published: docs/accuracy.md. What a runtime
itself needs is not counted.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping

import jax
import numpy as np

from ...engine.code.operations import Literal, item_bytes, nbytes
from ...engine.code.source import Source
from ...engine.errors import shown
from ...engine.gc_pause import no_collection
from ...engine.planning.steps import Move, Part, Step
from ...engine.plans.data import Plan
from ...engine.specs.spec import Spec, local_shape
from ..machines.accuracy import MEMORY, accuracy, other_compiler
from ..machines.hardware import HardwareError
from ..machines.meshes import machine_of
from ..workload.attention import Scores, attentions, is_score
from ..workload.setting import STORED, Options, Setting
from .assign_buffers import Numbers, Placed, aligned, buffers_placed
from .backends import BACKENDS, Backend, tiled_bytes
from .build import built
from .graph import Buffer
from .liveness import Held, live
from .roles import ACTIVATIONS, GRADIENTS, OUTPUTS, PARAMETERS, ROLES, TEMPORARIES, roles_of

_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Alive:
    """One value that is in memory at the worst moment.

    Attributes:
        name: its place, the name that it is given in the user's code, or the operation that makes it.
        place: where it is stored, if it is an argument or an output.
        dims: the dim of each axis; "1" for an axis of size 1.
        shape: on one device.
        dtype: its dtype.
        bytes: on one device.
        source: the user's line that makes it; None for arguments.
        role: what it is for; see `roles`.
    """

    name: str
    place: str | None
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    source: Source | None
    role: str


@dataclasses.dataclass(frozen=True)
class Point:
    """The memory of one device while one step runs.

    Attributes:
        step: what runs: an operation or a collective; "start" before the first.
        source: the user's line.
        bytes: what is in memory then, in bytes.
    """

    step: str
    source: Source | None
    bytes: int


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """The memory of one device.

    Attributes:
        plan: whose memory it is.
        placed: where its buffers lie.
        backend: how the compiler lays them out.
        is_donated: whether the arguments that the next call gets anew are overwritten.
        attention: "stored", or "flash" or "causal", where its scores are computed piece by piece and take no memory.
        other_compiler: a sentence, where the compiler that is installed is not the one whose passes are followed.
    """

    plan: Plan
    placed: Placed
    backend: Backend
    is_donated: bool = False
    attention: str = STORED
    other_compiler: str = ""

    @functools.cached_property
    def peak_bytes(self) -> int:
        """Bytes at the worst moment: arguments, the space of outputs, and the heap with its gaps."""
        return round(float(self._at(self._nbytes)))

    @property
    def argument_bytes(self) -> int:
        """Bytes of all arguments, exact."""
        return self.plan.stored.argument_bytes

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs, exact; with donation some of them lie in the space of arguments."""
        return self.plan.stored.output_bytes

    @functools.cached_property
    def temporary_bytes(self) -> int:
        """Bytes of all beside arguments and the space of outputs: the heap, with its gaps if they count, and tables."""
        return self._heap_size + self._table_bytes

    @property
    def limit_bytes(self) -> int:
        """Bytes that one device of the machine holds.

        Raises:
            HardwareError: the mesh lies on no machine.
        """
        return self._limit("limit_bytes")

    @property
    def fits(self) -> bool:
        """Whether the memory of one device suffices for the worst moment; see `limit_bytes`."""
        return self.peak_bytes <= self._limit("fits")

    def _limit(self, asked: str) -> int:
        return int(machine_of(self.plan.mesh, f"plan.memory.{asked}").hardware.memory_bytes)

    @property
    def gap_bytes(self) -> int:
        """Bytes of the heap that nothing is in at the worst moment."""
        return self._heap_size - round(float(np.max(self._heap, initial=0.0)))

    @functools.cached_property
    def _heap_size(self) -> int:
        if not self.backend.gaps:
            return round(float(np.max(self._heap, initial=0.0)))
        size = self.placed.heap_size(lambda held: self._nbytes(held.buffer), self.backend.step)
        return int(aligned(size, self.backend.step))

    @property
    def _table_bytes(self) -> int:
        """Bytes of the tables of addresses that XLA keeps for what makes several arrays, each beside the heap.

        (openxla/xla, `BufferAssigner`: a buffer of a tuple's shape is an allocation of its own, of 8 bytes for each.)
        """
        tables = [8 * count for count in self.placed.live.tables] if self.backend.tables else []
        return int(np.sum(aligned(tables[:-1], self.backend.step))) + sum(tables[-1:])

    def at(self, setting: Setting) -> Numbers:
        """Returns the bytes at the worst moment at other sizes than the plan's own: an array, one for each point.

        Which buffer lies in which other's space is as at the plan's own sizes, and so is the share of gaps.

        Raises:
            HardwareError: what is given is no setting.
        """
        if not isinstance(setting, Setting):
            raise HardwareError(
                f"plan.memory.at() was given {shown(setting)}, and takes a setting; the memory at other sizes is"
                " ml.sweep(plan, batch=[8, 16]).peak_bytes."
            )

        def nbytes(buffer: Buffer) -> Numbers:
            value, _ = buffer.key
            if not self.backend.tiled or setting.is_score(value):
                return setting.nbytes(buffer.key) * buffer.factor
            each = item_bytes(self.plan.program.code.dtypes[value])
            return tiled_bytes(setting.local(buffer.key), each) * buffer.factor

        return self._at(nbytes)

    def _at(self, nbytes: Callable[[Buffer], Numbers]) -> Numbers:
        """The bytes at the worst moment, for any sizes of buffers."""
        placed, alive = self.placed, self._heap_size - self.gap_bytes
        arguments = placed.live.arguments[: len(self.plan.program.arguments)]
        fixed = sum(nbytes(held.buffer) for held in (*arguments, *placed.kept)) + _literal_bytes(self.plan)
        fixed += self._table_bytes
        heap = placed.heap_bytes(lambda held: aligned(nbytes(held.buffer), self.backend.step))
        return fixed + np.max(heap, axis=0, initial=0.0) * (self._heap_size / alive if alive else 1.0)

    def given(self, attention: str) -> Memory:
        """Returns the same where attention is computed otherwise, as in `plan.time.given`: `given(attention="flash")`.

        Raises:
            HardwareError: there is no such attention.
        """
        changed = dataclasses.replace(self, attention=Options(attention=attention).attention)
        donors = roles_of(self.plan.program).donors if self.is_donated else None
        placed = changed._placed(donors)
        return dataclasses.replace(changed, placed=placed)

    @functools.cached_property
    def donated(self) -> Memory:
        """The memory where the arguments that the next call gets anew are overwritten: `plan.run(donate=True)`."""
        roles = roles_of(self.plan.program)
        placed = self._placed(roles.donors)
        return dataclasses.replace(self, placed=placed, is_donated=True)

    @functools.cached_property
    def parts(self) -> Mapping[str, int]:
        """What the bytes at the worst moment are for; they add up to `peak_bytes`, gaps counted as temporaries."""
        found: dict[str, int] = dict.fromkeys(ROLES, 0)
        for alive in self.at_peak:
            found[alive.role] += alive.bytes
        found[TEMPORARIES] += self.peak_bytes - sum(found.values())
        return {role: size for role, size in found.items() if size}

    @functools.cached_property
    def at_peak(self) -> tuple[Alive, ...]:
        """Every value in memory at the worst moment, the largest first."""
        at = int(np.argmax(self._heap))
        arguments = self.placed.live.arguments[: len(self.plan.program.arguments)]
        heap = (
            held
            for held, begin, end in zip(self.placed.heap, self.placed.begins, self.placed.ends, strict=True)
            if begin <= at < end
        )
        found = [self._alive(held) for held in (*arguments, *self.placed.kept, *heap)]
        return tuple(sorted(found, key=lambda alive: -alive.bytes))

    @functools.cached_property
    def timeline(self) -> tuple[Point, ...]:
        """What is in memory while each step runs, in the compiler's order; one turn of a loop stands for all."""
        least = self.peak_bytes - self._heap_size
        heap, points = self._heap, self.placed.live.points
        return tuple(
            Point(_name(step), self._source(step), least + round(float(heap[i]))) for i, step in enumerate(points)
        )

    @functools.cached_property
    def _heap(self) -> np.ndarray:
        return self.placed.heap_bytes(lambda held: aligned(self._nbytes(held.buffer), self.backend.step))

    def _placed(self, donors: Mapping[int, int] | None) -> Placed:
        return buffers_placed(self.placed.live, lambda held: self._nbytes(held.buffer), donors)

    def _nbytes(self, buffer: Buffer) -> int:
        """Bytes of a buffer on one device."""
        value, spec = buffer.key
        code = self.plan.program.code
        if self.attention != STORED and is_score(self.plan.program, self._attentions, value):
            return 0
        shape, each = self._shape(value, spec), item_bytes(code.dtypes[value])
        size = _tiled(shape, each) if self.backend.tiled else math.prod(shape) * each
        return round(size * buffer.factor)

    def _shape(self, value: int, spec: Spec) -> tuple[int, ...]:
        return local_shape(self.plan.program.code.shapes[value], spec, self.plan.grid)

    def _alive(self, held: Held) -> Alive:
        """A buffer as it is told to people."""
        program, (value, spec) = self.plan.program, held.buffer.key
        place = None
        if held.argument >= 0:
            place = program.arguments[held.argument].place
        elif held.output >= 0:
            place = program.outputs[held.output]
        shown = program.value(value)
        return Alive(
            place or shown.label,
            place,
            tuple(dim or "1" for dim in shown.dims),
            self._shape(value, spec),
            str(shown.dtype),
            self._nbytes(held.buffer),
            None if held.argument >= 0 else shown.source,
            self._role(held),
        )

    def _role(self, held: Held) -> str:
        """What a buffer is for."""
        roles, program, value = roles_of(self.plan.program), self.plan.program, held.buffer.key[0]
        if held.argument >= 0:
            return roles.arguments[held.argument]
        if held.output >= 0:
            is_gradient = value in roles.backward and program.code.shapes[value] in roles.shapes
            return roles.outputs.get(held.output, GRADIENTS if is_gradient else OUTPUTS)
        if value in roles.parameters:
            return PARAMETERS
        if program.outermost(value) != value:
            return TEMPORARIES  # a turn's slice of what a loop is given, as it is, gathered or rewritten for a product
        if value in roles.backward:
            return GRADIENTS if program.code.shapes[value] in roles.shapes else TEMPORARIES
        points = self.placed.live.points
        first, last = points[held.begin], points[min(held.end, len(points) - 1)]
        return ACTIVATIONS if roles.is_backward(last) and not roles.is_backward(first) else TEMPORARIES

    @functools.cached_property
    def _attentions(self) -> frozenset[Scores]:
        return attentions(self.plan.program)

    def _source(self, step: Step | None) -> Source | None:
        if isinstance(step, Move):
            return self.plan.program.value(step.name).source
        return None if step is None or isinstance(step, Part) else step.operation.source

    def __repr__(self):
        rows = [f"{role:<16} {size:>15,} B" for role, size in self.parts.items()]
        lines = [f"{a.bytes:>15,} B  {a.role:<16} {a.name} [{' '.join(a.dims)}]" for a in self.at_peak[:_SHOWN]]
        return "\n".join([f"{'peak':<16} {self.peak_bytes:>15,} B", *self._verdict(), *rows, "at the peak:", *lines])

    def _verdict(self) -> list[str]:
        """What a device of the machine holds, whether that suffices, and how far off such peaks were."""
        other = [f"{'compiler':<16} {self.other_compiler}"] if self.other_compiler else []
        if self.plan.mesh.on is None:
            return other
        machine = self.plan.mesh.on.hardware
        off = accuracy(MEMORY, machine)["text"]
        return [
            f"{'a device holds':<16} {self.limit_bytes:>15,} B: {'it fits' if self.fits else 'it does not fit'}",
            f"{'how far off':<16} {off}",
            *other,
        ]


def memory_of(plan: Plan, platform: str | None = None, compiler: str | None = None) -> Memory:
    """Finds where the memory of a plan goes, where no argument is overwritten.

    Args:
        plan: the plan.
        platform: whose compiler it is: "cpu", "gpu" or "tpu"; None for that of the machine that its mesh lies on.
        compiler: the version of jaxlib, or for TPUs of libtpu; None for what is installed.
    """
    backend = _backend(plan) if platform is None else BACKENDS[platform]
    nothing = np.zeros(0, int)
    with no_collection():
        found = live(built(plan, backend))
        memory = Memory(
            plan,
            Placed(found, (), (), {}, nothing, nothing, nothing),
            backend,
            other_compiler=other_compiler(backend.platform, compiler),
        )
        return dataclasses.replace(memory, placed=memory._placed(None))


@functools.lru_cache(maxsize=4096)
def _tiled(shape: tuple[int, ...], each: float) -> float:
    return float(tiled_bytes(shape, each))


def _literal_bytes(plan: Plan) -> int:
    """Bytes of outputs that are numbers in the program."""
    outputs = plan.program.code.block.outputs
    return sum(nbytes(1, jax.dtypes.result_type(value.value)) for value in outputs if isinstance(value, Literal))


def _backend(plan: Plan) -> Backend:
    placement = plan.mesh.on
    return BACKENDS["cpu" if placement is None else placement.hardware.platform]


def _name(step: Step | None) -> str:
    if isinstance(step, Move):
        return step.hop.kind
    return "start" if step is None or isinstance(step, Part) else step.operation.name
