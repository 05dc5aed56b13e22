"""Reads what XLA's auto-sharding logs of its solver: how long it took, for which meshes, and under which cap.

    log = read("… auto_sharding_cpsat_for_problem.cc:765] Solver took 3123 ms …")
    log.ended           whether the pass came to its end
    log.stages          one for each mesh that it solves: of n axes it takes one more at a time, [1, 4] and then [2, 4]

Of that the answer's stage says all there is to know of how large the problem was. The log is no interface: what another
version of the compiler writes otherwise is read as not there.
"""

from __future__ import annotations

import dataclasses
import itertools
import re

from benchmarks.xla_auto.environment import ENDS

_STAGE = re.compile(r"Processing partial mesh shape: \[([\d, ]+)\]")
_VARIABLES = re.compile(r"Number variables for ILP: (\d+)")
_STATUS = re.compile(r"Solver absl::Status: MPSOLVER_(\w+)")
_TOOK = re.compile(r"Solver took (\d+) ms")
_BUDGET = re.compile(r"^Memory budget: (\d+)", re.M)


@dataclasses.dataclass(frozen=True)
class Stage:
    """The solver's run for one mesh.

    Attributes:
        mesh: its sizes, as they are written: "2, 4".
        variables: of the integer program; None where none are told.
        seconds: of the solver; None where it was ended before.
        status: as the solver has it: "OPTIMAL"; None where it was ended before.
    """

    mesh: str
    variables: int | None
    seconds: float | None
    status: str | None


@dataclasses.dataclass(frozen=True)
class Log:
    """What is told of one pass.

    Attributes:
        stages: in order.
        ended: whether it came to its end.
        budget: the bytes that a device may hold, of the last stage; None where none are told.
    """

    stages: tuple[Stage, ...]
    ended: bool
    budget: int | None


def read(text: str) -> Log:
    """Reads a log."""
    begins = [match.start() for match in _STAGE.finditer(text)]
    stages = tuple(_stage(text[begin:end]) for begin, end in itertools.pairwise([*begins, len(text)]))
    budgets = _BUDGET.findall(text)
    return Log(stages, ENDS in text, int(budgets[-1]) if budgets else None)


def _stage(text: str) -> Stage:
    variables, took = _first(_VARIABLES, text), _first(_TOOK, text)
    return Stage(
        mesh=_first(_STAGE, text) or "",
        variables=int(variables) if variables else None,
        seconds=int(took) / 1000 if took else None,
        status=_first(_STATUS, text),
    )


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None
