"""The process in which the user's own program is compiled, and what decided its shardings is kept.

It shares a folder with the process that asks, as `engine/running/compile_worker.py` has it, with two files more:

    before.hlo      the program's text before XLA's partitioner ran, where XLA has a pass of that name
    records.json    who started each split of each value, where Shardy tells

Shardy's passes run here, not in the notebook: should one of them end its process, it is this one.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jax

from ..engine.running.compile_worker import read, serve, write
from .shardy import recorded

# What Python runs: `python -c COMMAND`.
COMMAND = "from meshlab.own.worker import run; run()"


def run() -> None:
    """Compiles the programs that it is asked about."""
    serve(_compile)


def _compile(folder: pathlib.Path, request: dict[str, Any]) -> dict[str, Any]:
    write(folder / "stage", "lowering")
    devices, program = jax.devices()[: request["devices"]], (folder / "program.bin").read_bytes()
    lowered = read(program, devices, request["axes"], specs=request["specs"])
    write(folder / "stage", "compiling")
    # Nothing is dumped of what is cached.
    jax.config.update("jax_enable_compilation_cache", False)
    dump, is_explained = folder / "dump", request["is_explained"]
    dumped = {"xla_dump_to": str(dump), "xla_dump_hlo_pass_re": "spmd-partitioning", "xla_dump_hlo_as_text": True}
    compiled = lowered.compile(compiler_options=request["options"] | (dumped if is_explained else {}))
    write(folder / "program.hlo", compiled.as_text())
    for text in sorted(dump.glob("*before_spmd-partitioning*.txt"))[:1]:
        text.replace(folder / "before.hlo")
    if is_explained and (records := recorded(lowered)):
        write(folder / "records.json", json.dumps(records.to_dict()))
    sizes = compiled.memory_analysis()
    return {
        "memory": [sizes.argument_size_in_bytes, sizes.output_size_in_bytes, sizes.temp_size_in_bytes],
    }
