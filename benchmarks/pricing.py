"""How long it takes to price a layout that was not seen before: plan and time, and with the donated peak.

The program is a training step of Llama 3 8B, scanned, with AdamW, on v5p:4x4x4; the layouts are drawn at random around
those in use, with rules at places. As many others are priced first, so that what the program remembers is warm.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Iterator
from typing import Any

import jax

import meshlab as ml
from benchmarks.timing import Sample, timed
from meshlab.models.language import llama
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

COUNT = 30
TIME_SECONDS = 0.025
PEAK_SECONDS = 0.065
TENSOR: dict[str, Any] = dict.fromkeys(("heads", "ffn", "vocab"), "model")
SHARDED: dict[str, Any] = {place: {"embed": "data"} for place in ("params/*", "opt_state/*")}
STARTS: tuple[dict[str, Any], ...] = (
    {"batch": "data"},
    {"batch": "data"} | TENSOR,
    {"batch": "data"} | SHARDED,
    {"batch": "data"} | TENSOR | SHARDED,
    {"batch": "data", "seq": "model"},
    {"batch": "data", "embed": "model"},
)


def measure() -> list[Sample]:
    """Returns the samples."""
    config, optimizer = llama.Config.llama3_8b(batch=64), training.adamw()
    params = shapes(llama.init, config)
    arguments = params, jax.eval_shape(optimizer.init, params), *llama.inputs(config)
    step = training.adamw_step(llama.loss, optimizer)
    mesh = ml.mesh("v5p:4x4x4", data=16, model=4)
    seen = list(_drawn(ml.trace(step, *arguments), mesh, 2 * COUNT))
    samples = []
    for name, price, promise in (("plan and time", _time, TIME_SECONDS), ("plan, time and peak", _peak, PEAK_SECONDS)):
        program = ml.trace(step, *arguments)
        for layout in seen[COUNT:]:
            price(program, mesh, layout)
        actions = [functools.partial(price, program, mesh, layout) for layout in seen[:COUNT]]
        seconds = timed("", actions).seconds
        samples.append(Sample(f"Llama 3 8B, a new layout: {name}", seconds, promise, share=0.5))
    return samples


def _time(program: Any, mesh: Any, layout: Any) -> Any:
    plan = program.plan(mesh, layout)
    return plan, plan.time.estimate


def _peak(program: Any, mesh: Any, layout: Any) -> Any:
    plan, _ = _time(program, mesh, layout)
    return plan, plan.memory.donated.peak_bytes


def _drawn(program: Any, mesh: Any, count: int) -> Iterator[dict[str, Any]]:
    """Yields different legal layouts: those in use with one or two rules drawn anew."""
    chance, seen = random.Random(0), set()
    while len(seen) < count:
        layout: dict[str, Any] = copy.deepcopy(chance.choice(STARTS))
        for _ in range(chance.choice((1, 1, 2))):
            place = chance.choice(("", "", "params/*", "opt_state/*"))
            rules = layout.setdefault(place, {}) if place else layout
            rules[chance.choice(list(program.dims))] = chance.choice(("data", "model", "data+model", None))
        try:
            canonical = str(program.plan(mesh, layout).layout)
        except ml.LayoutError:
            continue
        if canonical not in seen:
            seen.add(canonical)
            yield layout
