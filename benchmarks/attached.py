"""Steps on the accelerator that is attached, measured, beside what is predicted for them.

    python -m benchmarks.attached                        measures, and adds to attached.jsonl
    python -m benchmarks.attached --small                the same of small models into no file, to try the command
    python -m benchmarks.attached --write docs/accuracy.md   writes what was measured beside what is predicted today

Each is a whole step of a model at a published size, with AdamW where the model has it, planned on a mesh of one device,
compiled with its carried arguments donated, and run. A step's seconds are the median of `RUNS`, each waited for; its
memory is what the compiled program asks for. A step whose runs differ by more than `STEADY` is left out.
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
from benchmarks.pages import Section
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.engine.running.run import abstract_arguments, compiled, jax_mesh
from meshlab.opening.named_models import named_model

RUNS, WARM_UPS, STEADY = 9, 3, 1.2
MACHINES = ("h100", "h200", "a100", "b200", "cpu")
JOURNAL = pathlib.Path(__file__).with_suffix(".jsonl")
SECTION = Section("attached")
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


def machine_of(device: str) -> str:
    """Returns the machine that a device is, by the kind that JAX calls it."""
    for name in MACHINES:
        if name in device.lower():
            return name
    raise SystemExit(f"The attached device is a {device}; steps are measured on {', '.join(MACHINES)}.")


def plan_of(device: str, name: str, sizes: dict[str, int]) -> ml.Plan:
    """Plans a step on one device."""
    return named_model(name).trace(**sizes).plan(ml.mesh(machine_of(device), data=1), "")


def measured(device: str, name: str, sizes: dict[str, int]) -> dict[str, Any]:
    """Measures one step."""
    plan = plan_of(device, name, sizes)
    took = time.perf_counter()
    executable = compiled(plan, donate=True)
    took = time.perf_counter() - took
    rng = np.random.default_rng(0)
    arguments = abstract_arguments(plan, jax_mesh(plan.mesh, jax.devices()[:1]))
    steps = stepped(plan, executable, [array(each, rng) for each in arguments])
    seconds = [next(steps) for _ in range(WARM_UPS + RUNS)][WARM_UPS:]
    found = executable.memory_analysis()
    assert found is not None
    held = found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes
    return {
        "device": device,
        "jax": jax.__version__,
        "model": name,
        "sizes": sizes,
        "seconds": statistics.median(seconds),
        "spread": max(seconds) / min(seconds),
        "peak_bytes": held - found.alias_size_in_bytes,
        "compile_seconds": took,
    }


def page() -> str:
    """Returns what was measured beside what is predicted today, as Markdown."""
    lines = [json.loads(line) for line in JOURNAL.read_text().splitlines()]
    rows = ["| device | step | measured | predicted | measured peak | predicted |", "|---|---|---:|---:|---:|---:|"]
    times, peaks = [], []
    steady = [line for line in lines if line["spread"] <= STEADY]
    for line in steady:
        plan = plan_of(line["device"], line["model"], line["sizes"])
        time_, peak = float(plan.time.estimate), plan.memory.donated.peak_bytes
        times.append(time_ / line["seconds"] - 1)
        peaks.append(peak / line["peak_bytes"] - 1)
        sizes = ", ".join(f"{name}={size}" for name, size in line["sizes"].items())
        rows.append(
            f"| {line['device']} | {line['model']}{f', {sizes}' * bool(sizes)} | {seconds_text(line['seconds'])}"
            f" | {seconds_text(time_)}, {times[-1]:+.0%} | {bytes_text(line['peak_bytes'])}"
            f" | {bytes_text(peak)}, {peaks[-1]:+.0%} |"
        )
    medians = f"{_median(times):.0%} of the seconds, {_median(peaks):.0%} of the peak"
    said = f"Of {len(times)} steps the median error is {medians}."
    if uneven := [line["model"] for line in lines if line not in steady]:
        said += f" Left out, since its runs differ by more than {STEADY - 1:.0%}: {', '.join(uneven)}."
    return "\n".join([*rows, "", said])


def _median(errors: list[float]) -> float:
    return statistics.median(map(abs, errors))


def main(*options: str) -> None:
    """Measures all cases, or writes the page."""
    if options[:1] == ("--write",):
        SECTION.write(pathlib.Path(options[1]), page())
        return
    device = jax.devices()[0].device_kind
    machine_of(device)
    for name, sizes in SMALL if "--small" in options else CASES:
        line = json.dumps(measured(device, name, sizes))
        print(line, flush=True)
        if "--small" not in options:
            with JOURNAL.open("a") as out:
                print(line, file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
