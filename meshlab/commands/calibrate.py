"""`meshlab calibrate` measures the attached devices, for plans on `ml.mesh("attached", ...)`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from ..cost.machines import calibration
from .exits import fail
from .words import simulate_as_asked


def add(verbs: Any):
    parser = verbs.add_parser(
        "calibrate",
        help="measure the attached devices",
        description="Measure the attached devices: matmuls, memory and collectives, for about a minute. Plans on"
        ' ml.mesh("attached", ...) use these measurements.',
    )
    parser.add_argument("--output", type=Path, help="where to write (default: where `attached` looks for it)")
    parser.add_argument("--simulate", type=int, metavar="N", help="measure N simulated CPU devices instead")
    parser.add_argument("--quick", action="store_true", help="small sizes only: takes seconds, and is less accurate")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Measures the attached devices and writes what they reach; returns the exit status."""
    try:
        simulate_as_asked(options.simulate)
        devices = jax.devices()[: options.simulate]
        calibration.destination(devices[0].device_kind, options.output)
        print(f"{devices[0].device_kind}, {len(devices)} device{'s' * (len(devices) != 1)}")
        largest = calibration.QUICK if options.quick else None
        measured = calibration.calibrate(devices, largest=largest, progress=lambda s: print(f"  {s}", flush=True))
        path = calibration.save(measured, devices[0].device_kind, options.output)
    except KeyboardInterrupt:
        return fail("Stopped; nothing was written.")
    print(f"{measured}\nWritten to {path}.")
    return 0
