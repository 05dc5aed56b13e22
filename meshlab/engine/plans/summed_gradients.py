"""How a plan's sums leave gradients that no rule stores: split as what is made of them is stored.

    FSDP over data, no rule at grads/*:
    gradient of params/w1, partial over data → reduce-scatter → [embed/data, ·] → update of params/w1 [embed/data, ·]

    splits_after_sums(plan)     {"grads/params/w1": {"embed": ("data",)}, …}

What a layout says of a gradient holds where it has a rule there. Without one each device keeps the part of the sum that
it needs next.
"""

from __future__ import annotations

from typing import Any

from ..collectives.kinds import KINDS
from ..specs.spec import Axes


def splits_after_sums(plan: Any) -> dict[str, dict[str, Axes]]:
    """Returns the mesh axes of each dim of each gradient that a plan adds up over devices, by its place."""
    found: dict[str, dict[str, Axes]] = {}
    for row in plan.collectives:
        moved = row.moved
        if moved is None or moved.place not in plan.program.gradients or not KINDS[row.kind].sums:
            continue
        splits = zip(row.dims, moved.result.splits, strict=True)
        # The last sum of a gradient is what is complete.
        found[moved.place] = {dim: axes for dim, axes in splits if axes}
    return found
