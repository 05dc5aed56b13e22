"""What a step costs over the sizes of a dim or of a mesh axis, as JSON-like data; nothing where nobody asks."""

from __future__ import annotations

from typing import TypedDict

from ...state.explorer_state import ExplorerState


class PointView(TypedDict):
    """A size, and what a step costs there; or why the layout does not fit it."""

    size: int
    seconds: float | None
    peak: int | None
    bytes: int | None
    arguments: int | None
    refused: str


class CurveView(TypedDict):
    """The sizes that can be taken, the points that are worked out, and the bytes that a device holds at most."""

    kind: str
    name: str
    present: int
    sizes: list[int]
    points: list[PointView]
    phase: str
    error: str
    limit: int | None


class CurvePartView(TypedDict):
    curve: CurveView | None


def curve_part(explorer: ExplorerState) -> CurvePartView:
    curve = explorer.curves.last
    if curve is None:
        return {"curve": None}
    on = explorer.mesh.on
    points: list[PointView] = [
        {
            "size": each.size,
            "seconds": each.seconds,
            "peak": each.peak_bytes,
            "bytes": each.wire_bytes,
            "arguments": each.argument_bytes,
            "refused": each.refused,
        }
        for each in curve.points
    ]
    return {
        "curve": {
            "kind": curve.kind,
            "name": curve.name,
            "present": curve.present,
            "sizes": list(curve.sizes),
            "points": points,
            "phase": curve.phase,
            "error": curve.error,
            "limit": None if on is None else int(on.hardware.memory_bytes),
        }
    }
