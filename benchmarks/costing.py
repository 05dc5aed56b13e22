"""How long it takes to say what a plan costs: plan, memory and time of a large step, and a sweep.

A training step of Llama 3.1 405B with AdamW on 16,384 H100s is planned and costed within a second, once it is traced;
so are a thousand points of a sweep over machines, meshes, batches and sequences.
"""

from __future__ import annotations

from typing import Any

import jax

import meshlab as ml
from benchmarks.timing import Sample, timed
from meshlab.models.language import llama
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

PROMISE = 1.0
TIMES = 5
LAYOUT = {
    "batch": "data",
    **dict.fromkeys(("heads", "ffn", "vocab"), "model"),
    "params/*": {"embed": "data"},
    "opt_state/*": {"embed": "data"},
}


def measure() -> list[Sample]:
    """Returns the samples."""
    mesh = ml.mesh("h100", data=2048, model=8)
    fresh = [_program() for _ in range(TIMES)]
    plan = _program().plan(mesh, LAYOUT)

    def costed(program: Any) -> Any:
        plan = program.plan(mesh, LAYOUT)
        return plan, plan.memory, plan.time

    return [
        timed("Llama 3.1 405B on 16,384 H100s: plan, memory, time", [lambda p=p: costed(p) for p in fresh], PROMISE),
        timed("Llama 3.1 405B: sweep of 1,000 points", [lambda: _swept(plan)] * TIMES, PROMISE),
    ]


def _program() -> Any:
    config = llama.Config.llama3_405b(batch=2048)
    optimizer = training.adamw()
    params = shapes(llama.init, config)
    arguments = (params, jax.eval_shape(optimizer.init, params), *llama.inputs(config))
    return ml.trace(training.adamw_step(llama.loss, optimizer), *arguments)


def _swept(plan: Any) -> Any:
    machines = ["v5p", "v6e", "h100", "h200", "b200"]
    sequences, batches = [2048, 4096, 8192, 16384, 32768], [2048, 4096]
    return ml.sweep(plan, on=machines, seq=sequences, batch=batches, data=[8, 16, 32, 64, 128], model=[1, 2, 4, 8])
