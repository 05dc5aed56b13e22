"""Fits what the matmul kernels of GPUs reach to public measurements, and tells how far off they are.

    python -m benchmarks.matmuls docs/accuracy.md   writes the errors of the machines' files into the page, and a figure
    python -m benchmarks.matmuls fit h100           prints the constants of a machine for its file (a minute)
    python -m benchmarks.matmuls fit h100 float8_e4m3fn     prints those of 8-bit floats

The measurements are of single matmuls [m, k] x [k, n] of 16-bit numbers, in microseconds. Source: NVIDIA's
aiconfigurator, https://github.com/ai-dynamo/aiconfigurator (Apache-2.0). A machine has one set of constants for all
sizes. What is predicted, and fitted, is `plan.time` of a program of one matmul, on a device at the clocks of a short
run, as these were: what is sustained is set aside here.

Those of 8-bit floats are from its tables of TensorRT-LLM 1.3.0rc20 (at 095f58a): a matmul in 8 bits (`gemm`, fp8)
without the cast of its operand that is measured with it (`computescale`), 80 of each band of m, drawn by
chance, as many of each power of two of n·k.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import functools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import meshlab as ml
from benchmarks.pages import Section
from benchmarks.scatter import Series, scatter
from meshlab.cost.machines.hardware import Figure, Hardware, hardware
from meshlab.cost.machines.matmul_kernels import MatmulKernels, Narrow
from meshlab.cost.machines.placement import place_mesh
from meshlab.cost.machines.units import seconds_text
from meshlab.cost.step_time.time import time_of
from meshlab.cost.workload.scenario import Scenario
from meshlab.engine.specs.mesh import Mesh

FILE = Path(__file__).with_suffix(".csv")
# The rows of the first operand at which the bands of the published errors begin.
BANDS = {"m from 2,048": 2048, "m from 128": 128, "m below 128": 0}
MACHINES = ("a100", "h100", "h200")
# The numbers that matmuls were measured in, with their files and machines.
BF16, FP8 = "bfloat16", "float8_e4m3fn"
KINDS = {BF16: (FILE, MACHINES), FP8: (FILE.with_stem("matmuls_fp8"), ("b200", "gb200", "h100", "h200"))}
# Machines whose constants are tried on another, which they were not fitted to.
HELD_OUT = {"h200": "h100"}
SECTION = Section("matmuls")


class Row(NamedTuple):
    """One measurement.

    Attributes:
        machine: its name.
        m: rows of the result.
        n: columns of the result.
        k: the contracted size.
        seconds: measured.
        band: of `BANDS`.
    """

    machine: str
    m: int
    n: int
    k: int
    seconds: float
    band: str


@functools.cache
def measured(machine: str, kind: str = BF16) -> tuple[Row, ...]:
    """Returns the measurements of a machine in numbers of a kind."""
    rows = []
    for row in csv.DictReader(KINDS[kind][0].read_text().splitlines()):
        if row["machine"] == machine:
            m, n, k = (int(row[name]) for name in "mnk")
            band = next(name for name, least in BANDS.items() if m >= least)
            rows.append(Row(machine, m, n, k, float(row["microseconds"]) / 1e6, band))
    return tuple(rows)


@functools.cache
def _plan(kind: str = BF16) -> ml.Plan:
    x, w = (jax.ShapeDtypeStruct((64, 64), kind) for _ in range(2))
    multiply = functools.partial(jnp.matmul, preferred_element_type=jnp.bfloat16)
    program = ml.trace(multiply, ml.named(x, "m k"), ml.named(w, "k n"))
    return program.plan(Mesh((("x", 1),)), {})


def predicted(machine: Hardware, rows: Iterable[Row], kind: str = BF16) -> np.ndarray:
    """Returns the seconds that are predicted of matmuls of these sizes, in numbers of a kind."""
    sizes = np.array([(row.m, row.n, row.k) for row in rows], float).T
    plan, placement = _plan(kind), place_mesh(machine, None, _plan(kind).mesh)
    return np.asarray(time_of(Scenario(plan, dict(zip("mnk", sizes, strict=True)), plan.grid, (placement,))).estimate)


def errors(machine: str, kernels: MatmulKernels | None = None, kind: str = BF16) -> dict[Row, float]:
    """Returns the relative error of each prediction, by its measurement.

    Args:
        machine: its name.
        kernels: what the machine is taken to reach, in place of what its file has.
        kind: the numbers, of `KINDS`.
    """
    rows, on = measured(machine, kind), hardware(machine)
    kernels = kernels or on.matmuls
    assert kernels is not None
    cool = dataclasses.replace(kernels, sustained=Figure(1.0))
    seconds = predicted(dataclasses.replace(on, matmuls=cool), rows, kind)
    return {row: float(each) / row.seconds - 1 for row, each in zip(rows, seconds, strict=True)}


def medians(of: dict[Row, float]) -> dict[str, float]:
    """Returns the medians of the errors' sizes, by band."""
    groups = collections.defaultdict(list)
    for row, error in of.items():
        groups[row.band].append(abs(error))
    return {band: float(np.median(groups[band])) for band in BANDS}


# Microseconds, shares and powers, and bytes in a nanosecond, at which each fit begins.
_START = {"base": 3.0, "share": 0.75, "smaller": 0.2, "prologue": 64, "memory": 0.8, "joining": 1.5, "partial": 3000}
# Those that are fitted for 8 bits; the others are as in 16.
_NARROW = tuple(field.name for field in dataclasses.fields(Narrow))
_UNITS = {"base": 1e-6, "joining": 1e-6, "partial": 1e9}


def fitted(machine: str, starts: int = 3, kind: str = BF16) -> MatmulKernels:
    """Returns the constants that fit a machine's measurements best: the least mean of the logarithms' distances."""
    from scipy.optimize import minimize

    on, rows, names = hardware(machine), measured(machine, kind), _NARROW if kind == FP8 else tuple(_START)
    taken = np.array([row.seconds for row in rows])
    known = on.matmuls
    assert known is not None

    def kernels(logs: np.ndarray) -> MatmulKernels:
        values = {name: value * _UNITS.get(name, 1) for name, value in zip(names, np.exp(logs), strict=True)}
        values |= {name: min(values[name], 1.0) for name in ("share", "memory")}
        if kind == FP8:
            narrow = {"fp8": Narrow(**{name: Figure(value) for name, value in values.items()})}
            return dataclasses.replace(known, sustained=Figure(1.0), narrow=narrow)
        return MatmulKernels.of(known.processors, **values)

    def distance(logs: np.ndarray) -> float:
        guess = predicted(dataclasses.replace(on, matmuls=kernels(logs)), rows, kind)
        return float(np.mean(np.abs(np.log(guess / taken))))

    start, random = np.log([_START[name] for name in names]), np.random.default_rng(0)
    tries = (start + random.normal(0, 0.3 if i else 0, start.size) for i in range(starts))
    best = (minimize(distance, x, method="Nelder-Mead", options={"maxiter": 600}) for x in tries)
    return kernels(min(best, key=lambda result: result.fun).x)


def written(kernels: MatmulKernels) -> str:
    """Returns constants as a machine's file has them."""
    lines = ["[matmuls]", f"processors = {kernels.processors}"]
    lines += [f'{name} = [{getattr(kernels, name).value:.3g}, "matmuls"]' for name in _START]
    for kind, narrow in kernels.narrow.items():
        lines += ["", f"[matmuls.{kind}]"]
        lines += [f'{name} = [{getattr(narrow, name).value:.3g}, "{kind}"]' for name in _NARROW]
    return "\n".join(lines)


def table() -> str:
    """Returns the errors as the page has them: medians by rows, of each machine, fitted and held out."""
    tried = {(name, name): errors(name) for name in MACHINES}
    tried |= {(name, of): errors(name, hardware(of).matmuls) for name, of in HELD_OUT.items()}
    lines = [f"| machine | constants | matmuls | {' | '.join(BANDS)} |", f"|---|---|---:|{'---:|' * len(BANDS)}"]
    for (name, of), each in tried.items():
        constants = "fitted to these" if name == of else f"those of {of}, which saw none of these"
        cells = [f"{error:.1%}" for error in medians(each).values()]
        lines.append(f"| {name} | {constants} | {len(each)} | {' | '.join(cells)} |")
    for name in KINDS[FP8][1]:
        each = errors(name, kind=FP8)
        cells = [f"{error:.1%}" for error in medians(each).values()]
        lines.append(f"| {name}, 8 bits | fitted to these | {len(each)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def figure() -> str:
    """Returns predicted against measured matmuls as SVG, each machine with its own constants."""
    off = {name: errors(name) for name in MACHINES}
    series = [
        Series(name, "", [(row.seconds, row.seconds * (1 + each)) for row, each in of.items()])
        for name, of in off.items()
    ]
    sizes = [abs(error) for of in off.values() for error in of.values()]
    note = f"{len(sizes):,} measurements of 16-bit numbers; half are off by less than {np.median(sizes):.1%}; no factor"
    axes = ("measured time of a matmul", "predicted time of a matmul")
    return scatter(series, title="Matmuls on one GPU", note=note, axes=axes, text=seconds_text)


def main(what: str = "", machine: str = "h100", kind: str = BF16) -> None:
    if what == "fit":
        print(written(fitted(machine, kind=kind)))
    elif what:
        SECTION.write(Path(what), table())
        SECTION.draw(Path(what), figure())
    else:
        print(table())


if __name__ == "__main__":
    main(*sys.argv[1:])
