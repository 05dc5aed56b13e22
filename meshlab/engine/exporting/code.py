"""The program of each device as Python that needs JAX alone; see `Plan.code`.

    plan.code("step.py")        one function of shards, under `jax.shard_map`, that does what `plan.run` does

What is written is traced again before it is returned, and compared with what the plan runs, operation by operation. So
the file computes and sends the same, or there is none: everything that cannot be written is listed at once.
"""

from __future__ import annotations

import os
import pathlib
import re
import textwrap
from typing import Any

from ..errors import RunError, numbered, shown
from ..plans.plan_data import Plan
from ..running.lower import partition_spec
from ..running.run import donated, mesh_axes, stored_shape
from ..whole_files import write_whole
from .compared import differences
from .expressions import WIDE, Expression, call, keyword, laid_out, sequence, text
from .traced import on_shards, trace
from .values import literal
from .writer import Writer

_SHARD_MAP = ("mesh=mesh", "in_specs=in_specs", "out_specs=out_specs", "check_vma=False")


def code(plan: Plan, path: Any = None) -> str:
    """Returns the program of each device as Python; see `Plan.code`."""
    if path is not None and not isinstance(path, str | os.PathLike):
        raise RunError(f'code() was given {shown(path)} for its file; write a path: "step.py".')
    written = plan.once(_code)
    if path is not None:
        try:
            write_whole(pathlib.Path(path), written)
        except OSError as error:
            raise RunError(f"code() cannot write {shown(str(path))}: {error.strerror}.") from None
    return written


def _code(plan: Plan) -> str:
    traced = trace(plan)
    writer = Writer(plan, traced)
    arguments = writer.program()
    problems = [*_padded(plan), *writer.problems]
    function = _function(writer, arguments)
    if not problems:
        namespace: dict[str, Any] = {}
        exec(compile(_imports(function) + function, "<plan.code>", "exec"), namespace)
        apart = differences(traced.whole, on_shards(plan, namespace["device"]))
        problems += dict.fromkeys(
            f"the primitive `{op.name}`, which the file would compute otherwise" for op in apart[:8]
        )
    if problems:
        raise RunError(f"This plan cannot be written as Python without meshlab:\n{numbered(problems)}")
    return _file(plan, function)


def _padded(plan: Plan) -> list[str]:
    """Lists the arguments and outputs that are padded."""
    places = [(a.place, a.value, plan.argument_specs[a.value]) for a in plan.program.arguments]
    outputs = zip(plan.program.outputs, plan.program.code.block.outputs, plan.output_specs, strict=True)
    places += [(place, value, spec) for place, value, spec in outputs if isinstance(value, int)]
    shapes = plan.program.code.shapes
    return [
        f"`{place}`, which is padded to {stored_shape(plan, value, spec)}"
        for place, value, spec in places
        if stored_shape(plan, value, spec) != shapes[value]
    ]


def _function(writer: Writer, arguments: list[str]) -> str:
    head = laid_out("def device", call("", *map(text, arguments)), ":", 0)
    constants = [*writer.constants, "", ""] if writer.constants else []
    about = '    """Runs on each device, on its own shards."""'
    return "\n".join([*constants, *head, about, *writer.lines]) + "\n"


def _imports(body: str) -> str:
    """Returns the lines that import what a body names."""
    lines = ["import jax"]
    lines += ["import jax.numpy as jnp"] if re.search(r"\bjnp\.", body) else []
    lines += ["import numpy as np"] if re.search(r"\bnp\.", body) else []
    lines += ["from jax import lax"] if re.search(r"\blax\.", body) else []
    lines += ["from jax.extend.random import threefry2x32_p"] if "threefry2x32_p" in body else []
    return "\n".join([*lines, "from jax.sharding import AxisType, PartitionSpec as P", "\n\n"])


def _file(plan: Plan, function: str) -> str:
    names, sizes = zip(*mesh_axes(plan.mesh), strict=True)
    axis_types = text(f"(AxisType.Auto,) * {len(names)}")
    mesh = call("jax.make_mesh", literal(sizes), literal(names), keyword("axis_types", axis_types))
    inputs = [plan.argument_specs[a.value] for a in plan.program.arguments]
    given = positions(donated(plan))
    rows = [
        *laid_out("in_specs = ", sequence(*map(_spec, inputs)), "", 0),
        *laid_out("out_specs = ", sequence(*map(_spec, plan.output_specs)), "", 0),
        *([f"# In training, let JAX reuse what a step replaces: donate_argnums={given}."] if given else []),
        *laid_out("sharded = ", call("jax.shard_map", text("device"), *map(text, _SHARD_MAP)), "", 0),
        "step = jax.jit(sharded)",
    ]
    parts = [_docstring(plan), "", _imports(function).rstrip("\n"), "", *laid_out("mesh = ", mesh, "", 0), "", ""]
    return "\n".join([*parts, function, "", *rows]) + "\n"


def positions(numbers: tuple[int, ...]) -> str:
    """Returns positions as Python: a range where they follow each other."""
    if len(numbers) < 3:
        return str(numbers) if numbers else ""
    first, *_, last = numbers
    return f"range({first}, {last + 1})" if numbers == tuple(range(first, last + 1)) else str(numbers)


def _docstring(plan: Plan) -> str:
    program, mesh = plan.program, plan.mesh
    name = getattr(program.fn, "__name__", "step")
    tree = f"({', '.join(program.parameters)}{',' * (len(program.parameters) == 1)})"
    lines = [
        *textwrap.wrap(
            f'"""`{name}` under the layout `{plan.layout}`, as each of {mesh.size:,} devices runs it.'
            " Written by meshlab; needs JAX alone.",
            WIDE,
        ),
        "",
        f"    outputs = step(*jax.tree.leaves({tree}))  # flat, in the order of the trees",
    ]
    if mesh.size > 1:
        lines += ["", f'Simulate devices by jax.config.update("jax_num_cpu_devices", {mesh.size}), before JAX is used.']
    return "\n".join([*lines, '"""'])


def _spec(spec: Any) -> Expression:
    return call("P", *(literal(each) for each in partition_spec(spec)))
