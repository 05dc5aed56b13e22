"""Opens the board of what is planned; only commands that need one import it."""

from __future__ import annotations

import argparse

from ..engine.specs.layout import Layout
from ..widgets.documents.document import Document, Source
from ..widgets.documents.machines import machine_on
from ..widgets.explorer import Explorer
from .planned import Planned


def opened(options: argparse.Namespace, planned: Planned) -> Explorer:
    """Opens the board at the layout that is planned."""
    program, mesh, model = planned.program, planned.mesh, planned.found.model
    dims, machine = tuple(program.dims.items()), machine_on(mesh)[0]
    explorer = Explorer(program, mesh, Document(dims, mesh.shape, Layout.of(planned.layout), machine, pad=options.pad))
    explorer.source = Source(planned.name) if model is None else Source.of_model(model)
    return explorer
