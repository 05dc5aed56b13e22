"""Options: what is assumed about a run and no plan fixes, such as how attention is computed.

Options().given(attention="flash", prefetch=True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...engine.errors import closest, listed, shown
from ..machines.hardware import HardwareError
from .attention import ATTENTION, DEFAULT
from .linear import AS_WRITTEN, LINEAR
from .token_load import BALANCED, Load, read_load


@dataclasses.dataclass(frozen=True)
class Options:
    """Assumptions about a run that a plan does not fix.

    Attributes:
        attention: "stored", the scores are in memory, as the program has it; "flash", a fused kernel computes them tile
            by tile; "causal", so too, without the tiles that a causal mask hides, on the device that has most of them
            where positions are split; "default", as users of the machine run it: "stored" on CPUs, elsewhere "causal"
            where the program has such a mask, and "flash" where not.
        balanced: whether positions that are split lie so that a causal mask hides as much on each device.
        prefetch: whether a loop gathers the stored weights of the next iteration ahead, and reduces gradients during
            the next iteration, as PyTorch's FSDP does. The weights of the first iteration and the sums of the last stay
            exposed.
        linear: in which numbers linear matmuls are computed, forward and backward: "program", as the program has it;
            "fp8", in 8-bit floats, into which activations and their gradients are cast, while attention, heads, routers
            and lookups stay as the program has them.
        beside: whether a gather for matmuls, or a sum of what a matmul makes, runs piece by piece beside it, around a
            ring: a device computes with one piece while it receives or sends the next, as in Transformer Engine's user
            buffers and PyTorch's asynchronous tensor parallelism.
        book: whether collectives cost what the scaling book has: without (n-1)/n, and without substitutes of a
            compiler.
        load: how often tokens choose each expert of `ml.dispatch`: "balanced", equally often; "zipf:1.2", the n-th
            expert in proportion to n ** -1.2; or measured counts, one for each expert. All devices wait for the one
            with the most rows.
        free_running: whether each stage of a pipeline runs by itself, as processes that send to each other do; a plan
            runs in lockstep: all stages exchange after each tick.
    """

    attention: str = DEFAULT
    prefetch: bool = False
    balanced: bool = False
    book: bool = False
    linear: str = AS_WRITTEN
    beside: bool = False
    load: Load = BALANCED
    free_running: bool = False

    def __post_init__(self):
        problems = []
        if not isinstance(self.attention, str) or self.attention not in ATTENTION:
            problems.append(
                f"There is no attention {shown(self.attention)}.{closest(self.attention, ATTENTION)} There are"
                f" {listed(ATTENTION)}."
            )
        if not isinstance(self.linear, str) or self.linear not in LINEAR:
            problems.append(
                f"Linear matmuls cannot be computed in {shown(self.linear)}.{closest(self.linear, LINEAR)} There are"
                f" {listed(LINEAR)}."
            )
        switches = ("prefetch", "balanced", "beside", "book", "free_running")
        unclear = [name for name in switches if not isinstance(getattr(self, name), bool)]
        if unclear:
            problems.append(f"{listed(unclear)} must be True or False, not {shown(getattr(self, unclear[0]))}.")
        try:
            # Options are compared, and kept as keys: arrays become tuples.
            object.__setattr__(self, "load", read_load(self.load))
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise HardwareError(" ".join(problems))

    @classmethod
    def read(cls, what: str, given: Any) -> Options:
        """Returns the options of a dict, or of None."""
        if not isinstance(given, Mapping | None) or not all(isinstance(name, str) for name in given or ()):
            raise HardwareError(
                f'{what}() was given options={shown(given)}; they are a dict: options={{"attention": "flash"}}.'
            )
        return cls().given(**(given or {}))

    def given(self, **options: Any) -> Options:
        """Returns the same options with some changed."""
        known = [field.name for field in dataclasses.fields(Options)]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise HardwareError(
                f"There is no option {listed(unknown)}.{closest(unknown[0], known)} There are {listed(known)}."
            )
        return dataclasses.replace(self, **options)


# What is assumed where nothing is said.
USUAL = Options()
