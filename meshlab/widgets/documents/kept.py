"""The document after a change of what a search must keep to: what is on the board stays as it is.

Pin("batch", "data")              searches leave batch on data
Forbid("vocab", "model")          and vocab off model
Silence("model")                  and find what sends nothing over model
LimitAuto(0.8, 60.0)              in 0.8 of a device's memory, within a minute
"""

from __future__ import annotations

import dataclasses

from msgspec import UNSET

from ...api.silent import axes_problem
from ...auto.request.constraints import read_constraints
from ...engine.errors import LayoutError, MeshlabError, closest
from ...engine.specs.mesh import Mesh
from .document import Document, read_limits
from .documents import Documents
from .intents import Allow, Forbid, LimitAuto, Pin, Refused, Silence, Unpin


def pin(documents: Documents, intent: Pin) -> Document:
    document, dim, axis = documents.present, intent.dim, intent.axis
    if axis is not None and (dim, axis) in document.forbidden:
        raise LayoutError(f"`{dim}` is never on `{axis}` in searches: allow it there to pin it.")
    pins = {**dict(document.pins), dim: axis}
    read_constraints(documents.program, Mesh(document.mesh), pins, None)
    return dataclasses.replace(document, pins=tuple(sorted(pins.items())))


def unpin(documents: Documents, intent: Unpin) -> Document:
    document, dim = documents.present, intent.dim
    if dim not in dict(document.pins):
        raise LayoutError(f"`{dim}` is not pinned.{closest(dim, dict(document.pins))}")
    return dataclasses.replace(document, pins=tuple(pin for pin in document.pins if pin[0] != dim))


def forbid(documents: Documents, intent: Forbid) -> Document:
    document, dim, axis = documents.present, intent.dim, intent.axis
    if dict(document.pins).get(dim) == axis:
        raise LayoutError(f"`{dim}` is pinned to `{axis}`: unpin it to forbid it there.")
    read_constraints(documents.program, Mesh(document.mesh), None, {dim: axis})
    return dataclasses.replace(document, forbidden=tuple(sorted({*document.forbidden, (dim, axis)})))


def allow(documents: Documents, intent: Allow) -> Document:
    document, pair = documents.present, (intent.dim, intent.axis)
    if pair not in document.forbidden:
        raise LayoutError(f"`{intent.dim}` may be on `{intent.axis}` in searches: nothing forbids it.")
    return dataclasses.replace(document, forbidden=tuple(each for each in document.forbidden if each != pair))


def silence(documents: Documents, intent: Silence) -> Document:
    document, axis = documents.present, intent.axis
    if problem := axes_problem(Mesh(document.mesh), [axis]):
        raise LayoutError(problem)
    others = {each for each in document.silent if each != axis}
    return dataclasses.replace(document, silent=tuple(sorted({*others, axis} if intent.silent else others)))


def limit(documents: Documents, intent: LimitAuto) -> Document | Refused:
    document = documents.present
    memory = document.memory if intent.memory is UNSET else intent.memory
    seconds = document.seconds if intent.seconds is UNSET else intent.seconds
    try:
        return dataclasses.replace(document, **read_limits("explorer.limit_auto()", memory, seconds))
    except MeshlabError as error:
        return Refused(str(error), code="invalid")
