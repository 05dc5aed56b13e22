"""What an Explorer has at present: its document, and all that follows from it, to be read."""

from __future__ import annotations

import threading
from typing import Any

from ...auto.objective import TIME
from ...cost.machines.hardware import Hardware, HardwareError
from ...cost.machines.meshes import machine_of
from ...cost.step_time.time import Time
from ...engine.errors import LayoutError
from ...engine.legality.examine import resolve
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from .apply_intent import refused
from .costing import Costing, Costs
from .document import Document, History
from .gestures import Gestures
from .intents import Refused
from .machines import CustomMachines
from .presets import Preset, presets_of
from .regret_searches import RegretSearch, RegretSearches
from .retraced import Programs, Tracer, Tracing
from .runs import Run, Runs
from .searches import FOUND, Search, Searches
from .selection import Selection
from .tried import Tried, TriedLayout


class Present(Gestures):
    """The present state of an Explorer; `ExplorerState` changes it."""

    lock: threading.RLock
    costing: Costing[Costs]
    _history: History
    _initial: Document
    _programs: Programs
    _tracer: Tracer
    _presets: dict[Any, tuple[Preset, ...]]
    _custom: dict[str, Hardware]
    _revision: int
    _beside: TriedLayout | None
    _selection: Selection
    _runs: Runs
    _searches: Searches
    _regrets: RegretSearches
    _tried: Tried

    @property
    def document(self) -> Document:
        """The present document."""
        return self._history.present

    @property
    def program(self) -> Any:
        """The program, with the present sizes and names of its dims."""
        with self.lock:
            return self._programs.at(self.document)

    @property
    def tracing(self) -> Tracing | None:
        """The latest tracing of the program at other sizes."""
        return self._tracer.last

    @property
    def presets(self) -> tuple[Preset, ...]:
        """What each preset of `ml.layouts` makes of the program on the present mesh."""
        with self.lock:
            key = self.document.dims, self.document.mesh
            if key not in self._presets:
                self._presets[key] = presets_of(self.program, self.mesh)
            return self._presets[key]

    @property
    def opened(self) -> Document:
        """The document that the Explorer was opened with."""
        return self._initial

    @property
    def layout(self) -> Layout:
        """The present layout."""
        return self.document.layout

    @property
    def mesh(self) -> Mesh:
        """The mesh, on the machine that is chosen at present."""
        return self.plan.mesh

    @property
    def custom_machines(self) -> CustomMachines:
        """The user's own machines, by name."""
        return self._custom

    @property
    def time(self) -> Time:
        """The predicted time of a step, under the assumptions of the document.

        Raises:
            HardwareError: no machine is chosen, or it lacks a figure that is needed.
        """
        document = self.document
        machine_of(self.mesh, "explorer.time", "explorer.on")
        costs = self.costing.of(document)
        if costs.time is None:
            raise HardwareError(costs.missing)
        return costs.time

    @property
    def plan(self) -> Any:
        """The plan of the present layout."""
        with self.lock:
            return self.plan_at(self.document)

    def plan_before(self) -> Any:
        """Returns the plan before the last change, or None where there was none."""
        with self.lock:
            return self.plan_at(self._history.past[-1]) if self._history.past else None

    @property
    def revision(self) -> int:
        """The number of changes so far."""
        return self._revision

    @property
    def selected(self) -> str | None:
        """The place whose slices are shown."""
        return self._selection.place

    @property
    def selection(self) -> Selection:
        """What is selected, in all views."""
        return self._selection

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, oldest first; only the last one has its arrays."""
        return self._runs.all

    @property
    def history(self) -> History:
        """The documents before and after the present one."""
        return self._history

    @property
    def comparison(self) -> Search | None:
        """The latest search."""
        return self._searches.last

    @property
    def outdated(self) -> str:
        """What is another than the latest search was for: "program", "mesh", "machine", "run"; "" where nothing is."""
        with self.lock:
            return self._searches.outdated

    @property
    def choice(self) -> Any:
        """The `Choice` of the latest search, while it holds for what is on the board; None where there is none."""
        search = self.comparison
        return None if search is None or search.phase != FOUND or self.outdated else search.choice

    @property
    def fastest(self) -> Any:
        """The `Choice` of the latest search, where that was for the fastest layout; it tells why it is."""
        search = self.comparison
        return self.choice if search is not None and search.objective == TIME.name else None

    @property
    def regret_search(self) -> RegretSearch | None:
        """The search for what the decisions of the fastest layout cost otherwise."""
        return self._regrets.of(self.fastest)

    @property
    def tried(self) -> Tried:
        """The layouts that were tried, and the baseline among them."""
        return self._tried

    @property
    def other(self) -> TriedLayout | None:
        """The layout that is shown beside the present one; None where there is none."""
        return self._beside

    def refusals(self) -> dict:
        """Returns, for each dim and mesh axis, why the dim is refused there, or None where it is legal."""
        return self.program.refusals(self.mesh, self.layout, pad=self.document.pad)

    def legal(self, layout: Layout) -> Refused | None:
        """Returns why a layout is refused, or None where it is legal, without planning it."""
        try:
            resolve(self.program, self.mesh, layout, self.document.pad or None)
        except LayoutError as error:
            return refused(error)
        return None

    def plan_at(self, document: Document) -> Any:
        """Returns the plan of a document."""
        raise NotImplementedError
