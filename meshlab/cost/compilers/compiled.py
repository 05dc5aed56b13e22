"""A compiled plan beside the prediction: collectives, memory and cycles, as `compile_for` returns them.

compiled.ok              whether all collectives are as predicted, or the differences are explained
compiled.comparison      bytes by kind and mesh axes; each difference with its rule (`differences.py`)
compiled.memory          bytes of one device, as the compiler allocates them
compiled.cycles          of all operations, as the TPU compiler estimates them
"""

from __future__ import annotations

import dataclasses
import functools
import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...engine.plans.plan_data import Plan
from ...engine.tables import Cell, comparison, html_rows, mark, named, note_lines
from ...engine.verifying.hlo import HloCollective, read_collectives
from ...engine.verifying.hlo_text import Instruction, parse_module
from ...engine.verifying.hlo_walk import visits
from ..peak_memory.memory import Memory, memory_of
from .differences import RULES, Comparison, compare
from .targets import Target

_HEADS = ("predicted", "compiled")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


@dataclasses.dataclass(frozen=True)
class CompiledMemory:
    """Bytes of one device, as a compiler allocates them.

    A TPU stores arrays in tiles of 8 x 128 elements and more, which small or oddly shaped arrays do not fill: arguments
    and outputs may take more bytes than their elements.

    Attributes:
        argument_bytes: of all arguments.
        output_bytes: of all outputs.
        alias_bytes: of outputs in the buffers of donated arguments.
        peak_bytes: the peak of arguments, outputs and temporaries.
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    peak_bytes: int


@dataclasses.dataclass(frozen=True, eq=False)
class Compiled:
    """A plan, compiled for a machine that is not attached; made by `ml.compile_for`.

    Attributes:
        plan: the plan.
        target: the machine and slice.
        donated: whether carried arguments may be overwritten.
        collectives: of the compiled program, read from its text.
        comparison: of its collectives with the plan's.
        memory: of one device.
        cycles: the compiler's estimate for all operations of one run on one device, times the trip counts of loops,
            without communication. None where the compiler gives none (GPUs).
        device_kind: the compiler's name of the device.
        standing: the coordinates of each device of the mesh on a TPU's slice, row-major: of its chip, and its
            number within the chip; None for GPUs, which are numbered in order.
        compile_seconds: the seconds of the compilation.
        versions: of the compiler and of JAX, by package.
        options: compiler options that had to be set for it to succeed.
        hlo: the text of the compiled program.
    """

    plan: Plan
    target: Target
    donated: bool
    collectives: tuple[HloCollective, ...]
    comparison: Comparison
    memory: CompiledMemory
    cycles: int | None
    device_kind: str
    standing: tuple[tuple[int, ...], ...] | None
    compile_seconds: float
    versions: Mapping[str, str]
    options: Mapping[str, Any]
    hlo: str

    @property
    def peak_bytes(self) -> int:
        """The peak memory of one device, in bytes."""
        return self.memory.peak_bytes

    @property
    def equal(self) -> bool:
        """Whether the compiled collectives are exactly those predicted, in bytes by kind and mesh axes."""
        return self.comparison.equal

    @property
    def ok(self) -> bool:
        """Whether all is as predicted, except for explained differences."""
        return self.comparison.ok

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks: explained differences, tiles, cycles and compiler options."""
        notes = list(self.explanations)
        if self.target.platform == "tpu" and self.memory.argument_bytes > self.predicted_memory.argument_bytes:
            notes.append(
                "a TPU stores arrays in tiles, which small or oddly shaped ones do not fill: they take more bytes there"
            )
        if self.cycles is not None:
            notes.append(
                f"{self.cycles:,} cycles of computation, as the compiler estimates them, without communication"
            )
        notes += [
            f"compiled with {name}={value}: without the device the compiler's own choice fails"
            for name, value in self.options.items()
        ]
        return tuple(notes)

    @functools.cached_property
    def predicted_memory(self) -> Memory:
        """The memory predicted for this compiler."""
        memory = memory_of(self.plan, self.target.machine.platform)
        return memory.donated if self.donated else memory

    @functools.cached_property
    def memory_rows(self) -> tuple[tuple[str, int | None, int], ...]:
        """Bytes of one device by name: predicted (None where nothing is), and compiled."""
        predicted, compiled = self.predicted_memory, self.memory
        rows = [
            ("arguments", predicted.argument_bytes, compiled.argument_bytes),
            ("outputs", predicted.output_bytes, compiled.output_bytes),
            ("at the peak", predicted.peak_bytes, compiled.peak_bytes),
        ]
        return (*rows, ("of these donated", None, compiled.alias_bytes)) if self.donated else tuple(rows)

    def __str__(self):
        lines = [f"{mark(self.ok)} compiled for {self.target}: {self._verdict()}", f"  {self._made_by()}"]
        lines += [line for heads, rows in self._tables() for line in comparison(heads, rows)]
        return "\n".join([*lines, *note_lines(self.notes)])

    __repr__ = __str__

    def _tables(self) -> tuple[tuple[Sequence[str], Sequence[Sequence[Cell]]], ...]:
        """The heads and rows of two tables: collectives, and memory."""
        rows = [
            (f"{mark(row.ok)} {named(row.kind, row.axes)}", row.predicted, row.compiled) for row in self.comparison.rows
        ]
        return (
            (("payload bytes per device", *_HEADS), rows or [(f"{mark(True)} no collectives",)]),
            (("memory per device, bytes", *_HEADS), [(*row, _off(*row[1:])) for row in self.memory_rows]),
        )

    @property
    def explanations(self) -> tuple[str, ...]:
        """The rule of each explained difference, with the number of arrays and their bytes."""
        sums_of: dict[str, list[int]] = {}
        for difference in self.comparison.differences:
            totals = sums_of.setdefault(difference.rule, [0, 0, 0])
            sizes = (1, difference.predicted_bytes, difference.compiled_bytes)
            for place, size in enumerate(sizes):
                totals[place] += size * difference.times
        return tuple(
            f"{rule} ({times:,} arrays, {before:,} B as predicted, {after:,} B as compiled): {RULES[rule]}"
            for rule, (times, before, after) in sums_of.items()
        )

    def _verdict(self) -> str:
        if self.equal:
            return "all collectives as predicted"
        wrong = sum(not row.ok for row in self.comparison.rows)
        explained = "all differences of collectives are explained"
        return explained if not wrong else f"{wrong} differences of collectives are not explained"

    def _made_by(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.device_kind} × {self.target.devices:,}; {versions}; {self.compile_seconds:.1f} s"

    def _repr_html_(self) -> str:
        tables = "".join(html_rows(rows, heads, "right") for heads, rows in self._tables())
        listed = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        title = f"{mark(self.ok)} <b>{html.escape(str(self.target))}</b>: {self._verdict()}"
        return f"<div>{title}<br><small>{html.escape(self._made_by())}</small>{tables}<ul>{listed}</ul></div>"


def compiled_from(plan: Plan, target: Target, donated: bool, answer: Mapping[str, Any], text: str) -> Compiled:
    """Reads the answer of the compiler's process (`worker.py`), and the text of the compiled program."""
    sizes, memory = plan.mesh.devices.axes, answer["memory"]
    # A loop whose trip count depends on data counts as one iteration, in the plan and here.
    collectives = read_collectives(text, sizes, unknown_trips=1)
    names = ("argument_size", "output_size", "alias_size", "peak_memory")
    return Compiled(
        plan=plan,
        target=target,
        donated=donated,
        collectives=collectives,
        comparison=compare(plan.collectives, collectives, sizes),
        memory=CompiledMemory(*(memory[name] for name in names)),
        cycles=estimated_cycles(text),
        device_kind=answer["device_kind"],
        standing=tuple(map(tuple, answer["standing"])) if answer["standing"] else None,
        compile_seconds=answer["compiling_seconds"],
        versions=dict(answer["versions"]),
        options=dict(answer["compiler_options"]),
        hlo=text,
    )


def estimated_cycles(text: str) -> int | None:
    """Returns the sum of the TPU compiler's cycles for all operations, times their executions; None without any."""
    if not _CYCLES.search(text):
        return None
    cycles = 0
    for visit in visits(parse_module(text), 1, _has_cycles):
        for instruction in visit.computation.instructions.values():
            if cost := _CYCLES.search(instruction.attributes):
                cycles += int(cost[1]) * visit.times
    return cycles


def _has_cycles(instruction: Instruction) -> bool:
    return _CYCLES.search(instruction.attributes) is not None


def _off(predicted: int | None, compiled: int) -> str:
    """The relative error of a prediction, as a percentage; "" where it is exact."""
    return f"{predicted / compiled - 1:+.0%}" if predicted is not None and compiled and predicted != compiled else ""
