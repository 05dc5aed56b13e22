"""Judges what a layout puts on an axis of stages: the layers of a scan, and nothing else, beside micro-batches in time.

Layers may be in two stacks, of one dim or of two, as those of an encoder and a decoder.

    ml.mesh(pipe=ml.stages(4), micro=ml.serial(8)), "batch:micro layers:pipe"       a pipeline
    "layers:pipe"                                                                   refused: nothing would be passed on

What else a step needs so that it can be cut into stages is known when it has been planned (`plans/stages.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping

from ..axes.stages import Stages, TwoStacks
from ..code.loops import carried
from ..code.operations import Operation, walk
from ..errors import MeshError, listed, some
from ..programs.axis_conflicts import Scans
from ..programs.program import Program, analysis
from ..schedules.cells import BACKWARD, FORWARD, in_order
from ..schedules.schedule import Schedule
from ..specs.mesh import Mesh
from ..specs.spec import Axes, AxesByDim
from .refusal import Refusal
from .size_legality import stored_axes
from .uneven import FITTING, layers_instead, shared_out
from .unrolled import ROWS, unrolled

_CODE = "pipeline"


def stage_problems(
    program: Program,
    mesh: Mesh,
    rules: AxesByDim,
    scans: Scans,
    *,
    matched: Mapping[str, AxesByDim] | None = None,
    pad: bool | None = None,
) -> list[Refusal]:
    """Returns the problems of what compute rules, and storage rules by place, put on axes of stages.

    Args:
        program: the program.
        mesh: the mesh.
        rules: compute rules.
        scans: by dim the scans that step through it.
        matched: by place, the storage rules.
        pad: whether sizes that axes do not divide are padded: layers are not.
    """
    if not mesh.stages:
        return []
    problems = [*_no_layers(program, mesh, rules, scans), *_stored(mesh, matched or {}, scans)]
    on = {dim: axes for dim, axes in rules.items() if dim in scans and on_stages(mesh, axes)}
    used = dict.fromkeys(axis for axes in on.values() for axis in axes if mesh.axes[axis] > 1)
    if len(on) > 1 and not (len(on) == 2 and len({*on.values()}) == 1 and are_two_stacks(program, on)):
        text = f"{listed(on)} are on stages, but a pipeline has one stack of layers, or two, one behind the other."
        problems.append(Refusal(_CODE, text, "Put one of them on stages, and leave the others replicated."))
    for dim, axes in on.items():
        (axis, *_) = [each for each in axes if each in mesh.stages]
        if len(axes) > 1:
            text = f"`{dim}:{'+'.join(axes)}` has other axes beside the stages: a stage has whole layers."
            problems.append(Refusal(_CODE, text, f"Write `{dim}:{axis}`.", scans[dim].source))
        elif axis in used:
            stages = as_run(program, mesh.stages[axis], on)
            problems += [*_unfit(mesh, dim, axis, stages, rules), *_uneven(program, dim, axis, stages, on, pad=pad)]
            problems += _padded_in_storage(program, mesh, dim, matched or {}) if pad else []
    return list(dict.fromkeys(problems))


def as_run(program: Program, stages: Stages, dims: Collection[str]) -> Stages:
    """Returns an axis of stages as a pipeline of the scans over some dims has it."""
    return TwoStacks.of(stages) if are_two_stacks(program, dims) else stages


def are_two_stacks(program: Program, dims: Collection[str]) -> bool:
    """Whether four scans pass something on over some dims: two forward and two in reverse, if they are a pipeline."""
    return sum(not those.isdisjoint(dims) for those in _passing(program)) == 4


@analysis
def _passing(program: Program) -> tuple[frozenset[str], ...]:
    """Returns of each scan that carries something the dims that it steps through."""

    def over(scan: Operation, count: int) -> frozenset[str]:
        stacks = (*scan.inputs[count:], *scan.outputs[count:])
        names = (program.dims_of(value)[0] for value in stacks if isinstance(value, int))
        return frozenset(name for name in names if name)

    scans = ((scan, carried(scan)) for scan in walk(program.code.block) if scan.name == "scan")
    return tuple(over(scan, count) for scan, count in scans if count)


def on_stages(mesh: Mesh, axes: Axes) -> bool:
    return any(axis in mesh.stages for axis in axes)


def _no_layers(program: Program, mesh: Mesh, rules: AxesByDim, scans: Scans) -> Iterator[Refusal]:
    for dim, axes in rules.items():
        if dim not in scans and on_stages(mesh, axes):
            loop = "" if scans else unrolled(program)
            text = f"`{dim}` cannot be on {_stages(mesh, axes)} {loop}".rstrip()
            yield Refusal(_CODE, text, ROWS if loop else _elsewhere(dim, scans))


def _stored(mesh: Mesh, matched: Mapping[str, AxesByDim], scans: Scans) -> Iterator[Refusal]:
    for place, rules in matched.items():
        for dim, axes in rules.items():
            if dim not in scans and on_stages(mesh, axes):
                text = f"At `{place}`: `{dim}` cannot be on {_stages(mesh, axes)}"
                yield Refusal(_CODE, text, _elsewhere(dim, scans))
            elif len(axes) > 1 and (
                those := [axis for axis in axes if axis in mesh.stages and mesh.stages[axis].uneven]
            ):
                text = f"At `{place}`: `{dim}:{'+'.join(axes)}` cuts layers whose number differs from stage to stage."
                yield Refusal(_CODE, text, f"Store it by `{dim}:{those[0]}`.")


def _padded_in_storage(program: Program, mesh: Mesh, dim: str, matched: Mapping[str, AxesByDim]) -> Iterator[Refusal]:
    """Refuses layers that would be stored with padding: on the stages they have none."""
    size = program.dims[dim]
    places: dict[Axes, list[str]] = {}
    for place, rules in matched.items():
        if dim in rules and any(other == dim and not merged for other, _, merged in stored_axes(program, place)):
            places.setdefault(rules[dim], []).append(place)
    for axes, there in places.items():
        count = math.prod(mesh.axes[axis] for axis in axes)
        if size % count and not on_stages(mesh, axes):
            text = f"At {some(there, 2)}: `{dim}` has size {size}, which {count} (`{'+'.join(axes)}`) does not divide,"
            yield Refusal(_CODE, f"{text} and layers on stages are not padded.", f"Leave `{dim}` on the stages there.")


def _stages(mesh: Mesh, axes: Axes) -> str:
    axis = next(axis for axis in axes if axis in mesh.stages)
    return f"`{axis}`: its stages hold the layers of a scan, and no other dim."


def _elsewhere(dim: str, scans: Scans) -> str:
    layers = f"; only {' or '.join(f'`{each}`' for each in scans)} can be on stages" if scans else ""
    return f"Put `{dim}` on an axis of devices{layers}."


def _unfit(mesh: Mesh, dim: str, axis: str, stages: Stages, rules: AxesByDim) -> Iterator[Refusal]:
    """Yields why the stages cannot run micro-batches as a layout has them."""
    in_time = [(each, on) for on, axes in rules.items() for each in axes if each in mesh.in_time]
    micro = [each for each, _ in in_time if mesh.axes[each] > 1]
    if in_time and not micro:
        ((only, on), *_) = in_time
        text = f"`{dim}` is on the stages `{axis}`, but `{only}` has size 1 for `{on}`: a pipeline needs micro-batches."
        yield Refusal(_CODE, text, f"Give it {max(2, stages.size)}, with {only}=ml.serial({max(2, stages.size)}).")
        return
    if not micro:
        text = f"`{dim}` is on the stages `{axis}`, but nothing is on a serial axis: a pipeline needs micro-batches."
        there = next(iter(mesh.in_time), "")
        write = f"batch:{there}" if there else "batch:micro` with `micro=ml.serial(8)"
        yield Refusal(_CODE, text, f"Add `{write}`.")
        return
    try:
        schedule = stages.order(mesh.axes[micro[0]])
    except MeshError as error:
        yield Refusal(_CODE, f"`{axis}` has no schedule: {error}", _other_schedules(stages, micro[0], mesh))
        return
    if why := not_run(schedule):
        others = "`gpipe`" if isinstance(stages, TwoStacks) else "`gpipe`, `1f1b` or `interleaved`"
        fix = f"Write {axis}=ml.stages({stages.size}), or choose {others}."
        yield Refusal(_CODE, f"`{axis}` has the schedule {schedule.name}, {why}.", fix)


def _other_schedules(stages: Stages, axis: str, mesh: Mesh) -> str:
    """Names what would have a schedule: others for as many micro-batches, or another number of these."""

    def has(named: Stages, micro: int) -> bool:
        with contextlib.suppress(MeshError):
            return not not_run(named.order(micro))
        return False

    named = {name: dataclasses.replace(stages, schedule=name, chunks=None) for name in _offered(stages)}
    others = [f"`{name}`" for name, each in named.items() if has(each, mesh.axes[axis])]
    known = stages.schedule.micro if isinstance(stages.schedule, Schedule) else stages.size
    resized = [f"another size of `{axis}`"] if has(stages, known) else []
    return f"Choose {' or '.join([*others, *resized])}."


def _offered(stages: Stages) -> tuple[str, ...]:
    """Returns the schedules that are named where another one does not fit."""
    return ("interleaved", "gpipe") if isinstance(stages, TwoStacks) else ("paired", "gpipe", "1f1b")


def _uneven(
    program: Program, dim: str, axis: str, stages: Stages, dims: Collection[str], *, pad: bool | None
) -> Iterator[Refusal]:
    """Refuses layers that stages do not have together, that their chunks do not divide, or that would be padded."""
    count, size = stages.size * stages.chunk_count, program.dims[dim]
    if stages.layers and sum(stages.layers) != size:
        text = f"`{axis}` has layers={stages.layers}, {sum(stages.layers)} in all, but `{dim}` has size {size}."
        fix = f"Write layers={shared_out(size, stages.size)}." if size >= stages.size else f"Use at most {size} stages."
        if len({program.dims[each] for each in dims}) > 1:
            fix = f"Stacks of different sizes have as many layers on all stages: leave layers={stages.layers} out."
        yield Refusal(_CODE, text, fix)
    elif size % count and not stages.layers and (pad or stages.chunk_count > 1):
        chunks = f" of {stages.chunk_count} chunks" if stages.chunk_count > 1 else ""
        text = f"`{dim}` has size {size}, which {stages.size} stages{chunks} do not divide, and layers are not padded."
        down = size // count * count
        fitting = f"{down} or {down + count}" if down else down + count
        yield Refusal(_CODE, text, f"{FITTING}{fitting}{layers_instead(stages, axis, size)}.")


def not_run(schedule: Schedule) -> str:
    """Says why a schedule is not run; "" where it is."""
    phases = {cell.phase for steps in schedule.order for step in steps for cell in step}
    if not phases <= {FORWARD, BACKWARD}:
        return "which computes gradients of weights separately: it can be drawn and priced, but a plan cannot run it"
    in_turn = schedule.parts == in_order(schedule.stages, schedule.chunks)
    return (
        ""
        if in_turn
        else "whose chunks do not go to the stages in turn: it can be drawn and priced, but a plan cannot run it"
    )
