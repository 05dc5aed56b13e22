"""`meshlab diff` compares two saved plans, and says by its exit status whether the second is worse."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..cost.machines.units import bytes_text, share_text
from ..engine.axes.axis_kinds import read_axis
from ..engine.errors import numbered
from ..engine.specs.layout import Layout
from ..engine.tables import text_rows
from .exits import DONE, WORSE, UsageError
from .plan_diff import CollectiveChange, PlanDiff, Traffic, compare
from .saved import Saved, saved_of
from .words import read_json

_MOST = 20
_FITS = {True: "yes", False: "no", None: "no machine"}
_STATUS = (
    "The exit status is 0 if B fits and is no worse than A, 1 if it does not fit, or its time, peak or bytes"
    " exceed A's by more than the tolerance, and 2 if an argument is invalid, or programs or dims differ."
)


def add(verbs: Any):
    parser = verbs.add_parser(
        "diff",
        help="compare two saved plans: is the second worse?",
        description="Compare two plans that `meshlab plan --save` wrote: time, peak, bytes, and each collective.",
        epilog=_STATUS,
        allow_abbrev=False,
    )
    parser.add_argument("before", metavar="A.json", type=Path, help="the baseline plan")
    parser.add_argument("after", metavar="B.json", type=Path, help="the plan to compare with it")
    parser.add_argument(
        "--tolerance", type=float, default=0.01, help="the share by which B may be worse (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, and nothing else")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Compares two saved plans; returns the exit status."""
    problems = [] if math.isfinite(options.tolerance) and options.tolerance >= 0 else [_no_share(options.tolerance)]
    plans: list[Saved] = []
    for path in (options.before, options.after):
        try:
            plans.append(saved_of(read_json(path, "meshlab diff"), str(path)))
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError(problems[0] if len(problems) == 1 else f"meshlab diff cannot compare:\n{numbered(problems)}")
    before, after = plans
    compared = compare(before, after, options.tolerance)
    print(json.dumps(_data(compared), indent=2) if options.json else _text(compared, options.tolerance))
    return WORSE if compared.regressions else DONE


def _no_share(tolerance: float) -> str:
    return f"--tolerance was given {tolerance}, which is not a share: give 0.01, say, for one in a hundred."


def _data(compared: PlanDiff) -> dict[str, Any]:
    figures = {each.name.strip(): {"before": each.before, "after": each.after} for each in compared.figures}
    return {
        "figures": figures,
        "fits": compared.after.peak.fits,
        "changes": [dataclasses.asdict(change) for change in compared.changes],
        "regressions": list(compared.regressions),
    }


def _text(compared: PlanDiff, tolerance: float) -> str:
    plans = (("A", compared.before), ("B", compared.after))
    parts = ["\n".join(f"{name}  {_plan(plan)}" for name, plan in plans), text_rows(_rows(compared))]
    parts += _changes(compared.changes)
    if compared.regressions:
        parts.append("\n".join(["B is worse than A:", *(f"  {each}" for each in compared.regressions)]))
    else:
        parts.append(f"B is no worse than A, to within {share_text(tolerance)}.")
    return "\n\n".join(parts)


def _rows(compared: PlanDiff) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("", "A", "B", "")]
    for each in compared.figures:
        values = ["not known" if value is None else each.text(value) for value in (each.before, each.after)]
        rows.append((each.name, *values, each.more))
    fits = [_FITS[plan.peak.fits] for plan in (compared.before, compared.after)]
    return [*rows, ("fits", *fits, "")]


def _plan(plan: Saved) -> str:
    return f"{plan.program.name} on {_mesh(plan)}: {str(Layout.of(plan.costs.layout)) or 'nothing is sharded'}"


def _mesh(plan: Saved) -> str:
    axes = " × ".join(f"{name}={_size(size)}" for name, size in plan.costs.mesh.items()) or "one device"
    return f"{axes} on {plan.machine}" if plan.machine else axes


def _changes(changes: Sequence[CollectiveChange]) -> list[str]:
    """The lines of what has changed: those that are alike but for the value as one."""
    alike: dict[Any, list[CollectiveChange]] = {}
    for change in changes:
        alike.setdefault((change.what, _like(change.before), _like(change.after)), []).append(change)
    if not alike:
        return ["All collectives are the same."]
    lines = [_line(group) for group in alike.values()]
    more = [f"  … and {len(lines) - _MOST:,} more"] if len(lines) > _MOST else []
    return ["\n".join(["collectives that differ:", *lines[:_MOST], *more])]


def _like(traffic: Traffic | None) -> Any:
    return traffic and (traffic.kind, traffic.axes, traffic.source, traffic.payload_bytes, traffic.times)


def _line(group: Sequence[CollectiveChange]) -> str:
    """What has changed of collectives that are alike but for the value.

    Example:
        new      32 all-gathers of 2.00 GB in all over data for params/layers/up (step.py:12)
    """
    before, after = _sum([each.before for each in group]), _sum([each.after for each in group])
    shown = after or before
    assert shown is not None
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    line = f"for {shown.value}{more}{f' ({shown.source})' if shown.source else ''}"
    sent = " → ".join(_sent(each) for each in (before, after) if each is not None)
    if before is not None and after is not None and before.value != after.value:
        sent, line = _sent(after), f"{line}, before for {before.value}"
    return f"  {group[0].what:<8} {sent} {line}"


def _sum(group: Sequence[Traffic | None]) -> Traffic | None:
    """The first of a group with the bytes and times of all."""
    there = [each for each in group if each is not None]
    if not there:
        return None
    sent, times = sum(each.wire_bytes for each in there), sum(each.times for each in there)
    return dataclasses.replace(there[0], wire_bytes=sent, times=times)


def _sent(traffic: Traffic) -> str:
    over, size = "+".join(traffic.axes), bytes_text(traffic.wire_bytes)
    if traffic.times == 1:
        return f"{traffic.kind} of {size} over {over}"
    return f"{traffic.times:,} {traffic.kind}s of {size} in all over {over}"


def _size(size: Any) -> str:
    return str(read_axis(size))
