"""Records of an Explorer what a page shows and asks of each layout, so that no Python has to be there.

    recorder = Recorder(explorer, scope)
    recorder.add(explorer.document)
    recorder.table(1)                   what `js/src/replay.ts` reads, a value a line

A state is a function of the layout (`twin`): the table has one for each, with the state that each gesture leads to, or
why that is refused. What depends on how a reader came there (undo, what is selected, which layouts were tried) the page
works out itself (`js/src/replay.ts`), by the same few rules as `state/` does; a test walks both at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from ...engine.gc_pause import no_collection
from ..documents.document import Document
from ..documents.intents import Intent, Refused, TakePreset, TogglePreset
from ..state.handlers import message_of, read_intent
from ..state.prices import other_columns
from ..state.selection import identities, place_moved, places_of
from ..views.address import tab_part
from ..views.asked.task import task_part
from ..views.board import PARTS
from ..views.comparison import marks_view
from ..views.devices.holdings import tensor_view
from ..views.panels import TABS
from ..views.plan import PlanView, place_view
from ..views.selection import group_view
from ..views.step_time import PredictionView
from .pool import Packed, Pool
from .questions import RECORDED, answers, key_of
from .scope import Scope
from .twin import Twin
from .walk import drops

# Parts that depend on how the board came to its layout: the page makes them of what is recorded.
REPLAYED = ("devices", "selection", "beside", "history", "task", "tab", "session")
# Gestures of which the page knows where they lead.
_LAYOUTS = ("place", "remove", "load", "reset", "preset", "toggle", "remedy")
GESTURES = (*_LAYOUTS, "undo", "redo", "baseline", "beside", "select")
# The tab of what only Python can do.
RUN = "run"
# Devices that can be selected each by itself; a picture of more has blocks of them (`views/devices/picture.py`).
MOST_DEVICES = 512


class Recorder:
    """Records layouts, one after the other.

    Args:
        explorer: whose layouts; it is left alone.
        scope: which of them, and which chips are dropped in which columns.

    Attributes:
        numbers: the layouts that are recorded, each with its number.
        refused: those that cannot be planned, each with what is said of it.
    """

    def __init__(self, explorer: Any, scope: Scope):
        self._explorer, self._twin, self._pool = explorer, Twin(explorer), Pool()
        self._scope = scope
        self.numbers: dict[Document, int] = {}
        self.refused: dict[Document, dict[str, Any]] = {}
        self._states: list[Packed] = []
        self._moves: list[dict[str, Document | Packed]] = []
        self._marks: list[int] = []  # how many values there were after each state
        self._groups: dict[str, list[Any]] = {}

    @property
    def count(self) -> int:
        """How many layouts are recorded."""
        return len(self._states)

    def add(self, document: Document) -> None:
        """Records a layout, and where each gesture leads from there; or why it cannot be planned."""
        twin = self._twin
        if (refusal := twin.open(document)) is not None:
            self.refused[document] = _refusal_view(refusal)
            return
        self.numbers[document] = len(self._states)
        with no_collection():
            reads: dict[str, Any] = dict(answers(twin, document in self._scope.shown))
            self._states.append(self._pool.put(self._state() | {"reads": reads}, "state"))
            self._follow([row for data in reads.values() for row in data.get("rows", ()) if "op" in row])
        self._marks.append(len(self._pool))

    def _state(self) -> dict[str, Any]:
        """Describes the layout that is open, but for what panels read."""
        twin, plan = self._twin, self._twin.plan
        return {
            "parts": {name: part.describe(twin) for name, part in PARTS.items() if name not in REPLAYED},
            "tensors": [
                {"place": place, "tensor": place_view(plan, place), "shards": tensor_view(plan, place)}
                for place in places_of(twin.program)
            ],
            "groups": self._groups_of(plan),
            # Each by its name, with the place of the tensor that it moves.
            "collectives": {
                name: place_moved(collective, plan.program)
                for name, collective in zip(identities(plan), plan.collectives, strict=True)
            },
        }

    def _groups_of(self, plan: Any) -> list[str]:
        """Names the sets of mesh axes that something is sent over, and keeps who takes part with whom over each."""
        if plan.mesh.size > MOST_DEVICES:
            return []
        used = sorted({tuple(c.axes) for c in plan.collectives}, key=lambda axes: (len(axes), axes))
        for axes in used:
            if "+".join(axes) not in self._groups:
                self._groups["+".join(axes)] = [group_view(plan.mesh, each, axes) for each in range(plan.mesh.size)]
        return ["+".join(axes) for axes in used]

    def _follow(self, remedies: Sequence[Mapping[str, Any]]) -> None:
        """Keeps where each gesture leads that the page can make: drops, presets, remedies."""
        twin, moves = self._twin, {}
        presets = twin.documents.presets
        gestures = [
            *drops(twin, self._scope.columns, self._scope.dims),
            *(TakePreset(preset.name) for preset in presets),
            *(TogglePreset(preset.name, over) for preset in presets for over in (None, *preset.choices)),
            *(read_intent(row["op"], row["args"]) for row in remedies),
        ]
        for intent in gestures:
            assert isinstance(intent, Intent)
            outcome, key = twin.after(intent), key_of(*message_of(intent))
            moves[key] = outcome if isinstance(outcome, Document) else self._refusal(intent, outcome)
        self._moves.append(moves)

    def _refusal(self, intent: Intent, refusal: Refused) -> Packed:
        columns = [{"at": column.at, "label": column.label} for column in other_columns(self._twin.documents, intent)]
        return self._pool.put(_refusal_view(refusal, columns), "refusal")

    def table(self, count: int) -> list[str]:
        """Returns the first layouts as `js/src/replay.ts` reads them: a value a line, and the root last."""
        pool = self._pool.first(self._marks[count - 1])
        numbers = {document: number for document, number in self.numbers.items() if number < count}
        refused = {document: pool.put(view, "refusal") for document, view in self.refused.items()}
        targets = numbers | refused

        def led(moves: Mapping[str, Document | Packed]) -> dict[str, int | Packed]:
            pairs = ((key, to if isinstance(to, Packed) else targets.get(to)) for key, to in moves.items())
            return {key: to for key, to in pairs if to is not None}

        states = [
            {"state": state, "moves": pool.put(led(moves), "moves")}
            for state, moves in zip(self._states[:count], self._moves[:count], strict=True)
        ]
        root = {"states": states, "groups": self._groups, **self._begun(numbers), **_always(self._twin)}
        return pool.lines(pool.put(root, "root"))

    def _begun(self, numbers: Mapping[Document, int]) -> dict[str, Any]:
        """Describes where the board begins: the layout on it, and those that were tried."""
        explorer, present = self._explorer, self._explorer.document
        all_tried = [
            {"number": each.number, "name": each.name, **marks_view(each), "state": numbers[document]}
            for each in explorer.tried
            if (document := each.under(present)) in numbers
        ]
        baseline = numbers.get(explorer.tried.baseline.under(present), numbers[present])
        tried = {"all": all_tried, "count": explorer.tried.count, "baseline": baseline}
        return {"start": numbers[present], "tried": tried}


def _always(twin: Twin) -> dict[str, Any]:
    """Describes what is the same whatever the layout."""
    mesh, task = twin.mesh, twin.task
    few = mesh.size <= MOST_DEVICES
    asked = {"number": task.number, "near": task.near} if task and task.locked else None
    return {
        "devices": mesh.size if few else 0,
        "coordinates": [dict(mesh.coordinates(device)) for device in range(mesh.size)] if few else [],
        "labels": {preset.name: preset.label for preset in twin.documents.presets},
        "plan": [*get_type_hints(PlanView)],
        "prediction": [*get_type_hints(PredictionView)],
        "asked": asked,
        "can": [*GESTURES, *(["predict"] if asked else []), *RECORDED, "link"],
        "views": [tab for tab in TABS if tab != RUN],
        "traits": {
            "height": twin.height,
            "notice": {},
            "panel": "",
            "saved": "",
            "tab": tab_part(twin),
            "task": task_part(twin),
        },
    }


def _refusal_view(refusal: Refused, columns: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    text, fix = refusal.said
    # No layout that pads is recorded, so none is offered.
    return {"code": refusal.code, "text": text, "fix": fix, "columns": columns, "pads": False}
