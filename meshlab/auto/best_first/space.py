"""Makes the space of a search: which dims may be on which axes, and what of the rest may be stored otherwise.

Left out, and named with the reason, are dims that no axis divides, that are scanned, that neither a matmul nor a
parameter has, nor much of the step (`importance`); and, where there would be too many points, those with
the least work. On an axis in time is what `ml.layouts.accumulate` puts there for a dim that no parameter has, where it
can be planned alone; beside it on an axis of stages is what `ml.layouts.pipeline_parallel` puts there.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...api.stages import Program
from ...engine.errors import LayoutError, listed
from ...engine.legality.stage_legality import are_two_stacks
from ...engine.programs.axis_conflicts import axis_conflicts, scanned_dims
from ...engine.programs.trained import trained
from ...engine.programs.values import Argument
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...layouts.accumulation import accumulate
from ...layouts.pipeline import pipeline_parallel
from ..additive.dim_work import amounts_of, matmuls
from ..request.constraints import NONE, Constraints
from ..request.stopping import NEVER, Watch
from .extras import Dims, Extras, ScopedDims
from .importance import shares
from .points import SearchSpace
from .pricer import Pricer
from .silence import silent_sets

# Points of what is computed, at most: bounds of so many are worked out in a second.
_POINTS = 4_000_000
# Sets of dims that one axis may split, at most, and sets of dims of parameters along which they are stored.
_SETS, _ALONG = 2_000, 8
# The share of a step that makes a dim worth a try which neither a matmul nor a parameter has.
_LITTLE = 0.1
# Sets of dims of a scope that may be given axes there, at most.
_ONTO = 64


def axes_of(mesh: Mesh) -> dict[str, int]:
    """Returns the axes that dims are split over, with their sizes: stages are for layers, beside all that is split."""
    return {axis: size for axis, size in mesh.devices.axes.items() if size > 1 and axis not in mesh.stages}


def search_space(pricer: Pricer, constraints: Constraints = NONE, watch: Watch = NEVER) -> SearchSpace:
    """Returns the space of a program on a mesh.

    Args:
        pricer: of the program on the mesh; one axis in time is in the space.
        constraints: what every layout must satisfy.
        watch: whether the search is to stop.
    """
    program, mesh = pricer.program, pricer.mesh
    axes = axes_of(mesh)
    kinds, arguments = trained(program), list(enumerate(program.arguments))
    parameters = tuple(a for position, a in arguments if position in kinds.parameters)
    state = tuple(a for position, a in arguments if position in kinds.state and any(program.dims_of(a.value)))
    left_out = _left_out(pricer, axes, parameters, constraints)
    most = min(_SETS, int(_POINTS ** (1 / max(1, len(axes)))))
    _, little = _sets(program, axes, left_out, constraints, most)
    left_out |= dict.fromkeys(little, "too little work, beside so many other dims")
    sets, _ = _sets(program, axes, left_out, constraints, most)
    if constraints.silent and not constraints.scopes:
        quiet = constraints.silent
        pairs = zip(axes, sets, strict=True)
        sets = tuple(silent_sets(pricer, axis, own, watch) if axis in quiet else own for axis, own in pairs)
    return SearchSpace(
        program=program,
        axes=axes,
        sets=sets,
        left_out=left_out,
        parameters=parameters,
        state=state,
        along=_along(program, axes, parameters),
        extras=_extras(program, mesh, sets, parameters, constraints),
        constraints=constraints,
    )


def kinds_searched(
    axes: int, trains: bool, tags: Iterable[str], scopes: Iterable[str], *, loop: str, stages: str
) -> str:
    """Says of a space what its layouts may do.

    Args:
        axes: how many mesh axes split anything.
        trains: whether there are parameters.
        tags: that may be stored otherwise.
        scopes: that may be computed otherwise.
        loop: the axis in time that a layout may use; "" for none.
        stages: the axis of stages that it may use besides; "" for none.
    """
    most = "no axis" if not axes else "at most one mesh axis" if axes == 1 else f"at most {axes} mesh axes"
    return "; ".join(
        (
            f"{most} for each dim",
            *(["parameters and optimizer state split along one set of dims besides"] if trains else []),
            *([f"{listed(tags)} stored otherwise"] if tags else []),
            *([f"{listed(scopes)} computed otherwise"] if scopes else []),
            *([f"with and without `{loop}`"] if loop else []),
            *([f"with and without a pipeline over `{stages}`"] if stages else []),
        )
    )


def kinds_of(program: Program, mesh: Mesh) -> str:
    """Says what the layouts of a program's space may do, before it is made: of what binds it only the mesh is known."""
    axes = axes_of(mesh)
    loop = next((axis for axis in mesh.in_time if mesh.axes[axis] > 1), "")
    kinds = trained(program)
    parameters = [each for position, each in enumerate(program.arguments) if position in kinds.parameters]
    layers = {dim for each in parameters for dim in program.dims_of(each.value) if dim in scanned_dims(program)}
    stages = next((axis for axis, one in mesh.stages.items() if one.size > 1 and loop and layers), "")
    offered = _offered(program, parameters)
    return kinds_searched(len(axes), bool(parameters), offered, (), loop=loop, stages=stages)


def _left_out(
    pricer: Pricer, axes: Mapping[str, int], parameters: Sequence[Argument], constraints: Constraints
) -> dict[str, str]:
    """The dims that are never split, with the reason."""
    program, reasons = pricer.program, dict[str, str]()
    used = _worked_on(program).keys() | {d for a in parameters for d in program.dims_of(a.value)}
    pinned = frozenset(d for d, _ in constraints.splits)
    for dim, size in program.dims.items():
        if dim in pinned:
            continue
        if dim in constraints.whole:
            reasons[dim] = "pinned whole"
        elif dim in scanned_dims(program):
            reasons[dim] = "scanned"
        elif not any(size % n == 0 for n in axes.values()):
            reasons[dim] = "no axis divides it"
    others = [dim for dim in program.dims if dim not in used and dim not in pinned and dim not in reasons]
    unsplit = pricer.price(Layout()) if others else None
    share = {} if unsplit is None else shares(unsplit)
    little = f"no matmul, no parameter and less than {_LITTLE:.0%} of the step has it"
    return reasons | {dim: little for dim in others if share.get(dim, 0.0) < _LITTLE}


def _worked_on(program: Program) -> Counter[str]:
    """The multiply-adds of matmuls that have a dim, for each dim."""
    work: Counter[str] = Counter()
    for dims, amount in amounts_of(program).items():
        work.update(dict.fromkeys(dims, round(amount)))
    return work


def _sets(
    program: Program, axes: Mapping[str, int], left_out: Mapping[str, str], constraints: Constraints, most: int
) -> tuple[tuple[tuple[Dims, ...], ...], Dims]:
    """The sets of dims that each axis may split, and the dims with which there would be too many for some axis."""
    conflicts, work = frozenset(axis_conflicts(program)), _worked_on(program)
    held = frozenset(d for d, _ in constraints.splits)
    by_work = sorted((d for d in program.dims if d not in left_out and d not in held), key=lambda dim: -work[dim])
    every, little = [], frozenset[str]()
    for axis, size in axes.items():
        pinned = frozenset(d for d, a in constraints.splits if a == axis)
        free = [d for d in by_work if program.dims[d] % size == 0 and (d, axis) not in constraints.forbidden]
        sets, without = independent(pinned, free, conflicts, most)
        every.append(tuple(sets))
        little |= without
    return tuple(every), little


def independent(held: Dims, dims: Iterable[str], conflicts: frozenset[Dims], most: int) -> tuple[list[Dims], Dims]:
    """Returns sets of dims of which no two conflict, and the dims that were left out since there are too many.

    Args:
        held: what is in all of the sets.
        dims: what may be in them, the most important first.
        conflicts: pairs that may be in none.
        most: the number of sets, at most.
    """
    sets, without = [held], set()
    for dim in dims:
        more = [own | {dim} for own in sets if not any(frozenset((dim, other)) in conflicts for other in own)]
        if len(sets) + len(more) > most:
            without.add(dim)
        else:
            sets += more
    return sets, frozenset(without)


def _along(program: Program, axes: Mapping[str, int], parameters: Sequence[Argument]) -> tuple[Dims, ...]:
    """The largest sets of dims of parameters of which no parameter has two, those that split most bytes first."""
    scans = scanned_dims(program)
    each = {a: [d for d in program.dims_of(a.value) if d and d not in scans] for a in parameters}
    together = frozenset(frozenset(pair) for dims in each.values() for pair in itertools.combinations(dims, 2))
    held = Counter({d: 0 for dims in each.values() for d in dims})
    for argument, dims in each.items():
        held.update(dict.fromkeys(dims, program.value(argument.value).nbytes))
    smallest = min(axes.values(), default=1)
    dims = [dim for dim, _ in held.most_common() if program.dims[dim] % smallest == 0]
    sets, _ = independent(frozenset(), dims, together, _SETS)
    largest = [one for one in sets if one and not any(one < other for other in sets)]
    return tuple(sorted(largest, key=lambda one: (-sum(held[dim] for dim in one), sorted(one)))[:_ALONG])


def _extras(
    program: Program,
    mesh: Mesh,
    sets: Sequence[Sequence[Dims]],
    parameters: Sequence[Argument],
    constraints: Constraints,
) -> Extras:
    free = frozenset(d for own in sets for dims in own for d in dims)
    loop = next((axis for axis in mesh.in_time if mesh.axes[axis] > 1), "")
    pinned = {axis for _, axes in constraints.pinned.dim_rules for axis in axes}
    weights = {d for a in parameters for d in program.dims_of(a.value)}
    # Where no axis of devices splits anything, any dim of data may be in time.
    among = free if axes_of(mesh) else frozenset(program.dims)
    data = [dim for dim in program.dims if dim in among - weights - constraints.whole]
    in_time = {} if not loop or loop in pinned else _in_time(program, mesh, loop, data, constraints)
    stages = next((axis for axis, one in mesh.stages.items() if one.size > 1 and axis not in pinned), "")
    chunks = mesh.stages[stages].chunk_count if stages else 1
    layers = _layers(program, mesh, (loop, stages), in_time, constraints) if stages else {}
    # Of two stacks one may take far longer than the other, and nearly all of the time be without waiting.
    waits = bool(stages and loop) and not are_two_stacks(program, frozenset[str]().union(*layers.values()))
    return Extras(
        program=program,
        sizes={axis: size for axis, size in mesh.axes.items() if size > 1},
        tags=_offered(program, parameters),
        scopes=_turnable(program, free, constraints),
        loop=loop,
        in_time=tuple(in_time),
        stages=stages,
        layers=layers,
        ticks=1 + (mesh.axes[stages] - 1) / (mesh.axes[loop] * chunks) if waits else 1.0,
    )


def _in_time(program: Program, mesh: Mesh, loop: str, data: Iterable[str], constraints: Constraints) -> dict[Dims, str]:
    """The sets of dims that may be in time, each of data with what it is renamed to; and the dim of data."""
    found: dict[Dims, str] = {}
    for dim in data:
        try:
            layout = accumulate(program, mesh, micro=loop, batch=dim)
            program.plan(mesh, layout)
        except LayoutError:
            continue
        if not constraints.forbidden & {(d, loop) for d in layout.rules}:
            found.setdefault(frozenset(layout.rules), dim)
    return found


def _layers(
    program: Program, mesh: Mesh, axes: tuple[str, str], in_time: Mapping[Dims, str], constraints: Constraints
) -> dict[Dims, Dims]:
    """The dims on the axis of stages beside each of the sets in time, where a pipeline can be planned.

    Two stacks may have layers of their own, which are in stages together.

    Args:
        program: the program.
        mesh: its mesh.
        axes: the axis in time, and that of stages.
        in_time: the sets, each with its dim of data.
        constraints: what every layout must satisfy.
    """
    (loop, stages), found = axes, {}
    for dims, batch in in_time.items():
        try:
            layout = pipeline_parallel(program, mesh, pipe=stages, micro=loop, batch=batch)
        except LayoutError:
            continue
        layers = frozenset(dim for dim, own in layout.dim_rules if own == (stages,))
        if not any((dim, stages) in constraints.forbidden or dim in constraints.whole for dim in layers):
            found[dims] = layers
    return found


def _turnable(program: Program, free: Dims, constraints: Constraints) -> dict[str, ScopedDims]:
    """The scopes that may be computed otherwise; in one for which there are pinned rules those hold."""
    conflicts, found = frozenset(axis_conflicts(program)), {}
    for glob in constraints.scopes:
        dims = program.dims_in(glob)
        if glob not in constraints.pinned.scopes:
            sets, _ = independent(frozenset(), sorted(dims & free), conflicts, _ONTO)
            found[glob] = ScopedDims(dims, tuple(one for one in sets if one and not any(one < more for more in sets)))
    return found


def _offered(program: Program, parameters: Sequence[Argument]) -> dict[str, Dims]:
    """For each tag of activations the dims that may go on axes of their own there: no weight's, and not the first."""
    weights, offered = _of_weights(program, parameters), {}
    for tag, operations in program.tags.items():
        axes = [dict.fromkeys(d for d in program.dims_of(op.outputs[0]) if d) for op in operations]
        own = [[d for d in dims if d not in weights] for dims in axes]
        if all(own) and (dims := frozenset(d for each in own for d in each[1:])):
            offered[tag] = dims
    return offered


def _of_weights(program: Program, parameters: Sequence[Argument]) -> Dims:
    """The dims of parameters that are multiplied with: those of learned positions, which are only added, are none."""
    scans = scanned_dims(program)
    kinds = {frozenset(d for d in program.dims_of(a.value) if d and d not in scans) for a in parameters}
    read = (value for operation in matmuls(program) for value in operation.reads)
    multiplied = {frozenset(d for d in program.dims_of(value) if d) for value in read}
    return frozenset[str]().union(*(kinds & multiplied))
