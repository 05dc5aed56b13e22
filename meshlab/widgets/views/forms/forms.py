"""The layout on the board in forms that can be pasted elsewhere; what a form cannot say is listed, not dropped.

    forms_view(explorer)["forms"][1]
    {"name": "dict", "about": "for program.plan, ...", "text": '{"batch": "data"}', "lost": ["padding: pad=True"]}
    written(explorer, "jit")                    that form alone, by its name: for a script, a cell, the command line

A form is an entry of `FORMS`. Python's and that of `jax.jit` run in a fresh kernel, the latter without meshlab; all
others say the layout alone, in Python's and in JSON's words, as the `PartitionSpec`s of JAX, as axis rules, as
Levanter's axis mappings, and as Mesh TensorFlow's string.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ....cost.machines.meshes import slice_of
from ....cost.workload.options import USUAL
from ....engine.errors import closest, listed, numbered, shown
from ....engine.specs import flax_rules, mesh_tf_string
from ....layouts import levanter
from ...documents.document import Document, ExplorerError
from ...state.explorer_state import ExplorerState
from .jit import jit_text
from .literal import keywords, literal
from .python import options_text, python_text
from .specs import specs_text

Lost = list[str]


class FormView(TypedDict):
    """A form of the layout: what it is for, its text, and what it cannot say."""

    name: str
    about: str
    text: str
    lost: list[str]


class FormsView(TypedDict):
    forms: list[FormView]


def _beside_the_layout(document: Document) -> list[str]:
    """Returns what a document has that the texts of its mesh and layout do not say."""
    lost = ["padding of dims that their axes do not divide: `pad=True` of program.plan"] if document.pad else []
    lost += _new_sizes(document)
    if document.renamed:
        lost.append(f"new names of dims: `program.rename({literal(dict(document.renamed))})`")
    if document.kept:
        lost.append(f"what a search keeps to: `ml.auto.layout(…, {keywords(document.kept.items())})`")
    if document.options != USUAL:
        lost.append(f"assumptions about the run: `plan.time.given({options_text(document)})`")
    return lost


def _new_sizes(document: Document) -> list[str]:
    return [f"new sizes of dims: `program.resize({keywords(document.resized)})`"] if document.resized else []


def _python(explorer: ExplorerState) -> tuple[str, Lost]:
    document = explorer.document
    own = document.machine is not None and slice_of(document.machine.on)[0] in explorer.documents.machines
    machine = ["the machine, which is your own: give it to ml.mesh, ahead of the axes"] if own else []
    return python_text(document, own), machine


def _of_layout(write: Callable[[Any], str]) -> Callable[[ExplorerState], tuple[str, Lost]]:
    """Makes a form of the rules, which says all of them and nothing of what stands beside them."""
    return lambda explorer: (write(explorer.layout.to_dict()), _beside_the_layout(explorer.document))


def _of_plan(write: Callable[[Any], tuple[Any, Any]]) -> Callable[[ExplorerState], tuple[str, Lost]]:
    """Makes a form of what is written of a plan, with what that cannot say."""

    def form(explorer: ExplorerState) -> tuple[str, Lost]:
        text, lost = write(explorer.plan)
        return text, [*lost, *_beside_the_layout(explorer.document)]

    return form


def _jit(explorer: ExplorerState) -> tuple[str, Lost]:
    text, lost = jit_text(explorer.plan)
    return text, [*lost, *_new_sizes(explorer.document)]


def _axis_rules(plan: Any) -> tuple[str, Any]:
    rules, lost = flax_rules.said(plan.layout)
    return literal(rules), lost


def _maxtext(plan: Any) -> tuple[str, Any]:
    rules, lost = flax_rules.said(plan.layout)
    return f"logical_axis_rules: {json.dumps(rules)}\n", lost


def _levanter(plan: Any) -> tuple[str, Any]:
    settings, lost = levanter.said(plan)
    return "\n".join(["trainer:", *(f"  {key}: {json.dumps(value)}" for key, value in settings.items())]) + "\n", lost


@dataclasses.dataclass(frozen=True)
class Form:
    """A form of the layout.

    Attributes:
        about: what it is for.
        write: returns its text, and what that cannot say.
    """

    about: str
    write: Callable[[ExplorerState], tuple[str, Lost]]


FORMS: Mapping[str, Form] = {
    "Python": Form("runs in a fresh kernel", _python),
    "dict": Form("for program.plan(mesh, …); the mesh is in Python's form", _of_layout(literal)),
    "JSON": Form("for json.loads, and then program.plan(mesh, …)", _of_layout(json.dumps)),
    "jit": Form("mesh and shardings for jax.jit; runs in a fresh kernel, without meshlab", _jit),
    "PartitionSpecs": Form("of arguments and outputs, for jax.jit; not of intermediate values", _of_plan(specs_text)),
    "axis rules": Form(
        "for flax.linen.logical_axis_rules, T5X and MaxText; ml.layouts.from_axis_rules reads them",
        _of_plan(_axis_rules),
    ),
    "MaxText": Form("a line of its YAML: the axis rules, with its own names of dims", _of_plan(_maxtext)),
    "Levanter": Form(
        "the axes in its YAML's trainer, with its own names of dims; ml.layouts.from_levanter reads them",
        _of_plan(_levanter),
    ),
    "Mesh TensorFlow": Form(
        "for mtf.convert_to_layout_rules; ml.Layout.of reads it too",
        _of_plan(lambda plan: mesh_tf_string.said(plan.layout)),
    ),
}


# What the answer to a task is written in; other systems' notations would make its file longer, and help nobody.
OF_ANSWERS = ("Python", "dict")


def forms_view(explorer: ExplorerState) -> FormsView:
    """Describes the present layout in each form: its name, what it is for, its text, and what it cannot say."""
    offered = FORMS if explorer.task is None else OF_ANSWERS
    made = {name: FORMS[name].write(explorer) for name in offered}
    return {
        "forms": [
            {"name": name, "about": FORMS[name].about, "text": text, "lost": lost}
            for name, (text, lost) in made.items()
        ]
    }


class Written(str):
    """The text of a form.

    Attributes:
        form: its name.
        lost: what it cannot say of the layout, in words.
    """

    form: str
    lost: tuple[str, ...]

    @property
    def cell(self) -> str:
        """The text, with comments above it on what it cannot express."""
        return "\n".join([*(f"# {self.form} cannot express: {each}" for each in self.lost), self])


def written(explorer: ExplorerState, name: Any) -> Written:
    """Returns the present layout in one form.

    Args:
        explorer: the Explorer.
        name: of the form, in capitals or not.

    Raises:
        ExplorerError: there is no such form, or it can say nothing of the layout.
    """
    form = form_name(name)
    text, lost = FORMS[form].write(explorer)
    if lost and not text:
        raise ExplorerError(f"{form} says nothing of this layout:\n{numbered(lost)}\nPython says all of it.")
    made = Written(text)
    made.form, made.lost = form, tuple(lost)
    return made


def form_name(name: Any) -> str:
    """Returns the name of a form as it is written here; refuses what is none."""
    known = {each.lower(): each for each in FORMS}
    if not isinstance(name, str) or name.lower() not in known:
        near = closest(name, FORMS) if isinstance(name, str) else ""
        raise ExplorerError(f"There is no form {shown(name)} of a layout.{near} There are {listed(FORMS)}.")
    return known[name.lower()]
