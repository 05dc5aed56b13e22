"""`meshlab report` writes the board of a program into one HTML file, in which chips are dragged without Python."""

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
        "report",
        help="write the board of a program as one HTML file",
        description="Write the board of a program as one HTML file, in which a reader drags chips without Python.",
        allow_abbrev=False,
    )
    add_planned(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file to write: board.html")
    parser.add_argument("--columns", help="columns besides compute that accept drops: params/*,residual")
    parser.add_argument("--dims", help="dims whose chips can be dragged: batch,ffn (default: all)")
    parser.add_argument("--limit", type=int, default=2000, help="the most layouts to record (default: 2000)")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Records the layouts and writes the file; returns the exit status."""
    from ..widgets.frozen.share import share  # noqa: PLC0415  few commands need the board
    from .opened import opened  # noqa: PLC0415

    check_planned(options)
    check_destination(options.out, "--out")
    with contextlib.redirect_stdout(sys.stderr):  # whatever the user's file prints
        asked = planned_of(options)
        explorer = opened(options, asked)
        if options.auto is not None:
            choice = searched(asked.program, asked.mesh, options.auto)
            explorer.searches.show(choice)
            explorer.load(choice.layout)
    columns, dims = (None if text is None else text.split(",") for text in (options.columns, options.dims))
    stream = sys.stderr if sys.stderr.isatty() else None
    print(share(explorer, options.out, columns or (), options.limit, dims, stream))
    return DONE
