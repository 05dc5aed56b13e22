"""Runs a compiler for absent hardware in a process of its own: `python -c COMMAND`, with `COMMAND` below.

libtpu and the CUDA plugin stay out of the notebook's process. The two processes share a folder alone
(`meshlab.engine.running.compile_worker`); in it are

    request.json    platform, topology, options, mesh axes, which arguments are donated     from `compile_for.py`
    answer.json     bytes, seconds, versions                                                from here
"""

from __future__ import annotations

import pathlib
import time
from importlib import metadata
from typing import Any

import jax

from ...engine.devices import in_order, standing
from ...engine.jax_compat import absent_devices
from ...engine.running.compile_worker import read, serve, write

# JAX comes first, so that meshlab does not hide its plugins (`meshlab.engine.absent_hardware`).
COMMAND = "import jax; from meshlab.cost.compilers.worker import run; run()"


def run() -> None:
    """Compiles the programs that it is asked about."""
    serve(_compile)


def _compile(folder: pathlib.Path, request: dict[str, Any]) -> dict[str, Any]:
    write(folder / "stage", "lowering")
    known = {request["named"]: request["topology"], **request["options"]}
    listed = absent_devices(request["platform"], **known)
    devices = in_order(listed, request["order"]) or list(listed)
    lowered = read((folder / "program.bin").read_bytes(), devices, request["axes"], request["donated"])
    write(folder / "stage", "compiling")
    begun = time.perf_counter()
    compiled, options = _compiled(lowered)
    compiling = time.perf_counter() - begun
    write(folder / "stage", "reading")
    write(folder / "program.hlo", compiled.as_text() or "")
    return {
        "memory": _memory(compiled.memory_analysis()),
        "compiler_options": options,
        "compiling_seconds": compiling,
        "device_kind": devices[0].device_kind,
        "standing": [standing(device) for device in devices] if request["platform"] == "tpu" else None,
        "versions": _versions(request["platform"]),
    }


def _compiled(lowered: Any) -> tuple[Any, dict[str, Any]]:
    """Compiles; returns the compiled program and the options that it needed."""
    try:
        return lowered.compile(), {}
    except jax.errors.JaxRuntimeError as error:
        # XLA chooses the tiles of Triton's matmuls by trying them on the GPU. Without one it takes its first choice,
        # which may be invalid; then it must use its other matmuls.
        if "output tile sizes" not in str(error):
            raise
        options = {"xla_gpu_enable_triton_gemm": False}
        return lowered.compile(compiler_options=options), options


def _memory(analysis: Any) -> dict[str, int]:
    sizes = ("argument_size", "output_size", "alias_size", "peak_memory")
    return {name: int(getattr(analysis, f"{name}_in_bytes")) for name in sizes}


def _versions(platform: str) -> dict[str, str]:
    packages = ["jax", "jaxlib", "libtpu" if platform == "tpu" else "jax-cuda12-pjrt"]
    return {name: metadata.version(name) for name in packages}
