"""`meshlab profile` runs a step on random data: what each line and collective took, beside the prediction."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .exits import DONE
from .planned import add_planned, check_planned, planned_of
from .saved import check_destination
from .searching import searched


def add(verbs: Any):
    parser = verbs.add_parser(
        "profile",
        help="run a step on random data, and print what each line took",
        description="Run the step of a program on random data under JAX's profiler, on attached or simulated devices,"
        " and print the seconds of each line and collective, measured beside predicted.",
        allow_abbrev=False,
    )
    add_planned(parser)
    parser.add_argument("--runs", type=int, default=5, help="how many runs to record (default: 5)")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the run as a Chrome trace, for Perfetto")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Runs the step and prints the table; returns the exit status."""
    check_planned(options)
    if options.trace is not None:
        check_destination(options.trace, "--trace")
    with contextlib.redirect_stdout(sys.stderr):  # whatever the user's file prints
        asked = planned_of(options)
        if options.auto is None:
            plan = asked.program.plan(asked.mesh, asked.layout, pad=options.pad)
        else:
            plan = searched(asked.program, asked.mesh, options.auto).plan
        profile = plan.profile(runs=options.runs)
    if options.trace is not None:
        profile.write_trace(options.trace)
    print(profile)
    return DONE
