"""The state of an Explorer: a program and a mesh, a layout that changes by gestures, and the plan that follows at once.

It knows nothing of what is shown; `views` makes JSON-like data of it, and `explorer.py` is its public face. Its
methods may be called from any thread (JupyterLab calls widgets from several), so one lock guards the state, and
subscribers are called within it, in order. A revision counts every change, undo and redo included.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...auto.objective import objective_of
from ...cost.machines.hardware import Hardware, HardwareError
from ...engine.argument_checks import function
from ...engine.code.operations import walk
from ...engine.errors import DimError, LayoutError, MeshError, TraceError
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...training.feeding import Training, check_training
from ..background.one_by_one import Background
from ..background.reasons import Reasons
from .apply_intent import document_after, machine_refused, refused
from .costing import EACH, PATIENCE, SLOW, Costing, costs_of
from .document import Document, ExplorerError, History, check_machines, check_opened
from .edits import note_of, settled
from .intents import (
    Accepted,
    Auto,
    Baseline,
    Beside,
    Cancel,
    CancelAuto,
    Edit,
    Intent,
    Load,
    Outcome,
    Redo,
    Refused,
    SearchRegrets,
    Select,
    Start,
    TakePreset,
    Undo,
)
from .machines import machine_on
from .plans import Plans
from .present import Present
from .presets import Preset, layout_taken, name_given
from .regret_searches import RegretSearches
from .retraced import Programs, Tracer
from .runs import Run, Runs
from .searches import FOUND, SEARCHING, Searches
from .selection import Selection, following, places_of, selected_after
from .totals import KnownTotals
from .tried import Tried, TriedLayout

# Changes that are no revision: of nothing that a price depends on.
UNCOUNTED = ("run", "costs", "totals", "advice", "tracing", "selection", "tensor", "search")


class ExplorerState(Present):
    """The state of an Explorer; see `Explorer` for its arguments."""

    def __init__(self, program: Any, mesh: Any, layout: Any = None, run: Training | None = None):
        check_opened(program, mesh)
        if run is not None:
            check_training(run, program)
        self.training = run
        self.lock = threading.RLock()
        self._programs = Programs(program)
        self._tracer = Tracer(self._programs, self.lock, lambda: self._changed("tracing"))
        self._plans = Plans(self._programs, self.lock)
        operations = sum(1 for _ in walk(program.code.block))
        self.slow = operations * EACH > SLOW
        later = Background()
        kept = {"operations": operations, "held": self._on_board, "drop": self._plans.forget}
        self.costing = Costing(self.plan_at, costs_of, self._costed, patience=PATIENCE, background=later, **kept)
        self.totals = KnownTotals(self.plan_at, self.costing, later, lambda: self._costed("totals"))
        machine, custom = machine_on(mesh)
        self._custom: dict[str, Hardware] = dict(custom)
        dims, axes = tuple(program.dims.items()), mesh.shape
        if isinstance(layout, Document):  # one that was saved
            self._open(settled(layout, self._programs.at(layout)))
        else:
            self._open(Document(dims, axes, Layout.of(layout), machine))
        self.plan_at(self._initial)
        self._beside: TriedLayout | None = None
        self._selection = Selection(next(iter(places_of(program)), None))
        self._revision = 0
        self._runs = Runs(run)
        self._searches = Searches(self._search_space, self.lock, self._searched, lambda: self._changed("search"))
        self._regrets = RegretSearches(self.lock, lambda: self._changed("search"))
        self.reasons = Reasons(lambda: self.fastest, Background(), lambda: self._costed("search"))
        self._listeners: list[Callable[[str], None]] = []
        self.height = 600
        # The document for which advice was worked out, and the advice; and the presets, by mesh.
        self.advice: tuple[Document, Any] | None = None
        # The dims that some zone takes, the one with the best zone first, and whether that one helps.
        self.ranked: tuple[Document, list[tuple[str, bool]]] | None = None
        self._presets: dict[Any, tuple[Preset, ...]] = {}
        # The notebook's widget, and the picture that a saved notebook keeps, once it is shown.
        self.session: Any = None
        self.picture: Any = None
        self.adviser: Any = None

    def _open(self, document: Document):
        """Takes a document as the one that the Explorer is opened with."""
        self._initial, self._history, self._tried = document, History(document), Tried.opened(document)

    # Searches and runs

    def auto(self, objective: str | None = None) -> Any:
        """Searches for the best layout and sets it beside the present one, which stays.

        Args:
            objective: "time", "memory", "traffic" or "live", as of `ml.auto.layout`; by default "time" where the mesh
                is on a machine, else "traffic".

        Returns:
            The `Choice`; `explorer.load(choice.layout)` takes it over.

        Raises:
            Cancelled: `cancel_auto` was called, or another search was asked for.
        """
        return self._searches.find(self._searches.begin(objective_of(objective, self.mesh).name))

    def exact_regrets(self) -> Any:
        """Searches for what each decision of the fastest layout costs otherwise, and shows it.

        Returns:
            The regrets, as of `Choice.exact_regrets`.

        Raises:
            ExplorerError: no search has found the fastest layout for the board as it is.
            Cancelled: `cancel_auto` was called, or another search was asked for.
        """
        if self.fastest is None:
            raise ExplorerError('exact_regrets() is told of the fastest layout; call explorer.auto("time") first.')
        return self._regrets.find(self.fastest)

    def run(self, steps: int | None = None) -> Run:
        """Trains under the present layout, in the background.

        Args:
            steps: how many steps; by default what the training says.

        Returns:
            The run: `.wait()`, `.cancel()`, `.losses`, `.result`.

        Raises:
            ExplorerError: there is nothing to train on, or a run is going on already.
        """
        with self.lock:
            answer = self.apply(Start(steps))
            if isinstance(answer, Refused):
                raise ExplorerError(f"{answer.reason} {answer.fix}".strip())
            return self._runs.all[-1]

    # The one door

    def apply(self, intent: Intent) -> Outcome:
        """Carries out an intent.

        Args:
            intent: the intent.

        Returns:
            `Accepted` with the new revision, or `Refused` with a reason and a fix; nothing changes then.
        """
        with self.lock:
            if isinstance(intent, Select):
                return self._select(intent)
            if isinstance(intent, Baseline):
                return self._compare_with(intent.document or self._initial)
            if isinstance(intent, Beside):
                return self._show_beside(intent)
            if isinstance(intent, Start):
                if self.training and self.document.resized:
                    return Refused("The data have the sizes that the program was traced with.", "Undo the resizing.")
                refusal = self._runs.start(intent.steps, self.plan, self.document, self._revision, self._run_changed)
                return self._run_changed() if refusal is None else refusal
            if isinstance(intent, Cancel):
                refusal = self._runs.cancel()
                return Accepted(self._revision, self.plan) if refusal is None else refusal
            if isinstance(intent, Auto | SearchRegrets | CancelAuto):
                refusal = self._search_for(intent)
                return Accepted(self._revision, self.plan) if refusal is None else refusal
            if isinstance(intent, Undo) and self._tracer.active:
                self._tracer.cancel()
                return Accepted(self._revision, self.plan, note="The program stays as it is.")
            after = self._after(intent)
            if isinstance(after, Document):
                refusal = self._tracer.begin(after, lambda: self.apply(intent))
                going = Accepted(self._revision, self.plan, note="The program is traced again.")
                return going if refusal is None else refusal
            if isinstance(after, Refused):
                return after
            name = name_given(intent)
            note = note_of(self.document, after.present, intent) if isinstance(intent, Edit) else ""
            tried = self._tried.with_document(after.present, name, after.present)
            changes = ("document",) if after is not self._history else ("comparison",) if tried != self._tried else ()
            self._history, self._tried = after, tried
            self._selection = following(self._selection.kept(self.plan), intent, self.plan)
            for change in changes:
                self._changed(change)
            return Accepted(self._revision, self.plan, note=note)

    def apply_and_wait(self, intent: Intent) -> Outcome:
        """Carries out an intent, and waits where the program is traced again for it."""
        with self.lock:
            answer, tracing = self.apply(intent), self.tracing
            if isinstance(answer, Refused) or tracing is None or not self._tracer.active:
                return answer
        tracing.ended.wait()
        return answer if tracing.outcome is None else tracing.outcome

    def what_if(self, intent: Intent) -> Outcome:
        """Previews an intent, and changes nothing.

        Args:
            intent: a change of the layout or of the machine.

        Returns:
            `Accepted` with the plan and the document after it, or `Refused`.
        """
        with self.lock:
            after = self._after(intent)
            if isinstance(after, Document):
                return Refused("The program has to be traced again at these sizes before its costs are known.")
            if isinstance(after, Refused):
                return after
            return Accepted(self._revision, self.plan_at(after.present), after.present)

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Has a function called after each change, with the word for what changed.

        Args:
            listener: the function, which is given "document", "selection", "tensor" (another one is selected),
                "comparison", "search", "beside", "costs", "totals", "tracing" or "run"; it may be called from any
                thread.

        Returns:
            A function that ends the subscription.
        """
        function("subscribe()", listener, "explorer.subscribe(print)", ExplorerError)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def to_json(self) -> str:
        """Returns the present document as JSON."""
        return self.document.to_json()

    def known(self, machine: Hardware) -> str:
        """Enters the user's own machine, so that it can be chosen, and returns its name."""
        check_machines([machine])
        with self.lock:
            if self._custom.get(machine.name) != machine:
                self._custom[machine.name] = machine
                self._plans.clear()
                self.costing.forget()
                self.totals.forget()
            return machine.name

    # Internals

    def plan_at(self, document: Document) -> Any:
        """Returns the plan of a document."""
        return self._plans.of(document, self._custom)

    def _on_board(self) -> set[Document]:
        """Returns the documents whose costs stand on the board."""
        others = [self._tried.baseline, self._beside]
        shown = [self.document, *self._history.past[-1:], *(each.under(self.document) for each in others if each)]
        return {document.unpinned for document in shown}

    def _search_space(self) -> tuple[Any, Mesh, Any, Any]:
        return self.program, self.mesh, dict(self.document.pins), self.document.options

    def _after(self, intent: Intent) -> History | Refused | Document:
        """Returns the history after an intent, a document whose program must be traced first, or why it is refused."""
        history = self._history
        if isinstance(intent, Undo):
            return history.undo() if history.past else Refused("There is nothing to undo.", code="nothing")
        if isinstance(intent, Redo):
            return history.redo() if history.future else Refused("There is nothing to redo.", code="nothing")
        try:
            if isinstance(intent, TakePreset):
                intent = Load(layout_taken(self.presets, self.layout, intent.name, intent.combine))
            document = document_after(intent, history.present, self._initial, self._programs, self._custom)
            document = self._programs.normal(document)
            if not self._programs.known(document):
                return document
            document = settled(document, self._programs.at(document))
            self.plan_at(document)
        except LayoutError as error:
            return refused(error)
        except (DimError, MeshError, TraceError) as error:
            return Refused(str(error), code="invalid")
        except HardwareError as error:
            return machine_refused(error, intent, history.present, self._custom)
        return history if document == history.present else history.commit(document)

    def tell(self, what: str) -> None:
        """Calls the subscribers after a change that is not of the document: "advice", say."""
        self._changed(what)

    def _changed(self, what: str = "document") -> None:
        if what not in UNCOUNTED:
            self._revision += 1
        for listener in tuple(self._listeners):
            listener(what)

    def _select(self, intent: Select) -> Outcome:
        before, after = self._selection, selected_after(intent, self._selection, self.plan)
        if isinstance(after, Refused):
            return after
        if after != before:
            self._selection = after
            self._changed("selection" if after.place == before.place else "tensor")
        return Accepted(self._revision, self.plan)

    def _unplanned(self, document: Document) -> Refused | None:
        """Returns why a document that is not on the board has no plan, or None where it has one."""
        if not self._programs.known(document):
            return Refused("The program has to be traced again for this document.", "Restore it first.")
        try:
            self.plan_at(document)
        except LayoutError as error:
            return refused(error)
        return None

    def _show_beside(self, intent: Beside) -> Outcome:
        document, other = intent.document, None
        try:
            if intent.preset:
                taken = layout_taken(self.presets, self.layout, intent.preset, combine=False)
                document = dataclasses.replace(self.document, layout=taken)
        except LayoutError as error:
            return refused(error)
        if document is not None:
            refusal = self._unplanned(document)
            if refusal is not None:
                return refusal
            label = next((each.label for each in self.presets if each.name == intent.preset), "")
            other = self._tried.known(document) or TriedLayout(-1, label or str(document.layout) or "empty", document)
        if other != self._beside:
            self._beside = other
            self._changed("beside")
        return Accepted(self._revision, self.plan)

    def _compare_with(self, document: Document) -> Outcome:
        refusal = self._unplanned(document)
        if refusal is not None:
            return refusal
        if document != self._tried.compared_with:
            self._tried = self._tried.with_baseline(document, self.document)
            self._changed("comparison")
        return Accepted(self._revision, self.plan)

    def _search_for(self, intent: Auto | SearchRegrets | CancelAuto) -> Refused | None:
        if isinstance(intent, Auto):
            return self._searches.start(intent.objective)
        if isinstance(intent, SearchRegrets):
            return self._regrets.start(self.fastest)
        refusal = self._searches.cancel()
        return None if refusal is None else self._regrets.cancel()

    def _searched(self):
        search = self.comparison
        if search is None or search.phase == SEARCHING:
            self._regrets.forget()
            self.reasons.forget()
        elif search.phase == FOUND:
            best = dataclasses.replace(self.document, layout=search.choice.plan.layout)
            self._tried = self._tried.with_document(best, f"Auto ({search.objective})", self.document)
        self._changed("comparison")

    def _costed(self, what: str = "costs"):
        with self.lock:
            self._changed(what)

    def _run_changed(self) -> Accepted:
        with self.lock:
            self._changed("run")
            return Accepted(self._revision, self.plan)
