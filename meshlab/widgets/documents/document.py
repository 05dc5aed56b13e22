"""Documents: one frozen document per state of the Explorer, and the history as a list of them.

A document says which program (by its dims), which mesh on which machine, and which layout; everything else that is
shown is computed from it. Undo is therefore no inverse operation, only the document before. As JSON it can be kept in a
notebook:

    >>> print(explorer.to_json())
    {"along": {}, "dims": {"batch": 128, "hidden": 1024}, "layout": {"batch": "data"}, "machine": "v5e:2x2",
     "mesh": [["data", 4]], "options": {"attention": "default", "prefetch": false}, "pad": false,
     "pins": {"batch": "data"}, "renamed": {}, "resized": {"batch": 128}, "schema": 3}

Equal documents give equal text. Documents of schema 1 knew no machine, those of schema 2 the program only as it was
traced, without pins and padding, and those of schema 3 neither a model by its name, `"model": {"name": "llama3-8b",
"sizes": {"batch": 32}}`, nor of what a search must keep to more than pins; all are read as such. One is written in the
first schema that says all of it, from 3 on, so that older versions read what they know. A schema that this version does
not know is refused rather than guessed at.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta

from ...api.stages import Program
from ...auto.choosing import check_limits
from ...cost.machines.bounds import read_cap, read_seconds
from ...cost.machines.hardware import Hardware
from ...cost.machines.placed import AxisPlacement
from ...cost.workload.options import USUAL, Options
from ...engine.argument_checks import is_whole
from ...engine.axes.axis import Axis
from ...engine.axes.axis_kinds import read_axis
from ...engine.errors import MeshlabError, numbered, shown
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...engine.whole_files import write_whole
from ..background.models import Model, Sizes

# The size of an axis of devices is a number.
MeshSizes = tuple[tuple[str, int | Axis], ...]
SCHEMA = 4
# What a search takes for an answer unless it is told otherwise: the share of a device's memory.
MEMORY = 0.9


class ExplorerError(MeshlabError):
    """A document, or a training, is invalid for the Explorer."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine that a mesh is placed on.

    Args:
        on: as `ml.mesh` takes it: "v5e:4x4".
        along: placements of mesh axes that are not derived, by name; as `ml.lay` takes them.
    """

    on: str
    along: tuple[tuple[str, AxisPlacement], ...] = ()


@dataclasses.dataclass(frozen=True)
class Document:
    """One state of the Explorer.

    Args:
        dims: name and size of each dim of the program.
        mesh: name and size of each mesh axis, in order.
        layout: the layout.
        machine: the machine that the mesh is placed on; None for no machine, and no times.
        options: assumptions about how the plan runs.
        pad: whether dims that their axes do not divide are padded.
        pins: the mesh axis that each pinned dim has in a search; None for one that stays whole.
        forbidden: dims with mesh axes that they must not be on in a search.
        silent: mesh axes over which what a search finds must not send anything.
        memory: what a search may take of a device's memory: a share, a text such as "60 GB", or None for any.
        seconds: after so many a search takes the best so far; None: never.
        resized: new sizes of dims, by their names in the program that was traced.
        renamed: new names of dims, by those.
        model: the model that the program is; None for a program of the user's own.
    """

    dims: Sizes
    mesh: MeshSizes
    layout: Layout
    machine: Machine | None = None
    options: Options = USUAL
    pad: bool = False
    pins: tuple[tuple[str, str | None], ...] = ()
    resized: Sizes = ()
    renamed: tuple[tuple[str, str], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()
    silent: tuple[str, ...] = ()
    memory: float | str | None = MEMORY
    seconds: float | None = None
    model: Model | None = None

    @property
    def unpinned(self) -> Document:
        """The document without what a search must keep to, which changes no plan."""
        return dataclasses.replace(self, **UNASKED) if self.kept else self

    @property
    def kept(self) -> dict[str, Any]:
        """What a search must keep to, as arguments of `ml.auto.layout`; what is as usual is left out."""
        forbid: dict[str, list[str]] = {}
        for dim, axis in self.forbidden:
            forbid.setdefault(dim, []).append(axis)
        named = {"pin": dict(self.pins), "forbid": forbid, "silent": list(self.silent), "seconds": self.seconds}
        kept = {name: value for name, value in named.items() if value}
        return kept if self.memory == MEMORY else {**kept, "memory": self.memory}

    def to_dict(self, plain: bool = True) -> dict:
        """Returns the document as JSON-like data, with its schema version; mesh axes and places keep their order.

        Args:
            plain: whether it is written in the first schema that says all of it.
        """
        along = self.machine.along if self.machine else ()
        kept, model = self.kept, self.model
        more = {
            "forbidden": kept.get("forbid", {}),
            "model": model and {"name": model.name, "sizes": dict(model.sizes)},
            "search": {"memory": self.memory, "seconds": self.seconds},
            "silent": list(self.silent),
        }
        plain = plain and model is None and kept.keys() <= {"pin"}
        return {
            "along": {name: list(where) if isinstance(where, tuple) else where for name, where in sorted(along)},
            "dims": dict(sorted(self.dims)),
            "layout": self.layout.to_dict(),
            "machine": self.machine and self.machine.on,
            "mesh": [[name, size.to_dict() if isinstance(size, Axis) else size] for name, size in self.mesh],
            "options": {"attention": self.options.attention, "prefetch": self.options.prefetch},
            "pad": self.pad,
            "pins": dict(sorted(self.pins)),
            "renamed": dict(sorted(self.renamed)),
            "resized": dict(sorted(self.resized)),
            **({"schema": 3} if plain else {"schema": SCHEMA, **more}),
        }

    def to_json(self) -> str:
        """Returns the document as JSON; equal documents give equal text."""
        return json.dumps(self.to_dict())


# A document's fields of what a search must keep to, as they are where it may do anything.
UNASKED: Mapping[str, Any] = {"pins": (), "forbidden": (), "silent": (), "memory": MEMORY, "seconds": None}


def check_opened(program: Any, mesh: Any):
    """Refuses to open an Explorer with what is no program, or no mesh."""
    turned = " The program comes first." if isinstance(mesh, Program) else ""
    check_program(
        "explore()",
        program,
        f'ml.explore(ml.trace(fn, ...), mesh), or a model\'s name: ml.explore("llama3-8b", mesh).{turned}',
    )
    if not isinstance(mesh, Mesh):
        raise ExplorerError(
            f"explore() was given {shown(mesh)} for its mesh; write ml.explore(program, ml.mesh(data=2))."
        )


def fitted(document: Document, program: Any) -> Document:
    """Returns a document with its dims in the order of its program; refuses one of another program.

    Sizes of a program that is resized are those of the document, which was written for it.
    """
    renamed, resized = dict(document.renamed), dict(document.resized)
    there, dims = {renamed.get(name, name): size for name, size in program.dims.items()}, dict(document.dims)
    there |= {new: dims.get(new, 0) for old, new in renamed.items() if old in program.made_up}
    # Of a program that is resized the sizes of dims that follow others are known once it has been traced again.
    if there.keys() != dims.keys() or (not resized and there != dims) or not resized.keys() <= program.dims.keys():
        raise ExplorerError(
            f"This document is for a program with the dims {dims}; the given program has"
            f" {dict(program.dims)}. Open it with its own program, or load only its layout:"
            " explorer.load(layout)."
        )
    return dataclasses.replace(document, dims=tuple(sorted(document.dims, key=lambda dim: [*there].index(dim[0]))))


def check_program(what: str, program: Any, instead: str):
    if not isinstance(program, Program):
        raise ExplorerError(f"{what} was given {shown(program)} for its program; write {instead}")


def check_document(document: Any):
    """Refuses a value that is no document."""
    if not isinstance(document, Document):
        raise ExplorerError(
            f"plan_at() was given {shown(document)}; it must be a document: explorer.document, or one of"
            " explorer.history."
        )


def check_machines(machines: Any):
    """Refuses what is no list of `ml.Hardware`."""
    each = list(machines) if isinstance(machines, list | tuple) else [machines]
    wrong = [machine for machine in each if not isinstance(machine, Hardware)]
    if wrong or not isinstance(machines, list | tuple):
        raise ExplorerError(
            f"The Explorer was given {shown((wrong or each)[0])} for a machine; it must be a machine from"
            " ml.Hardware.of(...), or a list of them."
        )


def _sorted(values: dict) -> tuple[tuple[Any, Any], ...]:
    return tuple(sorted(values.items()))


def _axes(pairs: list) -> MeshSizes:
    axes = tuple((name, read_axis(size)) for name, size in pairs)
    for name, size in axes:
        if not isinstance(size, int | Axis):
            raise ExplorerError(f"the size of `{name}` is {shown(size)}")
    return axes


def _pairs(axes_by_dim: dict[str, list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({(dim, axis) for dim, axes in axes_by_dim.items() for axis in axes}))


# No limit, as people write it.
_ANY = ("", "any", "none")


def read_limits(what: str, memory: Any, seconds: Any) -> dict[str, Any]:
    """Reads what ends a search, as people write it: memory as a share or a text, time in seconds or as a text.

    Args:
        what: was given them, as its error says: "explorer.limit_auto()".
        memory: the most that it may take of a device's memory.
        seconds: after so many it takes the best so far.
    """
    if isinstance(memory, str):
        memory = None if memory.strip() in _ANY else read_cap(memory)
    if isinstance(seconds, str):
        seconds = None if seconds.strip() in _ANY else seconds.strip()
    with contextlib.suppress(ValueError):
        seconds = float(seconds) if isinstance(seconds, str) else seconds
    if isinstance(seconds, str):
        seconds = read_seconds(seconds).value
    check_limits(what, memory=memory, seconds=seconds)
    return {"memory": memory, "seconds": None if seconds is None else float(seconds)}


_Size = Annotated[int, Meta(ge=1)]


class _Named(TypedDict):
    name: str
    sizes: dict[str, _Size]


# The keys that a document has, by schema, each of which adds some: the type of what JSON has there, the same in words,
# and what makes of it what the document has there.
_KEYS: Mapping[int, Mapping[str, tuple[Any, str, Callable[[Any], Any]]]] = {
    1: {
        "dims": (dict[str, _Size], 'sizes by name: {"batch": 8}', _sorted),
        "mesh": (list[tuple[str, _Size | dict]], 'a list of names and sizes: [["data", 2]]', _axes),
        "layout": (Any, 'mesh axes by dim: {"batch": "data"}', Layout.of),
    },
    2: {
        "along": (dict[str, AxisPlacement], 'placements by mesh axis: {"model": 0}', _sorted),
        "machine": (str | None, 'a machine and its slice: "v5e:4x4"', lambda on: on),
        "options": (
            dict[Literal["attention", "prefetch"], Any],
            'assumptions: {"attention": "default", "prefetch": false}',
            lambda options: USUAL.given(**options),
        ),
    },
    3: {
        "pad": (bool, "true or false", bool),
        "pins": (dict[str, str | None], 'mesh axes by dim: {"batch": "data"}', _sorted),
        "renamed": (dict[str, str], 'new names by old ones: {"~seq": "kv"}', _sorted),
        "resized": (dict[str, int], 'sizes by dim: {"batch": 8}', _sorted),
    },
    4: {
        "forbidden": (dict[str, list[str]], 'mesh axes by dim: {"vocab": ["model"]}', _pairs),
        "model": (
            _Named | None,
            'a model and sizes of its dims: {"name": "llama3-8b", "sizes": {"batch": 32}}',
            lambda model: model and Model(model["name"], _sorted(model["sizes"])),
        ),
        "search": (
            dict[Literal["memory", "seconds"], float | str | None],
            'the limits of a search: {"memory": 0.9, "seconds": null}',
            lambda limits: read_limits("explorer.auto()", **{"memory": MEMORY, "seconds": None, **limits}),
        ),
        "silent": (list[str], 'mesh axes: ["model"]', lambda axes: tuple(sorted({*axes}))),
    },
}


def read_document(text: str) -> Document:
    """Reads a document that `Document.to_json` wrote; the error lists all that is invalid."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:  # brackets in brackets end the reader's patience
        raise ExplorerError(
            f"Invalid document of the Explorer: it is not JSON ({error}). Use the text from `explorer.to_json()`."
        ) from None
    if not isinstance(data, dict) or "schema" not in data:
        raise ExplorerError(
            "Invalid document of the Explorer: it has no `schema`. Use the text from `explorer.to_json()`."
        )
    if not is_whole(data["schema"]) or data["schema"] not in _KEYS:
        raise ExplorerError(
            f"This document has schema {shown(data['schema'])}; this version of meshlab reads schema 1 to {SCHEMA}. "
            "Open it with the version that wrote it, or load only its layout with `explorer.load(layout)`."
        )
    keys = {name: key for schema, keys in _KEYS.items() if schema <= data["schema"] for name, key in keys.items()}
    missing = sorted(keys.keys() - data.keys())
    if missing:
        raise ExplorerError(
            f"Invalid document of the Explorer: it lacks {', '.join(missing)}; was it cut short?"
            " Use the text from `explorer.to_json()`."
        )
    read, problems = {}, []
    for name, (kind, fits, make) in keys.items():
        try:
            read[name] = make(msgspec.convert(data[name], kind))
        except (msgspec.ValidationError, MeshlabError) as error:
            why = str(error).removesuffix(" - at `$[...]`").removesuffix(".")
            problems.append(f"`{name}` is {shown(data[name])}; it must be {fits} ({why})")
    if problems:
        raise ExplorerError(f"Invalid document of the Explorer:\n{numbered(problems)}")
    on, along, limits = read.pop("machine", None), read.pop("along", ()), read.pop("search", {})
    return Document(**read, **limits, machine=Machine(on, along) if on else None)


def write(path: Any, content: str | bytes) -> None:
    """Writes what an Explorer saves to a file, which is replaced whole."""
    target = path_of("save()", path)
    try:
        write_whole(target, content)
    except OSError as error:
        raise ExplorerError(f"save() cannot write {shown(str(target))}: {error.strerror}.") from None


def saved(path: Any, what: str = "explore()") -> str | None:
    """Returns the text of a document that was saved; None where there is no such file yet."""
    source = path_of(what, path)
    try:
        return source.read_text(encoding="utf-8") if source.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise ExplorerError(f"{what} cannot read the document {shown(str(source))}: {error}.") from None


def path_of(what: str, path: Any) -> pathlib.Path:
    """Returns what a method was given for a file as a path."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ExplorerError(f'{what} was given {shown(path)} for its file; write a path: "layout.json".')
    return pathlib.Path(path)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a program is from, as a notebook writes it: `ml.explore("llama3-8b", mesh, batch=32)`.

    Attributes:
        name: what it is called: its function, a model, `step.py:program`.
        text: what `ml.explore` is given for it.
        sizes: of its dims, that `ml.explore` is given too.
    """

    name: str
    text: str = "program"
    sizes: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, program: Any) -> Source:
        """Returns the source of a program of which only its function is known."""
        return cls(getattr(program.fn, "__name__", "program"))

    @classmethod
    def of_model(cls, model: Model) -> Source:
        """Returns the source of a model that has a name."""
        return cls(model.name, f'"{model.name}"', model.sizes)
