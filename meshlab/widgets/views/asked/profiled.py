"""How far measuring the step is, and what it took in all, as JSON-like data; nothing where nobody measures.

    profile_part(explorer)      {"profile": {"phase": "done", "here": True, "simulated": True, "busy": 0.61, …}}

What each step took stands beside its prediction, in the slices of the step over time (`views/step_lanes.py`).
"""

from __future__ import annotations

from typing import TypedDict

from ....api.profile import Profile
from ...background.latest import DONE
from ...state.explorer_state import ExplorerState
from ...state.profiles import measured_as


class ProfiledView(TypedDict):
    """A measured step: its seconds, None on simulated devices, and shares of it, of devices and of events."""

    devices: str
    simulated: bool
    runs: int
    seconds: float | None
    busy: float
    waiting: float
    idle: float
    joined: float


class ProfileView(TypedDict):
    """The latest measuring: how far it is, its layout, and whether that is on the board."""

    number: int
    phase: str
    error: str
    layout: str
    here: bool
    profiled: ProfiledView | None


class ProfilePartView(TypedDict):
    profile: ProfileView | None


def profile_part(explorer: ExplorerState) -> ProfilePartView:
    job = explorer.profiles.last
    if job is None:
        return {"profile": None}
    return {
        "profile": {
            "number": job.number,
            "phase": job.phase,
            "error": job.error,
            "layout": str(job.of.layout),
            "here": job.of == measured_as(explorer.document),
            "profiled": _profiled(job.result) if job.phase == DONE else None,
        }
    }


def _profiled(profile: Profile) -> ProfiledView:
    busy, waiting, idle = (part / profile.seconds for part in (profile.busy, profile.waiting, profile.idle))
    return {
        "devices": profile.devices,
        "simulated": profile.simulated,
        "runs": profile.runs,
        "seconds": None if profile.simulated else profile.seconds,
        "busy": busy,
        "waiting": waiting,
        "idle": idle,
        "joined": profile.joined,
    }
