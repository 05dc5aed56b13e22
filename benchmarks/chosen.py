"""Holds what auto chooses for every model: no recipe is faster, and the plan is what the compiler makes of it.

    python -m benchmarks.chosen [NAME …]            every model, grown, on four machines, beside every recipe that fits
    python -m benchmarks.chosen --check [NAME …]    every model on 8 devices, the chosen plan checked: compiled and run
    python -m benchmarks.chosen --changes [NAME …]  every model, grown, on two machines, beside every single change

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
from meshlab.auto.best_first.changes import changes, otherwise
from meshlab.auto.best_first.recipes import recipes
from meshlab.auto.best_first.search import TIED
from meshlab.auto.objective import OBJECTIVES
from meshlab.models.zoo import Model, imported_models, models

MACHINES = ("v5e:2x4", "v5p:2x2x2", "h100:8", "a100:8")
AXES = {"data": 2, "model": 4}
# Seconds of a search, of small models most end before; and of one whose answer is held beside every change. Without
# an end a convnet's goes on for hours: its kernels alone are a small part of its time, and the bound is no more.
SECONDS, LONG = 5.0, 30.0
# The share of a device's memory that recipes and layouts may take.
MEMORY = 0.9


def main(arguments: list[str]) -> int:
    """Prints a line for each search; returns how many chose what is no good."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chosen")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--changes", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    failures, held = 0, checked if options.check else beside_changes if options.changes else beside_recipes
    if options.check:
        ml.simulate(8)
    for model in (*models(), *imported_models()):
        if options.names and model.name not in options.names:
            continue
        for ok, line in held(model):
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


def beside_changes(model: Model) -> Iterator[tuple[bool, str]]:
    """Searches on two machines, and prices every single change of the answer."""
    program = grown(model.trace())
    for on in MACHINES[::2]:
        try:
            choice = ml.auto.layout(program, ml.mesh(on, **AXES), memory=MEMORY, seconds=LONG)
        except ml.auto.NothingFits:
            yield True, f"{on:10} nothing fits"
            continue
        tried, better = better_changes(choice)
        proved = f"gap {choice.proof.gap:.1%}, {choice.proof.plans} plans, {choice.proof.seconds:.1f} s"
        first = f"; better: {better[0]}" if better else ""
        yield not better, f"{on:10} {choice.proof.value:.4g} s, {proved}, {tried} changes{first}"


def better_changes(choice: ml.auto.Choice) -> tuple[int, list[str]]:
    """Prices every single change of an answer, without the bounds of the search.

    Returns:
        The number of changes that may be an answer, and those that are better than the proof's bound, in words.
    """
    program, mesh, proof = choice.plan.program, choice.plan.mesh, choice.proof
    objective, most = OBJECTIVES[proof.objective], choice.asked.limits.most_bytes
    tried, better = 0, []
    for change in changes(program, mesh, choice.layout):
        try:
            plan = program.plan(mesh, change.applied(choice.layout))
        except ml.LayoutError:
            continue
        if otherwise(program, plan.rules) or (choice.answer.most_work or math.inf) < plan.work.amount:
            continue
        tried += 1
        cost = objective.of_plan(plan, choice.asked.options)
        if cost < proof.bound * (1 - 1e-6) and (most is None or plan.memory.donated.peak_bytes <= most):
            better.append(f"{change}: {objective.text(cost)}")
    return tried, better


def checked(model: Model) -> Iterator[tuple[bool, str]]:
    """Chooses on 8 devices, on one machine of each kind, and checks each plan."""
    program, data = model.trace(), model.data(0)
    for on in MACHINES[::2]:
        choice = ml.auto.layout(program, ml.mesh(on, **AXES), seconds=SECONDS)
        report = choice.plan.check(*data)
        yield report.ok, f"{on:10} {choice.layout}" + ("" if report.ok else f"\n{report}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
