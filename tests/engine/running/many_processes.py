"""What runs in one process and in several, with every kind of collective: `python many_processes.py OUT NAME...`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import meshlab as ml
from meshlab.engine.processes import is_first, whole
from meshlab.models import zoo
from tests.engine.running.test_pipeline import WEIGHTS, Batch, Embed, Tick
from tests.engine.running.test_pipeline import step as pipeline_step

MESH = ml.mesh(data=2, model=4)
# A model of the zoo, and its layout on the mesh; and the kinds of collectives that must be among its own.
CASES: dict[str, tuple[str, Callable[[ml.Program], Any], set[str]]] = {
    "FSDP": ("mlp_adamw", lambda program: ml.layouts.fsdp(program, MESH), {"reduce-scatter", "all-gather"}),
    "tensor": ("mlp_adamw", lambda program: "batch:data ffn:model", {"all-reduce"}),
    "heads": ("transformer", lambda program: "batch:data heads:model ffn:model", {"all-reduce"}),
    "keys": ("gpt2", lambda program: "batch:data seq:model", set()),
    "ulysses": ("gpt2", lambda program: ml.layouts.context_parallel(program, MESH, kind="ulysses"), {"all-to-all"}),
    "ring": ("gpt2", lambda program: ml.layouts.context_parallel(program, MESH, kind="ring"), {"collective-permute"}),
    "experts": ("moe", lambda program: "batch:data experts:model", set()),
    "halo": ("convnet_sgd", lambda program: "batch:data rows:model", {"collective-permute"}),
    "pipeline": ("pipeline", lambda program: "stage:data batch:model", {"collective-permute"}),
    "state space": ("state_space", lambda program: "batch:data inner:model", set()),
}
MODELS = {model.name: model for model in zoo.models()}


def results(name: str) -> list[np.ndarray]:
    """Runs and checks a case; returns all its outputs, in each process."""
    model, layout, kinds = CASES[name]
    program, data = _pipeline() if model == "pipeline" else (MODELS[model].trace(), MODELS[model].data(0))
    plan = program.plan(MESH, layout(program))
    assert kinds <= {collective.kind for collective in plan.collectives}, plan
    found = [np.asarray(whole(leaf)) for leaf in jax.tree.leaves(plan.run(*data))]
    report = plan.check()
    assert report.ok, report
    return found


def _pipeline() -> tuple[ml.Program, list[np.ndarray]]:
    program = ml.trace(pipeline_step, *WEIGHTS, ml.f32[Tick, Batch, Embed])
    draw = np.random.default_rng(0)
    shapes = (program.place(argument.place).shape for argument in program.arguments)
    return program, [draw.normal(size=shape).astype(np.float32) for shape in shapes]


if __name__ == "__main__":
    ml.distributed()
    _, out, *names = sys.argv
    arrays: dict[str, Any] = {f"{name}/{i}": array for name in names for i, array in enumerate(results(name))}
    if is_first():
        np.savez(out, **arrays)
        print(f"{jax.process_count()} processes, {len(jax.devices())} devices, {len(jax.local_devices())} here")
