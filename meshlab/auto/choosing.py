"""Choosing a layout, with proof: `ml.auto.layout`.

    choice = ml.auto.layout(program, ml.mesh("v5p:4x4x4", data=16, model=4))

What is returned has been planned: the search's number and the plan's must agree, or nothing is returned.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..api.stages import Plan, Program
from ..cost.machines.bounds import read_bytes
from ..cost.machines.meshes import machine_of
from ..cost.workload.options import Options
from ..engine.errors import MeshlabError, shown
from ..engine.legality.asked import as_asked
from ..engine.running.compiler_process import Cancel
from ..engine.specs.layout import LayoutLike
from ..engine.specs.mesh import Mesh
from .best_first.contest import contest
from .choice import Choice
from .objective import Objective, objective_of
from .proof import Proof
from .request.answer import Answer, Asked, Found, Limits, gap
from .request.constraints import read_constraints
from .request.stopping import Watch

# How errors name what was called.
_CALL = "ml.auto.layout()"
# The share by which a number of the solver, which writes eight digits, may differ from the plan's.
_AGREE = 1e-6


def layout(
    program: Program | Mapping[str, Program],
    mesh: Mesh,
    *,
    objective: str | None = None,
    memory: float | str | None = 0.9,
    pin: LayoutLike = None,
    forbid: LayoutLike = None,
    silent: str | Iterable[str] = (),
    scopes: Iterable[str] = (),
    tolerance: float = 0.01,
    exact: bool = False,
    seconds: float | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[Found], Any] | None = None,
    cancel: Cancel | None = None,
    stop: Cancel | None = None,
) -> Choice:
    """Finds the best layout of a program on a mesh, and proves how good it is: docs/auto.md says among which.

    Args:
        program: made by `ml.trace`; of "time" and "memory" also several by name, of which one will do.
        mesh: made by `ml.mesh`; "live" leaves an axis in time out, and knows no rules at places or in scopes.
        objective: "time", seconds of a step by `plan.time`; "memory", bytes at the peak of `plan.memory.donated`;
            "traffic", bytes that a device sends, where work is divided best; "live", as Mesh TensorFlow counts bytes.
            None is "time" where the mesh is on a machine, else "traffic".
        memory: of "time", what the donated peak may take: a share of a device's memory, or "60 GB"; None: any.
        pin: what must be so, as a layout; a dim that is None stays whole.
        forbid: what must not be so, as a layout.
        silent: of all but "live", mesh axes over which nothing may be sent.
        scopes: of all but "live", globs of scopes, `["@core"]`, in which dims may give their axes to others.
        tolerance: of all but "live", the share by which the answer may cost more than the best.
        exact: whether the very best is asked for; as `tolerance=0`.
        seconds: of all but "live", when to return the best layout so far, with its gap.
        options: assumptions about a run, as of `plan.time.given`: `{"attention": "flash", "prefetch": True}`.
        progress: called with a `Found`, the answer so far, whenever there is a better one or the search is further.
        cancel: ends the search soon after it is set, as a `threading.Event` can be from another thread.
        stop: of all but "live", ends it soon after it is set, and the best layout so far is returned, with its gap.

    Returns:
        A `Choice`; of equally good layouts the one with the least peak of memory, of these that with the fewest rules.

    Raises:
        NothingFits, NothingAllowed, Cancelled: no layout fits, or none sends nothing over `silent`; `cancel` was set.
        MeshlabError: an argument is invalid (LayoutError: rules; HardwareError: `options`), or there is no proof.
    """
    started = time.perf_counter()
    _check(program, mesh)
    check_limits(_CALL, memory=memory, tolerance=tolerance, exact=exact, seconds=seconds, progress=progress)
    goal, watch = objective_of(objective, mesh), Watch(cancel, stop)
    watch.check()
    mesh = mesh.devices if goal.search is None else mesh
    limits = Limits(_most_bytes(goal, mesh, memory), tolerance * (not exact), seconds, watch=watch, progress=progress)
    assumed, asks = Options.read("ml.auto.layout", options), {}
    for name, each in (program if isinstance(program, Mapping) else {"": program}).items():
        wanted = read_constraints(each, mesh, pin, forbid, scopes, silent=silent, everything=goal.search is not None)
        # A ring that is pinned needs attention as an operation, which is then searched with.
        asks[name] = Asked(as_asked(each, mesh, wanted.pinned), mesh, wanted, limits, assumed)
    _check_comparable(asks, goal)
    return _solved(goal, asks, started) if goal.search is None else _searched(goal, asks, started)


def _check_comparable(asks: Mapping[str, Asked], goal: Objective):
    """Refuses several programs whose costs cannot be compared."""
    if len(asks) > 1 and goal.one_program:
        raise MeshlabError(
            f'{_CALL} was given {len(asks)} programs for the objective "{goal.name}"; several are compared by'
            ' "time" or "memory" alone: give one.'
        )


def _most_bytes(goal: Objective, mesh: Mesh, memory: float | str | None) -> float | None:
    """The bytes of a device's memory that may be taken; None: any."""
    if memory is None or not goal.on_machine:
        return None
    return bytes_allowed(memory, machine_of(mesh, "ml.auto.layout").hardware.memory_bytes)


def bytes_allowed(memory: float | str, capacity: float) -> float:
    """Returns the bytes that a cap on memory allows.

    Args:
        memory: a share of a device's memory, or a text: "60 GB".
        capacity: the bytes of that.
    """
    return read_bytes(memory).value if isinstance(memory, str) else memory * capacity


def _searched(goal: Objective, asks: Mapping[str, Asked], started: float) -> Choice:
    """The choice of a search, over all programs."""
    names = list(asks)
    assert goal.search is not None, "its caller has looked"
    answer, standings = contest(list(asks.values()), started, goal.search, goal.method)
    others = (f"; `{names[each.number]}`, at least {goal.text(each.bound)}" for each in standings[1:])
    answer = dataclasses.replace(answer, searched=answer.searched + "".join(others))
    name = names[standings[0].number]
    return dataclasses.replace(chosen(goal, asks[name], answer, started), name=name)


def _solved(goal: Objective, asks: Mapping[str, Asked], started: float) -> Choice:
    """The choice of a solver, of one program."""
    (asked,) = asks.values()
    assert goal.answer is not None, "an objective is searched for or solved"
    return chosen(goal, asked, goal.answer(asked), started)


def chosen(goal: Objective, asked: Asked, answer: Answer, started: float) -> Choice:
    """Returns the choice of an answer, which its plan confirms.

    Args:
        goal: what was minimised.
        asked: what the search was asked.
        answer: what it answered.
        started: when it began, by `time.perf_counter`.
    """
    plan = asked.program.plan(asked.mesh, answer.layout)
    cost = _confirmed(plan, goal, asked, answer)
    far = gap(cost, answer.bound)
    proof = Proof(
        method=answer.method,
        objective=goal.name,
        searched=answer.searched,
        not_searched=answer.not_searched,
        made=answer.made,
        layouts=answer.layouts,
        value=cost,
        bound=answer.bound,
        gap=far if far > _AGREE else 0.0,
        seconds=time.perf_counter() - started,
        plans=answer.plans,
        ties=answer.ties,
    )
    # A search that was stopped answers the questions that come after it all the same.
    limits = dataclasses.replace(asked.limits, watch=Watch(asked.limits.watch.cancel))
    return Choice(answer.layout, plan, proof, dataclasses.replace(asked, limits=limits), answer)


def _check(program: Any, mesh: Any):
    several = isinstance(program, Mapping) and bool(program) and all(isinstance(name, str) for name in program)
    for each in program.values() if several else (program,):
        if not isinstance(each, Program):
            raise MeshlabError(
                f"{_CALL} was given {shown(each)} for its program; write"
                ' ml.auto.layout(ml.trace(fn, ...), mesh), or several by name: {"kept": ml.trace(fn, ...), ...}.'
            )
    if not isinstance(mesh, Mesh):
        raise MeshlabError(
            f"{_CALL} was given {shown(mesh)} for its mesh; write ml.auto.layout(program, ml.mesh(data=2, model=2))."
        )


def check_limits(
    what: str, *, memory: Any = None, tolerance: Any = 0, exact: Any = False, seconds: Any = None, progress: Any = None
):
    """Refuses invalid limits of a search, all in one error.

    Args:
        what: was given them: "ml.auto.layout()".
        memory: as of `layout`.
        tolerance: the same.
        exact: the same.
        seconds: the same.
        progress: the same.
    """
    problems = []
    if memory is not None and not (_is_bytes(memory) if isinstance(memory, str) else _is_share(memory)):
        problems.append(
            f'memory={shown(memory)} is not a share of a device\'s memory: give 0.9, say, a text such as "60 GB", or'
            " None for any"
        )
    if not (_is_number(tolerance) and 0 <= tolerance < 1):
        problems.append(f"tolerance={shown(tolerance)} is not a share: give 0.01, say")
    if not isinstance(exact, bool):
        problems.append(f"exact={shown(exact)}: give True or False")
    if seconds is not None and not (_is_number(seconds) and seconds > 0):
        problems.append(f"seconds={shown(seconds)}: give a number of seconds, or None")
    if progress is not None and not callable(progress):
        problems.append(f"progress={shown(progress)}: give a function of a Found, or None")
    if problems:
        raise MeshlabError(f"{what} cannot search: {'; '.join(problems)}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 < value <= 1


def _is_bytes(text: str) -> bool:
    try:
        return read_bytes(text).value > 0
    except MeshlabError:
        return False


def _confirmed(plan: Plan, objective: Objective, asked: Asked, answer: Answer) -> float:
    """Reads the cost of the chosen layout off its plan; refuses one that differs from what the search says."""
    if answer.most_work is not None:
        work = plan.work.amount
        if work > answer.most_work * (1 + _AGREE):
            raise MeshlabError(
                f"{_CALL} chose {str(plan.layout)!r} for its work of at most {answer.most_work:,.0f}"
                f" multiply-adds on a device, but its plan does {work:,.0f}. This is a fault of meshlab: please report"
                " it with the model."
            )
    cost = objective.of_plan(plan, asked.options)
    if not math.isclose(cost, answer.value, rel_tol=_AGREE, abs_tol=_AGREE * (not objective.on_machine)):
        raise MeshlabError(
            f"{_CALL} chose {str(plan.layout)!r} for its {objective.name} of {objective.text(answer.value)},"
            f" but its plan has {objective.text(cost)}. This is a bug in meshlab: please report it with the model."
        )
    return cost
