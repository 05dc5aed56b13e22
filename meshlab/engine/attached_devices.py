"""Says what plans would run on: `ml.devices()`.

    >>> print(devices())                                                    # doctest: +SKIP
    JAX has 4 GPU devices (NVIDIA H100).
    Larger meshes of up to 64 devices run on simulated CPU devices (results and traffic are real, times are not).

JAX says what is attached when it is first used, and this uses it. (`describe` in devices.py is about one run.)
"""

from __future__ import annotations

import dataclasses

import jax

from .devices import LIMIT
from .processes import is_joined


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices that plans would run on; prints as text.

    Attributes:
        platform: "cpu", "gpu" or "tpu".
        kind: of device, as JAX names it: "NVIDIA H100", "TPU v5 lite", "cpu".
        attached: how many, of all processes together.
        here: how many of them this process has.
        simulated: the largest mesh that would run on simulated CPU devices; 0 where none would.
        process: the number of this process.
        processes: how many processes run this program.
    """

    platform: str
    kind: str
    attached: int
    here: int
    simulated: int
    process: int
    processes: int

    def __str__(self):
        name = "CPU" if self.platform == "cpu" else self.platform.upper()
        devices = f"{self.attached} {name} device{'s' * (self.attached != 1)}"
        kind = ", and no accelerator" if self.platform == "cpu" else f" ({self.kind})"
        lines = [f"JAX has {devices}{kind}."]
        if self.simulated:
            which = "Meshes" if self.platform == "cpu" else "Larger meshes"
            note = "results and traffic are real, times are not"
            lines.append(f"{which} of up to {self.simulated} devices run on simulated CPU devices ({note}).")
        if self.processes > 1:
            lines.append(f"This is process {self.process} of {self.processes}; it has {self.here} of the devices.")
        return "\n".join(lines)

    __repr__ = __str__


def devices() -> Devices:
    """Says which devices plans would run on: attached ones, or simulated ones, and in which of how many processes.

    It starts JAX, if nothing else has.

    Example:
        >>> ml.simulate(8)
        >>> ml.devices().attached
        8
    """
    attached = jax.devices()
    return Devices(
        platform=attached[0].platform,
        kind=attached[0].device_kind,
        attached=len(attached),
        here=len(jax.local_devices()),
        simulated=_most_simulated(attached[0].platform, len(attached)),
        process=jax.process_index(),
        processes=jax.process_count(),
    )


def _most_simulated(platform: str, attached: int) -> int:
    """Returns the largest mesh that is simulated: processes that have joined can start no more devices."""
    if is_joined():
        return attached if platform == "cpu" else 0
    return LIMIT if platform == "cpu" or attached < LIMIT else 0
