"""A plan with what the cost model predicts of it: its memory, and on a machine its time."""

from __future__ import annotations

import functools

from ..cost.peak_memory.memory import Memory, memory_of
from ..cost.step_time.time import Time, time_of
from ..cost.workload.attention import DEFAULT
from ..cost.workload.scenario import at_plan_sizes
from ..engine.errors import MeshlabError
from ..engine.plans import plan_data


class Plan(plan_data.Plan):
    """A plan whose memory and time are predicted when they are first asked for."""

    @functools.cached_property
    def memory(self) -> Memory:
        """Predicted peak memory of one device, and its parts."""
        return memory_of(self).given(DEFAULT)

    @functools.cached_property
    def time(self) -> Time:
        """Predicted seconds of one run on the machine of the mesh.

        Raises:
            HardwareError: the mesh is placed on no machine, or a figure of the machine is missing.
        """
        try:
            return time_of(at_plan_sizes(self))
        except MeshlabError as error:
            raise error.with_traceback(None) from None  # a machine or a figure is the caller's to give
