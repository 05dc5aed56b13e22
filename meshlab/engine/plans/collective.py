"""What is said of one collective of a plan: what it sends, where, how often, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..code.source import Source
from ..collectives.kinds import Sending
from ..specs.spec import Axes
from .moved_values import Moved
from .remedies import Remedy, sentence
from .trials import Trials


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a plan.

    Attributes:
        kind: all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute.
        axes: the mesh axes, major first.
        payload_bytes: bytes of its operand on one device, one execution.
        wire_bytes: bytes that one device sends, one execution (ring).
        times: executions in one run of the plan; in a branch, on the device that takes it most often.
        dtype: of its operand.
        shape: of its operand on one device.
        value: a short name of what is moved.
        dims: the dims of what is moved.
        source: the user's line that causes it.
        because: why it is there.
        proposed: what may remove it: alternatives, some of which are changes of the layout, none of them tried.
        asked: what a device asks of the others; of a collective-permute with its route.
        chain: for a move between two specs that takes more than a gather: the whole chain, and what its
            gather-then-slice alternative would send.
        moved: the value that it takes from one spec to another; None for what an operation sends inside it.
        cause: "sum", "operand", "stored", "carry" or "branch", as steps have it; "inside" an operation; from "stage" to
            stage.
        split: the dims whose split is the cause.
        turns: how many executions follow each other, each of which sends on what the one before it brought.
        compiled: how often the compiled program counts it, where that is more: a branch counts in each iteration of a
            loop.
        trials: tries what is proposed, when that is read.
    """

    kind: str
    axes: Axes
    payload_bytes: int
    wire_bytes: float
    times: int
    dtype: str
    shape: tuple[int, ...]
    value: str
    dims: tuple[str, ...]
    source: Source | None
    because: str
    proposed: tuple[Remedy, ...]
    asked: Sending
    chain: str = ""
    moved: Moved | None = None
    cause: str = ""
    split: tuple[str, ...] = ()
    turns: int = 1
    compiled: int | None = None
    trials: Trials | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def counted(self) -> int:
        """How often the compiled program counts it."""
        return self.times if self.compiled is None else self.compiled

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What would remove it: the legal ones of all that may, each planned, with its outcome."""
        return self.trials.of(self.proposed, self.axes, self.because) if self.trials is not None else ()

    @property
    def remedy(self) -> str:
        """What would remove it, in a sentence; "" where nothing would."""
        return sentence(self.remedies)


def wire_bytes_by_axis(collectives: Iterable[Collective]) -> dict[str, float]:
    """Adds up what one device sends in one run by mesh axes, such as "data" or "data+model", in the order given."""
    by_axis: dict[str, float] = {}
    for c in collectives:
        key = "+".join(c.axes)
        by_axis[key] = by_axis.get(key, 0.0) + c.wire_bytes * c.times
    return by_axis
