"""`meshlab plan` plans a program on a mesh: what it costs, whether it fits, and what it sends and why."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..api.stages import Plan
from ..auto.proof import Proof
from ..cost.machines.bounds import read_cap
from ..engine.errors import LayoutError
from .exits import DONE, WORSE, fail
from .plan_text import plan_text
from .planned import Planned, add_planned, check_planned, planned_of
from .saved import check_destination, record, save
from .searching import searched

_STATUS = (
    "The exit status is 0 if the plan fits (or no machine is named), 1 if it does not fit, no layout was found that"
    " does, or something is sent over a --silent axis, 2 if an argument is invalid, 70 if meshlab"
    " itself has failed, and 130 after Ctrl-C."
)


def add(verbs: Any):
    parser = verbs.add_parser(
        "plan",
        help="plan a program on a mesh: step time, memory and communication",
        description="Plan a program on a mesh: its step time, and the memory and communication of a device.",
        epilog=_STATUS,
        allow_abbrev=False,
    )
    add_planned(parser)
    parser.add_argument("--memory", type=read_cap, help='with --auto: the memory limit: 0.9 of a device, 90%%, "60 GB"')
    parser.add_argument(
        "--seconds", type=float, help="with --auto: return the best layout so far after this many seconds"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, and nothing else")
    parser.add_argument(
        "--as", dest="form", metavar="FORM", help='print only the layout, ready to paste: as "jit", for example'
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the plan, for `meshlab diff`")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the step as a Chrome trace, for Perfetto")
    parser.add_argument("--code", type=Path, metavar="FILE", help="write the program of each device, as Python")
    parser.add_argument("--silent", metavar="AXES", help="fail if anything is sent over these mesh axes: model")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Plans, prints and saves; returns the exit status."""
    _check(options)
    with contextlib.redirect_stdout(sys.stderr):  # whatever the user's file prints
        asked, plan, proof = _planned(options)
        known = record(asked.name, plan, proof)
        form = None if options.form is None else _form(options, asked)
    loud = _loud(plan, options.silent)
    text = json.dumps(known, indent=2)
    if options.save is not None:
        save(text, options.save)
    if options.trace is not None:
        plan.write_trace(options.trace)
    if options.code is not None:
        plan.code(options.code)
    if form is None:
        print(text if options.json else plan_text(known, plan, proof))
    else:
        print(form.rstrip("\n"))
    if loud:
        return fail(loud, WORSE)
    return DONE if known["donated"].get("fits", True) else WORSE


def _form(options: argparse.Namespace, asked: Planned) -> str:
    """Returns the layout in a form to be pasted; what that cannot say is printed, as all is that is no result."""
    from .opened import opened  # noqa: PLC0415  few commands need the board

    written = opened(options, asked).form(options.form)
    for lost in written.lost:
        print(f"{written.form} cannot express: {lost}")
    return written


def _loud(plan: Plan, axes: str | None) -> str:
    """Returns what is sent over axes that are to be silent, as text; "" for nothing."""
    if axes is None:
        return ""
    try:
        plan.assert_silent(*axes.split(","))
    except LayoutError as error:
        return str(error)
    return ""


def _check(options: argparse.Namespace):
    """Refuses options that cannot be together, a form that there is not, and a file that cannot be written."""
    problems = []
    alone = [f"--{name}" for name in ("memory", "seconds") if getattr(options, name) is not None]
    if alone and options.auto is None:
        problems.append(f"{' and '.join(alone)} without a search: add --auto time, for example")
    if options.json and options.form is not None:
        problems.append("--json and --as, which both replace the output: leave one of them out")
    if options.trace is not None and options.on is None:
        problems.append("--trace without a machine, so there are no times: add --on v5e, for example")
    check_planned(options, *problems)
    if options.form is not None:
        from ..widgets.views.forms.forms import form_name  # noqa: PLC0415  few commands need the board

        form_name(options.form)
    for name in ("save", "trace", "code"):
        if (path := getattr(options, name)) is not None:
            check_destination(path, f"--{name}")


def _planned(options: argparse.Namespace) -> tuple[Planned, Plan, Proof | None]:
    asked = planned_of(options)
    if options.auto is None:
        return asked, asked.program.plan(asked.mesh, asked.layout, pad=options.pad), None
    choice = searched(asked.program, asked.mesh, options.auto, options.memory, options.seconds)
    return dataclasses.replace(asked, layout=choice.plan.layout), choice.plan, choice.proof
