"""Compares a plan with XLA's own partitioner: the same layout as JAX's shardings, and the collectives XLA inserts.

    inputs, outputs = plan.shardings
    jax.jit(program.fn, in_shardings=inputs, out_shardings=outputs)(*args)     # XLA decides the rest

    print(plan.xla())           # of the README's model, `batch` on `data` and `params/*` stored with `hidden` on it

    XLA's own partitioner beside the plan, given the spec of every value (payload bytes per device)
                                       plan        XLA
      = all-gather over data        813,056    813,056
      ≠ all-reduce over data              4  3,252,228
      ≠ reduce-scatter over data  3,252,224          0
      sent per device             4,878,342  7,317,510
      · XLA for CPU makes no reduce-scatter: it all-reduces, and every device keeps its part.

A plan says of every operation where it runs and what moves. XLA's partitioner gets the shardings of values, and decides
for itself what to move. The collectives that it inserts depend on its version and on the platform; that is why the plan
does not ask it. Here it is asked all the same, for two reasons: to see the collectives of a model annotated by hand,
and to time one against the other.

"All" constraints give XLA the spec in which the plan makes each value, in every block, but for partial sums, which it
cannot express, and for values that the plan makes on the spot. "Stored" gives it what a person would write: arguments,
outputs, and the tags that have rules. The program is the same one: its operations in normal form, on unsharded arrays,
its rematerialised regions behind their barriers.

There are programs in which that partitioner ends its process. So XLA compiles for simulated CPU devices in a process of
its own (`running/compile_worker.py`), and the collectives are read from there; a program that compiled there is
compiled here where it is run, or where accelerators are attached.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding

from ..code.operations import Block, Input, Literal, Operation
from ..collectives.kinds import KINDS, REDUCE_SCATTER
from ..devices import compiler_options, devices
from ..errors import CompilerError, LayoutError, MeshlabError, closest, listed, shown, some
from ..legality.uneven import uneven
from ..plans.plan_data import Plan
from ..plans.wording import quoted
from ..running import compile_worker
from ..running.compile_worker import written
from ..running.compiler_process import Cancel, Process, Progress, Watch, inherited, refuse_callbacks
from ..running.dispatch import placed
from ..running.interpret import run_blocks
from ..running.lower import partition_spec
from ..running.run import abstract_arguments, abstract_mesh, flat_arguments, jax_mesh, mesh_axes, output_tree
from ..specs.spec import Spec
from ..tables import Totals, collective_rows, comparison, note_lines
from ..tensors.trees import is_tensor
from .check import predicted_totals
from .hlo import HloCollective, read_collectives, totals
from .hlo_groups import read_groups
from .hlo_text import parse_module

CONSTRAINTS = {"all": "the spec of every value", "stored": "arguments, outputs and tags only"}
Values = dict[int, Any]
_UNKNOWN_GROUPS = "over ?: between devices that no set of mesh axes describes; XLA chose its own groups."


def partition_specs(plan: Plan) -> tuple[Any, Any]:
    """Returns the specs of arguments and outputs; see `Plan.partition_specs`."""
    _refuse_uneven(plan, "plan.partition_specs")
    return _trees(plan, partition_spec)


def shardings(plan: Plan) -> tuple[Any, Any]:
    """Returns the shardings of arguments and outputs on the plan's devices; see `Plan.shardings`."""
    _refuse_uneven(plan, "plan.shardings")
    mesh = jax_mesh(plan.mesh, devices(plan.mesh.size, plan.mesh.order))
    return _trees(plan, lambda spec: NamedSharding(mesh, partition_spec(spec)))


def _trees(plan: Plan, leaf: Callable[[Spec], Any]) -> tuple[Any, Any]:
    """Returns the trees of arguments and outputs, with one leaf in the place of each tensor or array."""
    program = plan.program
    inputs = [leaf(plan.argument_specs[a.value]) for a in program.arguments]
    outputs = jax.tree.structure(program.out_shapes, is_leaf=is_tensor)
    return jax.tree.unflatten(program.structure, inputs), jax.tree.unflatten(outputs, map(leaf, plan.output_specs))


def _refuse_uneven(plan: Plan, asked: str):
    """Refuses a padded plan: JAX takes and returns no array whose axis is sharded into parts of different sizes."""
    program, shapes = plan.program, plan.program.code.shape_of
    arguments = ((a.place, a.value, plan.argument_specs[a.value]) for a in program.arguments)
    stored = (*arguments, *zip(program.outputs, program.code.block.outputs, plan.output_specs, strict=True))
    padded: dict[tuple, list[str]] = {}
    for place, value, spec in stored:
        for axis, (size, axes) in enumerate(zip(shapes(value), spec.splits, strict=True)):
            if size % math.prod(plan.mesh.axes[a] for a in axes):
                name = program.names[value][axis] if isinstance(value, int) else None
                padded.setdefault((name, size, axes), []).append(place)
    if not padded:
        return
    problems = tuple(
        uneven(f"At {some(places, 4)}: `{program.dim_of(name) or name}`", size, axes, plan.mesh)
        for (name, size, axes), places in padded.items()
    )
    lines = "\n".join(f"  {i}. {problem}" for i, problem in enumerate(problems, 1))
    raise LayoutError(
        f"{asked} is for JAX's and XLA's own partitioner, which takes no uneven shards for arguments and outputs, but"
        f" this plan pads some:\n{lines}\nChoose sizes that fit; or run it by plan.run, which pads by itself.",
        problems,
    )


@dataclasses.dataclass(frozen=True)
class Partitioned:
    """The collectives that XLA's partitioner inserts for a layout, beside the plan's; prints as a table.

    Attributes:
        planned: payload bytes by kind and axes, as planned (in the dtype that this platform executes).
        inserted: the same, read from what XLA compiled; axes are ("?",) where the devices that take part are those of
            no set of mesh axes.
        planned_wire_bytes: bytes that one device sends in one run of the plan, counted in the same way.
        inserted_wire_bytes: bytes that one device sends in one run of XLA's program.
        constraints: the shardings that XLA had to respect: "all" or "stored".
        plan: whose layout this is.
        executable: compiles for this process, or returns what it has compiled.
        notes: remarks on the comparison.
    """

    planned: Totals
    inserted: Totals
    planned_wire_bytes: float
    inserted_wire_bytes: float
    constraints: str
    plan: Plan
    executable: Callable[[], Any]
    notes: tuple[str, ...] = ()

    @property
    def compiled(self) -> Any:
        """XLA's executable; like that of `plan.compile()` it takes and returns flat arrays."""
        return self.executable()

    @property
    def equal(self) -> bool:
        """Whether XLA inserts the planned collectives, byte for byte."""
        return self.planned == self.inserted

    def run(self, *args: Any) -> Any:
        """Runs XLA's program.

        Args:
            *args: as for `plan.run`.

        Returns:
            The function's own output tree.

        Raises:
            RunError: an argument does not fit.
        """
        arrays = flat_arguments(self.plan, args)
        return output_tree(self.plan, self.compiled(*map(placed, arrays, self.compiled.input_shardings[0])))

    def __str__(self):
        head = (
            f"XLA's own partitioner beside the plan, given {CONSTRAINTS[self.constraints]} (payload bytes per device)"
        )
        rows = collective_rows(self.planned, self.inserted, self._mark) or [("= no collectives",)]
        rows.append(("sent per device", round(self.planned_wire_bytes), round(self.inserted_wire_bytes)))
        return "\n".join([head, *comparison(("", "plan", "XLA"), rows), *note_lines(self.notes)])

    __repr__ = __str__

    def _mark(self, key: tuple[str, tuple[str, ...]]) -> str:
        return "=" if self.planned.get(key, 0) == self.inserted.get(key, 0) else "≠"


def partitioned(
    plan: Plan,
    constraints: str = "all",
    timeout: float = 600,
    progress: Callable[[Progress], Any] | None = None,
    cancel: Cancel | None = None,
) -> Partitioned:
    """Hands a plan's layout to XLA's own partitioner; see `Plan.xla`."""
    if not isinstance(constraints, str) or constraints not in CONSTRAINTS:
        known = " and ".join(f'"{name}" ({what})' for name, what in CONSTRAINTS.items())
        near = closest(constraints, CONSTRAINTS)
        raise MeshlabError(f"xla() was given the constraints {shown(constraints)}; there are {known}.{near}")
    if plan.rules.in_time:
        on = f", on ml.mesh({sizes})," if (sizes := _sizes(plan)) else ""
        raise LayoutError(
            f"plan.xla() passes the layout to XLA's own partitioner, which has no serial axes: this plan runs"
            f" {listed(plan.rules.in_time)} one block after another. Plan without"
            f" {quoted([*plan.rules.in_time, *plan.mesh.stages])}{on} to see what XLA inserts."
        )
    count = plan.mesh.size
    watch = Watch(f"{count} simulated CPU devices", "plan.xla(timeout={:g})", timeout, progress, cancel)
    _refuse_uneven(plan, "plan.xla()")
    refuse_callbacks(plan.program.code, "plan.xla()")
    on = devices(count, plan.mesh.order)
    text = _tried(plan, constraints, watch)
    executable = functools.cache(functools.partial(_compile, plan, on, constraints))
    if on[0].platform != "cpu":
        text = executable().as_text()
    sizes = plan.mesh.devices.axes
    collectives = read_collectives(text, sizes, unknown_trips=1)
    inserted = {(kind, axes or ("?",)): count for (kind, axes), count in totals(collectives).items()}
    planned, notes = predicted_totals(plan, on[0].platform)
    if on[0].platform == "cpu" and any(kind == REDUCE_SCATTER.name for kind, _ in planned):
        notes = (*notes, "XLA for CPU makes no reduce-scatter: it all-reduces, and every device keeps its part.")
    if any(axes == ("?",) for _, axes in inserted):
        notes = (*notes, _UNKNOWN_GROUPS)
    sent = sum(KINDS[kind].wire_bytes(n, axes, sizes) for (kind, axes), n in planned.items())
    by_xla = sent_bytes(collectives, text, count)
    return Partitioned(planned, inserted, sent, by_xla, constraints, plan, executable, notes)


def _sizes(plan: Plan) -> str:
    axes = plan.mesh.devices.axes.items()
    return ", ".join(f"{name}={size}" for name, size in axes if name not in plan.mesh.stages)


def _tried(plan: Plan, constraints: str, watch: Watch) -> str:
    """Returns the text of the program that XLA compiles for simulated CPU devices, in a process of its own."""
    count = plan.mesh.size
    request = {"axes": mesh_axes(plan.mesh), "devices": count, "options": compiler_options("cpu")}
    variables = inherited() | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(max(8, count))}
    with Process(("-P", compile_worker.__file__), variables, keep=True) as process:
        watch.stage("exporting")
        answer = process.answer(written(*_function(plan, abstract_mesh(plan.mesh), constraints), "cpu"), request, watch)
    if isinstance(answer, str):
        other = {"all": "stored", "stored": "all"}[constraints]
        # What comes after an empty line are lines of our own code.
        answer = re.split(r"\n\s*\n", answer)[0]
        raise CompilerError(
            f'plan.xla("{constraints}") passes the program to XLA\'s own partitioner, which fails: {answer}\n'
            "The plan itself is fine: plan.check() compares it with what XLA compiles without that"
            f' partitioner. To see what the partitioner inserts try plan.xla("{other}"), or another layout.'
        )
    return answer[1]


def sent_bytes(collectives: Iterable[HloCollective], text: str, count: int) -> float:
    """Adds up the bytes that one device sends for the collectives of a program compiled for `count` devices."""
    sizes = {}
    for computation in parse_module(text).values():
        for name, instruction in computation.instructions.items():
            groups = instruction.attribute("replica_groups")
            sizes |= {name: read_groups(groups, count).shape[1]} if groups is not None else {}
    # A permute has no groups, and sends its operand whatever the number of devices.
    moved = (c for c in collectives if c.axes != ())
    return sum(c.payload_bytes * c.times * KINDS[c.kind].sent(sizes.get(c.name, 2)) for c in moved)


def _compile(plan: Plan, on: Sequence[Any], constraints: str) -> Any:
    function, arguments = _function(plan, jax_mesh(plan.mesh, on), constraints)
    return function.lower(*arguments).compile(compiler_options=compiler_options(on[0].platform))


def _function(plan: Plan, mesh: Any, constraints: str) -> tuple[Any, list[jax.ShapeDtypeStruct]]:
    """Returns the program on unsharded arrays, constrained to a mesh, maybe without devices; and its arguments."""

    def sharding(spec: Spec) -> NamedSharding:
        return NamedSharding(mesh, partition_spec(spec))

    shardings_of = {v: sharding(s) for v, s in _constrained(plan, constraints).items() if not s.partial}
    outputs = tuple(map(sharding, plan.output_specs))
    function = jax.jit(_unsharded_function(plan, shardings_of), out_shardings=outputs, keep_unused=True)
    return function, abstract_arguments(plan, mesh)


def _constrained(plan: Plan, constraints: str) -> Mapping[int, Spec]:
    if constraints == "all":
        return plan.producer_specs
    marks = plan.program.marks
    stored = (o for place in plan.rules.storage for operation in marks.get(place, ()) for o in operation.outputs)
    return {o: plan.producer_specs[o] for o in stored if o in plan.producer_specs}


def _unsharded_function(plan: Plan, shardings_of: Mapping[int, NamedSharding]) -> Callable[..., tuple[Any, ...]]:
    """Returns the program as a function of unsharded arrays, flat: arguments in, outputs out."""
    program = plan.program
    arguments = [a.value for a in program.arguments]

    def run(*arrays: Any) -> tuple[Any, ...]:
        values = {n: jnp.asarray(c) for n, c in program.code.constants.items()}
        values.update(zip(arguments, arrays, strict=True))
        return tuple(map(jnp.asarray, _Evaluation(shardings_of).run(program.code.block, values)))

    return run


class _Evaluation:
    """Evaluates operations on unsharded arrays, and constrains the shardings of their results.

    Args:
        constraints: the shardings of those values that are constrained, by number.
    """

    def __init__(self, constraints: Mapping[int, NamedSharding]):
        self.constraints = constraints

    def run(self, block: Block, values: Values) -> list[Any]:
        """Evaluates a block that reads `values`, to which it adds its results; returns its outputs."""
        for operation in block.operations:
            operands = _read(values, operation.inputs)
            if operation.blocks:
                evaluate = functools.partial(self.inside, operation, values)
                results = run_blocks(operation, operands, evaluate, self.constrain)
            else:
                primitive = operation.equation.primitive
                result = primitive.bind(*operands, **operation.params)
                results = result if primitive.multiple_results else [result]
            values.update(zip(operation.outputs, self.constrain(operation.outputs, results), strict=True))
        return _read(values, block.outputs)

    def constrain(self, numbers: Iterable[int], arrays: Iterable[Any]) -> list[Any]:
        """Constrains the arrays of those values for which there is a sharding."""
        return [
            lax.with_sharding_constraint(array, self.constraints[number]) if number in self.constraints else array
            for number, array in zip(numbers, arrays, strict=True)
        ]

    def inside(self, operation: Operation, values: Values, number: int, inputs: Iterable[Any]) -> list[Any]:
        """Evaluates one of an operation's blocks, which reads the values around it and leaves them as they are."""
        block = operation.blocks[number]
        return self.run(block, values | dict(zip(block.inputs, self.constrain(block.inputs, inputs), strict=True)))


def _read(values: Values, inputs: Iterable[Input]) -> list[Any]:
    return [i.value if isinstance(i, Literal) else values[i] for i in inputs]
