"""The documents of an Explorer: the one on the board, those before and after it, and what follows from each.

    documents.present               the document on the board
    documents.plan_at(document)     its plan, made once
    documents.legal(layout)         why a layout is refused, without planning it

Costs take longer, and are those of `costing.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ...api.stages import make_plan
from ...auto.request.constraints import read_constraints
from ...cost.machines.hardware import Hardware
from ...cost.workload.options import USUAL
from ...engine.errors import LayoutError
from ...engine.legality.examine import resolve
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...layouts.naming import Named, named
from ..background.models import NO_MODELS, Models
from ..presets.buttons import Preset, presets_of
from ..presets.names import Names
from .costing import EACH, SLOW
from .document import UNASKED, Document, check_document, fitted
from .history import History
from .intents import Refused, refused
from .machines import CustomMachines, machine_on, mesh_on
from .retraced import Programs

# As many as the zones of a large board: each is priced twice, by its time and then by its peak.
KEPT = 40

T = TypeVar("T")


class Plans:
    """The plans of an Explorer's documents, the latest of them kept, all on one mesh for each placement.

    Plans on the same mesh share what was worked out for the steps that they have in common
    (`cost/workload/scenario.py`).

    Args:
        programs: the program, by its dims.
        machines: the user's own, by name; what is planned on one is forgotten (`clear`) where another takes its name.
        lock: the Explorer's.
    """

    def __init__(self, programs: Programs, machines: CustomMachines, lock: threading.RLock):
        self._programs, self._machines, self._lock = programs, machines, lock
        self._known: dict[Document, Any] = {}
        self._latest: tuple[Document, Any] | None = None  # a drop asks for one plan dozens of times
        self._meshes: dict[Any, Mesh] = {}
        self._of_meshes: dict[Any, Any] = {}

    def of(self, document: Document) -> Any:
        with self._lock:
            if self._latest is None or self._latest[0] is not document:
                self._latest = document, self._of(document)
            return self._latest[1]

    def _of(self, document: Document) -> Any:
        check_document(document)
        document = document.unpinned
        if document not in self._known:
            program, mesh = self._programs.at(document), self.mesh(document)
            plan = make_plan(program, mesh, document.layout, document.pad or None)
            # A remedy is tried by the plan that its price is of.
            under = functools.partial(self._under, document)
            self.put(document, dataclasses.replace(plan, under=under))
        return self._known[document]

    def mesh(self, document: Document) -> Mesh:
        """Returns the mesh of a document, on its machine; nothing is planned."""
        with self._lock:
            placed = document.machine, document.mesh
            if placed not in self._meshes:
                self._meshes[placed] = mesh_on(*placed, self._machines)
            return self._meshes[placed]

    def of_mesh(self, document: Document, work: Callable[[Mesh], T]) -> T:
        """Returns what follows from the mesh of a document on its machine alone, computed once.

        Args:
            document: the document.
            work: computes it; nobody changes what it returns.
        """
        with self._lock:
            key = work, document.machine, document.mesh
            if key not in self._of_meshes:
                self._of_meshes[key] = work(self.mesh(document))
            return self._of_meshes[key]

    def _under(self, document: Document, layout: Layout) -> Any:
        return self.of(dataclasses.replace(document, layout=layout))

    def put(self, document: Document, plan: Any) -> None:
        """Keeps a plan as a document's: one that was made elsewhere, or a broken one, to see that runs tell."""
        with self._lock:
            while len(self._known) >= KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[document.unpinned] = plan
            self._latest = None

    def forget(self, document: Document) -> None:
        """Forgets the plan of a document: it has its costs as well."""
        with self._lock:
            self._known.pop(document.unpinned, None)
            self._latest = None

    def clear(self) -> None:
        """Forgets all, since a machine has changed."""
        with self._lock:
            self._known.clear()
            self._latest = None
            self._meshes.clear()
            self._of_meshes.clear()


class Documents:
    """The documents of one Explorer.

    Args:
        program: the program, as it was traced.
        mesh: the mesh that it is opened on.
        layout: the layout to begin with; or a document that was saved, which has its own mesh.
        lock: guards the Explorer.
        models: the models that it can open.

    Attributes:
        programs: the program, at the sizes of each document.
        machines: the user's own machines, by name.
        plans: the plans of documents.
        opened: the document that the Explorer was opened with.
        history: the present document, and those before and after it.
        names: what the layouts of documents are called, by `named_key`.
        slow: whether costs take so long that a zone's price is its bytes and its work alone.
    """

    def __init__(self, program: Any, mesh: Any, layout: Any, lock: threading.RLock, models: Models = NO_MODELS):
        self._lock = lock
        self.programs = Programs(program, models)
        machine, custom = machine_on(mesh)
        self.machines: dict[str, Hardware] = dict(custom)
        self.plans = Plans(self.programs, self.machines, lock)
        if isinstance(layout, Document):
            if layout.model != models.opened:  # which is traced only now
                layout = fitted(layout, self.programs.traced(layout))
            layout = self.programs.normal(layout)
            self.opened = settled(layout, self.programs.at(layout))
        else:
            dims, model = tuple(program.dims.items()), models.opened
            self.opened = Document(dims, mesh.shape, Layout.of(layout), machine, model=model)
        self.history = History(self.opened)
        self.slow = self.is_slow
        self.names = Names(self._named, self.programs.operations(self.opened))
        self._presets: dict[Any, tuple[Preset, ...]] = {}
        self.plan_at(self.opened)

    @property
    def present(self) -> Document:
        """The document on the board."""
        return self.history.present

    @property
    def is_slow(self) -> bool:
        """Whether costs of the program on the board take long."""
        return self.programs.operations(self.present) * EACH > SLOW

    @property
    def program(self) -> Any:
        """The program, with the present sizes and names of its dims."""
        with self._lock:
            return self.programs.at(self.present)

    @property
    def mesh(self) -> Mesh:
        """The mesh of the document on the board, on its machine."""
        return self.plans.mesh(self.present)

    @property
    def plan(self) -> Any:
        """The plan of the document on the board."""
        with self._lock:
            return self.plan_at(self.present)

    @property
    def presets(self) -> tuple[Preset, ...]:
        """What each preset of `ml.layouts` makes of the program on the present mesh."""
        with self._lock:
            key = self.present.model, self.present.dims, self.present.mesh
            if key not in self._presets:
                self._presets[key] = presets_of(self.program, self.plan.mesh)
            return self._presets[key]

    def name_of(self, document: Document) -> Named | None:
        """Returns what the layout of a document is called, and waits for it."""
        return self.names.of(named_key(document))

    def _named(self, document: Document) -> Named | None:
        program, mesh = self.programs.at(document), self.plans.mesh(document)
        return named(program, mesh, document.layout, pad=document.pad)

    def plan_at(self, document: Document) -> Any:
        """Returns the plan of a document."""
        return self.plans.of(document)

    def enter(self, machine: Hardware) -> bool:
        """Enters the user's own machine; returns whether there was none like it: costs on that name are outdated."""
        with self._lock:
            if self.machines.get(machine.name) == machine:
                return False
            self.machines[machine.name] = machine
            self.plans.clear()
            return True

    def unplanned(self, document: Document) -> Refused | None:
        """Returns why a document that is not on the board has no plan, or None where it has one."""
        if not self.programs.known(document):
            return Refused("The program has to be traced again for this document.", "Restore it first.")
        try:
            self.plan_at(document)
        except LayoutError as error:
            return refused(error)
        return None

    def refusals(self) -> dict:
        """Returns, for each dim and mesh axis, why the dim is refused there, or None where it is legal."""
        return self.program.refusals(self.plan.mesh, self.present.layout, pad=self.present.pad)

    def legal(self, layout: Layout, pad: bool = False) -> Refused | None:
        """Returns why a layout is refused, or None where it is legal, without planning it."""
        try:
            resolve(self.program, self.mesh, layout, pad or self.present.pad or None)
        except LayoutError as error:
            return refused(error)
        return None


def named_key(document: Document) -> Document:
    """Returns what a name depends on of a document: neither the machine, nor what a search is given."""
    return dataclasses.replace(document, machine=None, options=USUAL, **UNASKED)


def settled(document: Document, program: Any) -> Document:
    """Returns a document with the dims of its program, without pins that no layout of it satisfies, and their like."""
    mesh, dims = Mesh(document.mesh), tuple(program.dims.items())
    pins: dict[str, str | None] = {}
    for dim, axis in document.pins:
        with contextlib.suppress(LayoutError):
            read_constraints(program, mesh, {**pins, dim: axis}, None)
            pins[dim] = axis
    forbidden = tuple(
        (dim, axis)
        for dim, axis in document.forbidden
        if dim in program.dims and axis in mesh.axes and pins.get(dim) != axis
    )
    silent = tuple(axis for axis in document.silent if axis in mesh.devices.axes)
    return dataclasses.replace(document, pins=tuple(pins.items()), forbidden=forbidden, silent=silent, dims=dims)
