"""Opens the Explorer, of a program or of a model that has a name.

ml.explore()                                        a small model on four devices; another is chosen on the board
ml.explore(program, ml.mesh(data=2, model=2))
ml.explore("llama3-8b", ml.mesh("v5p:4x4x2", data=8, model=4), batch=32)
ml.explore(program, ml.mesh(data=2, model=2), goal=ml.goal(sends="≤ 8 kB"))
"""

from __future__ import annotations

import os
from typing import Any

import jax

from ..cost.machines.meshes import mesh as make_mesh
from ..engine.argument_checks import whole_number
from ..engine.processes import is_first
from ..goals.goals import Goal, check_goal
from ..training.feeding import Training
from ..widgets.background.models import Model, Models
from ..widgets.documents.document import ExplorerError, check_opened, saved
from ..widgets.documents.intents import Refused
from ..widgets.explorer import Explorer
from .named_models import named_model, named_models

# What is opened where nothing is asked for: small, with dims that everyone knows.
DEFAULT = "mlp"


def explore(  # noqa: PLR0917  in the order that is promised
    program: Any = DEFAULT,
    mesh: Any = None,
    layout: Any = None,
    run: Training | None = None,
    height: int = 600,
    document: str | os.PathLike[str] | None = None,
    goal: Goal | None = None,
    address: str | None = None,
    **sizes: int,
) -> Explorer:
    """Opens the Explorer: drag a dim onto a mesh axis, and see the costs and their causes.

    Args:
        program: the program, from `ml.trace`; or the name of a model, of `ml.named_models()`; by default a small one.
            The board opens others.
        mesh: the mesh, as `ml.mesh(data=2, model=2)`, which is the default; on a machine, `ml.mesh("v5e", data=2,
            model=2)`, times too.
        layout: the layout to begin with.
        run: the training that the Run button runs, as `ml.Training({"params": params}, batches)`.
        height: of the workbench in a notebook, in CSS pixels, at least 400.
        document: a file that `explorer.save` wrote: where there is one, its layout, mesh and machine are opened in
            place of `layout` and `mesh`.
        goal: what the layout has to meet, from `ml.goal`; the board says what of it is met.
        address: what is shown at first, as `explorer.address` gives it: "traffic?layout=batch:data". Its layout takes
            the place of `layout`, which undo goes back to.
        **sizes: of dims, by name: `batch=32`.

    Returns:
        The Explorer; at the end of a cell it shows itself.

    Raises:
        MeshlabError: no model has that name; or the goal is none, or asks for what the program or the mesh does not
            have.
        DimError: there is no dim of that name, or it cannot have that size.
        LayoutError: the layout does not fit.
        ExplorerError: `run` does not fit the program, `height` is too small, or `document` is not a document of a
            program with these dims; or `address` cannot be opened: everything that is wrong is listed. Or this is not
            the first of several processes.

    Example:
        >>> ml.explore(program, ml.mesh(data=2, model=2), "batch:data")
    """
    _refuse_other_processes()
    tall = whole_number("explore()", "height", height, least=400)
    check_goal(goal)
    text = None if document is None else saved(document)
    mesh = make_mesh(data=2, model=2) if mesh is None else mesh
    program, models = _opened(program, mesh, sizes)
    explorer = Explorer(program, mesh, layout, run, models)
    if text is not None:
        machines = [mesh.on.hardware] if mesh.on is not None else []
        explorer = Explorer.from_json(text, program, run, machines, models)
    explorer.height = tall
    if goal is not None:
        explorer.set_goal(goal)
    if address is not None and isinstance(answer := explorer.go(address), Refused):
        raise ExplorerError(answer.reason)
    return explorer


def _refuse_other_processes():
    """Refuses to open a board in each of several processes: people look at one."""
    if not is_first():
        raise ExplorerError(
            f"ml.explore() was called in process {jax.process_index()}, but only process 0 can open a board. Call it"
            " under `if jax.process_index() == 0:`."
        )


def _opened(program: Any, mesh: Any, sizes: dict[str, int]) -> tuple[Any, Models]:
    """Returns the program at its sizes, traced where it is a name, and the models that a board opens."""
    if isinstance(program, str):
        opened = Model(program, tuple(sorted(sizes.items())))
        return named_model(program).trace(**sizes), Models(opened, named_model, named_models)
    if sizes:
        check_opened(program, mesh)
        program = program.resize(**sizes)
    return program, Models(None, named_model, named_models)
