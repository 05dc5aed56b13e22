"""Steps on the accelerator that is attached, measured, beside what is predicted for them.

    python -m benchmarks.attached steps.jsonl            one line for each step, of one device
    python -m benchmarks.attached steps.jsonl --small    the same of small models, to try the command itself

Each is a whole step of a model at a published size, with AdamW where the model has it, planned on a mesh of one device,
compiled with its carried arguments donated, and run. A step's seconds are the median of `RUNS`, each waited for; its
memory is what the compiled program asks for, and the most that the device's allocator held.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import meshlab as ml
from meshlab.cost.machines.attached import file_of
from meshlab.engine.running.run import abstract_arguments, compiled, jax_mesh
from meshlab.opening.named_models import named_model

RUNS, WARM_UPS = 9, 3
# Integers are tokens and labels: below what any of the models looks up.
TOKENS = 1000

Case = tuple[str, dict[str, int]]
CASES: tuple[Case, ...] = (
    ("gpt2-small", {"batch": 8}),
    ("gpt2-small", {"batch": 32}),
    ("gpt2-xl", {"batch": 2}),
    ("gpt2-xl", {"batch": 8}),
    ("vit-b16", {"batch": 64}),
    ("vit-l16", {"batch": 128}),
    ("resnet50", {"batch": 64}),
    ("resnet50", {"batch": 256}),
    ("t5-base", {"batch": 16}),
    ("mamba-130m", {"batch": 8}),
    ("gemma2-2b", {"batch": 1}),
    ("unet3d-mesh-tf", {}),
)
SMALL: tuple[Case, ...] = (("mlp_adamw", {}), ("transformer_adamw", {}), ("convnet_sgd", {}))


def array(of: jax.ShapeDtypeStruct, rng: np.random.Generator) -> jax.Array:
    """Draws an argument, on its device."""
    if jnp.issubdtype(of.dtype, jax.dtypes.prng_key):
        return jax.device_put(jax.random.key(0), of.sharding)
    if jnp.issubdtype(of.dtype, jnp.integer):
        drawn = np.zeros(of.shape, of.dtype) if not of.shape else rng.integers(0, TOKENS, of.shape).astype(of.dtype)
        return jax.device_put(drawn, of.sharding)
    draw = jax.jit(lambda: jnp.full(of.shape, 0.02, of.dtype), out_shardings=of.sharding)
    return draw()


def stepped(plan: ml.Plan, executable: Any, arrays: list[Any]) -> Iterator[float]:
    """Runs steps, each on what the one before returned; yields the seconds of each."""
    program = plan.program
    outputs = {place: i for i, place in enumerate(program.outputs)}
    carried = {c.parameter: c.place for c in program.carries}
    after = [
        outputs.get(carried[a.parameter] + a.place.removeprefix(a.parameter)) if a.parameter in carried else None
        for a in program.arguments
    ]
    while True:
        start = time.perf_counter()
        results = executable(*arrays)
        jax.block_until_ready(results)
        yield time.perf_counter() - start
        arrays = [array if i is None else results[i] for array, i in zip(arrays, after, strict=True)]


def machines() -> list[str]:
    """Returns the machines that the attached device is: by its data sheet, and as `meshlab calibrate` measured it."""
    kind = jax.devices()[0].device_kind
    sheets = [name for name in ("h100", "h200", "a100", "b200", "cpu") if name in kind.lower()]
    return [*sheets, *(["attached"] if file_of(kind).exists() else [])]


def measured(name: str, sizes: dict[str, int]) -> dict[str, Any]:
    """Measures one step, and predicts it."""
    program = named_model(name).trace(**sizes)
    plans = {machine: program.plan(ml.mesh(machine, data=1), "") for machine in machines()}
    plan = next(iter(plans.values()))
    took = time.perf_counter()
    executable = compiled(plan, donate=True)
    took = time.perf_counter() - took
    rng = np.random.default_rng(0)
    arguments = abstract_arguments(plan, jax_mesh(plan, jax.devices()[:1]))
    steps = stepped(plan, executable, [array(each, rng) for each in arguments])
    seconds = [next(steps) for _ in range(WARM_UPS + RUNS)][WARM_UPS:]
    found = executable.memory_analysis()
    held = found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes
    return {
        "seconds": statistics.median(seconds),
        "spread": max(seconds) / min(seconds),
        "predicted": {machine: float(each.time.estimate) for machine, each in plans.items()},
        "flops": float(plan.time.flops) if hasattr(plan.time, "flops") else None,
        "peak_bytes": held - found.alias_size_in_bytes,
        "predicted_peak_bytes": int(plan.memory.donated.peak_bytes),
        "allocated_bytes": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use"),
        "compile_seconds": took,
    }


def main(path: str, *options: str) -> None:
    """Measures all cases, one line each in a file, as they are done."""
    about = {"device": jax.devices()[0].device_kind, "jax": jax.__version__}
    with pathlib.Path(path).open("w") as out:
        for name, sizes in SMALL if "--small" in options else CASES:
            case = about | {"model": name, "sizes": sizes}
            try:
                line = json.dumps(case | measured(name, sizes))
            except Exception as error:
                line = json.dumps(case | {"error": f"{type(error).__name__}: {error}"[:600]})
            print(line, file=out, flush=True)
            print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
