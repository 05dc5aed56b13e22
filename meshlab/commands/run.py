"""`meshlab run` runs a Python file in several processes of this machine, each with simulated CPU devices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..engine.running.launch import launch
from .exits import DONE, WORSE, UsageError, fail
from .words import count_problems, read_text


def add(verbs: Any):
    parser = verbs.add_parser(
        "run",
        help="run a Python file in several processes of this machine",
        description="Run a Python file in several processes of this machine, which share simulated CPU devices; the"
        " file calls ml.distributed() first. Only process 0 prints. When one process fails, all are ended, and its"
        " last lines are shown. On a cluster use its own launcher, such as srun or mpirun.",
        epilog="All other arguments are passed to the file.",
        allow_abbrev=False,  # the file has options of its own
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the Python file: train.py")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="how many processes (default: 2)")
    parser.add_argument(
        "--simulate", type=int, metavar="N", help="simulated CPU devices of all processes together (default: about 8)"
    )
    parser.set_defaults(run=run, parser=parser, hands_on=True)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Runs the file in all processes; returns the exit status."""
    devices = _devices_of_each(options.processes, options.simulate)
    read_text(options.file, "meshlab run")
    fault = launch([str(options.file), *others], options.processes, devices)
    sys.stdout.flush()
    return DONE if fault is None else fail(str(fault), WORSE)


def _devices_of_each(processes: int, simulated: int | None) -> int:
    """Returns how many devices each process simulates; refuses what cannot be shared equally."""
    problems = [*count_problems("--processes", processes), *count_problems("--simulate", simulated)]
    if not problems and simulated is not None and simulated % processes:
        fits = max(simulated // processes, 1) * processes
        problems.append(f"{processes} processes cannot share {simulated} devices equally; give --simulate {fits}")
    if problems:
        raise UsageError(f"{'; '.join(problems)}.")
    return simulated // processes if simulated is not None else max(1, 8 // processes)
