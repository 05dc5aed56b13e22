"""`meshlab report` writes the board of a program into one HTML file, in which chips are dragged without Python."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..engine.specs.layout import Layout
from .exits import DONE
from .planned import Planned, add_planned, planned_of
from .saved import check_destination


def add(verbs: Any):
    parser = verbs.add_parser(
        "report",
        help="write the board of a program as one HTML file",
        description="Write the board of a program as one HTML file, in which a reader drags chips without Python.",
        allow_abbrev=False,
    )
    add_planned(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file to write: board.html")
    parser.add_argument("--columns", help="columns in which chips are dropped, beside compute: params/*,residual")
    parser.add_argument("--dims", help="of which chips drops are recorded: batch,ffn (default: all)")
    parser.add_argument("--limit", type=int, default=2000, help="how many layouts at most (default: 2000)")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Records the layouts and writes the file; returns the exit status."""
    from ..widgets.frozen.share import share  # noqa: PLC0415  no other command needs the board

    check_destination(options.out, "--out")
    with contextlib.redirect_stdout(sys.stderr):  # whatever the user's file prints
        explorer = _explorer(options, planned_of(options))
    columns, dims = (None if text is None else text.split(",") for text in (options.columns, options.dims))
    stream = sys.stderr if sys.stderr.isatty() else None
    print(share(explorer, options.out, columns or (), options.limit, dims, stream))
    return DONE


def _explorer(options: argparse.Namespace, planned: Planned) -> Any:
    """Opens the board that is written; with a search, on what that has found."""
    from ..widgets.documents.document import Document, Source  # noqa: PLC0415
    from ..widgets.documents.machines import machine_on  # noqa: PLC0415
    from ..widgets.explorer import Explorer  # noqa: PLC0415

    program, mesh, sizes = planned.program, planned.mesh, planned.sizes
    dims, machine = tuple(program.dims.items()), machine_on(mesh)[0]
    explorer = Explorer(program, mesh, Document(dims, mesh.shape, Layout.of(planned.layout), machine, pad=options.pad))
    if planned.name == options.program and not planned.name.endswith(".py"):  # a model, by its name
        written = tuple({**sizes.of_model, **sizes.dims}.items())
        explorer.source = Source(planned.name, f'"{planned.name}"', written)
    else:
        explorer.source = Source(planned.name)
    if options.auto is not None:
        explorer.load(explorer.auto(options.auto).layout)
    return explorer
