"""The layout on the board in forms that can be pasted elsewhere; what a form cannot say is listed, not dropped.

    forms_view(explorer)["forms"][1]
    {"name": "dict", "about": "for program.plan, ...", "text": '{"batch": "data"}', "lost": ["padding: pad=True"]}

The Python form runs in a fresh kernel: it makes the mesh and the layout, and says in comments what is done with them
and the user's program, which no text can bring along. All others say the layout alone, in Python's and in JSON's words,
as the `PartitionSpec`s of JAX, as Flax's logical axis rules, and as Mesh TensorFlow's string.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from typing import Any, TypedDict

import jax
from jax.sharding import PartitionSpec

from ...cost.machines.meshes import slice_of
from ...cost.workload.options import USUAL
from ...engine.axes.axis import Axis
from ...engine.errors import LayoutError
from ...engine.specs import flax_rules, mesh_tf_string
from ..documents.document import Document
from ..state.explorer_state import ExplorerState

WIDE = 100


class FormView(TypedDict):
    """A form of the layout: what it is for, its text, and what it cannot say."""

    name: str
    about: str
    text: str
    lost: list[str]


class FormsView(TypedDict):
    forms: list[FormView]


def forms_view(explorer: ExplorerState) -> FormsView:
    """Describes the present layout in each form: its name, what it is for, its text, and what it cannot say."""
    document, rules = explorer.document, explorer.layout.to_dict()
    lost = _beside_the_layout(document)
    mesh_tf, not_said = mesh_tf_string.said(explorer.plan.layout)
    rules_by_name, not_in_rules = flax_rules.said(explorer.plan.layout)
    specs, not_written = specs_text(explorer.plan)
    own = document.machine is not None and slice_of(document.machine.on)[0] in explorer.documents.machines
    machine = ["the machine, which is your own: give it to ml.mesh, ahead of the axes"] if own else []
    forms = (
        ("Python", "runs in a fresh kernel", python_text(document, own), machine),
        ("dict", "for program.plan(mesh, …); the mesh is in Python's form", literal(rules), lost),
        ("JSON", "for json.loads, and then program.plan(mesh, …)", json.dumps(rules), lost),
        (
            "PartitionSpecs",
            "of arguments and outputs, for jax.jit; none of what is in between",
            specs,
            not_written + lost,
        ),
        (
            "axis rules",
            "for flax.linen.logical_axis_rules, T5X and MaxText; ml.layouts.from_axis_rules reads them",
            literal(rules_by_name),
            [*not_in_rules, *lost],
        ),
        ("Mesh TensorFlow", "for mtf.convert_to_layout_rules; ml.Layout.of reads it too", mesh_tf, [*not_said, *lost]),
    )
    return {"forms": [{"name": name, "about": about, "text": text, "lost": lost} for name, about, text, lost in forms]}


def _beside_the_layout(document: Document) -> list[str]:
    """Returns what a document has that the texts of its mesh and layout do not say."""
    lost = ["padding of dims that their axes do not divide: `pad=True` of program.plan"] if document.pad else []
    if document.resized:
        lost.append(f"new sizes of dims: `program.resize({keywords(document.resized)})`")
    if document.renamed:
        lost.append(f"new names of dims: `program.rename({literal(dict(document.renamed))})`")
    if document.kept:
        lost.append(f"what a search keeps to: `ml.auto.layout(…, {keywords(document.kept.items())})`")
    if document.options != USUAL:
        lost.append(f"assumptions about the run: `plan.time.given({_options(document)})`")
    return lost


def _traced(document: Document) -> str:
    model = document.model
    return f'ml.named_models()["{model.name}"].trace({keywords(model.sizes)})' if model else "ml.trace(…)"


def _options(document: Document) -> str:
    options = document.options
    changed = [(name, getattr(options, name)) for name in ("attention", "prefetch")]
    return keywords([(name, value) for name, value in changed if value != getattr(USUAL, name)])


# Python


def python_text(document: Document, own_machine: bool = False) -> str:
    """Returns a document as lines of Python.

    Args:
        document: the document.
        own_machine: whether its machine is the user's own, which is left out.
    """
    lines = [*mesh_and_layout(document, own_machine), "", f"# With the program of {_traced(document)}:"]
    if document.resized:
        lines.append(f"# program = program.resize({keywords(document.resized)})")
    if document.renamed:
        lines.append(f"# program = program.rename({literal(dict(document.renamed), -WIDE)})")
    lines.append(f"# plan = program.plan(mesh, layout{', pad=True' * document.pad})")
    if document.options != USUAL:
        lines.append(f"# time = plan.time.given({_options(document)})")
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


def keywords(pairs: Any) -> str:
    """Returns pairs of names and values as keyword arguments; names that Python keeps for itself, as a dict."""
    if any(keyword.iskeyword(name) or not name.isidentifier() for name, _ in pairs):
        return f"**{literal(dict(pairs), -WIDE)}"
    return ", ".join(f"{name}={literal(value, -WIDE)}" for name, value in pairs)


def literal(value: Any, before: int = 0) -> str:
    """Returns a value as Python: one line, or, where that is too long, one for each entry.

    Args:
        value: dicts, lists, tuples, texts, numbers, None, and `PartitionSpec`s.
        before: how many characters stand before it in its line.
    """
    if _is_spec(value):
        return f"P({', '.join(map(literal, value))})"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Axis):
        return value.source
    if value is None or isinstance(value, bool | int):
        return repr(value)
    opening, parts, closing = _entries(value)
    line = f"{opening}{', '.join(parts)}{',' if type(value) is tuple and len(parts) == 1 else ''}{closing}"
    if before + len(line) <= WIDE or not parts:
        return line
    return "\n".join([opening, *(f"    {part},".replace("\n", "\n    ") for part in parts), closing])


def _entries(value: Any) -> tuple[str, list[str], str]:
    if type(value) is dict:
        return "{", [f"{literal(key)}: {literal(each, 8 + len(literal(key)))}" for key, each in value.items()], "}"
    if type(value) is list or type(value) is tuple:
        return "[("[type(value) is tuple], [literal(each, 8) for each in value], "])"[type(value) is tuple]
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None and type(value).__qualname__.isidentifier():
        fields = [f"{name}={literal(getattr(value, name), 8)}" for name in names]
        return f"{type(value).__qualname__}(", fields, ")"
    raise TypeError(f"{type(value).__qualname__} is not written as Python here")


# PartitionSpecs


def specs_text(plan: Any) -> tuple[str, list[str]]:
    """Returns the trees of `plan.partition_specs` as Python, and what of them cannot be written.

    Returns:
        Lines that assign `inputs` and `outputs`, none where JAX takes no such shardings; and texts.
    """
    try:
        trees = dict(zip(("inputs", "outputs"), plan.partition_specs, strict=True))
    except LayoutError as error:
        return "", [str(error)]
    places = {"inputs": [each.place for each in plan.program.arguments], "outputs": plan.program.outputs}
    imports, texts, lost = {"from jax.sharding import PartitionSpec as P"}, [], []
    for name, tree in trees.items():
        try:
            texts.append(f"{name} = {literal(tree, len(name) + 3)}")
            imports |= _imports(tree)
        except TypeError as error:
            leaves = dict(zip(places[name], jax.tree.leaves(tree, is_leaf=_is_spec), strict=True))
            texts.append(f"{name} = {literal(leaves, len(name) + 3)}")
            lost.append(f"the tree of the {name}: {error}; it is given by place, and plan.partition_specs has the tree")
    return "\n".join([*sorted(imports), "", *texts]) + "\n", lost


def _is_spec(tree: Any) -> bool:
    return isinstance(tree, PartitionSpec)


def _imports(tree: Any) -> set[str]:
    """Returns the lines that import the named tuples of a tree."""
    if _is_spec(tree) or not isinstance(tree, dict | list | tuple):
        return set()
    here = {f"from {type(tree).__module__} import {type(tree).__qualname__}"} if hasattr(tree, "_fields") else set()
    return here.union(*map(_imports, tree.values() if isinstance(tree, Mapping) else tree))
