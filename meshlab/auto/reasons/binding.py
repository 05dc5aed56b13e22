"""What binds the best layout: memory, the collectives for which kernels wait, or the kernels themselves.

print(choice.binding)

step: limited by compute; 4.1% of it is exposed communication
memory: 14.3 GB of 86.4 GB with arguments donated, at `dot_general` (llama.py:80)
"""

from __future__ import annotations

import dataclasses

from ...cost.machines.units import bytes_text, seconds_text, share_text
from ...engine.code.source import Source
from ..best_first.pricer import LayoutPrice
from ..best_first.search import Search


@dataclasses.dataclass(frozen=True)
class Binding:
    """What binds a layout.

    Attributes:
        limited_by: the part of the step that takes longest: "compute", "memory", or "communication over" mesh axes.
        exposed: the share of the step in which kernels wait for communication.
        peak_bytes: at the donated peak.
        most_bytes: that it may take; None: any.
        step: the operation or collective at which the peak is reached.
        source: its line in the user's code.
        faster: the fastest layout met that does not fit: what memory costs; None where there is none.
        saves: seconds that it takes less.
        needs: bytes that it takes more than there are.
    """

    limited_by: str
    exposed: float
    peak_bytes: int
    most_bytes: float | None
    step: str
    source: Source | None
    faster: str | None = None
    saves: float = 0.0
    needs: float = 0.0

    def __str__(self):
        where = f"`{self.step}`" + (f" ({self.source})" if self.source else "")
        of = "" if self.most_bytes is None else f" of {bytes_text(self.most_bytes)}"
        lines = [
            f"step: limited by {self.limited_by}; {share_text(self.exposed)} of it is exposed communication",
            f"memory: {bytes_text(self.peak_bytes)}{of} with arguments donated, at {where}",
        ]
        if self.faster is not None:
            lines.append(
                f"with {bytes_text(self.needs)} more memory, {seconds_text(self.saves)} less, under {self.faster}"
            )
        return "\n".join(lines)


def binding(search: Search, chosen: LayoutPrice) -> Binding:
    most = search.limits.most_bytes
    outside = [p for p in search.met.values() if p.seconds < chosen.seconds and not search.fits(p)]
    faster = min(outside, key=lambda price: price.seconds, default=None)
    point = max(chosen.memory.timeline, key=lambda point: point.bytes)
    return Binding(
        limited_by=chosen.time.limited_by,
        exposed=float(chosen.time.exposed) / chosen.seconds if chosen.seconds else 0.0,
        peak_bytes=chosen.peak_bytes,
        most_bytes=most,
        step=point.step,
        source=point.source,
        faster=None if faster is None else str(faster.layout) or "no rules",
        saves=0.0 if faster is None else chosen.seconds - faster.seconds,
        needs=0.0 if faster is None or most is None else faster.peak_bytes - most,
    )
