"""Intents that the Explorer carries out, and its answers to them.

Each gesture is a small frozen object; a method of the Explorer, a mouse and a keyboard all make the same ones:

    >>> explorer.apply(Place("hidden", ("model",)))
    Accepted: revision 3
    >>> explorer.apply(Place("rows", ("model",)))
    Refused: `rows` has size 28, which 8 does not divide. Fix: use an axis of 2, 4, 7, 14 or 28.

An answer is true or false, so that a script can write `if explorer.place(...)`. `HANDLERS` (state/handlers.py) carries
intents out. A page sends their fields, by these names and of these types; a whole document is text, as of `to_json`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from ...cost.machines.placed import AxisPlacement
from ...engine.errors import LayoutError
from ...engine.plans.remedies import Change


class Intent(Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of an Explorer."""


class Place(Intent, frozen=True):
    """Shard a dim over exactly these mesh axes, major first; at one place only where `at` names one.

    From `source` the dim's rule is taken away, "" is the compute rules; `pad` pads dims that axes do not divide.
    """

    dim: str
    axes: tuple[str, ...]
    at: str | None = None
    source: str | None = None
    pad: bool = False


class Remove(Intent, frozen=True):
    """Take a dim's rule out of the layout; at one place only where `at` names one."""

    dim: str
    at: str | None = None


class Load(Intent, frozen=True):
    """Replace the whole layout, by one in any of its spellings that may have a name among those that were tried."""

    layout: Any
    name: str = ""


class Reset(Intent, frozen=True):
    """Go back to the layout that the Explorer was opened with (a step that can be undone)."""


class TakePreset(Intent, frozen=True):
    """Take the layout of this preset of `ml.layouts`, combined with the present one or in its place."""

    name: str
    combine: bool = False


class TogglePreset(Intent, frozen=True):
    """Put a preset of `ml.layouts` beside what is on the board, or take it away; `over` None finds its axis by name."""

    name: str
    over: str | None = None


class TakeRemedy(Intent, frozen=True):
    """Change the layout as a remedy of a collective says, all at once."""

    changes: tuple[Change, ...]


class Restore(Intent, frozen=True):
    """Replace the whole document by one that was saved, as JSON."""

    document: str


class OpenSaved(Intent, frozen=True):
    """Open a board that was saved, as JSON: its document, unless `tried_alone`, and what was tried there."""

    document: str
    tried_alone: bool = False


class Undo(Intent, frozen=True):
    """Go to the document before."""


class Redo(Intent, frozen=True):
    """Go to the document that was undone last."""


class Baseline(Intent, frozen=True):
    """Compare all layouts with that of this document; None for the one that the Explorer was opened with."""

    document: str | None = None


class Beside(Intent, frozen=True):
    """Show the layout of this document, or of this preset, beside the one on the board; with neither, none."""

    document: str | None = None
    preset: str = ""


class Label(Intent, frozen=True):
    """Give a layout that was tried, `of` this name or number ("#4"), this label and this note; unset they stay."""

    of: str
    label: str | UnsetType = UNSET
    note: str | UnsetType = UNSET


class Forget(Intent, frozen=True):
    """Delete layouts that were tried, of these names or numbers; undo brings them back."""

    of: tuple[str, ...]


class Select(Intent, frozen=True):
    """Select the tensor at a place, a dim, a device, a collective or a moment; None releases one, unset it stays."""

    place: str | UnsetType | None = UNSET
    dim: str | UnsetType | None = UNSET
    device: int | UnsetType | None = UNSET
    collective: str | UnsetType | None = UNSET
    moment: str | UnsetType | None = UNSET


class On(Intent, frozen=True):
    """Place the mesh on this machine, `name` or `name:shape`, its axes along these; None for no machine."""

    machine: str | None
    along: Mapping[str, AxisPlacement] = {}


class Lay(Intent, frozen=True):
    """Place mesh axes along these axes of the slice, the others as they are; None releases an axis."""

    along: Mapping[str, AxisPlacement | None]


class Assume(Intent, frozen=True):
    """Predict costs under these assumptions; None leaves an option as it is."""

    attention: str | None = None
    prefetch: bool | None = None


class RenameAxis(Intent, frozen=True):
    """Call a mesh axis otherwise."""

    axis: str
    name: str


class SplitAxis(Intent, frozen=True):
    """Make two mesh axes of one: an outer one of this size and name, and the rest, which keeps its name."""

    axis: str
    outer: int
    name: str


class MergeAxes(Intent, frozen=True):
    """Make one mesh axis of several, major first; it has the name of the last one, if it is given none."""

    axes: tuple[str, ...]
    name: str | None = None


class ResizeAxis(Intent, frozen=True):
    """Give a mesh axis another size; with `pad` dims that it does not divide are padded from then on."""

    axis: str
    size: int
    pad: bool = False


class ResizeDim(Intent, frozen=True):
    """Give a dim another size: the program is traced again, in the background."""

    dim: str
    size: int


class Open(Intent, frozen=True):
    """Open this model of `ml.named_models()` in place of the program, with these sizes of its dims."""

    model: str
    sizes: Mapping[str, int] = {}


class ListModels(Intent, frozen=True):
    """List the models that can be opened, in the background."""


class Sweep(Intent, frozen=True):
    """Work out what a step costs over the sizes of this dim, or of this mesh axis, in the background."""

    kind: Literal["dim", "axis"]
    name: str


class CancelCurve(Intent, frozen=True):
    """Stop working out a curve; its points so far stay."""


class AskXla(Intent, frozen=True):
    """Compile what XLA's own partitioner makes of the shardings, in the background, and put it beside the plan."""


class CancelXla(Intent, frozen=True):
    """Stop compiling it."""


class Look(Intent, frozen=True):
    """Look at a value of the latest run's last step, by a name that `plan.watch` takes, in the background."""

    value: str


class CancelLook(Intent, frozen=True):
    """Stop looking at a value of a step."""


class Measure(Intent, frozen=True):
    """Measure the step of the present layout on random data, in the background; see `plan.profile`."""


class CancelMeasure(Intent, frozen=True):
    """Stop measuring the step."""


class RenameDim(Intent, frozen=True):
    """Call a dim otherwise, also one whose name was made up."""

    dim: str
    name: str


class Pad(Intent, frozen=True):
    """Pad dims that their axes do not divide, or refuse them."""

    pad: bool


class Pin(Intent, frozen=True):
    """Keep a dim on a mesh axis in a search; whole, if there is none."""

    dim: str
    axis: str | None = None


class Unpin(Intent, frozen=True):
    """Let a search choose a dim's axis again."""

    dim: str


class Forbid(Intent, frozen=True):
    """Keep a dim off a mesh axis in searches."""

    dim: str
    axis: str


class Allow(Intent, frozen=True):
    """Let searches put a dim on a mesh axis again."""

    dim: str
    axis: str


class Silence(Intent, frozen=True):
    """Have searches find what sends nothing over a mesh axis, or what may."""

    axis: str
    silent: bool = True


class LimitAuto(Intent, frozen=True):
    """Limit searches: memory by a share of a device's or a text, "60 GB", time by seconds; None for no limit."""

    memory: float | str | UnsetType | None = UNSET
    seconds: float | str | UnsetType | None = UNSET


class Auto(Intent, frozen=True):
    """Search the layout that is best for this objective, and set it beside the present one."""

    objective: str = "traffic"


class CancelAuto(Intent, frozen=True):
    """Stop the present search, for a layout or for what its decisions cost otherwise."""


class StopAuto(Intent, frozen=True):
    """End the present search with the best layout so far, and put that on the board."""


class SearchRegrets(Intent, frozen=True):
    """Search what each decision of Auto's fastest layout costs otherwise."""


class Predict(Intent, frozen=True):
    """Predict the number that the board asks for; the first prediction counts."""

    number: float


class Start(Intent, frozen=True):
    """Train under the present layout."""

    steps: int | None = None


class Cancel(Intent, frozen=True):
    """Stop the present run after its present step."""


@dataclasses.dataclass(frozen=True)
class Accepted:
    """The intent was carried out (or, from `what_if`, would be).

    Args:
        revision: the Explorer's revision afterwards.
        plan: the plan of the layout afterwards.
        document: the document afterwards.
        note: what else has changed, or is still to come.
    """

    revision: int
    plan: Any = dataclasses.field(default=None, compare=False)
    document: Any = dataclasses.field(default=None, compare=False)
    note: str = dataclasses.field(default="", compare=False)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Accepted: revision {self.revision}" + (f". {self.note}" if self.note else "")


@dataclasses.dataclass(frozen=True)
class Refused:
    """The intent was not carried out, and nothing has changed.

    Args:
        reason: why, in a sentence.
        fix: what would fit; empty where nothing would.
        code: the kind of refusal, for programs.
        brief: reason and fix in few words, for a board; None where they are few.
        instead: intents that would be carried out, each by what is on its button.
    """

    reason: str
    fix: str = ""
    code: str = "refused"
    brief: tuple[str, str] | None = dataclasses.field(default=None, compare=False)
    instead: tuple[tuple[str, Intent], ...] = dataclasses.field(default=(), compare=False)

    @property
    def said(self) -> tuple[str, str]:
        """The reason and the fix as a board says them."""
        return self.brief or (self.reason, self.fix)

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Refused: {self.reason}" + (f" Fix: {self.fix}" if self.fix else "")


Outcome = Accepted | Refused


def refused(error: LayoutError) -> Refused:
    """Returns the answer to a layout that is refused, with all its problems; for a board the first, and how many."""
    if not error.problems:
        return Refused(str(error))
    if isinstance(error.problems[0], str):  # of two layouts that cannot be combined
        conflicts = "; ".join(error.problems)
        return Refused(f"The two layouts conflict: {conflicts}.", "Use one of them instead of the other.", "conflict")
    reasons = " ".join(dict.fromkeys(problem.text for problem in error.problems))
    fixes = " ".join(dict.fromkeys(problem.fix for problem in error.problems if problem.fix))
    first, more = error.problems[0], len(dict.fromkeys(error.problems)) - 1
    count = f" And {more:,} more problem{'s' if more > 1 else ''}." if more else ""
    return Refused(reasons, fixes, first.code, (f"{first.text}{count}", first.fix) if more else None)
