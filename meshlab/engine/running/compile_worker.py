"""The process in which XLA compiles for simulated CPU devices: `python -P compile_worker.py`.

Compilers log, hold locks, and end their process when something goes wrong in them. In a process of its own that is not
the notebook's. For each program the two processes share a folder, whose name comes as a line of standard input:

    program.bin     the program, as `jax.export` writes it
    request.json    its options                                                    from `compiler_process.py`
    stage           the present stage                                                       from here
    program.hlo     the compiled program's text
    answer.json     other facts, written last; or {"error": …}

This file imports nothing but JAX, which is most of the time that such a process takes to start;
`meshlab.cost.compilers.worker` does the same for compilers of absent hardware, `meshlab.own.worker` for what explains
the user's own programs. The process ends with the one that started it: that holds its standard input open.
"""

from __future__ import annotations

import json
import os
import pathlib
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import export
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

# Custom calls that JAX does not promise to read in a later version.
_UNSTABLE = ("ragged_all_to_all",)

Compile = Callable[[pathlib.Path, dict[str, Any]], dict[str, Any]]


def written(function: Any, arguments: Sequence[jax.ShapeDtypeStruct], platform: str) -> bytes:
    """Returns a function as bytes that another process can compile: StableHLO and shardings.

    Args:
        function: from `jax.jit`, over flat arguments.
        arguments: shapes, dtypes and shardings; the mesh may be one without devices.
        platform: for which it is lowered: "cpu", "tpu" or "cuda".
    """
    function, arguments = _on_key_data(function, arguments)
    # Whoever reads it has the same JAX.
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in _UNSTABLE]
    return bytes(export.export(function, platforms=[platform], disabled_checks=checks)(*arguments).serialize())


def _on_key_data(function: Any, arguments: Sequence[jax.ShapeDtypeStruct]) -> tuple[Any, Sequence[Any]]:
    """Returns the function on the data of its random keys: JAX 0.10.0 writes keys, and cannot lower those it reads."""
    keys = [_generator(a) if _is_key(a) else None for a in arguments]
    if not any(map(_is_key, (*arguments, *jax.tree.leaves(jax.eval_shape(function, *arguments))))):
        return function, arguments

    def run(*arrays: Any) -> Any:
        pairs = zip(arrays, keys, strict=True)
        results = function(*(jax.random.wrap_key_data(a, impl=key) if key else a for a, key in pairs))
        return jax.tree.map(lambda r: jax.random.key_data(r) if _is_key(r) else r, results)

    return jax.jit(run, keep_unused=True), [_data(a) if _is_key(a) else a for a in arguments]


def _is_key(array: Any) -> bool:
    return jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key)


def _generator(key: jax.ShapeDtypeStruct) -> Any:
    """Returns the generator of a key, by JAX's name; JAX has it of arrays alone."""
    generators: list[Any] = []
    jax.eval_shape(lambda array: generators.append(jax.random.key_impl(array)), key)
    return generators[0]


def _data(key: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    data = jax.eval_shape(jax.random.key_data, key)
    if not isinstance(key.sharding, NamedSharding):
        return data
    splits = PartitionSpec(*key.sharding.spec, *[None] * (data.ndim - len(key.sharding.spec)))
    return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=NamedSharding(key.sharding.mesh, splits))


def read(
    data: bytes,
    devices: Sequence[Any],
    axes: Sequence[Sequence[Any]],
    donated: Sequence[int] = (),
    specs: tuple[Sequence[Any], Sequence[Any]] | None = None,
) -> Any:
    """Lowers a written program for a mesh of devices; `compile` is the next step.

    Args:
        data: from `written`.
        devices: row-major over the mesh.
        axes: (name, size) of each mesh axis, and its type where that is none of "Auto".
        donated: which arguments may be overwritten.
        specs: the entries of each argument's and result's spec; None where nothing is asked for. Of a program that was
            written with shardings it is None itself: they are constraints on what is in it then.
    """
    # Types are those that were written. Without this JAX would take those of 64 bits for half of that.
    jax.config.update("jax_enable_x64", True)
    names, sizes, *types = zip(*axes, strict=True)
    kinds = tuple(AxisType[kind] for kind in types[0]) if types else (AxisType.Auto,) * len(names)
    mesh = Mesh(np.array(devices).reshape(sizes), names, axis_types=kinds)
    program = export.deserialize(bytearray(data))
    inputs, results = (_shardings(mesh, each) for each in specs) if specs else (program.in_shardings_jax(mesh), None)
    arguments = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
        for aval, sharding in zip(program.in_avals, inputs, strict=True)
    ]
    function = jax.jit(program.call, donate_argnums=tuple(donated), keep_unused=True, out_shardings=results)
    # Arguments say by their shardings which devices take part; a program may have none.
    with jax.set_mesh(mesh):
        return function.lower(*arguments)


def _shardings(mesh: Mesh, specs: Sequence[Any]) -> list[NamedSharding | None]:
    """Returns the shardings of specs as JSON has them: lists of entries, in which several axes are lists."""
    entries = ([tuple(e) if isinstance(e, list) else e for e in spec] if spec is not None else None for spec in specs)
    return [None if each is None else NamedSharding(mesh, PartitionSpec(*each)) for each in entries]


def serve(compile_: Compile) -> None:
    """Compiles the program in each folder that standard input names, one after another, until that ends."""
    folders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(folders,), daemon=True).start()
    while True:
        folder = pathlib.Path(folders.get())
        try:
            answer = compile_(folder, json.loads((folder / "request.json").read_text()))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        jax.clear_caches()
        write(folder / "answer.json", json.dumps(answer))


def _listen(folders: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        folders.put(line.rstrip("\n"))
    os._exit(2)


def write(path: pathlib.Path, text: str) -> None:
    """Writes a file at once, for the other process may be reading it."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


def _compile(folder: pathlib.Path, request: dict[str, Any]) -> dict[str, Any]:
    write(folder / "stage", "lowering")
    lowered = read((folder / "program.bin").read_bytes(), jax.devices()[: request["devices"]], request["axes"])
    write(folder / "stage", "compiling")
    write(folder / "program.hlo", lowered.compile(compiler_options=request["options"]).as_text())
    return {}


if __name__ == "__main__":
    serve(_compile)
