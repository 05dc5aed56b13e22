"""Predicts the peak memory of one device, when it is reached, and the arrays that it consists of.

    plan.memory.peak_bytes          bytes of one device at the peak
    plan.memory.fits                whether they fit a device of the machine
    plan.memory.parts               bytes by role: parameters, optimizer state, activations, …
    plan.memory.at_peak             every value that is in memory then, the largest first, with name, line and `because`
    plan.memory.because             what most of the peak is, and why
    plan.memory.alive_at(3)         the same at any step; with `padding_at(3)` they add up to `timeline[3].bytes`
    plan.memory.timeline            bytes after each step
    plan.memory.stages              each stage's peak in a pipeline, as what it stores, adds up, holds and computes
    plan.memory.range               the least and the most, by how many places there are for rows of experts
    plan.memory.donated             the same with carried arguments overwritten
    plan.memory.other_compiler      a warning, where another compiler is installed than the one that is modelled

The passes of the compiler decide which values are never stored (`fuse`), in which order the others are written and read
(`order`, `liveness`), and which of them share the space of an output (`assign_buffers`). Arguments, and the space of
outputs, are allocated from the first step to the last.

The errors against XLA's own figures are measured for every program and published: docs/accuracy.md. The memory of the
runtime itself is not counted.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping

import jax
import numpy as np

from ...engine.argument_checks import is_whole
from ...engine.attention.scores import Scores
from ...engine.code.operations import Literal, item_bytes, nbytes
from ...engine.code.source import Source
from ...engine.errors import shown
from ...engine.gc_pause import no_collection
from ...engine.planning.step import Step
from ...engine.plans.plan_data import Plan
from ...engine.specs.spec import Spec
from ..machines.accuracy import other_compiler
from ..machines.hardware import HardwareError
from ..machines.meshes import machine_of
from ..workload.attention import STORED, as_run, fusable
from ..workload.dataflow import local_shapes
from ..workload.options import Options
from ..workload.scenario import Scenario
from .alive import Alive, Moment
from .assign_buffers import Assignment, Numbers, aligned, least_assignment
from .backends import BACKENDS, Backend, tiled_bytes
from .build import build_graph
from .causes import because, gathered_over, repeated_along, summary
from .liveness import LiveBuffer, Liveness, liveness_of
from .memory_text import memory_text
from .pipelines import held
from .places_range import MemoryRange, range_of
from .roles import ACTIVATIONS, GATHERED, GRADIENTS, OUTPUTS, PARAMETERS, ROLES, TEMPORARIES, roles_of
from .stages import Placed, StageMemory, stages_of


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """The memory of one device.

    Attributes:
        plan: the plan.
        liveness: of its buffers.
        backend: the compiler.
        is_donated: whether carried arguments are overwritten.
        attention: "stored", or "flash" or "causal", where a fused kernel computes the scores, which take no memory.
        other_compiler: a warning, where another compiler is installed than the one whose passes are followed.
        resized: other sizes than the plan's own, which buffers are placed at.
    """

    plan: Plan
    liveness: Liveness
    backend: Backend
    is_donated: bool = False
    attention: str = STORED
    other_compiler: str = ""
    resized: Scenario | None = None

    @functools.cached_property
    def peak_bytes(self) -> int:
        """Bytes at the peak: arguments, the space of outputs, and the heap with its gaps."""
        return round(float(self._at(self._nbytes, self._heap)))

    @property
    def argument_bytes(self) -> int:
        """Bytes of all arguments, exact."""
        return self.plan.stored.argument_bytes

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs, exact; with donation some of them share the space of arguments."""
        return self.plan.stored.output_bytes

    @functools.cached_property
    def temporary_bytes(self) -> int:
        """Bytes without arguments and the space of outputs: the heap, with its gaps if they count, and tables."""
        return self._heap_size + self._table_bytes

    @property
    def limit_bytes(self) -> int:
        """Bytes of memory of one device of the machine.

        Raises:
            HardwareError: the mesh is on no machine.
        """
        return self._limit("limit_bytes")

    @property
    def fits(self) -> bool:
        """Whether the peak fits the memory of one device; see `limit_bytes`."""
        return self.peak_bytes <= self._limit("fits")

    @property
    def verdict(self) -> str:
        """Whether the peak fits the memory of one device, in words."""
        return "it fits" if self.fits else "it does not fit"

    def _limit(self, asked: str) -> int:
        return int(machine_of(self.plan.mesh, f"plan.memory.{asked}").hardware.memory_bytes)

    @property
    def gap_bytes(self) -> int:
        """Bytes of the heap that no buffer uses at the peak."""
        return self._heap_size - round(float(np.max(self._heap, initial=0.0)))

    @property
    def _heap_size(self) -> int:
        return self._placed[1]

    @property
    def _table_bytes(self) -> int:
        """Bytes of the tables of addresses that XLA allocates for several results, each beside the heap.

        (openxla/xla, `BufferAssigner`: a buffer of a tuple's shape is an allocation of its own, of 8 bytes for each.)
        """
        tables = [8 * count for count in self.liveness.tables] if self.backend.tuple_tables else []
        return int(np.sum(aligned(tables[:-1], self.backend.alignment))) + sum(tables[-1:])

    def at(self, scenario: Scenario) -> Numbers:
        """Returns the bytes at the peak at other sizes than the plan's own: an array, one for each point.

        Buffers share space as at the plan's own sizes, and gaps have the same share of the heap.

        Raises:
            HardwareError: the argument is no scenario.
        """
        if not isinstance(scenario, Scenario):
            raise HardwareError(
                f"plan.memory.at() must be given a scenario, not {shown(scenario)}; the memory at other sizes is"
                " ml.sweep(plan, batch=[8, 16]).peak_bytes."
            )

        def nbytes(buffer: LiveBuffer) -> Numbers:
            key, factor = buffer.size
            if not self.backend.tiled_layouts or scenario.is_score(key[0]):
                return scenario.nbytes(key) * factor
            return tiled_bytes(scenario.local(key), item_bytes(self.plan.program.code.dtypes[key[0]])) * factor

        return self._at(nbytes, self.assignment.heap_bytes(nbytes, self.backend.alignment))

    @functools.cached_property
    def stages(self) -> tuple[StageMemory, ...]:
        """The peak of each stage of a pipeline while its cells run; none without stages."""
        gaps = self._heap_size / max(1.0, float(np.max(self._heap, initial=0.0)))
        fixed = self.peak_bytes - self._heap_size
        return stages_of(self.plan, Placed(self.assignment, self._nbytes, self._heap * gaps, fixed))

    @functools.cached_property
    def range(self) -> MemoryRange:
        """The least and the most that the peak is, by how many places there are for rows of experts."""

        def peak(sizes: Mapping[str, float]) -> int:
            return dataclasses.replace(self, resized=Scenario(self.plan, sizes, self.plan.grid, ())).peak_bytes

        return range_of(self.plan, self.peak_bytes, peak)

    def _at(self, nbytes: Callable[[LiveBuffer], Numbers], heap: Numbers) -> Numbers:
        """The bytes at the peak, for any sizes of buffers; `heap` at each point in time."""
        assignment, used = self.assignment, self._heap_size - self.gap_bytes
        arguments = self.liveness.arguments[: len(self.plan.program.arguments)]
        fixed = sum(nbytes(each) for each in (*arguments, *assignment.outputs)) + _literal_bytes(self.plan)
        fixed += self._table_bytes
        return fixed + np.max(heap, axis=0, initial=0.0) * (self._heap_size / used if used else 1.0)

    def given(self, attention: str) -> Memory:
        """Returns the memory with attention run otherwise, as in `plan.time.given`: `given(attention="flash")`.

        Raises:
            HardwareError: there is no such attention.
        """
        asked = as_run(Options(attention=attention).attention, self.backend.platform, self.plan)
        return self if asked == self.attention else dataclasses.replace(self, attention=asked)

    @functools.cached_property
    def donated(self) -> Memory:
        """The memory with carried arguments overwritten: `plan.run(donate=True)`."""
        return dataclasses.replace(self, is_donated=True)

    @property
    def assignment(self) -> Assignment:
        """The assignment of its buffers to the space of outputs, and to the heap; donated, to less if that is less."""
        return self._placed[0]

    @functools.cached_property
    def _placed(self) -> tuple[Assignment, int]:
        """The assignment, and the size of its heap, which takes long to find."""
        donors = roles_of(self.plan.program).donors if self.is_donated else None
        with no_collection():
            return least_assignment(self.liveness, self._nbytes, self.backend, donors)

    @functools.cached_property
    def parts(self) -> Mapping[str, int]:
        """The bytes at the peak by role; they add up to `peak_bytes`, gaps counted as temporaries."""
        parts: dict[str, int] = dict.fromkeys(ROLES, 0)
        for alive in self.at_peak:
            parts[alive.role] += alive.bytes
        parts[TEMPORARIES] += self.peak_bytes - sum(parts.values())
        return {role: size for role, size in parts.items() if size}

    @functools.cached_property
    def at_peak(self) -> tuple[Alive, ...]:
        """Every value in memory at the peak, the largest first."""
        return self._alive_during(int(np.argmax(self._heap)))

    @property
    def because(self) -> str:
        """What most bytes at the peak are, and why the largest value among them is there."""
        return summary(self.at_peak, self.peak_bytes)

    def alive_at(self, step: int) -> tuple[Alive, ...]:
        """Returns every value in memory while a step of `timeline` runs, the largest first, and the space of outputs.

        Raises:
            HardwareError: there is no such step.
        """
        return self._alive_during(self._step(step))

    def _alive_during(self, at: int) -> tuple[Alive, ...]:
        assignment = self.assignment
        arguments = self.liveness.arguments[: len(self.plan.program.arguments)]
        lifetimes = zip(assignment.heap, assignment.starts, assignment.ends, strict=True)
        heap = (buffer for buffer, start, end in lifetimes if start <= at < end)
        alive = [self._alive(buffer) for buffer in (*arguments, *assignment.outputs, *heap)]
        return tuple(sorted(alive, key=lambda each: -each.bytes))

    def padding_at(self, step: int) -> int:
        """Returns the bytes at a step that are no value's: rounding up in the heap, tables of addresses, constants."""
        return self.timeline[self._step(step)].bytes - sum(alive.bytes for alive in self.alive_at(step))

    def _step(self, step: int) -> int:
        count = len(self.liveness.points)
        if not is_whole(step) or not 0 <= step < count:
            raise HardwareError(f"plan.memory has no step {shown(step)}. Its timeline has the steps 0 to {count - 1}.")
        return int(step)

    @functools.cached_property
    def timeline(self) -> tuple[Moment, ...]:
        """The bytes in memory while each step runs, in the compiler's order; one iteration of a loop stands for all."""
        least = self.peak_bytes - self._heap_size
        heap, points = self._heap, self.liveness.points
        return tuple(
            Moment(_name(step), self._source(step), least + round(float(heap[i]))) for i, step in enumerate(points)
        )

    @functools.cached_property
    def _heap(self) -> np.ndarray:
        return self.assignment.heap_bytes(self._nbytes, self.backend.alignment)

    @functools.cached_property
    def _nbytes(self) -> Callable[[LiveBuffer], int]:
        """Bytes of a buffer on one device."""
        buffers = (*self.liveness.buffers, *self.liveness.arguments)
        return {buffer: self._bytes_of(buffer) for buffer in buffers}.__getitem__

    def _bytes_of(self, buffer: LiveBuffer) -> int:
        value, spec = buffer.size.key
        code = self.plan.program.code
        if self.attention != STORED and value in self._scores:
            return 0
        shape, each = self._shape(value, spec), item_bytes(code.dtypes[value])
        size = _tiled(shape, each) if self.backend.tiled_layouts else math.prod(shape) * each
        return round(size * buffer.size.factor)

    def _shape(self, value: int, spec: Spec) -> tuple[int, ...]:
        if self.resized is not None:
            return tuple(round(size) for size in self.resized.local((value, spec)))
        return local_shapes(self.plan.program, self.plan.grid)[value, spec]

    def _alive(self, buffer: LiveBuffer) -> Alive:
        """A buffer with the names and places that users know."""
        program, (value, spec) = self.plan.program, buffer.size.key
        place = None
        if buffer.argument >= 0:
            place = program.arguments[buffer.argument].place
        elif buffer.output >= 0:
            place = program.outputs[buffer.output]
        shown, role = program.value(value), self._role(buffer)
        source, points = None if buffer.argument >= 0 else shown.source, self.liveness.points
        last = points[buffer.end] if buffer.end < len(points) else None
        return Alive(
            place or shown.label,
            place,
            tuple(dim or "1" for dim in shown.dims),
            self._shape(value, spec),
            str(shown.dtype),
            self._nbytes(buffer),
            source,
            role,
            because(self.plan, buffer, role, source, last),
            repeated_along(self.plan, spec),
            value,
        )

    def _role(self, buffer: LiveBuffer) -> str:
        """The role of a buffer."""
        roles, program, (value, spec) = roles_of(self.plan.program), self.plan.program, buffer.size.key
        if buffer.argument >= 0:
            return roles.arguments[buffer.argument]
        if buffer.output >= 0:
            is_gradient = value in roles.backward and program.code.shapes[value] in roles.shapes
            return roles.outputs.get(buffer.output, GRADIENTS if is_gradient else OUTPUTS)
        if value in roles.weights and gathered_over(self.plan, value, spec):
            return GATHERED
        if value in roles.parameters:
            return PARAMETERS
        if value in held(self.plan):
            return ACTIVATIONS
        if program.outermost(value) != value:
            return TEMPORARIES  # an iteration's slice of a loop's input, as it is or transposed for a matmul
        if value in roles.backward:
            return GRADIENTS if program.code.shapes[value] in roles.shapes else TEMPORARIES
        points = self.liveness.points
        first, last = points[buffer.start], points[min(buffer.end, len(points) - 1)]
        return ACTIVATIONS if roles.is_backward(last) and not roles.is_backward(first) else TEMPORARIES

    @functools.cached_property
    def _scores(self) -> Mapping[int, Scores]:
        return fusable(self.plan)

    def _source(self, step: Step | None) -> Source | None:
        if step and step.named is not None:
            return self.plan.program.value(step.named).source
        return step.runs.source if step and step.runs else None

    def __repr__(self):
        return memory_text(self)


def memory_of(plan: Plan, platform: str | None = None, compiler: str | None = None) -> Memory:
    """Returns the memory of a plan as the compiler arranges it: without donation, scores of attention stored.

    Args:
        plan: the plan.
        platform: the compiler's: "cpu", "gpu" or "tpu"; None for that of the mesh's machine.
        compiler: the version of jaxlib, or for TPUs of libtpu; None for the installed one.
    """
    on = plan.mesh.on
    backend = BACKENDS[platform or ("cpu" if on is None else on.hardware.platform)]
    with no_collection():
        liveness = liveness_of(build_graph(plan, backend))
    return Memory(plan, liveness, backend, other_compiler=other_compiler(backend.platform, compiler))


@functools.lru_cache(maxsize=4096)
def _tiled(shape: tuple[int, ...], each: float) -> float:
    return float(tiled_bytes(shape, each))


def _literal_bytes(plan: Plan) -> int:
    """Bytes of outputs that are literals of the program."""
    outputs = plan.program.code.block.outputs
    return sum(nbytes(1, jax.dtypes.result_type(value.value)) for value in outputs if isinstance(value, Literal))


def _name(step: Step | None) -> str:
    return (step.title if step else "") or "start"
