"""Gestures of the board as methods, so that a script can do whatever a mouse can.

A gesture makes an intent and hands it to `apply`, the one door; the board does the same. Each returns `Accepted` or
`Refused`, which is false, with the reason and what would fit:

    >>> if not explorer.place("rows", "model"):
    ...     explorer.place("hidden", "model")
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from ...cost.machines.hardware import Hardware
from ...cost.machines.placed import AxisPlacement
from ...engine.argument_checks import flag
from ...engine.errors import shown
from ...engine.plans.remedies import Remedy
from ...engine.specs.layout import Layout
from ...engine.tensors.dims import Dim, name_of
from ...own.report import Report
from ..background.curves import AXIS, DIM, Curve
from ..documents.document import Document, ExplorerError
from ..documents.intents import (
    Assume,
    Baseline,
    Beside,
    CancelCurve,
    CancelXla,
    Intent,
    Lay,
    ListModels,
    Load,
    MergeAxes,
    On,
    Open,
    Outcome,
    Pad,
    Place,
    Redo,
    Refused,
    Remove,
    RenameAxis,
    RenameDim,
    Reset,
    ResizeAxis,
    ResizeDim,
    Restore,
    Select,
    SplitAxis,
    TakePreset,
    TakeRemedy,
    TogglePreset,
    Undo,
)
from ..presets.buttons import KINDS
from .explorer_state import ExplorerState
from .handlers import apply


class Gestures(ExplorerState):
    """Gestures as methods."""

    def apply(self, intent: Intent) -> Outcome:
        """Carries out an intent.

        Args:
            intent: the intent.

        Returns:
            `Accepted` with the new revision, or `Refused` with a reason and a fix; nothing changes then.
        """
        return apply(self, intent)

    def apply_and_wait(self, intent: Intent) -> Outcome:
        """Carries out an intent, and waits where the program is traced again for it."""
        with self.lock:
            answer, tracing = self.apply(intent), self.tracer.last
            if isinstance(answer, Refused) or tracing is None or not self.tracer.active:
                return answer
        tracing.ended.wait()
        return answer if tracing.outcome is None else tracing.outcome

    def place(
        self, dim: Dim | str, *axes: str, at: str | None = None, source: str | None = None, pad: bool = False
    ) -> Outcome:
        """Shards a dim over exactly these mesh axes.

        Args:
            dim: the dim or its name.
            axes: mesh axes, major first; none takes the dim's rule away.
            at: a place (`"params/*"`): a rule for how the values there are stored.
            source: the place whose rule for the dim this one replaces, as a chip is moved; "" for the compute rules.
            pad: whether dims that their axes do not divide are padded from then on, as `pad(True)` has it.

        Returns:
            `Accepted`, or `Refused` with the reason; nothing changes then.
        """
        name = self._dim_and_place(dim, at)
        wrong = [axis for axis in axes if not isinstance(axis, str)]
        if wrong:
            raise ExplorerError(
                f"place() was given {shown(wrong[0])} for a mesh axis; write their names one by one:"
                f' explorer.place("{name}", "data", "model").'
            )
        has_rule = axes or (at is None and name in self.program.dims)
        if source is not None and not isinstance(source, str):
            raise ExplorerError(f'place() was given the source {shown(source)}; it must be a place, or "" for compute.')
        pads = flag("place()", "pad", pad, ExplorerError)
        return self.apply(Place(name, tuple(axes), at, source, pads) if has_rule else Remove(name, at))

    def remove(self, dim: Dim | str, at: str | None = None) -> Outcome:
        """Takes a dim's rule out of the layout."""
        return self.apply(Remove(self._dim_and_place(dim, at), at))

    def _dim_and_place(self, dim: Dim | str, at: str | None) -> str:
        """Returns the name of a dim, and checks its size and the place."""
        if at is not None and not isinstance(at, str):
            raise ExplorerError(f'A rule was given the place {shown(at)}; it must be a text, such as "params/*".')
        name = name_of(dim, "The Explorer")
        size = self.program.dims.get(name)
        if isinstance(dim, Dim) and size not in (None, dim.size):
            raise ExplorerError(
                f"`{name}` has size {size:,} in this program, and was given as a dim of size {dim.size:,}. Name it"
                f' "{name}", or trace the program at that size.'
            )
        return name

    def undo(self) -> Outcome:
        """Goes one change back."""
        return self.apply(Undo())

    def redo(self) -> Outcome:
        """Takes back an undo."""
        return self.apply(Redo())

    def reset(self) -> Outcome:
        """Goes back to the layout that the Explorer was opened with."""
        return self.apply(Reset())

    def preset(self, name: str, combine: bool = False) -> Outcome:
        """Takes a preset of `ml.layouts`, in place of the present layout or combined with it (`&`).

        Args:
            name: "data_parallel", "fsdp", …
            combine: whether the present layout stays as well.
        """
        return self.apply(TakePreset(name, combine))

    def toggle(self, name: str, over: str | None = None) -> Outcome:
        """Puts a preset of `ml.layouts` beside what is on the board, or takes it away where it is there.

        A preset of the same kind makes room for it: FSDP takes the place of ZeRO, and stands beside TP.

        Args:
            name: "data_parallel", "fsdp", …
            over: its mesh axis; by default the one that it finds by its name.
        """
        return self.apply(TogglePreset(name, over))

    def remedy(self, remedy: Remedy) -> Outcome:
        """Changes the layout as a remedy says: `explorer.remedy(explorer.plan.collectives[0].remedies[0])`."""
        if not isinstance(remedy, Remedy) or not remedy.changes:
            raise ExplorerError(
                f"remedy() was given {shown(remedy)}; it must be one of a collective's remedies that has changes."
            )
        return self.apply(TakeRemedy(remedy.changes))

    def restore(self, document: str) -> Outcome:
        """Replaces layout, mesh and machine by those of a document, as `to_json` gave it."""
        return self.apply_and_wait(Restore(document))

    def load(self, layout: Any, name: str = "") -> Outcome:
        """Replaces the whole layout.

        Args:
            layout: the layout, in any of its spellings.
            name: by which the comparison calls it; by default a number.
        """
        if not isinstance(name, str):
            raise ExplorerError(f'load() was given {shown(name)} for a name; it must be a text, such as "fsdp".')
        return self.apply(Load(Layout.of(layout).to_dict(), name))

    def baseline(self, baseline: Any = None) -> Outcome:
        """Compares all layouts with this one; undo does not touch it.

        Args:
            baseline: a layout in any of its spellings, a document, or a name in `explorer.tried`; None for the layout
                that the Explorer was opened with.
        """
        text = None if baseline is None else self._document_of(baseline, "baseline").to_json()
        return self.apply(Baseline(text))

    def beside(self, other: Any = None) -> Outcome:
        """Shows another layout beside the present one on the stage; the board, and what undo goes to, stay.

        Args:
            other: a layout in any of its spellings, a document, a name in `explorer.tried`, or a preset; None to show
                the present one alone again.
        """
        if isinstance(other, str) and other in KINDS:
            return self.apply(Beside(preset=other))
        text = None if other is None else self._document_of(other, "beside").to_json()
        return self.apply(Beside(text))

    def _document_of(self, named: Any, method: str) -> Document:
        return self.tried.document_of(named, self.document, method, self.titles())

    def on(self, machine: str | Hardware | None, /, **along: AxisPlacement) -> Outcome:
        """Places the mesh on a machine, so that times are predicted and peak memory is compared with its capacity.

        Args:
            machine: as `ml.mesh` takes it, "v5e" or "v5e:4x4"; one's own; or None for no machine.
            along: placements of mesh axes, as `ml.lay` takes them; all others are derived.

        Returns:
            `Accepted`, or `Refused` with the slice that would fit; nothing changes then.
        """
        name = self.known(machine) if isinstance(machine, Hardware) else machine
        return self.apply(On(name, along))

    def lay(self, **along: AxisPlacement | None) -> Outcome:
        """Chooses which axis of the torus mesh axes run along, or whether inside or across nodes.

        Args:
            along: for mesh axes, the axis of the slice, or several, major first; behind switches "inside" a node or
                "across" nodes; None to derive it. Axes that are not named stay as they are.
        """
        return self.apply(Lay(along))

    def rename_axis(self, axis: str, name: str) -> Outcome:
        """Calls a mesh axis otherwise; the layout, pins and the placement follow."""
        return self.apply(RenameAxis(axis, name))

    def split_axis(self, axis: str, outer: int, name: str) -> Outcome:
        """Makes two mesh axes of one; rules over it become rules over both, major first.

        Args:
            axis: the mesh axis, which keeps its name for the inner part.
            outer: the size of the outer part.
            name: the name of the outer part.
        """
        return self.apply(SplitAxis(axis, outer, name))

    def merge_axes(self, *axes: str, name: str | None = None) -> Outcome:
        """Makes one mesh axis of several, which must stand side by side in every rule that has one of them.

        Args:
            axes: the mesh axes, major first.
            name: of the new one; by default that of the last.
        """
        return self.apply(MergeAxes(axes, name))

    def resize_axis(self, axis: str, size: int, pad: bool = False) -> Outcome:
        """Gives a mesh axis another size; the layout stays.

        Args:
            axis: the mesh axis.
            size: its new size.
            pad: whether dims that it does not divide are padded from then on, as `pad(True)` has it.
        """
        return self.apply(ResizeAxis(axis, size, pad))

    def resize_dim(self, dim: Dim | str, size: int) -> Outcome:
        """Gives a dim another size: the program is traced again with its arguments resized, which this waits for.

        Returns:
            `Accepted`, or `Refused` with the line of the function that closes over a size; nothing changes then.
        """
        return self.apply_and_wait(ResizeDim(name_of(dim, "The Explorer"), size))

    def open(self, model: str, **sizes: int) -> Outcome:
        """Opens a model in place of the program, which this waits for; mesh, machine and what fits of the layout stay.

        Args:
            model: its name, of `ml.named_models()`.
            sizes: of its dims, where they are not its own: `batch=32`.

        Returns:
            `Accepted`, whose note says what became of the layout, or `Refused`; nothing changes then.
        """
        if not isinstance(model, str):
            raise ExplorerError(f'open() was given {shown(model)} for a model; write its name: "llama3-8b".')
        return self.apply_and_wait(Open(model, sizes))

    def curve(self, name: Dim | str) -> Curve:
        """Works out what a step costs over the sizes of a dim, or of a mesh axis, and shows it.

        Args:
            name: of the dim; or of a mesh axis, where no dim has that name.

        Returns:
            The curve: its `points`, each with its size, seconds, peak and bytes, or why the layout does not fit there.
            One that was cancelled, or whose board has changed meanwhile, has those that were there by then.

        Raises:
            MeshlabError: there is no such dim or mesh axis, or it cannot have other sizes.
        """
        named = name_of(name, "The Explorer")
        is_axis = named in self.mesh.axes and named not in {**self.program.dims, **self.program.made_up}
        return self.curves.of(AXIS if is_axis else DIM, named)

    def cancel_curve(self) -> Outcome:
        """Stops working out a curve; its points so far stay."""
        return self.apply(CancelCurve())

    def xla(self) -> Report:
        """Compiles what XLA's own partitioner makes of the layout's shardings, and puts it beside the plan in Traffic.

        Returns:
            The report: `report.beside` is the comparison, `report.collectives` why each of XLA's collectives is there.

        Raises:
            MeshlabError: XLA takes no such layout (one that pads, or has an axis in time), refuses the program, or was
                cancelled; or the board shows another layout by now.
        """
        return self.partitioned.wait()

    def cancel_xla(self) -> Outcome:
        """Stops compiling what XLA's partitioner makes of the layout's shardings."""
        return self.apply(CancelXla())

    def list_models(self) -> Outcome:
        """Lists the models that can be opened on the board, in the background; `ml.named_models()` has them at once."""
        return self.apply(ListModels())

    def rename_dim(self, dim: Dim | str, name: str) -> Outcome:
        """Calls a dim otherwise, such as one whose name was made up (`"~seq"`); rules and pins follow."""
        return self.apply(RenameDim(name_of(dim, "The Explorer"), name))

    def pad(self, pad: bool) -> Outcome:
        """Sets whether dims that their axes do not divide are padded; without, they are refused."""
        return self.apply(Pad(flag("pad()", "pad", pad, ExplorerError)))

    def assume(self, attention: str | None = None, prefetch: bool | None = None) -> Outcome:
        """Sets the assumptions under which costs are predicted.

        Args:
            attention: "default", "stored", "flash" or "causal"; see `Options`.
            prefetch: whether loops gather sharded weights one iteration ahead.
        """
        return self.apply(Assume(attention, prefetch))

    def select(
        self,
        place: str | UnsetType = UNSET,
        *,
        dim: Dim | str | UnsetType | None = UNSET,
        device: int | UnsetType | None = UNSET,
        collective: str | UnsetType | None = UNSET,
    ) -> Outcome:
        """Selects, for all views; what is not named stays selected.

        Args:
            place: of the tensor whose slices are shown device by device, such as `params/w1`.
            dim: a dim, which is marked wherever it stands; None for none.
            device: the number of a device; None for none.
            collective: a collective, by its name in the view; None for none.
        """
        if place is not UNSET and not isinstance(place, str):
            raise ExplorerError(f'select() was given {shown(place)}; it must be a place, such as "params/w1".')
        name = dim if dim is None or dim is UNSET else name_of(dim, "The Explorer")
        moment = UNSET if collective is UNSET else None
        return self.apply(Select(place, name, device, collective, moment))
