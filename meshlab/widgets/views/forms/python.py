"""A document as Python: it makes the mesh and the layout, and says in comments what is done with them.

    import meshlab as ml

    mesh = ml.mesh("v5e:2x4", data=2, model=4)
    layout = {"batch": "data"}

    # With the program of ml.trace(…):
    # plan = program.plan(mesh, layout)

It runs in a fresh kernel; the user's program no text can bring along.
"""

from __future__ import annotations

from ....cost.workload.options import USUAL
from ...documents.document import Document
from .literal import WIDE, keywords, literal


def python_text(document: Document, own_machine: bool = False) -> str:
    """Returns a document as lines of Python.

    Args:
        document: the document.
        own_machine: whether its machine is the user's own, which is left out.
    """
    lines = [*mesh_and_layout(document, own_machine), "", f"# With the program of {traced(document)}:"]
    if document.resized:
        lines.append(f"# program = program.resize({keywords(document.resized)})")
    if document.renamed:
        lines.append(f"# program = program.rename({literal(dict(document.renamed), -WIDE)})")
    lines.append(f"# plan = program.plan(mesh, layout{', pad=True' * document.pad})")
    if document.options != USUAL:
        lines.append(f"# time = plan.time.given({options_text(document)})")
    if document.kept:
        lines.append(f"# choice = ml.auto.layout(program, mesh, {keywords(document.kept.items())})")
    return "\n".join(lines) + "\n"


def mesh_and_layout(document: Document, own_machine: bool = False) -> list[str]:
    """Returns the lines of Python that make the mesh and the layout of a document."""
    return [
        "import meshlab as ml",
        "",
        f"mesh = {_mesh_text(document, own_machine)}",
        f"layout = {literal(document.layout.to_dict(), len('layout = '))}",
    ]


def _mesh_text(document: Document, bare: bool) -> str:
    """Returns a mesh as a call of `ml.mesh`; of `ml.lay`, too, where axes were placed by hand."""
    axes = keywords(document.mesh)
    if any(name == "on" for name, _ in document.mesh):  # what `ml.mesh` calls its machine
        mesh = f"ml.Mesh({literal(document.mesh, -WIDE)})"
    else:
        mesh = f"ml.mesh({axes})"
    if document.machine is None or bare:
        return mesh
    on, along = literal(document.machine.on), document.machine.along
    if along:
        return f"ml.lay({mesh}, {on}, {keywords(along)})"
    return f"ml.mesh({on}, {axes})" if mesh.startswith("ml.mesh") else f"ml.lay({mesh}, {on})"


def traced(document: Document) -> str:
    model = document.model
    return f'ml.named_models()["{model.name}"].trace({keywords(model.sizes)})' if model else "ml.trace(…)"


def options_text(document: Document) -> str:
    options = document.options
    changed = [(name, getattr(options, name)) for name in ("attention", "prefetch")]
    return keywords([(name, value) for name, value in changed if value != getattr(USUAL, name)])
