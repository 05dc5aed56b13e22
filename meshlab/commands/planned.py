"""The options that say what is planned: a program, a mesh, a layout; and what they come to.

add_planned(parser)         PROGRAM, --mesh, --on, --layout or --auto, --pad, --batch, --seq, --size
check_planned(options)      refuses those that cannot be together
planned_of(options)         Planned(Found("step.py:program", program), mesh, layout)
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from ..api.stages import Program
from ..auto.objective import OBJECTIVES, objective_of
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..layouts.by_name import together
from .exits import UsageError
from .programs import Found, Sizes, find
from .words import layout_of, mesh_of, sizes_of


@dataclasses.dataclass(frozen=True)
class Planned:
    """What is planned.

    Attributes:
        found: the program, and what it is called.
        mesh: on its machine.
        layout: None where none was given.
    """

    found: Found
    mesh: Mesh
    layout: Layout | None

    @property
    def name(self) -> str:
        """What the program is called."""
        return self.found.name

    @property
    def program(self) -> Program:
        """The program, at the sizes that were asked for."""
        return self.found.program


def add_planned(parser: Any):
    """Adds the options that say what is planned."""
    parser.add_argument("program", metavar="PROGRAM", help="FILE.py, FILE.py:NAME, or a name of `meshlab models`")
    parser.add_argument("--mesh", default="", help="the mesh axes: data=8,model=4 (default: one device)")
    parser.add_argument("--on", metavar="MACHINE", help="the machine: v5p:4x4x2, h100:4x8 (default: none, and no time)")
    layouts = parser.add_mutually_exclusive_group()
    layouts.add_argument(
        "--layout", help='"batch:data ffn:model", a preset ("fsdp"), or a JSON file (default: nothing)'
    )
    layouts.add_argument("--auto", metavar="OBJECTIVE", help=f"find the layout: {', '.join(OBJECTIVES)}")
    parser.add_argument("--pad", action="store_true", help="pad dims whose sizes their mesh axes do not divide")
    parser.add_argument("--batch", type=int, help="of a named model: its batch size")
    parser.add_argument("--seq", type=int, help="of a named model: its sequence length")
    parser.add_argument("--size", action="append", default=[], help="sizes of other dims: batch=64,seq=128")


def check_planned(options: argparse.Namespace, *problems: str):
    """Refuses options that cannot be together, all in one error.

    Args:
        options: the options.
        problems: of those that the command has besides.
    """
    if options.pad and options.auto is not None:
        problems = (*problems, "--pad with a search, which does not pad: leave one of them out")
    if problems:
        raise UsageError(f"{options.parser.prog} was given {'; and '.join(problems)}.")


def planned_of(options: argparse.Namespace) -> Planned:
    """Reads the options, and finds the program."""
    mesh = mesh_of(options.mesh, options.on)
    layout = None if options.layout is None else layout_of(options.layout)
    if options.auto is not None:
        objective_of(options.auto, mesh)  # before anything is traced
    sizes = Sizes(options.batch, options.seq, sizes_of(options.size))
    found = find(options.program, sizes)
    chosen = together(layout, found.program, mesh) if isinstance(layout, list) else layout
    return Planned(found, mesh, chosen)
