"""Tells waiting from sending: what a device does in a collective before the last one of its group has come to it.

Of each collective the first execution on all devices of a group belongs together, and the second, and so on. The last
device to begin it begins the transfer: what the others have spent in it until then, they have waited.

    device 0   |wwww|tttttt|
    device 1        |tttttt|
"""

from __future__ import annotations

from collections.abc import Iterable

from .recorded import Event


def waiting(events: Iterable[Event], groups: Iterable[Iterable[int]]) -> dict[Event, float]:
    """Returns the seconds that each execution of one collective waits, in one run.

    Args:
        events: its executions on all devices.
        groups: the devices that wait for each other.
    """
    by_device: dict[int, list[Event]] = {}
    for event in sorted(events, key=lambda event: event.begin):
        by_device.setdefault(event.device, []).append(event)
    waits: dict[Event, float] = {}
    for group in groups:
        for together in zip(*(by_device.get(device, []) for device in group), strict=False):
            last = max(event.begin for event in together)
            waits |= {event: min(last, event.end) - event.begin for event in together}
    return waits
