"""What runs in the environment of XLA's auto-sharding, one question a process; the answer is JSON, the log is XLA's.

    python -m benchmarks.xla_auto.inside shard perceptron "x=8" 14
    python -m benchmarks.xla_auto.inside compile perceptron "x=8" '{"batch": "x"}'

The first shards a program by XLA's own pass and compiles it; GiB that are not said are its default. The second compiles
the plan of a layout with the same compiler, so that both are told by one account.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies

import meshlab as ml
from benchmarks.xla_auto.questions import MACHINE, MESHES, PROGRAMS
from meshlab.cost.compilers.compiled import estimated_cycles
from meshlab.engine.verifying.hlo import read_collectives

Axes = dict[str, int]


def shard(name: str, axes: Axes, gibibytes: int | None) -> dict[str, Any]:
    """Has XLA shard a program; returns the specs by place, and the compiler's account."""
    # JAX 0.10.0 still has it; 0.10.2 has not.
    from jax.experimental.pjit import AUTO  # pyright: ignore[reportAttributeAccessIssue]

    # With Shardy arguments stay replicated: it does not honour AUTO for them.
    jax.config.update("jax_use_shardy_partitioner", False)
    topology = topologies.get_topology_desc(platform="tpu", topology_name=MACHINE)
    auto = AUTO(jax.sharding.Mesh(np.array(topology.devices).reshape(tuple(axes.values())), tuple(axes)))
    step, arguments = PROGRAMS[name]()
    program = ml.trace(step, *arguments)
    options: dict[str, Any] = (
        {} if gibibytes is None else {"xla_tpu_auto_spmd_partitioning_memory_budget_gb": gibibytes}
    )
    lowered = jax.jit(step, in_shardings=auto, out_shardings=auto).lower(*arguments)
    compiled = lowered.compile(compiler_options=options)
    memory: Any = compiled.memory_analysis()
    places = [argument.place for argument in program.arguments]
    return {
        "inputs": dict(zip(places, map(_entries, jax.tree.leaves(compiled.input_shardings[0])), strict=True)),
        "outputs": dict(zip(program.outputs, map(_entries, jax.tree.leaves(compiled.output_shardings)), strict=True)),
        **_account(compiled.as_text() or "", axes, memory.peak_memory_in_bytes),
        "versions": {package: metadata.version(package) for package in ("jax", "jaxlib", "libtpu")},
    }


def compiled(name: str, axes: Axes, rules: dict[str, Any]) -> dict[str, Any]:
    """Compiles the plan of a layout; returns the compiler's account."""
    step, arguments = PROGRAMS[name]()
    answer = ml.compile_for(ml.trace(step, *arguments).plan(ml.mesh(MACHINE, **axes), rules))
    return _account(answer.hlo, axes, answer.peak_bytes)


def _entries(sharding: Any) -> list[Any] | None:
    """The entries of a `PartitionSpec`, as JSON; None of what is none."""
    return list(sharding.spec) if hasattr(sharding, "spec") else None


def _account(text: str, axes: Axes, peak: int) -> dict[str, Any]:
    """What the compiler says of a program: cycles, collectives (those over other groups as over all axes), peak."""
    moved = [c for c in read_collectives(text, axes, unknown_trips=1) if c.axes != () and c.payload_bytes]
    told = [[c.kind, list(axes if c.axes is None else c.axes), c.payload_bytes, c.times] for c in moved]
    return {"cycles": estimated_cycles(text), "collectives": told, "peak": int(peak)}


def main(verb: str, name: str, mesh: str, last: str) -> int:
    if verb == "shard":
        answer = shard(name, MESHES[mesh], int(last) if last else None)
    else:
        answer = compiled(name, MESHES[mesh], json.loads(last))
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
