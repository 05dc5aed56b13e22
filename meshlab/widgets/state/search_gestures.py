"""What a script says to the board's searches: what they keep to, when they end.

explorer.pin("batch", "data")       explorer.silence("model")
explorer.limit_auto(memory="60 GB", seconds=60)
explorer.stop_auto()                the best so far comes on the board
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ...engine.argument_checks import flag
from ...engine.tensors.dims import Dim
from ..documents.document import ExplorerError
from ..documents.intents import Allow, CancelAuto, Forbid, LimitAuto, Outcome, Pin, Silence, StopAuto, Unpin
from .run_gestures import RunGestures


class SearchGestures(RunGestures):
    """The methods of an Explorer that concern its searches; `Searches` carries them out."""

    def pin(self, dim: Dim | str, axis: str | None = None) -> Outcome:
        """Keeps a dim on a mesh axis in searches; whole, if none is given. The present layout stays."""
        return self.apply(Pin(self._dim_and_place(dim, None), axis))

    def unpin(self, dim: Dim | str) -> Outcome:
        """Lets searches choose a dim's axis again."""
        return self.apply(Unpin(self._dim_and_place(dim, None)))

    def forbid(self, dim: Dim | str, axis: str) -> Outcome:
        """Keeps a dim off a mesh axis in searches. The present layout stays."""
        return self.apply(Forbid(self._dim_and_place(dim, None), axis))

    def allow(self, dim: Dim | str, axis: str) -> Outcome:
        """Lets searches put a dim on a mesh axis again."""
        return self.apply(Allow(self._dim_and_place(dim, None), axis))

    def silence(self, axis: str, silent: bool = True) -> Outcome:
        """Has searches find what sends nothing over a mesh axis; or, with `silent=False`, what may."""
        return self.apply(Silence(axis, flag("silence()", "silent", silent, ExplorerError)))

    def limit_auto(
        self, memory: float | str | UnsetType | None = UNSET, seconds: float | str | UnsetType | None = UNSET
    ) -> Outcome:
        """Limits searches; what is not named stays as it is.

        Args:
            memory: what a peak may take: a share of a device's memory, 0.9 or "90%", or "60 GB"; None for any.
            seconds: after so many, or "90 s", the best so far is taken; None for never.
        """
        return self.apply(LimitAuto(memory, seconds))

    def cancel_auto(self) -> Outcome:
        """Stops the present search, for a layout or for exact regrets; its result is not shown."""
        return self.apply(CancelAuto())

    def stop_auto(self) -> Outcome:
        """Ends the present search with the best layout so far, which comes on the board."""
        return self.apply(StopAuto())
