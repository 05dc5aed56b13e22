"""Holds what auto chooses for every model: no recipe is faster, and the plan is what the compiler makes of it.

    python -m benchmarks.chosen [NAME …]            every model, grown, on four machines, beside every recipe that fits
    python -m benchmarks.chosen --check [NAME …]    every model on 8 devices, the chosen plan checked: compiled and run

A line each; the exit status is the number of failures. Samples run in the tests (`tests/auto/best_first/`).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

import meshlab as ml
from benchmarks.optima import grown
from meshlab.auto.best_first.answers import TIED
from meshlab.auto.best_first.recipes import recipes
from meshlab.models.zoo import Model, imported_models, models

MACHINES = ("v5e:2x4", "v5p:2x2x2", "h100:8", "a100:8")
AXES = {"data": 2, "model": 4}
# Seconds of a search: of small models most end before.
SECONDS = 5.0
# The share of a device's memory that recipes and layouts may take.
MEMORY = 0.9


def main(arguments: list[str]) -> int:
    """Prints a line for each search; returns how many chose what is no good."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chosen")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    failures = 0
    if options.check:
        ml.simulate(8)
    for model in (*models(), *imported_models()):
        if options.names and model.name not in options.names:
            continue
        for ok, line in checked(model) if options.check else beside_recipes(model):
            failures += not ok
            print(f"{'✓' if ok else '✗'} {model.name:24} {line}", flush=True)
        jax.clear_caches()
    return min(failures, 125)


def beside_recipes(model: Model) -> Iterator[tuple[bool, str]]:
    """Searches on each machine, and prices every recipe."""
    program = grown(model.trace())
    for on in MACHINES:
        mesh = ml.mesh(on, **AXES)
        priced = ((name, program.plan(mesh, layout)) for name, layout in recipes(program, mesh))
        most = MEMORY * mesh.on.hardware.memory_bytes if mesh.on else 0.0
        fitting = [(plan.time.estimate, name) for name, plan in priced if plan.memory.donated.peak_bytes <= most]
        best, name = min(fitting, default=(math.inf, "none fits"))
        try:
            choice = ml.auto.layout(program, mesh, memory=MEMORY, seconds=SECONDS)
        except ml.auto.NothingFits:
            yield not fitting, f"{on:10} nothing fits, best recipe {best:.4g} s ({name})"
            continue
        value = choice.proof.value
        proved = f"gap {choice.proof.gap:.1%}, {choice.proof.plans} plans, {choice.proof.seconds:.1f} s"
        yield (
            value <= best * (1 + TIED) * (1 + 1e-9),
            f"{on:10} {value:.4g} s, best recipe {best:.4g} s ({name}); {proved}",
        )


def checked(model: Model) -> Iterator[tuple[bool, str]]:
    """Chooses on 8 devices, on one machine of each kind, and checks each plan."""
    program, data = model.trace(), model.data(0)
    for on in MACHINES[::2]:
        choice = ml.auto.layout(program, ml.mesh(on, **AXES), seconds=SECONDS)
        report = choice.plan.check(*data)
        yield report.ok, f"{on:10} {choice.layout}" + ("" if report.ok else f"\n{report}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
