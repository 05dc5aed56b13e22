"""What one device holds, against what it can hold: fits or does not, by so much, in words.

    held_view(plan)       {"bytes": 70e9, "limit": 16e9, "fits": False, "text": "Does not fit: …, 54.0 GB more than …"}

Arguments and outputs are exact, and a step holds all arguments when it begins and all outputs when it ends. So what is
larger than a device cannot fit, whatever happens in between; what is smaller may or may not (`fits` is None).
"""

from __future__ import annotations

from typing import Any

from ..cost.topology import Placement
from .accuracy import COMPILERS, MEMORY, accuracy
from .palette import count_bytes, percent


def held_view(plan: Any) -> dict | None:
    """Holds the memory of a plan against its machine's.

    Args:
        plan: the plan.

    Returns:
        Plain data; None where the mesh lies on no machine.
    """
    placement = plan.mesh.on
    if not isinstance(placement, Placement):
        return None
    limit = int(placement.hardware.memory_bytes)
    held, what = held_bytes(plan)
    figure = placement.hardware.memory
    return {
        "bytes": held,
        "what": what,
        "limit": limit,
        "fits": False if held > limit else None,
        "text": fits_told(held, what, limit, str(placement.hardware)),
        "source": figure.source,
        "recalled": not figure.verified,
        "accuracy": accuracy(MEMORY, COMPILERS),
    }


def held_bytes(plan: Any) -> tuple[int, str]:
    """Returns the most bytes that are known to be held at once, and of what."""
    memory = plan.memory
    found = {"arguments": int(memory.argument_bytes), "outputs": int(memory.output_bytes)}
    what = max(found, key=lambda name: found[name])
    return found[what], what


def fits_told(held: int, what: str, limit: int, machine: str) -> str:
    """Says whether it fits."""
    of = f"{count_bytes(limit)} of one device of {machine}"
    if held > limit:
        return f"Does not fit: {what} alone take {count_bytes(held)}, {count_bytes(held - limit)} more than the {of}."
    return (
        f"{what.capitalize()} take {count_bytes(held)}, {percent(held / limit)} of the {of}."
        " What a step holds besides is not predicted yet."
    )
