"""The state of an Explorer: a program and a mesh, a layout that changes by gestures, and the plan that follows at once.

    state.documents         the document on the board, those before and after it, and the plan of each
    state.costs, .totals    what they cost
    state.runs, .searches   what goes on in the background
    state.changes           the revision, and who is told

Each part is whole without the others, and knows nothing of what is shown; `views` makes JSON-like data of them.
`handlers.py` changes them, and `explorer.py` is their public face.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from ...auto.objective import objective_of
from ...cost.machines.hardware import Hardware, HardwareError
from ...cost.machines.meshes import machine_of
from ...cost.step_time.time import Time
from ...engine.argument_checks import function
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...goals.conditions import Cost, donated, platform_of
from ...goals.goals import Goal
from ...layouts.naming import Named
from ...training.feeding import Training, check_training
from ..background.curves import Curves
from ..background.latest import Latest
from ..background.models import NO_MODELS, Listing, Models
from ..background.one_by_one import Background
from ..background.partitioned import Partitioned
from ..background.reasons import Reasons
from ..documents.costing import PATIENCE, Costing, costs_of
from ..documents.document import Document, ExplorerError, Source, check_machines, check_opened
from ..documents.documents import Documents, named_key
from ..documents.history import History
from ..documents.intents import Accepted, Intent, Outcome, Refused
from ..documents.presets import short_name
from ..documents.retraced import Tracer
from .advice import Adviser
from .changes import Changes
from .looks import Looks
from .marks import Marks
from .prices import point_of, previewed
from .profiles import Profiles
from .regret_searches import RegretSearches
from .runs import Runs
from .saved_boards import Offer
from .searches import FOUND, SEARCHING, Searches
from .selection import Selection, places_of
from .task import Task
from .totals import KnownTotals
from .tried import Tried, TriedLayout, titles_of


class ExplorerState:
    """The state of an Explorer; see `Explorer` for its arguments.

    Attributes:
        changes: the revision, and who is told of changes.
        lock: guards all of it.
        documents: the present document, the history, and the plans.
        costs: predicted costs of documents on their machines.
        totals: of the layouts that were tried.
        wanted: the goal: what the layout has to meet; None for nothing.
        task: what is to be done, and a number that is predicted before any is shown; None for none.
        peaks: predicted for the machine that the goal names, where the board's is of another platform.
        tried: the layouts that were tried, and the baseline among them.
        offer: the board that was saved with the cell before it ran again, until the board is changed.
        other: the layout that is shown beside the present one; None where there is none.
        selection: what is selected, in all views.
        tracer: traces the program again at other sizes.
        runs: all runs, oldest first.
        looks: at values of the latest run's last step.
        profiles: what the step took, measured.
        writing: the program of each device, as Python.
        searches: for the best layout.
        regrets: the searches for what the decisions of the fastest layout cost otherwise.
        reasons: why that is the fastest.
        adviser: works out which change helps most.
        marks: the colours of mesh axes.
        listing: the models to choose from.
        curves: the costs over the sizes of a dim or of a mesh axis.
        partitioned: what XLA's own partitioner makes of the layout's shardings.
        tab: that which pages were sent to last, and how often they were sent to one.
        height: of the workbench in a notebook, in CSS pixels.
    """

    def __init__(
        self, program: Any, mesh: Any, layout: Any = None, run: Training | None = None, models: Models = NO_MODELS
    ):
        check_opened(program, mesh)
        if run is not None:
            check_training(run, program)
        changes = self.changes = Changes()
        self.lock = changes.lock
        documents = self.documents = Documents(program, mesh, layout, self.lock, models)
        background = self._background = Background()
        operations = documents.programs.operations(documents.present)
        self.costs = Costing(
            documents.plan_at,
            costs_of,
            lambda: changes.tell("costs"),
            operations=operations,
            patience=PATIENCE,
            background=background,
            held=self._on_board,
            drop=documents.plans.forget,
        )
        self.totals = KnownTotals(documents.plan_at, self.costs, background, lambda: changes.tell("totals"))
        self.wanted: Goal | None = None
        self.task: Task | None = None
        self.peaks = Costing(
            documents.plan_at,
            self._peak_wanted,
            lambda: changes.tell("goal"),
            operations=operations,
            patience=PATIENCE,
            background=background,
            held=self._on_board,
            drop=lambda document: None,
        )
        self.tried = Tried.opened(documents.opened)
        self._named: dict[int, list[str]] = {}  # by the number of a layout that was tried
        self.offer: Offer | None = None
        self.other: TriedLayout | None = None
        self.selection = Selection(next(iter(places_of(program)), None))
        self.tracer = Tracer(documents.programs, self.lock, lambda: changes.tell("tracing"))
        self.runs = Runs(run)
        self.looks = Looks(self.lock, lambda: changes.tell("look"))
        self.profiles = Profiles(self.lock, lambda: changes.tell("profile"))
        self.writing = Latest(self.lock, lambda: None)  # a page asks for it again until it is there
        self.searches = Searches(self._search_space, self.lock, self._searched, lambda: changes.tell("search"))
        self.regrets = RegretSearches(self.lock, lambda: changes.tell("search"))
        self.reasons = Reasons(lambda: self.searches.fastest, Background(), lambda: changes.tell("search"))
        self.adviser = Adviser(documents, self.lock, lambda: changes.tell("advice"))
        self.marks = Marks()
        self.listing = Listing(models, self.lock, lambda: changes.tell("models"))
        present, plan = (lambda: documents.present.unpinned), (lambda: documents.plan)
        resized = functools.partial(point_of, documents)
        self.curves = Curves(present, plan, resized, self.lock, lambda: changes.tell("curve"))
        self.partitioned = Partitioned(present, plan, self.lock, lambda: changes.tell("xla"))
        self.tab: tuple[str, int] = "", 0
        self.height = 600
        self._source = Source.of(program) if models.opened is None else Source.of_model(models.opened)

    # What is on the board

    @property
    def document(self) -> Document:
        """The present document."""
        return self.documents.present

    @property
    def source(self) -> Source:
        """Where the program is from."""
        model, opened = self.document.model, self.documents.programs.models.opened
        return self._source if model is None or model == opened else Source.of_model(model)

    @source.setter
    def source(self, source: Source) -> None:
        self._source = source

    @property
    def history(self) -> History:
        """The documents before and after the present one."""
        return self.documents.history

    @property
    def program(self) -> Any:
        """The program, with the present sizes and names of its dims."""
        return self.documents.program

    @property
    def layout(self) -> Layout:
        """The present layout."""
        return self.document.layout

    @property
    def plan(self) -> Any:
        """The plan of the present layout."""
        return self.documents.plan

    @property
    def name(self) -> str:
        """What the layout is called, by its plan: "FSDP over data + TP over model"; "" where it has no name."""
        return str(self.documents.name_of(self.document) or "")

    def name_soon(self) -> tuple[bool, Named | None]:
        """Returns whether the layout's name is known, and the name; what takes longer follows, and is told."""
        key = named_key(self.document)
        return self.documents.names.soon(key, self._background, lambda: self.changes.tell("name"))

    def titles(self) -> dict[int, str]:
        """Returns what the layouts that were tried are called, by number: by people, by their plans, or by number."""
        return titles_of(self.tried, self._own_names)

    def _own_names(self, tried: TriedLayout) -> list[str]:
        """Returns what a layout is called by its plan; what takes longer follows, and is told."""
        if tried.number not in self._named:
            document, names = tried.under(self.document), self.documents.names
            if not self.documents.programs.known(document):
                return []
            key, tell = named_key(document), lambda: self.changes.tell("name")
            known, name = names.soon(key, self._background, tell, aside=True)
            if not known:
                return []
            self._named[tried.number] = [] if name is None else [short_name(name), str(name)]
        return self._named[tried.number]

    def plan_at(self, document: Document) -> Any:
        """Returns the plan of a document."""
        return self.documents.plan_at(document)

    @property
    def mesh(self) -> Mesh:
        """The mesh, on the machine that is chosen at present."""
        return self.plan.mesh

    @property
    def time(self) -> Time:
        """The predicted time of a step, under the assumptions of the document.

        Raises:
            HardwareError: no machine is chosen, or it lacks a figure that is needed.
        """
        document = self.document
        machine_of(self.mesh, "explorer.time", "explorer.on")
        costs = self.costs.of(document)
        if costs.time is None:
            raise HardwareError(costs.missing)
        return costs.time

    @property
    def revision(self) -> int:
        """The number of changes so far."""
        return self.changes.revision

    @property
    def selected(self) -> str | None:
        """The place whose slices are shown."""
        return self.selection.place

    def before(self, best: Layout) -> TriedLayout | None:
        """Returns the layout that was on the board before that of a search was; None where it is not there."""
        return self.tried.before(self.history) if best == self.layout else None

    @property
    def choice(self) -> Any:
        """The `Choice` of the latest search, while it holds for what is on the board; None where there is none."""
        return self.searches.choice

    # Searches

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
        return self.searches.find(self.searches.begin(objective_of(objective, self.mesh).name))

    def exact_regrets(self) -> Any:
        """Searches for what each decision of the fastest layout costs otherwise, and shows it.

        Returns:
            The regrets, as of `Choice.exact_regrets`.

        Raises:
            ExplorerError: no search has found the fastest layout for the board as it is.
            Cancelled: `cancel_auto` was called, or another search was asked for.
        """
        fastest = self.searches.fastest
        if fastest is None:
            raise ExplorerError('exact_regrets() needs the fastest layout; call explorer.auto("time") first.')
        return self.regrets.find(fastest)

    # Others

    def what_if(self, intent: Intent) -> Outcome:
        """Previews an intent, and changes nothing.

        Args:
            intent: a change of the layout or of the machine.

        Returns:
            `Accepted` with the plan and the document after it, or `Refused`.
        """
        with self.lock:
            document = previewed(self.documents, intent)
            if isinstance(document, Refused):
                return document
            return Accepted(self.revision, self.documents.plan_at(document), document)

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Has a function called after each change, with the word for what changed.

        Args:
            listener: the function, which is given one of the words of `state/changes.py`: "document", "selection",
                "costs", …; it may be called from any thread.

        Returns:
            A function that ends the subscription.
        """
        function("subscribe()", listener, "explorer.subscribe(print)", ExplorerError)
        return self.changes.subscribe(listener)

    def to_json(self) -> str:
        """Returns the present document as JSON."""
        return self.document.to_json()

    def known(self, machine: Hardware) -> str:
        """Enters the user's own machine, so that it can be chosen, and returns its name."""
        check_machines([machine])
        with self.lock:
            if self.documents.enter(machine):
                self.curves.forget()
                self.costs.forget()
                self.totals.forget()
            return machine.name

    # What parts need of each other

    def has_another_model(self) -> None:
        """Takes note that another model is on the board: nothing of the one before stands beside it."""
        present, operations = self.document, self.documents.programs.operations(self.document)
        self.looks.forget()
        self.profiles.forget()
        self.documents.slow = self.documents.is_slow
        for costing in (self.costs, self.peaks, self.documents.names):
            costing.expect(operations)
        first = next((each.document for each in self.tried if each.document.model == present.model), present)
        self.tried, self.other = self.tried.with_baseline(first, present), None

    def _on_board(self) -> set[Document]:
        """Returns the documents whose costs stand on the board."""
        others = [self.tried.baseline, self.other]
        shown = [self.document, *self.history.past[-1:], *(each.under(self.document) for each in others if each)]
        return {document.unpinned for document in shown}

    def _peak_wanted(self, plan: Any, document: Document) -> Cost:
        machine = None if self.wanted is None else self.wanted.machine
        platform = platform_of(plan.mesh) if machine is None else machine.platform
        memory = donated(plan, platform, document.options.attention)
        why = memory.because  # the memory itself is not kept
        return Cost(memory.peak_bytes, lambda: why)

    def _search_space(self) -> tuple[Any, Mesh, Any, Any]:
        return self.program, self.mesh, self.document.kept, self.document.options

    def _searched(self):
        search = self.searches.last
        if search is None or search.phase == SEARCHING:
            self.regrets.forget()
            self.reasons.forget()
        elif search.phase == FOUND:
            best = dataclasses.replace(self.document, layout=search.choice.plan.layout)
            self.tried = self.tried.with_document(best, f"Auto ({search.objective})", self.document)
        self.changes.tell("comparison")
