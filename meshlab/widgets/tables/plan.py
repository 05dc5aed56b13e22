"""Rows that follow from the plan alone: the layout, the devices, the program, and what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...engine.plans.collective import wire_bytes_by_axis
from ..documents.document import ExplorerError
from ..state.explorer_state import ExplorerState
from ..state.selection import identities
from ..views.devices.holdings import edges_of, slices_of
from ..views.devices.sites import indices_of
from ..views.program.steps import steps_view

Row = dict[str, Any]
View = dict[str, Any]


def layout_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each rule: where it holds ("" is compute), the dim, and the mesh axes that shard it there."""
    known = {chip["name"]: chip for chip in view["chips"]}

    def row(at: str, dim: str, axes: list[str]) -> Row:
        chip = known.get(dim)
        local = chip["local"] if chip is not None and not at else None
        size = None if chip is None else chip["size"]
        return {"at": at, "dim": dim, "size": size, "mesh_axes": "+".join(axes), "size_on_device": local}

    for column in view["columns"]:
        yield from (row(column["at"], dim, axes) for dim, axes in column["rules"].items())
        for within in column["within"]:
            yield from (row(within["at"], dim, axes) for dim, axes in within["rules"].items())
    ruled = view["columns"][0]["rules"]
    yield from (row("", name, []) for name in known if name not in ruled)


def devices_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each device: its index along each mesh axis, its slice of the selected tensor, and where that begins."""
    place = explorer.selected
    if place is None:
        raise ExplorerError("No tensor is selected; call explorer.select(place).")
    plan, where, spec = explorer.plan, indices_of(explorer.mesh), explorer.plan.device_spec(place)
    value = plan.program.place(place)
    names = axis_names(value.dims)
    edges = [edges_of(plan, size, axes) for size, axes in zip(value.shape, spec.splits, strict=True)]
    for device, slice_ in enumerate(slices_of(plan, place).tolist()):
        row: Row = {"device": device, **{f"{axis}_index": int(at[device]) for axis, at in where.items()}}
        row |= {"tensor": place, "slice": slice_}
        rest, ranges = slice_, []
        for name, parts in zip(reversed(names), reversed(edges), strict=True):
            rest, index = divmod(rest, len(parts) - 1)
            ranges.insert(0, (name, parts[index], parts[index + 1]))
        for name, begin, end in ranges:
            row |= {f"{name}_begin": begin, f"{name}_end": end}
        yield row


def axis_names(dims: Any) -> list[str]:
    """Names the axes of a tensor, each otherwise: one without a name by its position."""
    names = [name or f"axis{n}" for n, name in enumerate(dims)]
    return [name if name not in names[:n] else f"{name}_{n}" for n, name in enumerate(names)]


def program_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each node of the program, as deep as its level, with what it makes on a device and what it sends."""
    program = steps_view(explorer.plan)
    nodes, strings = program["nodes"], program["strings"]
    levels: list[int] = []
    for at, parent in enumerate(nodes["parent"]):
        levels.append(0 if parent < 0 else levels[parent] + 1)
        made = program["types"][nodes["makes"][at]] if nodes["makes"][at] >= 0 else None
        dims = made[1] if made else []
        at_device = " ".join(f"{strings[d]}:{local}" for d, _, local, _ in dims)
        sent = program["collectives"][nodes["collective"][at]] if nodes["collective"][at] >= 0 else None
        yield {
            "node": at,
            "level": levels[at],
            "kind": program["kinds"][nodes["kind"][at]],
            "code": strings[nodes["label"][at]],
            "name": strings[nodes["name"][at]],
            "value": strings[nodes["value"][at]],
            "source": strings[nodes["source"][at]],
            "dtype": strings[made[0]] if made else "",
            "size_on_device": at_device,
            "sharded_over": " ".join(f"{strings[d]}:{strings[axes]}" for d, _, _, axes in dims if axes),
            "times": sent["times"] if sent else nodes["times"][at],
            "mesh_axes": sent["key"] if sent else "",
            "payload_bytes_each": sent["payload"] if sent else None,
            "wire_bytes_each": sent["wire"] if sent else None,
            "wire_bytes": sent["wire"] * sent["times"] if sent else None,
            "because": sent["because"] if sent else "",
        }


def collectives_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each collective in the order of the steps; bytes are of one device, each time and in a step."""
    for name, c in zip(identities(explorer.plan), explorer.plan.collectives, strict=True):
        yield {
            "kind": c.kind,
            "mesh_axes": "+".join(c.axes),
            "value": c.value,
            "dims": " ".join(map(str, c.dims)),
            "dtype": str(c.dtype),
            "times": int(c.times),
            "payload_bytes_each": int(c.payload_bytes),
            "wire_bytes_each": float(c.wire_bytes),
            "payload_bytes": int(c.payload_bytes) * int(c.times),
            "wire_bytes": float(c.wire_bytes) * int(c.times),
            "source": "" if c.source is None else str(c.source),
            "because": c.because,
            "id": name,
        }


def communication_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each set of mesh axes with the bytes that a device sends over it in a step."""
    for part in view["communication"]["by_axis"]:
        yield {"mesh_axes": part["key"], "wire_bytes": part["bytes"], "payload_bytes": part["payload"]}


def lines_rows(explorer: ExplorerState, view: View) -> Iterator[Row]:
    """Yields each source line and set of mesh axes with the bytes that a device sends there in a step."""
    lines: dict[str, list[Any]] = {}
    for c in explorer.plan.collectives:
        lines.setdefault("" if c.source is None else str(c.source), []).append(c)
    for line, sent in lines.items():
        for axes, count in wire_bytes_by_axis(sent).items():
            code = getattr(sent[-1].source, "code", "") or ""
            yield {"source": line, "mesh_axes": axes, "wire_bytes": round(count), "code": code}
