"""`meshlab explain` says why each collective is in a program of the user's own `jax.jit`.

meshlab explain train.py:compiled                                 a table, largest first
meshlab explain train.py:compiled --forbid all-gather:data:1MB    exit status 1 where more is sent
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..api.stages import Plan
from ..cost.machines.bounds import read_bytes
from ..cost.machines.units import bytes_text
from ..engine.collectives.kinds import KINDS
from ..engine.errors import MeshlabError, listed, numbered, shown
from ..engine.specs.mesh import Mesh
from ..own.report import Report, explain
from .exits import DONE, WORSE, UsageError, fail
from .user_file import value_of
from .words import mesh_of

_STATUS = (
    "The exit status is 0 if no forbidden traffic is sent, 1 if some is, and 2 if an argument is invalid,"
    " or the function cannot be explained."
)


@dataclasses.dataclass(frozen=True)
class Forbidden:
    """What may not be sent.

    Attributes:
        kind: of collectives; "any" for all.
        axis: a mesh axis.
        most: bytes that a device may send, in one run.
    """

    kind: str
    axis: str
    most: float

    def problem(self, report: Report) -> str | None:
        """Says what is sent in spite of it."""
        sent = [c for c in report.collectives if self.kind in ("any", c.kind) and self.axis in (c.axes or ())]
        total = sum(c.wire_bytes * c.times for c in sent)
        if total <= self.most:
            return None
        what = "collectives" if self.kind == "any" else f"{self.kind}s"
        largest = sent[0]
        allowed = f"of which {bytes_text(self.most)} are allowed" if self.most else "of which nothing is allowed"
        where = f"{largest.source or 'an unknown line'}{f' ({largest.phase})' if largest.phase else ''}"
        return (
            f"{what} over {self.axis} send {bytes_text(total)}, {allowed}. The largest is at {where}: {largest.because}"
        )


def add(verbs: Any):
    parser = verbs.add_parser(
        "explain",
        help="why is each collective in your own jax.jit?",
        description="Explain the collectives that XLA inserts into your own function.",
        epilog=_STATUS,
        allow_abbrev=False,
    )
    parser.add_argument(
        "function",
        metavar="FILE.py:NAME",
        help="a function of no arguments that returns your jitted function and its arguments, `return step, params, x`,"
        " a plan, or what ml.explain returns; arguments may be shapes (jax.ShapeDtypeStruct)",
    )
    parser.add_argument("--mesh", default="", help="the mesh axes, if no sharding names them: data=8,model=4")
    parser.add_argument("--on", metavar="MACHINE", help="the machine of --mesh, which prices collectives: h100:1x8")
    parser.add_argument(
        "--forbid",
        metavar="KIND:AXIS[:BYTES]",
        action="append",
        default=[],
        help='fail if a device sends more than this: "all-gather:data:1MB", "any:model"; may be repeated',
    )
    parser.add_argument(
        "--lines",
        action="store_true",
        help="find the fewest with_sharding_constraint lines that reduce the traffic, and compile with them",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, and nothing else")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Explains a function; returns the exit status."""
    forbidden = _all(options.forbid)
    with contextlib.redirect_stdout(sys.stderr):  # whatever the user's file prints
        report = _report(options.function, _mesh(options))
    unknown = [each.axis for each in forbidden if each.axis not in report.axes]
    if unknown:
        raise UsageError(f"--forbid names {listed(unknown)}; the mesh has {listed(list(report.axes))}.")
    found = f"\n{report.lines}" if options.lines else ""
    print(report.to_json() if options.json else f"{report}{found}")
    problems = [text for each in forbidden if (text := each.problem(report))]
    return fail("\n".join(problems), WORSE) if problems else DONE


def _all(words: Sequence[str]) -> list[Forbidden]:
    """Reads all of `--forbid`; says all that is wrong."""
    read, problems = [], []
    for word in words:
        try:
            read.append(_forbidden(word))
        except MeshlabError as error:
            problems.append(f"--forbid {word}: {error}")
    if problems:
        raise UsageError(problems[0] if len(problems) == 1 else f"meshlab explain cannot read:\n{numbered(problems)}")
    return read


def _forbidden(word: str) -> Forbidden:
    kind, colon, rest = word.partition(":")
    axis, _, most = rest.partition(":")
    if not colon or not axis:
        raise UsageError("it is written KIND:AXIS, or KIND:AXIS:BYTES, such as all-gather:data:1MB.")
    if kind != "any" and not (kind in KINDS and KINDS[kind].sends):
        known = [name for name, each in KINDS.items() if each.sends]
        raise UsageError(f"there is no collective {shown(kind)}; there are {listed([*known, 'any'])}.")
    return Forbidden(kind, axis, read_bytes(most).limit if most else 0.0)


def _mesh(options: argparse.Namespace) -> Mesh | None:
    if options.on is not None and not options.mesh:
        raise UsageError("--on needs --mesh, the axes on that machine: --mesh data=4,model=2.")
    return mesh_of(options.mesh, options.on) if options.mesh else None


def _report(word: str, mesh: Mesh | None) -> Report:
    """Imports a file, and explains what its function returns."""
    file, colon, name = word.rpartition(":")
    if not colon or not name or not file.endswith(".py"):
        raise UsageError(f"{shown(word)} names no function; write FILE.py:NAME.")
    value = value_of(Path(file), name, "meshlab explain")
    if isinstance(value, Report | Plan):
        if mesh is not None:
            raise UsageError(f"`{name}` of {file} has its own mesh: leave out --mesh and --on.")
        return value if isinstance(value, Report) else explain(value)
    if isinstance(value, tuple) and value and isinstance(value[0], Callable):
        return explain(*value, mesh=mesh)
    raise UsageError(
        f"`{name}` of {file} gives {shown(value)}; it must return the jitted function and its arguments: return step,"
        " params, x; or a plan."
    )
