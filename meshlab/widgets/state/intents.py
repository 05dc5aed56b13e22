"""Intents that the Explorer carries out, and its answers to them.

Each gesture is a small frozen object; a method of the Explorer, a mouse and a keyboard all make the same ones:

    >>> explorer.apply(Place("hidden", ("model",)))
    Accepted: revision 3
    >>> explorer.apply(Place("rows", ("model",)))
    Refused: `rows` has size 28, which 8 does not divide. Fix: use an axis of 2, 4, 7, 14 or 28.

An answer is true or false, so that a script can write `if explorer.place(...)`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

from ...cost.machines.placed import AxisPlacement
from ...engine.errors import closest
from ...engine.plans.remedies import OFF, ON, STORED, Change
from ...engine.specs.layout import Layout
from .document import Document, read_document, read_requested


@dataclasses.dataclass(frozen=True)
class Place:
    """Shard a dim over exactly these mesh axes, major first; at one place only where `at` names one.

    `source` is the place whose rule for the dim is taken away: the chip was moved from there; "" for the compute rules.
    """

    dim: str
    axes: tuple[str, ...]
    at: str | None = None
    source: str | None = None


@dataclasses.dataclass(frozen=True)
class Remove:
    """Take a dim's rule out of the layout; at one place only where `at` names one."""

    dim: str
    at: str | None = None


@dataclasses.dataclass(frozen=True)
class Load:
    """Replace the whole layout, by one that may have a name among those that were tried."""

    layout: Layout
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Reset:
    """Go back to the layout that the Explorer was opened with (a step that can be undone)."""


@dataclasses.dataclass(frozen=True)
class TakePreset:
    """Take the layout of this preset of `ml.layouts`, combined with the present one or in its place."""

    name: str
    combine: bool = False


@dataclasses.dataclass(frozen=True)
class TakeRemedy:
    """Change the layout as a remedy of a collective says, all at once."""

    changes: tuple[Change, ...]


@dataclasses.dataclass(frozen=True)
class Restore:
    """Replace the whole document by one that was saved, as JSON."""

    document: str


@dataclasses.dataclass(frozen=True)
class Undo:
    """Go to the document before."""


@dataclasses.dataclass(frozen=True)
class Redo:
    """Go to the document that was undone last."""


@dataclasses.dataclass(frozen=True)
class Baseline:
    """Compare all layouts with that of this document; None for the one that the Explorer was opened with."""

    document: Document | None = None


class Unchanged(enum.Enum):
    """What of a selection an intent leaves as it is."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


@dataclasses.dataclass(frozen=True)
class Beside:
    """Show the layout of this document, or of this preset, beside the one on the board; with neither, none."""

    document: Document | None = None
    preset: str = ""


@dataclasses.dataclass(frozen=True)
class Select:
    """Select the tensor at a place, a dim, a device, a collective or a moment; None releases one."""

    place: str | Unchanged | None = UNCHANGED
    dim: str | Unchanged | None = UNCHANGED
    device: int | Unchanged | None = UNCHANGED
    collective: str | Unchanged | None = UNCHANGED
    moment: str | Unchanged | None = UNCHANGED


@dataclasses.dataclass(frozen=True)
class On:
    """Place the mesh on this machine, `name` or `name:shape`, its axes along these; None for no machine."""

    machine: str | None
    along: tuple[tuple[str, AxisPlacement], ...] = ()


@dataclasses.dataclass(frozen=True)
class Lay:
    """Place mesh axes along these axes of the slice, the others as they are; None releases an axis."""

    along: tuple[tuple[str, AxisPlacement | None], ...]


@dataclasses.dataclass(frozen=True)
class Assume:
    """Predict costs under these assumptions; None leaves an option as it is."""

    attention: str | None = None
    prefetch: bool | None = None


@dataclasses.dataclass(frozen=True)
class RenameAxis:
    """Call a mesh axis otherwise."""

    axis: str
    name: str


@dataclasses.dataclass(frozen=True)
class SplitAxis:
    """Make two mesh axes of one: an outer one of this size and name, and the rest, which keeps its name."""

    axis: str
    outer: int
    name: str


@dataclasses.dataclass(frozen=True)
class MergeAxes:
    """Make one mesh axis of several, major first; it has the name of the last one, if it is given none."""

    axes: tuple[str, ...]
    name: str | None = None


@dataclasses.dataclass(frozen=True)
class ResizeAxis:
    """Give a mesh axis another size."""

    axis: str
    size: int


@dataclasses.dataclass(frozen=True)
class ResizeDim:
    """Give a dim another size: the program is traced again, in the background."""

    dim: str
    size: int


@dataclasses.dataclass(frozen=True)
class RenameDim:
    """Call a dim otherwise, also one whose name was made up."""

    dim: str
    name: str


@dataclasses.dataclass(frozen=True)
class Pad:
    """Pad dims that their axes do not divide, or refuse them."""

    pad: bool


@dataclasses.dataclass(frozen=True)
class Pin:
    """Keep a dim on a mesh axis in a search; whole, if there is none."""

    dim: str
    axis: str | None = None


@dataclasses.dataclass(frozen=True)
class Unpin:
    """Let a search choose a dim's axis again."""

    dim: str


@dataclasses.dataclass(frozen=True)
class Auto:
    """Search the layout that is best for this objective, and set it beside the present one."""

    objective: str = "traffic"


@dataclasses.dataclass(frozen=True)
class CancelAuto:
    """Stop the present search, for a layout or for what its decisions cost otherwise."""


@dataclasses.dataclass(frozen=True)
class SearchRegrets:
    """Search what each decision of Auto's fastest layout costs otherwise."""


@dataclasses.dataclass(frozen=True)
class Start:
    """Train under the present layout."""

    steps: int | None = None


@dataclasses.dataclass(frozen=True)
class Cancel:
    """Stop the present run after its present step."""


Edit = RenameAxis | SplitAxis | MergeAxes | ResizeAxis | ResizeDim | RenameDim | Pad | Pin | Unpin
DocumentChange = (
    Place | Remove | Load | TakePreset | TakeRemedy | Reset | Restore | Undo | Redo | On | Lay | Assume | Edit
)
Intent = DocumentChange | Baseline | Beside | Select | Auto | CancelAuto | SearchRegrets | Start | Cancel


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
    """

    reason: str
    fix: str = ""
    code: str = "refused"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Refused: {self.reason}" + (f" Fix: {self.fix}" if self.fix else "")


Outcome = Accepted | Refused


def _lay(along: Mapping[str, Any]) -> Lay:
    derived = tuple((str(name), None) for name, where in along.items() if where is None)
    return Lay((*read_requested({name: where for name, where in along.items() if where is not None}), *derived))


def _assume(args: Mapping[str, Any]) -> Assume:
    attention, prefetch = args.get("attention"), args.get("prefetch")
    return Assume(None if attention is None else str(attention), None if prefetch is None else bool(prefetch))


def _change(args: Mapping[str, Any]) -> Change:
    how = str(args["how"])
    if how not in (OFF, ON, STORED):
        raise ValueError(f"{how!r} is no change of a layout.{closest(how, (OFF, ON, STORED))}")
    return Change(how, str(args["dim"]), _axes(args["axes"]), str(args.get("at") or ""), tuple(args.get("there") or ()))


def _axes(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(str(axis) for axis in value)


def _document(text: Any) -> Document | None:
    return read_document(str(text)) if text else None


# What a page can ask for; a method of the Explorer has the name of each.
OPERATIONS: dict[str, Callable[[Mapping[str, Any]], Intent]] = {
    "place": lambda args: Place(str(args["dim"]), _axes(args["axes"]), args.get("at"), args.get("source")),
    "remove": lambda args: Remove(str(args["dim"]), args.get("at")),
    "load": lambda args: Load(Layout.of(args["layout"]), str(args.get("name") or "")),
    "reset": lambda args: Reset(),
    "preset": lambda args: TakePreset(str(args["name"]), bool(args.get("combine"))),
    "remedy": lambda args: TakeRemedy(tuple(map(_change, args["changes"]))),
    "restore": lambda args: Restore(str(args["document"])),
    "undo": lambda args: Undo(),
    "redo": lambda args: Redo(),
    "on": lambda args: On(str(args["machine"]) if args["machine"] else None, read_requested(args.get("along") or {})),
    "lay": lambda args: _lay(args["along"]),
    "assume": _assume,
    "rename_axis": lambda args: RenameAxis(str(args["axis"]), str(args["name"])),
    "split_axis": lambda args: SplitAxis(str(args["axis"]), int(args["outer"]), str(args["name"])),
    "merge_axes": lambda args: MergeAxes(_axes(args["axes"]), str(args["name"]) if args.get("name") else None),
    "resize_axis": lambda args: ResizeAxis(str(args["axis"]), int(args["size"])),
    "resize_dim": lambda args: ResizeDim(str(args["dim"]), int(args["size"])),
    "rename_dim": lambda args: RenameDim(str(args["dim"]), str(args["name"])),
    "pad": lambda args: Pad(args["pad"] is True),
    "pin": lambda args: Pin(str(args["dim"]), str(args["axis"]) if args.get("axis") else None),
    "unpin": lambda args: Unpin(str(args["dim"])),
    "baseline": lambda args: Baseline(_document(args["document"])),
    "beside": lambda args: Beside(_document(args.get("document")), str(args.get("preset") or "")),
    "select": lambda args: Select(**args),
    "auto": lambda args: Auto(str(args.get("objective", "traffic"))),
    "cancel_auto": lambda args: CancelAuto(),
    "exact_regrets": lambda args: SearchRegrets(),
    "run": lambda args: Start(int(args["steps"]) if args.get("steps") else None),
    "cancel": lambda args: Cancel(),
}


def read_intent(op: str, args: Mapping[str, Any]) -> Intent | Refused:
    """Reads an intent from a page's message.

    Args:
        op: the name of the operation.
        args: its arguments.

    Returns:
        The intent, or a refusal where there is no such operation or an argument is missing.
    """
    if op not in OPERATIONS:
        return Refused(f"There is no operation `{op}`.{closest(op, OPERATIONS)}", code="unknown_operation")
    try:
        return OPERATIONS[op](args)
    except KeyError as missing:
        return Refused(f"The operation `{op}` came without its {missing.args[0]!r}.", code="bad_arguments")
    except (AttributeError, TypeError, ValueError) as error:
        return Refused(f"The operation `{op}` came with invalid arguments: {error}", code="bad_arguments")
