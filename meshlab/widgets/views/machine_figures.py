"""The figures of a machine as text, each with its source; and those behind a part of a predicted time.

    >>> figure_view("memory.bandwidth", v5e.bandwidth)["text"]
    "memory bandwidth 810 GB/s"

A figure that was recalled, not looked up, says so wherever it is shown.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable
from typing import Any, TypedDict

from ...cost.machines.accuracy import accuracy
from ...cost.machines.figures import kind_of
from ...cost.machines.hardware import Figure, Hardware, HardwareError, Switch
from ...cost.machines.placed import CHIP, Placement
from ...cost.machines.units import scaled_text, seconds_text, share_text
from ...cost.step_time.flops import multiplied
from ...engine.code.operations import Code, walk

RECALLED = "recalled, not verified"
_dtypes: weakref.WeakKeyDictionary[Code, tuple[Any, ...]] = weakref.WeakKeyDictionary()
_RATES = {
    "bandwidth": "memory bandwidth",
    "network.link": "link bandwidth, one way",
    "network.specified": "link bandwidth, one way, by the vendor's specification",
    "network.chip": "bandwidth between devices of a chip",
    "network.egress": "bandwidth per device within a node",
    "inter_node.link": "bandwidth per device over DCN or between nodes",
    "host": "bandwidth to the host",
    "matmuls.partial": "bandwidth of split-K partial sums",
}
_SECONDS = {
    "network.hop_latency": "hop latency",
    "network.base": "collective latency",
    "network.step": "latency of a ring step",
    "inter_node.latency": "latency over DCN or between nodes",
    "efficiency.launch": "kernel launch latency",
    "matmuls.base": "matmul latency",
    "matmuls.joining": "latency of a split-K reduction",
}
_SHARES = {
    "efficiency.matmul": ("matmuls reach", "of peak FLOP/s"),
    "matmuls.share": ("large matmuls reach", "of peak FLOP/s"),
    "matmuls.memory": ("matmuls reach", "of memory bandwidth"),
    "matmuls.sustained": ("sustained matmuls reach", "of that"),
    "efficiency.attention": ("fused attention reaches", "of peak FLOP/s"),
    "efficiency.overlap": ("kernels overlapped with a collective take", "longer"),
    "efficiency.memory": ("kernels reach", "of memory bandwidth"),
    "efficiency.network": ("collectives reach", "of link bandwidth"),
}
_NUMBERS = {
    "matmuls.smaller": "matmul rate scales with tile size to the power",
    "matmuls.prologue": "tile prologue, in steps along k:",
}
_PROTOCOLS = "network.protocols."
_NARROW = "matmuls.narrow."
_WAYS = {"rings": "rings in {}", "exchanges": "{} exchanges", "in_switch": "in-switch reduction"}
_WHAT = {"base": "latency", "step": "step latency", "bandwidth": "bandwidth"}


class FigureView(TypedDict):
    """A figure of a machine; recalled: it was not looked up in its source."""

    name: str
    text: str
    source: str
    recalled: bool


class AccuracyView(TypedDict):
    """The measured error of a kind of prediction, and where the documentation has it."""

    measured: bool
    where: str
    text: str


def accuracy_view(what: str, machine: Hardware) -> AccuracyView:
    said = accuracy(what, machine)
    return {"measured": said["measured"], "where": said["where"], "text": said["text"]}


def figure_view(name: str, figure: Figure) -> FigureView:
    """Describes one figure: its name, its value as text, its source, and whether it was looked up there."""
    if name.startswith(_NARROW):
        kind, _, of = name.removeprefix(_NARROW).partition(".")
        text = f"in {kind}: {figure_view(f'matmuls.{of}', figure)['text']}"
    elif name.startswith("flops."):
        text = f"matmuls in {name.removeprefix('flops.')} {scaled_text(figure.value, 'FLOP/s')}"
    elif name in _RATES:
        text = f"{_RATES[name]} {scaled_text(figure.value, 'B/s')}"
    elif name in _SECONDS:
        text = f"{_SECONDS[name]} {seconds_text(figure.value)}"
    elif name in _SHARES:
        subject, of = _SHARES[name]
        text = f"{subject} {share_text(figure.value)} {of}"
    elif name in _NUMBERS:
        text = f"{_NUMBERS[name]} {figure.value:g}"
    elif name == f"{_PROTOCOLS}copy":
        text = f"local copy bandwidth {scaled_text(figure.value, 'B/s')}"
    elif name.startswith(_PROTOCOLS):
        kind, *way, what = name.removeprefix(_PROTOCOLS).split(".")
        value = scaled_text(figure.value, "B/s") if what == "bandwidth" else seconds_text(figure.value)
        text = f"{_WAYS[kind].format(*way)}: {_WHAT[what]} {value}"
    else:
        text = f"{name} {scaled_text(figure.value, 'B')}"
    return {"name": name, "text": text, "source": figure.source, "recalled": not figure.verified}


def figures_view(machine: Hardware) -> list[FigureView]:
    return [figure_view(name, figure) for name, figure in machine.figures.items()]


def figures_behind(part: str, placement: Placement, code: Code) -> list[FigureView]:
    """Lists the figures that a part of a predicted time rests on.

    Args:
        part: "compute", "memory", or mesh axes as `"data+model"`.
        placement: the mesh's placement on its machine.
        code: the program's, whose matmuls have some dtypes.
    """
    machine, figures = placement.hardware, placement.hardware.figures
    if part == "compute":
        narrow = tuple(f"{_NARROW}{kind_of(dtype)}." for dtype in _matmul_dtypes(code))
        reached = [name for name in figures if name.startswith("matmuls.") and not name.endswith(".memory")]
        reached = [name for name in reached if not name.startswith(_NARROW) or name.startswith(narrow)]
        names = [*_rates_of(machine, code), *(reached or ["efficiency.matmul"]), "efficiency.attention"]
    elif part == "memory":
        names = ["bandwidth", "efficiency.memory", "matmuls.memory", "efficiency.launch"]
    else:
        names = list(_network(placement, part.split("+")))
    return [figure_view(name, figures[name]) for name in dict.fromkeys(names) if name in figures]


def _rates_of(machine: Hardware, code: Code) -> Iterable[str]:
    for dtype in _matmul_dtypes(code):
        with contextlib.suppress(HardwareError):  # then there is no time either, whose view names the figure
            rate = machine.rate(dtype)
            yield from (f"flops.{kind}" for kind, figure in machine.flops.items() if figure is rate)


def _matmul_dtypes(code: Code) -> tuple[Any, ...]:
    if code not in _dtypes:
        matmuls = {multiplied(operation, code) for operation in walk(code.block)}
        _dtypes[code] = tuple(sorted({each[0] for each in matmuls if each is not None}, key=str))
    return _dtypes[code]


def _network(placement: Placement, axes: Iterable[str]) -> Iterable[str]:
    if isinstance(placement.hardware.network, Switch):
        parts: list[Any] = [placement.nodes[axis] for axis in axes]
        across = any(part.nodes > 1 for part in parts)
        if not across and placement.hardware.network.protocols is not None:
            yield from (name for name in placement.hardware.figures if name.startswith(_PROTOCOLS))
            return
        if any(part.inside > 1 for part in parts):
            yield from ("network.egress", "network.base", "network.step", "efficiency.network")
        if across:
            yield from ("inter_node.link", "inter_node.latency", "network.base")
        return
    legs = [leg for axis in axes for leg in placement.legs[axis] if leg.size > 1]
    if any(leg.along != CHIP for leg in legs):
        yield from ("network.link", "network.hop_latency", "efficiency.network")
    if any(leg.along == CHIP for leg in legs):
        yield "network.chip"
    if any(placement.slices[axis] > 1 for axis in axes):
        yield from ("inter_node.link", "inter_node.latency")
