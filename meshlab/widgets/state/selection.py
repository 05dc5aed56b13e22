"""The place whose slices are shown: which ones there are, and the answer where there is no such place."""

from __future__ import annotations

from ...engine.errors import closest, listed
from ...engine.programs.data import Program
from .intents import Refused


def places_of(program: Program) -> list[str]:
    """Lists the places that hold a value (an output may be a constant)."""
    return [place for place in program.places if place in program.places_values]


def place_refused(place: str, program: Program) -> Refused | None:
    """Returns why a place cannot be selected, or None where it can."""
    places = places_of(program)
    if place in places:
        return None
    reason = f"There is no value at a place `{place}`.{closest(place, places)}"
    return Refused(reason, f"Use one of {listed(places[:8])}.", "unknown_place")
