"""The machine as JSON-like data: the choices, the chosen one, the placement of the mesh on it, and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from ...cost.machines.accuracy import COLLECTIVES
from ...cost.machines.attached import ATTACHED, folder
from ...cost.machines.hardware import Switch, hardware, known
from ...cost.machines.meshes import slice_of
from ...cost.machines.placed import AxisPlacement, Placement
from ...engine.specs.mesh import Mesh
from ..documents.document import MeshSizes
from ..documents.machines import Choice, CustomMachines, fit, placements_of
from ..state.explorer_state import ExplorerState
from .machine_figures import AccuracyView, FigureView, accuracy_view, figures_view

_PLATFORMS = (("tpu", "TPU"), ("gpu", "GPU"), ("cpu", "CPU"))
_DERIVED = "as derived"


class OfferView(TypedDict):
    """A machine to choose, with the slice that is taken where it is chosen."""

    name: str
    title: str
    on: str
    slice: str
    fits: bool


class OffersView(TypedDict):
    label: str
    machines: list[OfferView]


class MachineSliceView(TypedDict):
    on: str
    slice: str


class PlacementChoiceView(TypedDict):
    """A placement of a mesh axis, and the change to ask for; an axis that has nothing there is to be derived."""

    label: str
    along: dict[str, int | list[int] | str | None]
    chosen: bool


class PlacedAxisView(TypedDict):
    name: str
    size: int
    placement: str
    choices: list[PlacementChoiceView]


class ChosenMachineView(TypedDict, total=False):
    """What is known where a machine is chosen; nothing of it is there where none is."""

    title: str
    slice: str
    slices: list[MachineSliceView]
    kind: str
    axes: list[PlacedAxisView]
    figures: list[FigureView]
    accuracy: AccuracyView


class MachineView(ChosenMachineView):
    """The machine and those to choose from; `on` and `name` are empty where none is chosen."""

    on: str
    name: str
    groups: list[OffersView]


def machine_view(explorer: ExplorerState) -> MachineView:
    """Describes the machine of an Explorer, and the machines to choose from."""
    document, mesh, custom = explorer.document, explorer.mesh, explorer.documents.machines
    chosen = slice_of(document.machine.on)[0] if document.machine else ""
    groups = groups_view(document.mesh, custom)
    view: MachineView = {"on": document.machine.on if document.machine else "", "name": chosen, "groups": groups}
    if document.machine is None:
        return view
    # Each choice is placed to see whether it can be: no drop changes which can.
    axes = explorer.documents.plans.of_mesh(document, axes_view)
    return {**view, **_chosen(mesh, chosen, custom, axes)}


def groups_view(axes: MeshSizes, custom: CustomMachines) -> list[OffersView]:
    """Lists the machines by platform, each with the slice that is taken where it is chosen."""
    groups = [
        (label, [name for name, machine in known().items() if machine.platform == platform])
        for platform, label in _PLATFORMS
    ]
    # Only whether any were measured: asking which devices are attached would start them.
    measured = [ATTACHED] if any(folder().glob("*.toml")) else []
    groups += [("measured here", measured), ("your own", list(custom))]
    return [{"label": label, "machines": [_option(n, axes, custom) for n in names]} for label, names in groups if names]


def _option(name: str, axes: MeshSizes, custom: CustomMachines) -> OfferView:
    if name == ATTACHED:
        return {"name": name, "title": "the attached devices", "on": name, "slice": "", "fits": True}
    shapes = fit(name, axes, custom, most=1)
    title = str(custom[name] if name in custom else hardware(name))
    on = f"{name}:{shapes[0]}" if shapes else name
    return {"name": name, "title": title, "on": on, "slice": shapes[0] if shapes else "", "fits": bool(shapes)}


def _chosen(mesh: Mesh, name: str, custom: CustomMachines, axes: list[PlacedAxisView]) -> ChosenMachineView:
    placement: Placement = mesh.on
    shapes = list(fit(name, mesh.shape, custom))
    if placement.slice not in shapes:
        shapes.append(placement.slice)
    return {
        "title": str(placement.hardware),
        "slice": placement.slice,
        "slices": [{"on": f"{name}:{shape}", "slice": shape} for shape in shapes],
        "kind": "nodes × devices" if isinstance(placement.hardware.network, Switch) else "slice",
        "axes": axes,
        "figures": figures_view(placement.hardware),
        "accuracy": accuracy_view(COLLECTIVES, placement.hardware),
    }


def axes_view(mesh: Mesh) -> list[PlacedAxisView]:
    """Describes the placement of each mesh axis, and its choices, each with the change to ask for."""
    placement: Placement = mesh.on
    choices = placements_of(mesh)
    return [
        {
            "name": name,
            "size": size,
            "placement": placement.describe(name),
            "choices": _choices(name, placement.requested, choices[name]),
        }
        for name, size in mesh.devices.axes.items()
    ]


def _choices(name: str, requested: Mapping[str, AxisPlacement], others: list[Choice]) -> list[PlacementChoiceView]:
    if not others:
        return []
    derived: PlacementChoiceView = {"label": _DERIVED, "along": {name: None}, "chosen": name not in requested}
    return [derived, *({"label": _label(w), "along": _plain(c), "chosen": requested.get(name) == w} for w, c in others)]


def _plain(changes: Mapping[str, AxisPlacement | None]) -> dict[str, int | list[int] | str | None]:
    return {name: list(where) if isinstance(where, tuple) else where for name, where in changes.items()}


def _label(where: AxisPlacement) -> str:
    if isinstance(where, int):
        return f"along axis {where}"
    if isinstance(where, tuple):
        return f"along axes {', then '.join(map(str, where))}"
    return f"{where} nodes" if where == "across" else "inside a node"
