"""The file that `meshlab plan --save` writes, and `meshlab diff` reads.

    {"format": "meshlab plan", "version": 1, "program": {"name": ..., "dims": ...}, "machine": ..., "plan": ...}

`plan` is what `plan.to_json()` has; beside it stands what that does not say: whose plan it is, on which machine, the
peak where carried arguments are overwritten, and the proof where the layout was searched for. Every number is read off
the plan. The version changes when what is there is called otherwise, or means something else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from ..api.explain import warnings
from ..api.stages import Plan
from ..auto.proof import Proof
from ..engine.axes.axis import Axis
from ..engine.axes.axis_kinds import read_axis
from ..engine.errors import first_of, shown
from ..engine.plans.collective import wire_bytes_by_axis
from ..engine.whole_files import write_whole
from ..version import __version__
from .exits import UsageError

FORMAT, VERSION = "meshlab plan", 1


# Finite, and more bytes than any machine has.
_Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[float, Meta(ge=-1e30, le=1e30)]


class Sent(Struct, frozen=True):
    """One collective of a saved plan.

    Attributes:
        kind: as of `Collective`, and so are the others.
        axes: the mesh axes, major first.
        value: a short name of what is moved.
        dims: of what is moved.
        source: the user's line; None where it is not known.
        payload_bytes: of its operand on one device, one execution.
        wire_bytes: that one device sends, one execution.
        times: executions in one run.
    """

    kind: str
    axes: tuple[str, ...]
    value: str
    dims: tuple[str, ...]
    source: str | None
    payload_bytes: _Whole
    wire_bytes: _Number
    times: _Whole


class SavedProgram(Struct, frozen=True):
    """The program of a saved plan: its name, and the sizes of its dims."""

    name: str
    dims: Mapping[str, _Whole]


class SavedTime(Struct, frozen=True):
    """The estimate of a step, in seconds."""

    estimate: _Number


class SavedCosts(Struct, frozen=True):
    """What `plan.to_json()` has: of a mesh axis that is not of devices its data; why no time is predicted."""

    mesh: Mapping[str, _Whole | dict[str, Any]]
    layout: Mapping[str, Any]
    collectives: tuple[Sent, ...]
    wire_bytes: _Number
    time: SavedTime | None = None
    no_time: str | None = None


class SavedPeak(Struct, frozen=True):
    """The peak where carried arguments are overwritten, and whether a device holds it, where a machine is named."""

    peak_bytes: _Whole
    fits: bool | None = None
    limit_bytes: _Number | None = None


class Saved(Struct, frozen=True):
    """A plan as it was saved: what is read of the file."""

    program: SavedProgram
    costs: SavedCosts = field(name="plan")
    peak: SavedPeak = field(name="donated")
    by_axes: Mapping[str, _Number] = field(name="wire_bytes_by_axes")
    machine: str | None = None

    @property
    def seconds(self) -> float | None:
        """The estimate of a step; None where it is not predicted."""
        return None if self.costs.time is None else self.costs.time.estimate


def record(name: str, plan: Plan, proof: Proof | None = None) -> dict[str, Any]:
    """Returns all that is known of a plan, as JSON-able data.

    Args:
        name: the program's.
        plan: the plan.
        proof: of its layout, where that was searched for.
    """
    donated, order = plan.memory.donated, list(plan.mesh.axes)
    peak: dict[str, Any] = {"peak_bytes": donated.peak_bytes, "parts": dict(donated.parts), "because": donated.because}
    if plan.mesh.on is not None:
        peak |= {"limit_bytes": donated.limit_bytes, "fits": donated.fits}
    in_order = sorted(plan.collectives, key=lambda c: [order.index(axis) for axis in c.axes])
    return {
        "format": FORMAT,
        "version": VERSION,
        "meshlab": __version__,
        "program": {"name": name, "dims": dict(plan.program.dims)},
        "machine": None if plan.mesh.on is None else str(plan.mesh.on),
        "devices": plan.mesh.size,
        "plan": json.loads(plan.to_json()),
        "donated": peak,
        "wire_bytes_by_axes": wire_bytes_by_axis(in_order),
        "warnings": list(warnings(plan)),
        "proof": None if proof is None else proof.to_dict(),
    }


# What files are called in errors, by the option that writes them.
_EXAMPLES = {"--code": "step.py", "--out": "board.html", "--trace": "step.json"}


def check_destination(path: Path, option: str):
    """Refuses a path to which nothing can be written, before anything is planned."""
    if os.path.isdir(path):
        example = path / _EXAMPLES.get(option, "plan.json")
        raise UsageError(f"{option}: `{path}` is a folder; give the name of a file: {option} {example}.")
    if not os.path.isdir(path.parent):
        raise UsageError(f"{option}: there is no folder `{path.parent}`; create it, or use another.")


def save(text: str, path: Path):
    """Writes a record, whole or not at all."""
    try:
        write_whole(path, text + "\n")
    except OSError as error:
        raise UsageError(f"--save: `{path}` cannot be written: {error.strerror}.") from None


def saved_of(data: Any, where: str) -> Saved:
    """Reads a record.

    Args:
        data: what the file's JSON says.
        where: the file, for the error.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        names = f" with {first_of(list(map(repr, data)))}" if isinstance(data, dict) else ""
        raise UsageError(
            f"{where} is not a saved plan, but a {type(data).__name__}{names}; `meshlab plan … --save {where}` writes"
            " one."
        )
    version = data.get("version")
    if version != VERSION or isinstance(version, bool):
        raise UsageError(
            f"{where} was saved as version {shown(version)}, by meshlab {data.get('meshlab')}; this one reads version"
            f" {VERSION}. Save it again: meshlab plan … --save {where}."
        )
    try:
        saved = msgspec.convert(data, Saved)
    except msgspec.ValidationError as error:
        raise UsageError(_damaged(where, str(error))) from None
    for name, size in saved.costs.mesh.items():
        if not isinstance(read_axis(size), int | Axis):
            raise UsageError(_damaged(where, f"`{name}` of its mesh is {shown(size)}, which is not a size"))
    return saved


def _damaged(where: str, why: str) -> str:
    return f"{where} is damaged: {why}. Save it again: meshlab plan … --save {where}."
