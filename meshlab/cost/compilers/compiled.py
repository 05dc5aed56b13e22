"""What a compiler made of a plan, beside what was predicted: see `compilers.py`, which makes it.

found.ok              whether all collectives are as predicted, or the difference is explained
found.comparison      bytes by kind and mesh axes; each difference with its rule (`differences.py`)
found.memory          bytes of one device, as the compiler allots them
found.cycles          of all operations, as the TPU compiler estimates them
"""

from __future__ import annotations

import dataclasses
import functools
import html
import re
from collections.abc import Mapping
from typing import Any

from ...engine.plans.data import Plan
from ...engine.verifying.hlo import HloCollective, read_collectives
from ...engine.verifying.hlo_text import Instruction, parse_module
from ...engine.verifying.hlo_walk import visits
from ..peak_memory.memory import Memory, memory_of
from .differences import RULES, Comparison, Row, compare
from .targets import Target

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


@dataclasses.dataclass(frozen=True)
class CompiledMemory:
    """Bytes of one device, as a compiler allots them.

    A TPU keeps arrays in tiles of 8 x 128 numbers and more, which small or oddly shaped ones do not fill: arguments and
    outputs may take more than their numbers do.

    Attributes:
        argument_bytes: of all arguments.
        output_bytes: of all outputs.
        alias_bytes: of outputs that lie where arguments lay, which were donated.
        peak_bytes: the most that is held at one time: arguments, outputs and temporaries.
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    peak_bytes: int


@dataclasses.dataclass(frozen=True, eq=False)
class Compiled:
    """A plan, compiled for a machine that is not attached; made by `ml.compile_for`.

    Attributes:
        plan: what was compiled.
        target: for what.
        donated: whether the arguments that the next call gets anew may be overwritten.
        collectives: of the compiled program, as read from its text.
        comparison: of the collectives with those of the plan.
        memory: of one device.
        cycles: the compiler's estimate for all operations of one run on one device, loops counted as often as they
            turn; what is sent between devices is not among it. None where the compiler gives none (GPUs).
        device_kind: what the compiler calls the device.
        standing: where each device of the mesh stands on a TPU's slice, row-major: the chip's coordinates, and which of
            the chip's devices it is; None for GPUs, which are numbered as they stand.
        compile_seconds: how long the compiler took.
        versions: of the compiler and of JAX, by package.
        options: with which it had to be compiled, if not with the compiler's own.
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
        """The most bytes that one device holds at one time."""
        return self.memory.peak_bytes

    @property
    def equal(self) -> bool:
        """Whether the compiled collectives are exactly those predicted, in bytes by kind and mesh axes."""
        return self.comparison.equal

    @property
    def ok(self) -> bool:
        """Whether they are, but for differences that are explained."""
        return self.comparison.ok

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth saying beside the bytes."""
        notes = list(self.explanations)
        if self.target.platform == "tpu" and self.memory.argument_bytes > self.predicted_memory.argument_bytes:
            notes.append(
                "a TPU keeps arrays in tiles, which small or oddly shaped ones do not fill: they take more there"
            )
        if self.cycles is not None:
            notes.append(f"{self.cycles:,} cycles of computing, as the compiler estimates them, without what is sent")
        notes += [
            f"compiled with {name}={value}: with its own choice, which it cannot try out without the device, it fails"
            for name, value in self.options.items()
        ]
        return tuple(notes)

    @functools.cached_property
    def predicted_memory(self) -> Memory:
        """The memory that is predicted for this compiler."""
        found = memory_of(self.plan, self.target.machine.platform)
        return found.donated if self.donated else found

    @functools.cached_property
    def memory_rows(self) -> tuple[tuple[str, int | None, int], ...]:
        """Bytes of one device: what they are of, predicted (None where nothing is), and compiled."""
        planned, made = self.predicted_memory, self.memory
        rows = [
            ("arguments", planned.argument_bytes, made.argument_bytes),
            ("outputs", planned.output_bytes, made.output_bytes),
            ("at the peak", planned.peak_bytes, made.peak_bytes),
        ]
        return (*rows, ("of these donated", None, made.alias_bytes)) if self.donated else tuple(rows)

    def __str__(self):
        lines = [f"{_mark(self.ok)} compiled for {self.target}: {self._verdict()}", f"  {self._made_by()}"]
        lines.append(f"  {'payload bytes of a device':44}{'predicted':>16}{'compiled':>16}")
        lines += [
            f"  {_mark(row.ok)} {_name(row):42}{row.predicted:16,}{row.compiled:16,}" for row in self.comparison.rows
        ]
        if not self.comparison.rows:
            lines.append(f"  {_mark(True)} no collectives")
        lines.append(f"  {'memory of a device, bytes':44}{'predicted':>16}{'compiled':>16}")
        lines += [
            f"    {name:42}{_count(planned):>16}{made:16,}{_off(planned, made)}"
            for name, planned, made in self.memory_rows
        ]
        return "\n".join([*lines, *(f"  · {note}" for note in self.notes)])

    __repr__ = __str__

    @property
    def explanations(self) -> tuple[str, ...]:
        """Every rule by which collectives differ, with how many do, and their bytes."""
        found: dict[str, list[int]] = {}
        for difference in self.comparison.differences:
            sums = found.setdefault(difference.rule, [0, 0, 0])
            sizes = (1, difference.predicted_bytes, difference.compiled_bytes)
            for place, size in enumerate(sizes):
                sums[place] += size * difference.times
        return tuple(
            f"{rule} ({times:,} arrays, {before:,} B as predicted, {after:,} B as compiled): {RULES[rule]}"
            for rule, (times, before, after) in found.items()
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
        head = '<tr><th style="text-align:left">{}</th><th>predicted</th><th>compiled</th><th></th></tr>'
        rows = [head.format("payload bytes of a device")]
        rows += [_row(f"{_mark(row.ok)} {_name(row)}", row.predicted, row.compiled) for row in self.comparison.rows]
        rows.append(head.format("memory of a device, bytes"))
        rows += [_row(*row, _off(*row[1:])) for row in self.memory_rows]
        listed = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        title = f"{_mark(self.ok)} <b>{html.escape(str(self.target))}</b>: {self._verdict()}"
        return (
            f"<div>{title}<br><small>{html.escape(self._made_by())}</small>"
            f"<table>{''.join(rows)}</table><ul>{listed}</ul></div>"
        )


def compiled_from(plan: Plan, target: Target, donated: bool, answer: Mapping[str, Any], text: str) -> Compiled:
    """Reads what the compiler's process has answered.

    Args:
        plan: what was compiled.
        target: for what.
        donated: whether arguments were.
        answer: of `compiling.py`.
        text: of the compiled program.

    Raises:
        RunError: the text holds a collective that cannot be read.
    """
    sizes, found = plan.mesh.axes, answer["memory"]
    # A loop that stops by its data is counted as one turn, in the plan and here.
    collectives = read_collectives(text, sizes, unknown_trips=1)
    names = ("argument_size", "output_size", "alias_size", "peak_memory")
    return Compiled(
        plan=plan,
        target=target,
        donated=donated,
        collectives=collectives,
        comparison=compare(plan.collectives, collectives, sizes),
        memory=CompiledMemory(*(found[name] for name in names)),
        cycles=estimated_cycles(text),
        device_kind=answer["device_kind"],
        standing=tuple(map(tuple, answer["standing"])) if answer["standing"] else None,
        compile_seconds=answer["compiling_seconds"],
        versions=dict(answer["versions"]),
        options=dict(answer["compiler_options"]),
        hlo=text,
    )


def estimated_cycles(text: str) -> int | None:
    """Adds up the cycles that the TPU compiler writes beside each operation, times its executions; None without any."""
    if not _CYCLES.search(text):
        return None
    cycles = 0
    for visit in visits(parse_module(text), 1, _has_cycles):
        for instruction in visit.computation.instructions.values():
            if found := _CYCLES.search(instruction.attributes):
                cycles += int(found[1]) * visit.times
    return cycles


def _has_cycles(instruction: Instruction) -> bool:
    return _CYCLES.search(instruction.attributes) is not None


def _mark(good: bool) -> str:
    return "✓" if good else "✗"


def _name(row: Row) -> str:
    return f"{row.kind} over {'+'.join(row.axes or ('?',))}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _off(planned: int | None, made: int) -> str:
    """How much too high a prediction is, in percent; nothing where it is exact."""
    return f"{planned / made - 1:+8.0%}" if planned is not None and made and planned != made else ""


def _row(name: str, planned: int | None, made: int, off: str = "") -> str:
    cells = (_count(planned), _count(made), off.strip())
    numbers = "".join(f'<td style="text-align:right">{cell}</td>' for cell in cells)
    return f'<tr><td style="text-align:left">{html.escape(name)}</td>{numbers}</tr>'
