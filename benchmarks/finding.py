"""How long `ml.auto.layout` takes to find the fastest layout of a language model, and to say what else there is.

A first good layout, the proof, and then the front and the regrets, as brackets between bound and estimate. Each search
is of a program that was just traced, so that nothing is remembered. A first good layout takes at most 2 % more than the
best.
"""

from __future__ import annotations

import time
from typing import Any

import jax

import meshlab as ml
from benchmarks.timing import Sample
from meshlab.models.language import llama, moe
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

TIMES = 3
GOOD = 1.02
# The most seconds to the front and the regrets, after the proof.
OTHERS = 2
# What is searched: the model, the mesh, the tolerance, and the most seconds to a good layout and to the proof.
SEARCHES: tuple[tuple[str, Any, Any, ml.Mesh, float, float, float], ...] = (
    ("Llama 3 8B, 16×4 v5p", llama, llama.Config.llama3_8b(64), ml.mesh("v5p:4x4x4", data=16, model=4), 0.01, 0.5, 5),
    ("Llama 3 70B, 32×4 v5p", llama, llama.Config.llama3_70b(32), ml.mesh("v5p:4x4x8", data=32, model=4), 0.01, 0.5, 5),
    ("Llama 3 8B, 4×4×4 v5p", llama, llama.Config.llama3_8b(64), ml.mesh("v5p:4x4x4", a=4, b=4, c=4), 0.01, 10, 60),
    ("Mixtral, 8×8 v5p", moe, moe.Config.mixtral_8x7b(64), ml.mesh("v5p:4x4x4", data=8, model=8), 0.05, 20, 20),
)


def measure() -> list[Sample]:
    """Returns the samples."""
    samples = []
    for what, model, config, mesh, tolerance, good, proof in SEARCHES:
        runs = [_searched(model, config, mesh, tolerance) for _ in range(TIMES)]
        firsts, proofs, others = zip(*runs, strict=True)
        samples.append(Sample(f"auto, {what}: a good layout", firsts, good, share=0.5))
        samples.append(Sample(f"auto, {what}: proof to {tolerance:.0%}", proofs, proof, share=0.5))
        samples.append(Sample(f"auto, {what}: front and regrets", others, OTHERS, share=0.5))
    return samples


def _searched(model: Any, config: Any, mesh: ml.Mesh, tolerance: float) -> tuple[float, float, float]:
    """The seconds to a layout within 2 % of the answer, to the proof, and from there to the front and the regrets."""
    optimizer, params = training.adamw(), shapes(model.init, config)
    step = training.adamw_step(training.mixed(model.loss), optimizer)
    program = ml.trace(step, params, jax.eval_shape(optimizer.init, params), *model.inputs(config))
    met: list[tuple[float, float]] = []
    start = time.perf_counter()
    choice = ml.auto.layout(
        program,
        mesh,
        tolerance=tolerance,
        progress=lambda found: met.append((time.perf_counter() - start, found.value)),
    )
    end = time.perf_counter() - start
    _ = choice.pareto, choice.regrets
    others = time.perf_counter() - start - end
    return next(when for when, value in met if value <= GOOD * choice.proof.value), end, others
