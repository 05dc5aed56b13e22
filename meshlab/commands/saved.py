"""The file that `meshlab plan --save` writes, and `meshlab diff` reads.

    {"format": "meshlab plan", "version": 1, "program": {"name": ..., "dims": ...}, "machine": ..., "plan": ...}

`plan` is what `plan.to_json()` has; beside it stands what that does not say: whose plan it is, on which machine, the
peak where carried arguments are overwritten, and the proof where the layout was searched for. Every number is read off
the plan. The version changes when what is there is called otherwise, or means something else.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..api.explain import warnings
from ..api.stages import Plan
from ..auto.proof import Proof
from ..engine.axes.axis import Axis
from ..engine.axes.axis_kinds import read_axis
from ..engine.errors import first_of, shown
from ..engine.plans.collectives import wire_bytes_by_axis
from ..engine.whole_files import write_whole
from ..version import __version__
from .exits import UsageError
from .fields import Fields

FORMAT, VERSION = "meshlab plan", 1


@dataclasses.dataclass(frozen=True)
class Sent:
    """One collective of a saved plan.

    Attributes:
        kind: as of `Collective`, and so are the others.
        axes: the mesh axes, major first.
        value: a short name of what is moved.
        dims: of what is moved.
        source: the user's line; "" where it is not known.
        payload_bytes: of its operand on one device, one execution.
        wire_bytes: that one device sends, one execution.
        times: executions in one run.
    """

    kind: str
    axes: tuple[str, ...]
    value: str
    dims: tuple[str, ...]
    source: str
    payload_bytes: int
    wire_bytes: float
    times: int


@dataclasses.dataclass(frozen=True)
class Saved:
    """A plan as it was saved.

    Attributes:
        name: the program's.
        dims: the program's, with sizes.
        mesh: sizes by axis.
        machine: on which it is; "" where on none.
        layout: as `Layout.to_dict` has it.
        seconds: the estimate of a step; None where it is not predicted.
        no_time: why not.
        peak_bytes: of a device, where carried arguments are overwritten.
        fits: whether a device holds that; None where no machine is named.
        limit_bytes: of a device; None where no machine is named.
        wire_bytes: that one device sends in a step.
        by_axes: the same by mesh axes.
        collectives: all of them.
    """

    name: str
    dims: Mapping[str, int]
    mesh: Mapping[str, Any]
    machine: str
    layout: Mapping[str, Any]
    seconds: float | None
    no_time: str
    peak_bytes: int
    fits: bool | None
    limit_bytes: int | None
    wire_bytes: float
    by_axes: Mapping[str, float]
    collectives: tuple[Sent, ...]


def record(name: str, plan: Plan, proof: Proof | None = None) -> dict[str, Any]:
    """Returns all that is known of a plan, as JSON-able data.

    Args:
        name: the program's.
        plan: the plan.
        proof: of its layout, where that was searched for.
    """
    donated, order = plan.memory.donated, list(plan.mesh.axes)
    peak: dict[str, Any] = {"peak_bytes": donated.peak_bytes, "parts": dict(donated.parts)}
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


def check_destination(path: Path, option: str):
    """Refuses a path to which nothing can be written, before anything is planned."""
    if os.path.isdir(path):
        raise UsageError(f"{option}: `{path}` is a folder; give the name of a file: {option} {path / 'plan.json'}.")
    if not os.path.isdir(path.parent):
        raise UsageError(f"{option}: there is no folder `{path.parent}`; make it, or take another.")


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
            f"{where} is no saved plan, but a {type(data).__name__}{names}; `meshlab plan … --save {where}` writes one."
        )
    version = data.get("version")
    if version != VERSION or isinstance(version, bool):
        raise UsageError(
            f"{where} was saved as version {shown(version)}, by meshlab {data.get('meshlab')}; this one reads version"
            f" {VERSION}. Save it again: meshlab plan … --save {where}."
        )
    try:
        return _read(Fields(data))
    except (KeyError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{where} is damaged: {what}. Save it again: meshlab plan … --save {where}.") from None


def _read(data: Fields) -> Saved:
    plan, donated, program = data.fields("plan"), data.fields("donated"), data.fields("program")
    return Saved(
        name=program.text("name"),
        dims=program.fields("dims").all(Fields.whole),
        mesh=plan.fields("mesh").all(_axis_size),
        machine=data.text("machine") if data.has("machine") else "",
        layout=dict(plan.fields("layout").data),
        seconds=plan.fields("time").number("estimate") if plan.has("time") else None,
        no_time=plan.text("no_time") if plan.has("no_time") else "",
        peak_bytes=donated.whole("peak_bytes"),
        fits=donated.truth("fits") if donated.has("fits") else None,
        limit_bytes=int(donated.number("limit_bytes")) if donated.has("limit_bytes") else None,
        wire_bytes=plan.number("wire_bytes"),
        by_axes=data.fields("wire_bytes_by_axes").all(Fields.number),
        collectives=tuple(_sent(each) for each in plan.each("collectives")),
    )


def _axis_size(mesh: Fields, name: str) -> Any:
    """Returns the size of a mesh axis as it is saved: a number, or the data of another kind of axis."""
    given = mesh.data[name]
    return given if isinstance(read_axis(given), Axis) else mesh.whole(name)


def _sent(data: Fields) -> Sent:
    return Sent(
        kind=data.text("kind"),
        axes=data.texts("axes"),
        value=data.text("value"),
        dims=data.texts("dims"),
        source=data.text("source") if data.has("source") else "",
        payload_bytes=data.whole("payload_bytes"),
        wire_bytes=data.number("wire_bytes"),
        times=data.whole("times"),
    )
