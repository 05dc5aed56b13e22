"""The Explorer, as users have it: the state, and its views, charts, snapshot and widget.

Every gesture of the board is a method, so that whatever is done with the mouse can be done, and tested, in a script:

    >>> explorer = ml.explore(program, ml.mesh(data=2, model=2))
    >>> explorer.place("hidden", "model")
    Accepted: revision 1
    >>> explorer.plan.wire_bytes
    4000
    >>> explorer.place("rows", "model")
    Refused: `rows` and `hidden` cannot both be on `model`: both are dims of `dot_general`. Put one ...
    >>> explorer.undo()
    Accepted: revision 2

At the end of a cell it shows itself. Plotly and the notebook's packages are imported when they are first needed, so
that a script can explore without them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from ..cost.machines.hardware import Hardware
from ..engine.argument_checks import flag
from ..engine.errors import shown
from ..engine.tensors.dims import Dim
from ..goals.goals import Goal, Verdict, check_goal
from ..training.feeding import Training
from .background.models import NO_MODELS, Models
from .documents.costing import CostsFailed
from .documents.document import ExplorerError, check_machines, write
from .documents.intents import Outcome, Predict
from .documents.machines import machine_on, mesh_on
from .documents.retraced import document_of
from .render.plotly_charts import figure
from .render.print.figures import PAGE, print_figure
from .render.snapshot import Snapshot
from .state.saved_boards import board_text, read_board
from .state.task import Task, is_number
from .state.tried_gestures import TriedGestures
from .tables.needed import REASONS
from .tables.table import Table
from .tables.tables import table_of
from .views.address import address_of, go
from .views.board import board_view
from .views.forms.forms import Written, written
from .views.goal import verdict_of

if TYPE_CHECKING:
    from .frozen.share import Shared


class Explorer(TriedGestures):
    """A layout that is being explored.

    Args:
        program: the program, from `ml.trace`.
        mesh: the mesh, on a machine or on none.
        layout: the layout to begin with.
        run: the training that the Run button runs.
        models: the models that it can open besides.

    Raises:
        LayoutError: the layout does not fit the program and the mesh.
        ExplorerError: the program or the mesh is invalid, or `run` does not fit the program.
    """

    _session: Any = None

    @classmethod
    def from_json(
        cls,
        text: str,
        program: Any,
        run: Training | None = None,
        machines: Sequence[Hardware] = (),
        models: Models = NO_MODELS,
    ) -> Self:
        """Opens a document that `to_json` wrote, or a board that `save` did.

        Args:
            text: the JSON.
            program: the program that it was written for.
            run: the training that the Run button runs.
            machines: the user's own machines, of which the document has the names only.
            models: the models that it can open besides, of which the document may name one.

        Raises:
            ExplorerError: the document or the program is invalid, or has other dims than the other.
            HardwareError: its machine is not known here.
        """
        check_machines(machines)
        document = document_of(text, program, models)
        if models is NO_MODELS:  # the program is the one that the document names
            models = Models(document.model)
        custom = {machine.name: machine for machine in machines}
        mesh = mesh_on(document.machine, document.mesh, custom)
        explorer = cls(program, mesh, dataclasses.replace(document, machine=machine_on(mesh)[0]), run, models)
        for machine in machines:
            explorer.known(machine)
        explorer.tried = read_board(text, explorer.documents).opened()
        return explorer

    def view(self, wait: bool = True) -> dict:
        """Returns everything that the board draws, as JSON-like data.

        Args:
            wait: whether to wait for costs that take long; otherwise they are left out, and follow.
        """
        wait = flag("view()", "wait", wait, ExplorerError)
        if wait and self.document.machine:
            with contextlib.suppress(CostsFailed):  # the board says so
                self.costs.shown(self.document)
        if wait:
            verdict_of(self, wait=True)
            self.documents.name_of(self.document)
        for document in self.tried.documents(self.document) if wait else ():
            self.totals.of(document)
        return board_view(self)

    @property
    def goal(self) -> Verdict | None:
        """How far the present layout meets the goal, condition by condition; None where the board has no goal.

        It waits for costs, where the goal has a condition on them.
        """
        return verdict_of(self, wait=True)

    def set_goal(self, goal: Goal | None) -> None:
        """Sets what the layout has to meet, in place of the goal before; None takes it away.

        Args:
            goal: the goal, from `ml.goal`.

        Raises:
            MeshlabError: it is not a goal, or asks for dims, places, axes or a machine that the board lacks; all are
                listed.
        """
        check_goal(goal)
        with self.lock:
            if goal is not None:
                goal.refuse(self.program, self.mesh)
            self.wanted = goal
            self.peaks.forget()
            self.changes.tell("goal")

    def set_task(self, task: Task | None) -> None:
        """Puts a task above the board; if it asks for a number, the reader predicts it before any figure is shown.

        Args:
            task: the task, as puzzles have one; None takes it away.
        """
        with self.lock:
            self.task = task
            if task is not None:
                task.prediction.follow(lambda: self.changes.tell("task"))
            self.changes.tell("task")

    def predict(self, number: float) -> Outcome:
        """Predicts the number that the board asks for; the first prediction counts, wherever it was made.

        Returns:
            `Accepted`; `explorer.task.right` says then whether it was right. Or `Refused`: nothing is asked for, or a
            prediction was made before.
        """
        if not is_number(number):
            raise ExplorerError(f"predict() was given {shown(number)}; it must be a number, without its unit.")
        return self.apply(Predict(float(number)))

    def figure(
        self, name: str = "communication", width_mm: float | None = None, caption: bool = True, height_mm: float = PAGE
    ) -> Any:
        """Returns one of the board's figures: for print where it is given a width, else a chart of Plotly's.

        Args:
            name: "communication", "lines", "memory", "moments", "time", "roofline", "comparison", "waterfall" (from the
                layout on the board to Auto's) or "loss"; for print also "board", "layout", "devices" and "timeline".
            width_mm: the width in millimetres; 85 is a column of most papers.
            caption: whether the figure has its caption in it; else it is its `caption` alone.
            height_mm: of a figure for print, its height at most, by default a page. Of the program as many rows are
                drawn as fit, of the board as many parts, and the caption says what is left out.

        Returns:
            A `PrintFigure`, which is saved as SVG, PDF or PNG; without a width a `plotly.graph_objects.Figure`.

        Raises:
            ExplorerError: no figure has that name, it has nothing to draw yet, or it is higher and cannot be cut.
        """
        view = self._worked_out(name)
        with self.lock:
            if width_mm is not None:
                return print_figure(name, self, view, width_mm, words=caption, height_mm=height_mm)
            return figure(name, self, view)

    def table(self, name: str) -> Table:
        """Returns the numbers of a figure as rows: raw, with their units in the names of the columns.

        Args:
            name: that of a figure, "board" aside; or "collectives", "regrets" or "runs".

        Returns:
            A list of mappings, which writes itself as CSV and as JSON.

        Raises:
            ExplorerError: no table has that name, or it has no rows yet.
        """
        view = self._worked_out(name)
        with self.lock:
            return table_of(name, self, view)

    def _worked_out(self, name: str) -> dict:
        """Returns the view, with what a figure or table needs besides worked out before the board is locked."""
        view = self.view()
        for reason, *about in REASONS.get(name, ()):
            self.reasons.of(reason, *(each(self) for each in about))
        return view

    def snapshot(self) -> Snapshot:
        """Returns the board as plain HTML without scripts, which a saved notebook keeps."""
        return Snapshot(self.view())

    def __repr__(self) -> str:
        if self.task is not None and self.task.locked:
            return f"Explorer(layout={str(self.layout)!r}, revision={self.revision}, asks first: {self.task.question}?)"
        sent = round(self.plan.wire_bytes)
        return f"Explorer(layout={str(self.layout)!r}, revision={self.revision}, wire bytes={sent:,})"

    @functools.cached_property
    def views(self) -> Any:
        """The views of the workbench, each for a cell of its own: `explorer.views.memory`."""
        from .notebook.standalone import Views  # noqa: PLC0415  it imports anywidget

        return Views(self)

    @property
    def session(self) -> Any:
        """The notebook's widget, one however often it is shown; another where a notebook has closed it."""
        from .notebook.session import Session  # noqa: PLC0415  it imports anywidget

        if self._session is None or not self._session.is_open:
            self._session = Session(self)
        return self._session

    @functools.cached_property
    def picture(self) -> Any:
        """The picture below the widget, which a saved notebook keeps."""
        from .notebook.saved_picture import SavedPicture  # noqa: PLC0415  it imports IPython

        return SavedPicture(self, self.session.saved)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the present document, with the layouts that were tried, their labels and notes.

        `ml.explore(..., document=path)` and `open_saved` open it again.

        Args:
            path: the file, which is replaced whole.

        Raises:
            ExplorerError: the path is not a path, or cannot be written.
        """
        with self.lock:
            text = board_text(self.document, self.tried)
        write(path, text)

    def address(self, view: str = "") -> str:
        """Returns what is shown as a text, which `go` and `ml.explore(…, address=…)` open again.

        Args:
            view: the tab, "traffic" say; by default that which was gone to last, or the first.

        Raises:
            ExplorerError: there is no such tab.

        Example:
            >>> explorer.address("traffic")
            'traffic?layout=batch:data hidden:model'
        """
        with self.lock:
            return address_of(self, view)

    def go(self, address: str) -> Outcome:
        """Goes to an address: its layout, its baseline, what it selects, and its tab, wherever the board is shown.

        Args:
            address: as `address` gives it, or a link to a shared board that ends in one.

        Returns:
            `Accepted`, or `Refused` with everything that is wrong; nothing changes then.
        """
        return go(self, address)

    def form(self, name: str) -> Written:
        """Returns the layout in a form that can be pasted elsewhere, as Export copies it.

        Args:
            name: "Python", "dict", "JSON", "jit" (for `jax.jit`, without meshlab), "PartitionSpecs", "axis rules",
                "MaxText", "Levanter" or "Mesh TensorFlow".

        Returns:
            A text, whose `lost` lists what the form cannot express.

        Raises:
            ExplorerError: there is no such form, or it can say nothing of this layout.
        """
        with self.lock:
            return written(self, name)

    def next_cell(self, form: str = "Python") -> None:
        """Puts the layout into the next cell of the notebook, in one of the forms of `form`.

        Args:
            form: the form. Comments above it list what it cannot express.

        Raises:
            ExplorerError: there is no such form, it can say nothing of this layout, or no notebook's cell runs.
        """
        from .notebook.next_cell import put_into_next_cell  # noqa: PLC0415  with the notebook's packages

        put_into_next_cell(self.form(form).cell)

    def share(
        self,
        path: str | os.PathLike[str],
        columns: Iterable[str] = (),
        limit: int = 2000,
        dims: Iterable[Dim | str] | None = None,
    ) -> Shared:
        """Writes the board into one HTML file, in which a reader drags chips without Python.

        Recorded are the layout on the board, the presets, those that were tried, what Auto has found, and what drops
        lead to, one after the other; of the rest the file says that it is not recorded.

        Args:
            path: the file, which is replaced whole.
            columns: the columns in which chips are dropped, beside compute: `"params/*"`.
            limit: how many layouts at most. Where drops lead to more, those within one drop are recorded.
            dims: of which chips are dropped; all of them by default.

        Returns:
            Which layouts the file has, and how long it is.

        Raises:
            ExplorerError: there is no such column or dim, or the file cannot be written.

        Example:
            >>> explorer.share("board.html", dims=["batch", "hidden"])
            Shared: board.html, 183 kB. 23 layouts are recorded: all that drops lead to of batch and hidden, …
        """
        from .frozen.share import share  # noqa: PLC0415  it reads the page's code

        return share(self, path, columns, limit, dims, sys.stderr)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        data, metadata = self.session._repr_mimebundle_() or ({}, {})
        return data | {"text/plain": repr(self)}, metadata

    def _ipython_display_(self) -> None:
        from .notebook.saved_picture import show  # noqa: PLC0415  it imports anywidget

        show(self)
