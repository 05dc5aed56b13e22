"""A layout for `jax.jit`, without meshlab: the mesh, the shardings of arguments and outputs, and of places inside.

    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    inputs = ({"up": P(None, "model"), "down": P("model", None)}, P("data", None))
    outputs = …
    inside = {"residual": NamedSharding(mesh, P("data", None, "model"))}
    jit = functools.partial(jax.jit, in_shardings=…, out_shardings=…)

The text runs in a fresh kernel; the user's function it cannot bring along: `jit(step)` compiles that. What a layout
says of places inside the function (tags, gradients) stands in `inside`, each with the line at which the function has to
hold the value to it. All else is left to XLA's partitioner, which spreads it from these: what is sent then is XLA's
choice, which `plan.xla("stored")` has beside the plan's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....engine.running.lower import partition_spec
from ....engine.specs.dialects import rules_in
from ....engine.specs.in_time import without_all
from .literal import literal
from .specs import written_specs

SPREAD = 'the shardings of intermediate values: XLA chooses them; `plan.xla("stored")` shows what it then sends'
Inside = dict[str, tuple[Any, list[str]]]


def jit_text(plan: Any) -> tuple[str, Sequence[str]]:
    """Returns a plan's shardings as lines of Python, and what of the layout these cannot say."""
    specs, (inside, mixed), name = written_specs(plan), _inside(plan), _called(plan.program.fn)
    if specs.lost:  # no trees that `jax.jit` would take
        return "", [*specs.lost, "the shardings: `plan.shardings` has them"]
    lines = [
        *sorted({*specs.imports, "from jax.sharding import AxisType, NamedSharding"}),
        "",
        *_mesh_lines(plan.mesh.devices),
        *specs.lines,
        "inputs, outputs = jax.tree.map(lambda spec: NamedSharding(mesh, spec), (inputs, outputs))",
        *_inside_lines(inside),
        "",
        f"# {name} = jit({name})",
        "jit = functools.partial(jax.jit, in_shardings=inputs, out_shardings=outputs)",
    ]
    lost = [*mixed, *_in_time(plan), *_scopes(plan.layout), SPREAD]
    return "\n".join(["import functools", "", "import jax", *lines]) + "\n", lost


def _called(fn: Any) -> str:
    """Returns what a function is called in Python; of a partial, or a lambda, that is nothing."""
    name = getattr(fn, "__name__", "")
    return name if name.isidentifier() else "step"


def _mesh_lines(mesh: Any) -> list[str]:
    names, sizes = (*mesh.axes,), (*mesh.axes.values(),)
    lines = [f"mesh = jax.make_mesh({literal(sizes)}, {literal(names)}, axis_types=(AxisType.Auto,) * {len(names)})"]
    if mesh.size > 1:  # JAX takes this before it has made an array
        lines.insert(0, f'# Without {mesh.size:,} devices: jax.config.update("jax_num_cpu_devices", {mesh.size})')
    return lines


def _inside(plan: Any) -> tuple[Inside, list[str]]:
    """Returns the spec of each place inside the function that has rules, with its lines; and what has several specs."""
    found: Inside = {}
    mixed = []
    for place in plan.rules.storage:
        specs, lines = {}, {}
        for operation in plan.program.marks.get(place, ()):
            for value in operation.outputs:
                spec = partition_spec(without_all(plan.producer_specs[value], plan.mesh.in_time))
                specs[spec], lines[str(operation.source)] = None, None
        if len(specs) == 1:
            found[place] = next(iter(specs)), [line for line in lines if line != "None"]
        elif specs:
            mixed.append(f"at `{place}` several values are stored, each differently: {', '.join(map(literal, specs))}")
    return found, mixed


def _inside_lines(inside: Inside) -> Iterator[str]:
    if not inside:
        return
    yield from (
        "",
        "# To be held where they are made: x = jax.lax.with_sharding_constraint(x, inside[…])",
        "inside = {",
    )
    for place, (spec, lines) in inside.items():
        made = f"  # {', '.join(lines)}" if lines else ""
        yield f"    {literal(place)}: NamedSharding(mesh, {literal(spec)}),{made}"
    yield "}"


def _in_time(plan: Any) -> list[str]:
    loops = [f"`{axis}` is a serial axis: the function must loop over its blocks itself" for axis in plan.rules.in_time]
    stages = (
        f"`{axis}` is an axis of stages: jax.jit has no schedule, and gathers layers" for axis in plan.rules.stages
    )
    return [*loops, *stages]


def _scopes(layout: Any) -> list[str]:
    return [
        f"in `{glob}` is computed {rules_in(rules)}: jax.jit has no rules for scopes"
        for glob, rules in layout.scope_rules
    ]
