"""Fits the protocols of NCCL within a node to public measurements, and tells how far off they are.

    python -m benchmarks.nccl docs/accuracy.md     writes the errors of the machines' files into the page, and a figure
    python -m benchmarks.nccl fit h100             prints the constants of a machine, as its file has them (a minute)

The measurements are nccl-tests in one node, of arrays of 16-bit numbers: microseconds by machine, kind, number of GPUs
and bytes, which are the full array's, of an all-to-all those that one GPU sends in. Source: NVIDIA's aiconfigurator,
https://github.com/ai-dynamo/aiconfigurator (Apache-2.0). A machine has one set of constants for all kinds, sizes and
numbers of GPUs.
"""

from __future__ import annotations

import collections
import csv
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.pages import Section
from benchmarks.scatter import Series, scatter
from meshlab.cost.machines.collective_time import seconds
from meshlab.cost.machines.figures import Figure
from meshlab.cost.machines.hardware import hardware
from meshlab.cost.machines.meshes import mesh
from meshlab.cost.machines.placement import place_mesh
from meshlab.cost.machines.protocols import Protocol, Protocols
from meshlab.cost.machines.units import seconds_text

FILE = Path(__file__).with_suffix(".csv")
KINDS = {
    "all_gather": "all-gather",
    "all_reduce": "all-reduce",
    "alltoall": "all-to-all",
    "reduce_scatter": "reduce-scatter",
}
# Bytes at which the bands of the published errors begin.
BANDS = {"from 1 MiB": 1 << 20, "64 KiB to 1 MiB": 1 << 16, "below 64 KiB": 0}
COUNTS = (2, 4, 8)
SECTION = Section("nccl")
RINGS, EXCHANGES = ("LL", "LL128", "Simple"), ("small", "large")


class Row(NamedTuple):
    """One measurement.

    Attributes:
        machine: its name.
        kind: of the collective.
        gpus: how many take part.
        nbytes: bytes of the full array.
        seconds: measured.
        band: of `BANDS`.
    """

    machine: str
    kind: str
    gpus: int
    nbytes: int
    seconds: float
    band: str


def measured() -> list[Row]:
    """Returns all measurements."""
    rows = []
    for row in csv.DictReader(FILE.read_text().splitlines()):
        kind, gpus, given = KINDS[row["operation"]], int(row["gpus"]), int(row["bytes"])
        band = next(name for name, least in BANDS.items() if given >= least)
        whole = given * gpus if kind == "all-to-all" else given
        rows.append(Row(row["machine"], kind, gpus, whole, float(row["microseconds"]) / 1e6, band))
    return rows


def errors() -> dict[Row, float]:
    """Returns the relative error of each prediction, by its measurement."""
    rows = measured()
    placed = {(m, n): place_mesh(hardware(m), None, mesh(x=n)) for m, n in {(row.machine, row.gpus) for row in rows}}
    return {r: seconds(r.kind, r.nbytes, placed[r.machine, r.gpus], ("x",)) / r.seconds - 1 for r in rows}


def medians(of: dict[Row, float], *by: str) -> dict[tuple, float]:
    """Returns the medians of the errors' sizes, of the rows that are alike in some of their attributes."""
    groups = collections.defaultdict(list)
    for row, error in of.items():
        groups[tuple(getattr(row, name) for name in by)].append(abs(error))
    return {key: float(np.median(group)) for key, group in groups.items()}


def falling() -> list[Row]:
    """Returns the measurements that took shorter than that of half as many bytes: noise, which no model has."""
    groups = collections.defaultdict(list)
    for row in measured():
        groups[row.machine, row.kind, row.gpus].append(row)
    pairs = (pair for rows in groups.values() for pair in pairwise(sorted(rows, key=lambda row: row.nbytes)))
    return [row for before, row in pairs if row.seconds < before.seconds]


def fitted(machine: str, starts: int = 12) -> Protocols:
    """Returns the constants that fit a machine's measurements best: the least sum of the logarithms' distances."""
    from scipy.optimize import minimize

    groups = collections.defaultdict(list)
    for row in measured():
        if row.machine == machine:
            groups[row.kind, row.gpus].append((row.nbytes, row.seconds))
    tables = {key: np.array(rows).T for key, rows in groups.items()}

    def distance(logs: np.ndarray) -> float:
        protocols = _protocols(np.exp(logs))
        total = 0.0
        for (kind, gpus), (nbytes, taken) in tables.items():
            predicted = np.minimum.reduce([a + b * nbytes for a, b in protocols.ways(kind, gpus)])
            off = np.abs(np.log(predicted / taken))
            total += float(np.sum(off + off * off / 2))
        return total

    start = np.log([4.4, 0.85, 20, 5.3, 1.1, 120, 20, 0.1, 300, 6.5, 0.05, 10, 13.5, 0.05, 280, 30, 260, 1000])
    random = np.random.default_rng(0)
    tries = (start + random.normal(0, 0.25 if i else 0, start.size) for i in range(starts))
    best = min(
        (minimize(distance, x, method="Powell", options={"maxiter": 20_000}) for x in tries), key=lambda r: r.fun
    )
    return _protocols(np.exp(best.x))


def _protocols(values: np.ndarray) -> Protocols:
    """Returns protocols by their constants: microseconds, and bytes in nanoseconds."""
    ways = [Protocol.of(base * 1e-6, step * 1e-6, width * 1e9) for base, step, width in values[:15].reshape(-1, 3)]
    rings, exchanges = dict(zip(RINGS, ways, strict=False)), dict(zip(EXCHANGES, ways[3:], strict=True))
    in_switch = Protocol.of(values[15] * 1e-6, 0.0, values[16] * 1e9)
    return Protocols(rings, exchanges, Figure(values[17] * 1e9), in_switch)


def written(protocols: Protocols) -> str:
    """Returns protocols as a machine's file has them."""
    named = {f"rings.{name}": way for name, way in protocols.rings.items()}
    named |= {f"exchanges.{name}": way for name, way in protocols.exchanges.items()}
    named |= {"in_switch": protocols.in_switch} if protocols.in_switch else {}
    lines = ["[protocols]", f'copy = [{protocols.copy.value:.3g}, "fitted"]']
    for name, way in named.items():
        lines += ["", f"[protocols.{name}]"]
        lines += [f'{key} = [{getattr(way, key).value:.3g}, "fitted"]' for key in ("base", "step", "bandwidth")]
    return "\n".join(lines)


def table(of: dict[Row, float]) -> str:
    """Returns the errors as the page has them: medians by size, and those of each machine, kind and number of GPUs."""
    bands, groups = medians(of, "band"), medians(of, "machine", "kind", "gpus", "band")
    by_band = ", ".join(f"{bands[band,]:.1%} {band}" for band in BANDS)
    worst, fell = max(groups, key=lambda key: groups[key]), falling()
    lines = [
        f"Of {len(of)} measurements the median errors are {by_band}. The worst of one kind,\nmachine, number of GPUs"
        f" and size is {groups[worst]:.0%}: {worst[1]} on {worst[2]} {worst[0]}, {worst[3]}.\n{len(fell)} measurements"
        " took shorter than that of half as many bytes, which no prediction does.",
        "",
        f"| machine | collective | {' | '.join(f'{gpus} GPUs, {band}' for gpus in COUNTS for band in BANDS)} |",
        f"|---|---|{'---:|' * len(COUNTS) * len(BANDS)}",
    ]
    for machine in dict.fromkeys(row.machine for row in of):
        for kind in KINDS.values():
            cells = [f"{groups[machine, kind, gpus, band]:.0%}" for gpus in COUNTS for band in BANDS]
            lines.append(f"| {machine} | {kind} | {' | '.join(cells)} |")
    shorter = collections.defaultdict(list)
    for row in fell:
        shorter[f"{row.machine}, {row.kind} on {row.gpus}"].append(f"{row.nbytes:,}")
    lines += ["", "<details><summary>Those that took shorter than half as many bytes</summary>", ""]
    lines += [f"- {name}: {', '.join(sizes)} bytes" for name, sizes in shorter.items()]
    lines += ["", "</details>"]
    return "\n".join(lines)


def figure(of: dict[Row, float]) -> str:
    """Returns predicted against measured collectives as SVG."""
    points = collections.defaultdict(list)
    for row, error in of.items():
        points[row.machine].append((row.seconds, row.seconds * (1 + error)))
    series = [Series(machine, "", each) for machine, each in points.items()]
    note = f"{len(of)} measurements, 512 bytes to 512 MiB; half are off by less than {medians(of)[()]:.1%}; no factor"
    axes = ("measured time of a collective", "predicted time of a collective")
    return scatter(series, title="Collectives of GPUs in a node", note=note, axes=axes, text=seconds_text)


def main(what: str = "", machine: str = "h100") -> None:
    if what == "fit":
        print(written(fitted(machine)))
    elif what:
        SECTION.write(Path(what), table(errors()))
        SECTION.draw(Path(what), figure(errors()))
    else:
        print(table(errors()))


if __name__ == "__main__":
    main(*sys.argv[1:])
