"""The sizes at which another model is opened, where none are asked for.

    sizes_for(documents, "llama3-8b")       {"batch": 64}, where the reader had set batch to 64
    sizes_for(documents, "llama3-8b")       {"batch": 16}, its own 8 made so many that `data` of 16 divides it

What the reader had set stays, as far as the model's inputs have dims of these names. A batch that the mesh does not
divide would leave hardly a layout to try.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...engine.errors import MeshlabError
from ...engine.specs.spec import Axes
from ...layouts.axis_names import called
from .documents import Documents

BATCH = "batch"


def sizes_for(documents: Documents, name: str) -> dict[str, int]:
    """Returns the sizes of a model that are not its own."""
    own, present = _own(documents, name), documents.present
    grown = _grown(documents, own)
    if present.model is None:
        was_set = dict(present.resized)
    else:
        was_set = {**dict(present.model.sizes), **dict(present.resized)}
        before = _grown(documents, _own(documents, present.model.name)) if was_set else {}
        was_set = {dim: size for dim, size in was_set.items() if before.get(dim) != size}
    kept = {dim: size for dim, size in was_set.items() if own.get(dim, size) != size}
    return {**grown, **kept}


def sizes_said(documents: Documents) -> str:
    """Says which sizes of the model that was opened are not its own, and why."""
    model = documents.present.model
    if model is None or not model.sizes:
        return ""
    own, sizes = _own(documents, model.name), dict(model.sizes)
    said = []
    if own.get(BATCH) and sizes.get(BATCH) == _grown(documents, own).get(BATCH):
        axes = " and ".join(f"`{axis}`={documents.mesh.axes[axis]:,}" for axis in _of_batch(documents))
        said.append(
            f"`{BATCH}` is {sizes.pop(BATCH):,}: the model's own batch of {own[BATCH]:,} is not divisible by {axes}."
        )
    if sizes:
        stay = ", ".join(f"`{dim}` {size:,}" for dim, size in sorted(sizes.items()))
        said.insert(0, f"As before: {stay}.")
    return " ".join(said)


def _own(documents: Documents, name: str) -> Mapping[str, int]:
    """The sizes of a model's inputs; none of one that there is not, which is refused when it is traced."""
    find = documents.programs.models.find
    try:
        return find(name).inputs if find else {}
    except MeshlabError:
        return {}


def _of_batch(documents: Documents) -> Axes:
    """The mesh axes that the batch is on, or else the one that is called so."""
    own = documents.present.layout.rules.get(BATCH, ())
    found = called(tuple(documents.mesh.devices.axes), "data")
    return own or ((found,) if found else ())


def _grown(documents: Documents, own: Mapping[str, int]) -> dict[str, int]:
    """The least batch from a model's own on that the mesh divides, where its own is not divided."""
    count = math.prod(documents.mesh.axes[axis] for axis in _of_batch(documents))
    size = own.get(BATCH, count)
    return {BATCH: -(-size // count) * count} if size % count else {}
