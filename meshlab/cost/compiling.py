"""The process in which a compiler for absent hardware runs: `python -m meshlab.cost.compiling FOLDER`.

libtpu and the CUDA plugin stay out of the notebook's process: they log, they hold locks, and what goes wrong in them
ends the process. So a folder is all that the two processes share:

    request.json    platform, topology, options, mesh axes, which arguments are donated     from `compilers.py`
    program.bin     the plan, as `jax.export` writes it
    stage           what is being done now                                                  from here
    answer.json     bytes, seconds, versions; or {"error": …}
    program.hlo     the compiled program's text

The process ends with the one that started it: that holds its standard input open.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading
import time
from importlib import metadata
from typing import Any

import jax
import numpy as np
from jax import export
from jax.sharding import AxisType, Mesh

from ..engine.jax_compat import absent_devices


def main(folder: pathlib.Path) -> int:
    """Compiles what lies in a folder; returns the exit status."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    request = json.loads((folder / "request.json").read_text())
    try:
        answer = _compile(folder, request)
    except Exception as error:
        _write(folder / "answer.json", json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return 1
    _write(folder / "answer.json", json.dumps(answer))
    return 0


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(2)


def _compile(folder: pathlib.Path, request: dict[str, Any]) -> dict[str, Any]:
    _write(folder / "stage", "lowering")
    begun = time.perf_counter()
    known = {request["named"]: request["topology"], **request["options"]}
    found = absent_devices(request["platform"], **known)
    names, sizes = zip(*request["axes"], strict=True)
    devices = _ordered(found, request["order"])
    mesh = Mesh(np.array(devices).reshape(sizes), names, axis_types=(AxisType.Auto,) * len(names))
    program = export.deserialize(bytearray((folder / "program.bin").read_bytes()))
    shardings = program.in_shardings_jax(mesh)
    arguments = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
        for aval, sharding in zip(program.in_avals, shardings, strict=True)
    ]
    function = jax.jit(program.call, donate_argnums=tuple(request["donated"]), keep_unused=True)
    lowered = function.lower(*arguments)
    _write(folder / "stage", "compiling")
    lowering, begun = time.perf_counter() - begun, time.perf_counter()
    compiled, options = _compiled(lowered)
    compiling = time.perf_counter() - begun
    _write(folder / "stage", "reading")
    _write(folder / "program.hlo", compiled.as_text() or "")
    return {
        "memory": _memory(compiled.memory_analysis()),
        "compiler_options": options,
        "lowering_seconds": lowering,
        "compiling_seconds": compiling,
        "device_kind": devices[0].device_kind,
        "standing": [_standing(device) for device in devices] if request["platform"] == "tpu" else None,
        "versions": _versions(request["platform"]),
    }


def _compiled(lowered: Any) -> tuple[Any, dict[str, Any]]:
    """Compiles; returns with which options."""
    try:
        return lowered.compile(), {}
    except jax.errors.JaxRuntimeError as error:
        # XLA chooses the tiles of Triton's products by trying them on the GPU. Without one it takes its first choice,
        # which may not do; then its other products have to.
        if "output tile sizes" not in str(error):
            raise
        options = {"xla_gpu_enable_triton_gemm": False}
        return lowered.compile(compiler_options=options), options


def _ordered(devices: Any, order: list[list[int]] | None) -> list[Any]:
    """A topology's devices, by where they stand; without an order as they are listed."""
    if order is None:
        return list(devices)
    standing = {_standing(device): device for device in devices}
    return [standing[tuple(where)] for where in order]


def _standing(device: Any) -> tuple[int, ...]:
    """Where a TPU stands: its chip's coordinates, and which of the chip's devices it is."""
    return (*device.coords, device.core_on_chip)


def _memory(analysis: Any) -> dict[str, int]:
    sizes = ("argument_size", "output_size", "alias_size", "peak_memory")
    return {name: int(getattr(analysis, f"{name}_in_bytes")) for name in sizes}


def _versions(platform: str) -> dict[str, str]:
    packages = ["jax", "jaxlib", "libtpu" if platform == "tpu" else "jax-cuda12-pjrt"]
    return {name: metadata.version(name) for name in packages}


def _write(path: pathlib.Path, text: str) -> None:
    """Writes a file at once, for the other process may be reading it."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
