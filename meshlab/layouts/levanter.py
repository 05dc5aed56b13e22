"""Reads and writes Levanter's axis mappings, which its `TrainerConfig` has: one for compute, one for parameters.

    trainer = {"tensor_parallel_axes": ["mlp", "heads"], "fsdp_axis": "embed", "batch_axis": "batch"}
    ml.layouts.from_levanter(trainer, program, ml.mesh(data=4, model=2))
                                        batch:data heads:model mlp:model · params/*: embed:data · …
    ml.layouts.to_levanter(plan)        {"batch_axis": "batch", "axis_resources": {"heads": "model", …}, …}

A mapping gives a name one mesh axis or several, in every array that has the name: there are no second choices, as in
Flax's rules. What is computed, and data, go by `axis_resources`, where `tensor_parallel_axes` are on `model`, and the
batch on `replica` and `data`. Parameters and optimizer state go by the same, where `parameter_axis_resources` say
otherwise, and where `fsdp_axis` is on `data` (https://levanter.readthedocs.io/en/latest/reference/Configuration/).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..engine.errors import closest, listed, shown
from ..engine.programs.axis_conflicts import scanned_dims
from ..engine.programs.program import Program
from ..engine.programs.trained import trained
from ..engine.specs.dialects import in_space, not_said, refuse_lost
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from .given_globs import layout_of
from .request import Request

AxisMapping = dict[str, Axes]

# The axes of Levanter's mesh, major first; the batch is on the first two.
REPLICA, DATA, MODEL = "replica", "data", "model"
_MESH = (REPLICA, DATA, MODEL)
_MAPPINGS = ("axis_resources", "parameter_axis_resources")
_NAMES = ("batch_axis", "fsdp_axis", "tensor_parallel_axes")
# Sizes of its mesh, which a mesh of ours has already.
_SIZES = ("model_axis_size", "replica_ici_axis_size", "replica_dcn_axis_size")


def from_levanter(trainer: Any, program: Program, mesh: Mesh) -> Layout:
    """Returns the layout that the axis mappings of Levanter's `trainer` configuration give a program.

    Args:
        trainer: the `trainer` section of its YAML, as a dict: `axis_resources`, `parameter_axis_resources`,
            `batch_axis` (by default "batch"), `fsdp_axis` (by default "embed") and `tensor_parallel_axes`; other
            settings are not read.
        program: the program; names that it does not have count nothing.
        mesh: its mesh; `replica`, `data` and `model` are axes of size 1 where it does not have them.

    Raises:
        LayoutError: the mappings cannot be read, or no legal layout comes of them.
    """
    request = Request("from_levanter", program, mesh, first="trainer, ")
    compute, parameters = _mappings(request, trainer)
    names = {name for name, axes in (compute | parameters).items() if axes}
    if names and names.isdisjoint(program.dims) and not request.problems:
        fix = f"Its dims are {listed(program.dims)}: give them Levanter's names by program.rename()."
        request.refuse(
            "unknown_dim", f"The mappings are for {listed(sorted(names))}, none for a dim of this program.", fix
        )
    if request.problems:
        return request.layout({})
    stored = {dim: _split(mesh, parameters.get(dim, ())) for dim in program.dims}
    scans = scanned_dims(program)
    computed = {dim: _split(mesh, compute.get(dim, ())) for dim in program.dims if dim not in scans}
    weights = [program.arguments[position] for position in sorted(_weights(program, trainer))]
    wanted = {a.place: {dim: stored[dim] for dim in program.dims_of(a.value) if dim} for a in weights}
    return request.layout(layout_of(program, wanted, computed))


def to_levanter(plan: Any) -> dict[str, Any]:
    """Returns the layout of a plan as Levanter's axis mappings: a part of the `trainer` section of its YAML.

    Raises:
        LayoutError: the mappings cannot express all of it.
    """
    settings, lost = said(plan)
    refuse_lost("ml.layouts.to_levanter()", "Levanter's axis mappings", lost)
    return settings


def said(plan: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns what Levanter's mappings can say of a plan's layout, and a text for each thing that they cannot."""
    program, mesh, layout = plan.program, plan.mesh, plan.layout
    lost = not_said(Layout(layout.dim_rules, (), layout.scope_rules, in_time=layout.in_time))
    lost += [f"the mesh has `{a}`: Levanter's has {listed(_MESH)}" for a in mesh.devices.axes if a not in _MESH]
    compute = {dim.removesuffix("?"): tuple(axes) for dim, axes in in_space(layout)}
    parameters, problems = _stored(plan, compute)
    batches = [dim for dim, axes in compute.items() if axes == tuple(a for a in (REPLICA, DATA) if a in mesh.axes)]
    batch = next((dim for dim in batches if dim not in parameters and not _in_weights(program, dim)), None)
    resources = {dim: axes for dim, axes in compute.items() if dim != batch}
    settings: dict[str, Any] = {
        "batch_axis": batch,
        "fsdp_axis": None,
        "axis_resources": {dim: _written(axes) for dim, axes in resources.items()},
        "parameter_axis_resources": {dim: _written(axes) for dim, axes in parameters.items()},
    }
    if mesh.axes.get(MODEL, 1) > 1:
        settings["model_axis_size"] = mesh.axes[MODEL]
    return settings, (*lost, *problems)


# --- reading ----------------------------------------------------------------------------------------------------------


def _mappings(request: Request, trainer: Any) -> tuple[AxisMapping, AxisMapping]:
    """Returns the mappings of compute and of parameters; notes a problem for whatever of them cannot be read."""
    known = (*_MAPPINGS, *_NAMES)
    if not isinstance(trainer, Mapping):
        request.refuse("unknown_dim", f"trainer={shown(trainer)} is not a dict.", f"Write a dict of {listed(known)}.")
        return {}, {}
    about = [key for key in trainer if isinstance(key, str) and ("axis" in key or "axes" in key)]
    for key in about:
        if key not in (*known, *_SIZES):
            near = closest(key, known).strip() or f"It reads {listed(known)}."
            request.refuse("unknown_dim", f"Levanter has no axis setting `{key}`.", near)
    if not about:
        request.refuse("unknown_dim", "The trainer has no axis settings.", f"Give it one of {listed(known)}.")
    shared, own = (_read(request, key, trainer.get(key)) for key in _MAPPINGS)
    batch, fsdp, tensor = (
        _named(request, key, trainer.get(key, usual))
        for key, usual in zip(_NAMES, ("batch", "embed", None), strict=True)
    )
    compute = shared | dict.fromkeys(tensor, (MODEL,)) | dict.fromkeys(batch, (REPLICA, DATA))
    return compute, compute | own | dict.fromkeys(fsdp, (DATA,))


def _read(request: Request, key: str, given: Any) -> AxisMapping:
    """Returns one mapping by names; a name that has no mesh axis is whole."""
    read: AxisMapping = {}
    if given is not None and not isinstance(given, Mapping):
        request.refuse("unknown_axis", f"{key} is {shown(given)}, which is not a mapping.", 'Write {"embed": "data"}.')
        return {}
    for name, axes in (given or {}).items():
        several = (axes,) if isinstance(axes, str) else () if axes is None else axes
        if not isinstance(several, list | tuple) or not all(isinstance(axis, str) for axis in several):
            request.refuse(
                "unknown_axis",
                f"{key} gives `{name}` the value {shown(axes)}.",
                "Give it a mesh axis, or a list of them.",
            )
            continue
        for axis in several:
            if axis not in (*request.mesh.devices.axes, *_MESH):
                near = closest(axis, request.mesh.devices.axes).strip()
                text = f"{key} puts `{name}` on `{axis}`, which is not an axis of the mesh."
                request.refuse("unknown_axis", text, near or f"Its axes are {listed(request.mesh.devices.axes)}.")
        read[name] = tuple(several)
    return read


def _named(request: Request, key: str, given: Any) -> tuple[str, ...]:
    """Returns the names that a setting lists: one, several or none."""
    names = (given,) if isinstance(given, str) else () if given is None else given
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        return tuple(names)
    request.refuse(
        "unknown_dim", f"{key} is {shown(given)}, which is not a name.", f"Write {key}: embed, or a list of names."
    )
    return ()


def _weights(program: Program, trainer: Mapping[str, Any]) -> frozenset[int]:
    """The arguments that go by the mapping of parameters: without a gradient, those that have no batch."""
    trains = trained(program)
    if trains.parameters:
        return trains.parameters | trains.state
    batch = trainer.get("batch_axis", "batch")
    return frozenset(i for i, a in enumerate(program.arguments) if batch not in program.dims_of(a.value))


def _split(mesh: Mesh, axes: Axes) -> Axes:
    """Returns those of some axes that split anything on this mesh."""
    return tuple(axis for axis in axes if mesh.axes.get(axis, 1) > 1)


# --- writing ----------------------------------------------------------------------------------------------------------


def _stored(plan: Any, compute: AxisMapping) -> tuple[AxisMapping, list[str]]:
    """Returns where parameters and state are stored otherwise than computed, and what of that no mapping can say."""
    program, trains = plan.program, trained(plan.program)
    weights = trains.parameters | trains.state
    found: dict[str, dict[Axes, str]] = {}
    of_data = {dim: {axes: ""} for dim, axes in compute.items()}
    for position, argument in enumerate(program.arguments):
        splits = plan.argument_specs[argument.value].splits
        for dim, axes in zip(program.dims_of(argument.value), splits, strict=True):
            if dim:
                seen = found.setdefault(dim, {}) if position in weights else of_data.setdefault(dim, {(): ""})
                seen.setdefault(axes, argument.place)
    lost = [_differing(dim, ways) for dim, ways in (*found.items(), *of_data.items()) if len(ways) > 1]
    lost += [f"the rule at `{glob}`: the mappings are for arguments and for computation" for glob in _elsewhere(plan)]
    return {dim: next(iter(ways)) for dim, ways in found.items() if next(iter(ways)) != compute.get(dim, ())}, lost


def _differing(dim: str, ways: Mapping[Axes, str]) -> str:
    """Says that a dim is stored in several ways, where one mapping is for all arrays."""
    (one, first), (other, second), *_ = ways.items()
    where = [f"at `{at}`" if at else "where it is computed" for at in (first, second)]
    how = [f"{'+'.join(axes) or 'whole'} {at}" for axes, at in zip((one, other), where, strict=True)]
    return f"`{dim}` is {how[0]}, and {how[1]}: one mapping holds for all arrays"


def _elsewhere(plan: Any) -> Iterable[str]:
    """Yields the globs of rules for what is no argument: outputs, tags and gradients."""
    others = {*plan.program.outputs, *plan.program.marks}
    return (glob for glob, _ in plan.layout.place_rules if not others.isdisjoint(plan.program.matching(glob)))


def _in_weights(program: Program, dim: str) -> bool:
    return any(dim in program.dims_of(program.arguments[i].value) for i in trained(program).parameters)


def _written(axes: Axes) -> str | list[str] | None:
    return None if not axes else axes[0] if len(axes) == 1 else list(axes)
