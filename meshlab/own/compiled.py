"""Compiles the user's program as it is, with its equations numbered, and keeps what XLA's partitioner was given.

    made = compiled(with_numbers(jitted), watch)
    made.text           the compiled program
    made.before         the same before the partitioner: each value whole, with the sharding that was decided for it
    made.records        who started each split of each value

XLA compiles for as many simulated CPU devices, in a process of its own (`worker.py`): there are programs in which its
partitioner ends its process.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AxisType, NamedSharding

from ..engine.devices import compiler_options
from ..engine.jax_programs import numbered
from ..engine.running.compile_worker import written
from ..engine.running.compiler_process import Process, Watch, inherited
from .jitted import Jitted
from .naming.errors import OwnError
from .shardy import Records
from .worker import COMMAND


class Memory(NamedTuple):
    """What a compiled program takes on one device, in bytes, as XLA for CPUs lays it out.

    Attributes:
        arguments: those that come in.
        results: those that go out.
        temporaries: the most that it holds in between.
    """

    arguments: int
    results: int
    temporaries: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What XLA made of a program whose equations are numbered.

    Attributes:
        text: the compiled program.
        before: what its partitioner was given; None where XLA has no such pass any more.
        records: who started each split, as Shardy recorded it; None where it does not tell.
        memory: what it takes on one device.
    """

    text: str
    before: str | None
    records: Records | None
    memory: Memory


def with_numbers(jitted: Jitted) -> Jitted:
    """Returns the user's function with its equations numbered."""
    return dataclasses.replace(jitted, closed=numbered(jitted.closed))


def as_jit(jitted: Jitted) -> tuple[Any, list[jax.ShapeDtypeStruct]]:
    """Returns the user's program as a jitted function of flat arrays, and its arguments without data."""
    results = list(jitted.results) if any(s is not None for s in jitted.results) else None
    function = jax.jit(jaxpr_as_fun(jitted.closed), out_shardings=results, keep_unused=True)
    arguments = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)
        for aval, sharding in zip(jitted.closed.in_avals, jitted.inputs, strict=True)
    ]
    return function, arguments


def _specs(shardings: Sequence[NamedSharding | None]) -> list[list[Any] | None]:
    return [None if each is None else list(each.spec) for each in shardings]


def compiled(jitted: Jitted, watch: Watch, *, is_explained: bool = True) -> Compiled:
    """Compiles a program for simulated CPU devices.

    Args:
        jitted: the program, its equations numbered.
        watch: the clock.
        is_explained: whether what the partitioner was given is kept too, and who started each split.

    Raises:
        OwnError: XLA refuses the program, or its process ended.
        CompilerError: it took too long, or was cancelled.
    """
    count = jitted.mesh.size
    types = jitted.mesh.axis_types
    axes = [[name, size, kind.name] for (name, size), kind in zip(jitted.axes.items(), types, strict=True)]
    specs = [_specs(jitted.inputs), _specs(jitted.results)] if AxisType.Explicit not in types else None
    request = {"axes": axes, "devices": count, "options": compiler_options("cpu"), "specs": specs}
    variables = inherited() | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(max(8, count))}
    with Process(("-c", COMMAND), variables, keep=True) as process:
        watch.stage("exporting")
        # Shardings that are written with the program would be constraints inside of it, and spread otherwise.
        nothing = (None,) * len(jitted.inputs), (None,) * len(jitted.results)
        bare = jitted if specs is None else dataclasses.replace(jitted, inputs=nothing[0], results=nothing[1])
        function, arguments = as_jit(bare)
        try:
            with jax.set_mesh(jitted.mesh):
                program = written(function, arguments, "cpu")
        except NotImplementedError as error:  # JAX writes no callbacks
            raise OwnError(
                f"`{jitted.name}` calls back into Python (jax.debug.print, jax.pure_callback), and is compiled in a"
                f" process of its own, where that is not: leave it out. ({error})"
            ) from error
        answer = process.answer(program, request | {"is_explained": is_explained}, watch)
        if isinstance(answer, str):
            raise OwnError(f"XLA does not compile `{jitted.name}` for {watch.target}: {answer}")
        recorded = process.text("records.json")
        records = Records.from_dict(json.loads(recorded)) if recorded else None
        facts, text = answer
        return Compiled(text, process.text("before.hlo"), records, Memory(*facts["memory"]))
