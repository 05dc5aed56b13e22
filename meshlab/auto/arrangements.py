"""Choosing the mesh together with the layout: every way to arrange devices in up to four axes.

    found = ml.auto.mesh(program, 64, on="v5p")
    found.mesh          x=16 × y=4 on Google TPU v5p, 4x4x4
    found.layout        the best layout on it
    print(found)        every mesh, with the best layout that was met on it

Meshes whose axes lie alike on the machine are one. Those with few axes are searched first, each only for what is faster
than the best before it; of meshes that are as good as the best one, the one with the fewest axes is taken.

With numbers of micro-batches, `micro=(8, 16)`, each arrangement is tried with a serial axis of each number too, and
with each of its axes as stages, in each schedule, wherever the program's layers can be divided into so many stages.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..api.stages import Plan, Program
from ..cost.machines.meshes import machine_and_slice, machine_of
from ..cost.machines.meshes import mesh as mesh_on
from ..cost.machines.units import seconds_text, share_text
from ..cost.workload.options import Options
from ..engine.argument_checks import is_whole
from ..engine.axes.serial import serial
from ..engine.axes.stages import NAMED, stages
from ..engine.errors import LayoutError, MeshlabError, listed, shown
from ..engine.running.compiler_process import Cancel
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.tables import html_rows, text_rows
from ..layouts.pipeline import pipeline_parallel
from .best_first.contest import contest
from .choice import Choice
from .choosing import bytes_allowed, check_limits, chosen
from .objective import TIME
from .proof import Proof
from .request.answer import Asked, Found, Limits
from .request.stopping import Watch

_NAMES = ("x", "y", "z", "w")
# The fewest micro-batches that are several.
_FEWEST = 2


@dataclasses.dataclass(frozen=True)
class Tried:
    """One mesh.

    Attributes:
        mesh: the mesh.
        layout: the best layout met on it that fits; None where there is none.
        seconds: of a step under it; infinite where there is none.
        bound: seconds that every layout of the search on it takes at least.
    """

    mesh: Mesh
    layout: Layout | None
    seconds: float
    bound: float


@dataclasses.dataclass(frozen=True)
class MeshChoice:
    """A mesh and a layout that were chosen together.

    Attributes:
        choice: the layout on the mesh, as `ml.auto.layout` gives it; its proof is about all meshes.
        tried: all meshes, the one with the fastest layout first.
    """

    choice: Choice
    tried: tuple[Tried, ...]

    @property
    def mesh(self) -> Mesh:
        """The mesh."""
        return self.choice.plan.mesh

    @property
    def layout(self) -> Layout:
        """The layout."""
        return self.choice.layout

    @property
    def plan(self) -> Plan:
        """Its plan."""
        return self.choice.plan

    @property
    def proof(self) -> Proof:
        """Why it is the best."""
        return self.choice.proof

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Returns a row for each mesh: its axes, the best step met on it, what is proved of it, and the layout."""
        return [
            (
                str(each.mesh).split(" on ")[0],
                "nothing fits" if each.layout is None else seconds_text(each.seconds),
                f"at least {seconds_text(each.bound)}",
                "" if each.layout is None else str(each.layout) or "nothing sharded",
            )
            for each in self.tried
        ]

    def __str__(self):
        return f"{text_rows(self.rows())}\ngap {share_text(self.proof.gap)}, in {self.proof.seconds:.1f} s"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_rows(self.rows(), ("mesh", "step", "proved", "layout"))


def mesh(
    program: Program,
    devices: int | None = None,
    *,
    on: Any = None,
    micro: int | Sequence[int] = (),
    schedules: str | Sequence[str] = ("paired",),
    memory: float | str | None = 0.9,
    tolerance: float = 0.01,
    exact: bool = False,
    seconds: float | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[Found], Any] | None = None,
    cancel: Cancel | None = None,
) -> MeshChoice:
    """Finds the mesh and the layout with the least seconds of a step that fit in memory.

    Args:
        program: made by `ml.trace`.
        devices: how many; by default all of the slice that `on` names.
        on: the machine, as of `ml.mesh`: "v5p:4x4x4", or "v5p" with a number of devices.
        micro: the number of micro-batches to try, or several, for gradient accumulation and pipelines; by default
            neither is tried.
        schedules: the schedules of pipelines to try, by name, as for `ml.stages`; (): no pipelines.
        memory: what the donated peak may take: a share of a device's memory, or "60 GB"; None: any.
        tolerance: the share by which the answer may take longer than the best, over all meshes.
        exact: whether the very best is asked for; as `tolerance=0`.
        seconds: after so many seconds the best so far is returned, with its gap.
        options: assumptions about a run, as of `plan.time.given`.
        progress: called with a `Found` whenever there is a better answer.
        cancel: ends the search soon after it is set.

    Returns:
        A `MeshChoice`.

    Raises:
        NothingFits: no layout was met on any mesh that fits in memory.
        Cancelled: `cancel` was set.
        HardwareError: there is no such machine or slice.
        LayoutError: the program's layers cannot be divided into stages; with `schedules=()` they need not be.
        MeshlabError: an argument is invalid.

    Example:
        found = ml.auto.mesh(program, on="v5e:4x4")
        found = ml.auto.mesh(program, on="h100:8x8", micro=(8, 16), schedules=("1f1b", "interleaved"))
    """
    started, watch = time.perf_counter(), Watch(cancel)
    counts, names = _checked(program, micro, schedules)
    check_limits("ml.auto.mesh()", memory=memory, tolerance=tolerance, exact=exact, seconds=seconds, progress=progress)
    limits = Limits(None, 0.0 if exact else tolerance, seconds, watch=watch, progress=progress)
    assumed, found = Options.read("ml.auto.mesh", options), meshes(on, devices)
    every = (*found, *_in_time(program, found, on, counts, names))
    asks = [Asked(program, each, limits=_within(limits, each, memory), options=assumed) for each in every]
    answer, standings = contest(asks, started)
    tried = tuple(Tried(asks[each.number].mesh, each.layout, each.value, each.bound) for each in standings)
    return MeshChoice(chosen(TIME, asks[standings[0].number], answer, started), tried)


def _checked(program: Any, micro: Any, schedules: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Returns the numbers of micro-batches, and the names of schedules; refuses what is neither, and no program."""
    if not isinstance(program, Program):
        raise MeshlabError(
            f"ml.auto.mesh() was given {shown(program)} for its program; write"
            ' ml.auto.mesh(ml.trace(fn, ...), on="v5e:4x4").'
        )
    counts = micro if isinstance(micro, Sequence) else (micro,)
    names = (schedules,) if isinstance(schedules, str) else schedules
    if not all(is_whole(count) and count >= _FEWEST for count in counts):
        raise MeshlabError(
            f"ml.auto.mesh() was given micro={shown(micro)}; give numbers of micro-batches,"
            f" integers of at least {_FEWEST}: micro=(8, 16)."
        )
    if not isinstance(names, Sequence) or any(name not in NAMED for name in names):
        raise MeshlabError(
            f"ml.auto.mesh() was given schedules={shown(schedules)}; give some of {listed(NAMED)}, or none: ()."
        )
    return tuple(dict.fromkeys(map(int, counts))), tuple(dict.fromkeys(names))


def _within(limits: Limits, mesh: Mesh, memory: float | str | None) -> Limits:
    """Returns the limits of a search on one mesh, whose devices have so much memory."""
    capacity = machine_of(mesh, "ml.auto.mesh").hardware.memory_bytes
    return dataclasses.replace(limits, most_bytes=None if memory is None else bytes_allowed(memory, capacity))


def _in_time(
    program: Program, found: Iterable[Mesh], on: Any, micro: Iterable[int], schedules: Sequence[str]
) -> Iterator[Mesh]:
    """Yields meshes with micro-batches: each that was found, and behind all of them each with an axis as stages.

    Raises:
        LayoutError: there are schedules, and no axis can be stages.
    """
    counts, refused, piped = tuple(micro), None, []
    for each, count in itertools.product(found, counts):
        yield mesh_on(on, **each.axes, micro=serial(count))
        placed = machine_of(each, "ml.auto.mesh")
        alike = {(size, placed.describe(axis)): axis for axis, size in each.axes.items() if size > 1}
        for axis, schedule in itertools.product(alike.values(), schedules):
            sizes = {a if a != axis else "pipe": n if a != axis else stages(n, schedule) for a, n in each.axes.items()}
            try:
                made = mesh_on(on, **sizes, micro=serial(count))
                pipeline_parallel(program, made)
            except LayoutError as error:
                refused = refused or error
                continue
            piped.append(made)
    if refused and not piped:
        raise refused
    yield from piped


def meshes(on: Any, devices: int | None) -> tuple[Mesh, ...]:
    """Returns the meshes of a number of devices in up to four axes on a machine, those that lie alike once."""
    _, shape, count = machine_and_slice(on, devices)
    size = math.prod(shape) * count if devices is None and shape is not None else devices
    if size is None or not is_whole(size) or size < 1:
        raise MeshlabError(
            f"ml.auto.mesh() was given devices={shown(devices)} on {shown(on)}; give their number, as in"
            ' ml.auto.mesh(program, 16, on="v5e"), or a slice: on="v5e:4x4".'
        )
    different: dict[Any, Mesh] = {}
    for sizes in sorted(_factorisations(size, len(_NAMES)), key=len):
        for ordered in sorted(set(itertools.permutations(sizes)), reverse=True):
            made = mesh_on(on, **dict(zip(_NAMES, ordered, strict=False)))
            placed = machine_of(made, "ml.auto.mesh")
            key = tuple(sorted((n, placed.describe(axis)) for axis, n in made.axes.items()))
            different.setdefault(key, made)
    return tuple(different.values())


def _factorisations(size: int, most: int, least: int = 2) -> Iterator[tuple[int, ...]]:
    """Yields the ways to write a number as a product of at most so many factors, each at least `least`, ascending."""
    if size >= least or size == 1:
        yield (size,)
    if most > 1:
        for factor in range(least, math.isqrt(size) + 1):
            if size % factor == 0:
                yield from ((factor, *others) for others in _factorisations(size // factor, most - 1, factor))
