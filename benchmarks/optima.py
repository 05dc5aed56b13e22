"""Holds the fastest layout, and the least peak, to brute force over real plans: `python -m benchmarks.optima [NAME …]`.

Every model of the zoo with at most four dims that may be split, each dim 64 times as large, on meshes of one and two
axes of TPUs and GPUs, without a cap on memory and with caps that bind. A line each; the exit status is the number of
failures. A sample runs in the tests (`tests/auto/best_first/test_optimum.py`).
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import meshlab as ml
from meshlab.auto.best_first.answers import search_of
from meshlab.auto.best_first.pricer import LayoutPrice, Pricer
from meshlab.auto.best_first.space import search_space
from meshlab.auto.brute_force import priced_layouts
from meshlab.auto.objective import OBJECTIVES
from meshlab.cost.workload.options import USUAL
from meshlab.models.zoo import imported_models, models

MOST_DIMS, FACTORS = 4, (64, 16, 4)
MESHES = (
    *(ml.mesh("v5p:2x2x2", a=8), ml.mesh("v5p:2x2x2", a=4, b=2)),
    *(ml.mesh("h100:8", a=8), ml.mesh("h100:8", a=2, b=4)),
)


def main(names: list[str]) -> int:
    """Prints a line for each search; returns how many found something else than brute force."""
    failures = 0
    for name, program in programs(names):
        for mesh in MESHES:
            prices, start = list(priced_layouts(program, mesh)), time.perf_counter()
            for what, found, best in compared(program, mesh, prices):
                same = math.isclose(found, best, rel_tol=1e-9) or found == best
                failures += not same
                seconds = time.perf_counter() - start
                print(f"{'✓' if same else '✗'} {name:20} {mesh!s:45} {what:24} {found:.6g} {best:.6g} {seconds:6.2f} s")
                start = time.perf_counter()
    return failures


def programs(names: list[str]) -> Iterator[tuple[str, ml.Program]]:
    """Yields the programs with few dims, grown as far as they can be."""
    for model in (*models(), *imported_models()):
        program = model.trace()
        free = len(program.dims) - len(search_space(Pricer(program, MESHES[1], USUAL)).left_out)
        if (not names and free <= MOST_DIMS) or model.name in names:
            yield model.name, grown(program)


def grown(program: ml.Program) -> ml.Program:
    """Returns a program with dims many times as large, or as it is where sizes are tied to each other."""
    for factor in FACTORS:
        try:
            return program.resize(**{dim: size * factor for dim, size in program.dims.items()})
        except ml.MeshlabError:
            continue
    return program


def compared(program: ml.Program, mesh: ml.Mesh, prices: list[LayoutPrice]) -> Iterator[tuple[str, float, float]]:
    """Yields what was searched for, what was found, and what brute force says; infinite where nothing fits."""
    assert mesh.on is not None
    capacity = mesh.on.hardware.memory_bytes
    fastest, peaks = min(prices, key=lambda price: price.seconds), sorted(price.peak_bytes for price in prices)
    caps = {
        "no cap": None,
        "cap below the fastest": fastest.peak_bytes - 1,
        "cap at a 50th": peaks[len(peaks) // 50] + 1,
    }
    for what, cap in caps.items():
        fitting = [price.seconds for price in prices if cap is None or price.peak_bytes <= cap]
        try:
            memory = None if cap is None else cap / capacity
            found = of_space(ml.auto.layout(program, mesh, exact=True, memory=memory))
        except ml.auto.NothingFits:
            found = math.inf
        yield what, found, min(fitting, default=math.inf)
    yield "least peak", of_space(ml.auto.layout(program, mesh, objective="memory", exact=True)), peaks[0]


def of_space(choice: ml.auto.Choice) -> float:
    """Returns what the best layout of the space costs; the answer may be better, by changes that lead out of it."""
    if not choice.proof.made:
        return choice.proof.value
    kind = OBJECTIVES[choice.proof.objective].search
    assert kind is not None, "brute force goes through spaces of searches"
    *_, found = search_of(choice.asked, kind).run()
    return found.value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
