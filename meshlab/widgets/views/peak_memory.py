"""Peak memory of one device against its capacity, as the page shows it.

    peak_memory_view(plan, memory)      {"bytes": 70e9, "limit": 16e9, "fits": False, "text": "Does not fit: …", …}

Beside the verdict it has the bytes at the peak by role, the largest values then, and the memory at each step.
"""

from __future__ import annotations

from typing import Any

from ...cost.machines.accuracy import MEMORY, accuracy
from ...cost.machines.units import bytes_text, share_text
from ...cost.peak_memory.memory import Memory, Point
from ...cost.workload.scenario import STORED

MOST_ALIVE = 24
MOST_POINTS = 120
_NO_SCORES = "Without attention scores, which are computed block by block."


def peak_memory_view(plan: Any, memory: Memory) -> dict:
    """Describes the peak memory of a plan, and whether it fits its machine.

    Args:
        plan: a plan on a machine.
        memory: its memory.

    Returns:
        Plain data.
    """
    machine = plan.mesh.on.hardware
    peak, donated, limit = memory.peak_bytes, memory.donated.peak_bytes, memory.limit_bytes
    alive = memory.at_peak
    return {
        "bytes": peak,
        "donated": donated,
        "limit": limit,
        "fits": memory.fits,
        "note": " ".join(filter(None, (_NO_SCORES * (memory.attention != STORED), memory.other_compiler))),
        "text": verdict(peak, donated, limit, str(machine)),
        "parts": [{"name": role, "bytes": int(size)} for role, size in memory.parts.items()],
        "alive": [_alive(each) for each in alive[:MOST_ALIVE]],
        "left_out": max(0, len(alive) - MOST_ALIVE),
        "timeline": timeline_view(memory.timeline),
        "source": machine.memory.source,
        "recalled": not machine.memory.verified,
        "accuracy": accuracy(MEMORY, machine),
    }


def _alive(each: Any) -> dict:
    return {
        "name": each.name,
        "role": each.role,
        "bytes": int(each.bytes),
        "dims": list(each.dims),
        "shape": [int(size) for size in each.shape],
        "dtype": each.dtype,
        "source": "" if each.source is None else str(each.source),
    }


def timeline_view(points: tuple[Point, ...], most: int = MOST_POINTS) -> list[dict]:
    """Describes the memory at each step; of many steps the highest of each stretch, so that no peak is lost."""
    stride = max(1, -(-len(points) // most))
    highest = [max(points[i : i + stride], key=lambda point: point.bytes) for i in range(0, len(points), stride)]
    return [
        {"step": p.step, "source": "" if p.source is None else str(p.source), "bytes": int(p.bytes)} for p in highest
    ]


def verdict(peak: int, donated: int, limit: int, machine: str) -> str:
    """Says whether the peak fits, and whether it does where carried arguments are overwritten (`donate=True`)."""
    of = f"{bytes_text(limit)} of one device of {machine}"
    if peak <= limit:
        share = share_text(peak / limit) if peak >= limit / 1000 else "less than 0.1%"
        return f"Fits: peak memory is {bytes_text(peak)}, {share} of the {of}."
    over = f"Does not fit: peak memory is {bytes_text(peak)}, {bytes_text(peak - limit)} more than the {of}."
    if donated <= limit:
        return f"{over} With donate=True it fits: {bytes_text(donated)}."
    return f"{over} With donate=True it is {bytes_text(donated)}, still {bytes_text(donated - limit)} more."
