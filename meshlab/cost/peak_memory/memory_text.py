"""The peak memory of a device as text: its parts, the stages of a pipeline, and the largest values at the peak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..machines.accuracy import MEMORY, accuracy
from ..workload.attention import STORED

_SHOWN = 8


def memory_text(memory: Any) -> str:
    """Writes a `Memory` as lines of text."""
    return "\n".join(filter(None, (*_lines(memory), memory.because)))


def _lines(memory: Any) -> Iterator[str]:
    yield f"{'peak, donated' if memory.is_donated else 'peak':<16} {memory.peak_bytes:>15,} B"
    yield from _machine_lines(memory)
    yield from (f"{role:<16} {size:>15,} B" for role, size in memory.parts.items())
    if memory.stages:
        yield "peak of each stage, while its cells run:"
        yield from (f"{f'stage {each.stage}':<16} {each}" for each in memory.stages)
    yield "at the peak:"
    yield from (f"{a.bytes:>15,} B  {a.role:<16} {a.name} [{' '.join(a.dims)}]" for a in memory.at_peak[:_SHOWN])


def _machine_lines(memory: Any) -> Iterator[str]:
    """The memory of a device, whether the peak fits, and the measured error of such peaks."""
    if memory.plan.mesh.on is not None:
        machine = memory.plan.mesh.on.hardware
        yield f"{'device memory':<16} {memory.limit_bytes:>15,} B: {memory.verdict}"
        yield f"{'accuracy':<16} {accuracy(MEMORY, machine)['text']}"
    if memory.other_compiler:
        yield f"{'compiler':<16} {memory.other_compiler}"
    if memory.range.factors:
        yield f"{'range':<16} {memory.range}"
    if memory.attention != STORED:
        yield f"{'attention':<16} in a fused kernel, which stores no scores"
