"""What each intent does to an Explorer, and how a page writes it.

    apply(state, Place("hidden", ("model",)))               Accepted: revision 3
    read_intent("place", {"dim": "hidden", "axes": [...]})  Place("hidden", …), as a page sends it
    message_of(Place("hidden", ("model",)))                 {"op": "place", "args": {"dim": "hidden", …}}, and back

Each intent is one entry of `HANDLERS`; those that change the document are made of `CHANGES` (apply_intent.py), which
also answers what would be. Its class says what a page must send.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...engine.errors import LayoutError, MeshlabError, closest
from ..documents.document import Document, ExplorerError
from ..documents.documents import settled
from ..documents.edits import opened_note
from ..documents.intents import (
    Accepted,
    AskXla,
    Auto,
    Baseline,
    Beside,
    Cancel,
    CancelAuto,
    CancelCurve,
    CancelLook,
    CancelMeasure,
    CancelXla,
    Forget,
    Intent,
    Label,
    ListModels,
    Load,
    Look,
    Measure,
    Open,
    OpenSaved,
    Outcome,
    Predict,
    Refused,
    Restore,
    SearchRegrets,
    Select,
    Start,
    StopAuto,
    Sweep,
    Undo,
    refused,
)
from ..documents.model_sizes import sizes_said
from ..presets.toggles import preset_of
from .apply_intent import CHANGES, after, invalid_intent
from .explorer_state import ExplorerState
from .selection import selected_after
from .tried import TriedLayout
from .tried_table import Answer, forget, label, open_saved, put_back


def apply(state: ExplorerState, intent: Intent) -> Outcome:
    """Carries out an intent."""
    if type(intent) not in HANDLERS:
        raise ExplorerError(invalid_intent(intent))
    with state.lock:
        answer = HANDLERS[type(intent)].act(state, intent)
        return answer if isinstance(answer, Refused) else Accepted(state.revision, state.plan, note=answer or "")


def read_intent(op: str, args: Mapping[str, Any]) -> Intent | Refused:
    """Reads an intent from a page's message.

    Args:
        op: the name of the operation.
        args: its arguments.

    Returns:
        The intent, or a refusal where there is no such operation, or an argument is missing or of another type.
    """
    if op not in OPERATIONS:
        return Refused(f"There is no operation `{op}`.{closest(op, OPERATIONS)}", code="unknown_operation")
    try:
        return msgspec.convert(args, OPERATIONS[op])
    except msgspec.ValidationError as error:
        return Refused(f"The operation `{op}` came with invalid arguments: {error}.", code="bad_arguments")


def message_of(intent: Intent) -> tuple[str, dict[str, Any]]:
    """Returns the name and the arguments by which a page sends an intent; `read_intent` takes them."""
    args = msgspec.to_builtins(intent)
    return HANDLERS[type(intent)].op, {name: value for name, value in args.items() if value is not None}


def change_document(state: ExplorerState, intent: Intent) -> Answer:
    documents, change = state.documents, CHANGES[type(intent)]
    asked = after(documents, intent)
    if isinstance(asked, Document):
        refusal = state.tracer.begin(asked, lambda: apply(state, intent))
        if refusal is not None:
            return refusal
        model = None if asked.model == documents.present.model else asked.model
        return "The program is traced again." if model is None else f"`{model.name}` is traced."
    if isinstance(asked, Refused):
        return asked
    before, changed = documents.present, asked is not documents.history
    if changed and state.offer is not None and not isinstance(intent, Restore):
        state.offer = None
        state.changes.tell("offer")
    tried = state.tried.with_document(asked.present, change.name(intent, documents, asked.present), asked.present)
    renamed = tried != state.tried
    documents.history, state.tried = asked, tried
    if before.model != asked.present.model:
        state.has_another_model()
    if changed:  # a chip that is where it was takes no selection along, which no page would be told of
        state.selection = change.follow(state.selection.kept(state.plan), intent, state.plan)
    if changed or renamed:
        state.changes.tell("document" if changed else "comparison")
    return change.note(before, asked.present, intent)


def open_named(state: ExplorerState, intent: Open) -> Answer:
    """Opens another model, and says which sizes it has, and what became of the layout."""
    if state.documents.programs.models.find is None:
        return Refused("This Explorer opens no other model.", 'Write ml.explore("llama3-8b", mesh).', "nothing")
    before = state.document
    answer = change_document(state, intent)
    if isinstance(answer, Refused) or state.document.model == before.model:
        return answer
    layout = opened_note(before, state.document, intent, state.documents.presets)
    return " ".join(filter(None, ("" if intent.sizes else sizes_said(state.documents), layout)))


def list_models(state: ExplorerState, intent: ListModels) -> Answer:
    state.listing.begin()
    return None


def undo(state: ExplorerState, intent: Undo) -> Answer:
    """Goes one change back, of the document or of what was tried; or ends the tracing that goes on."""
    if not state.tracer.active:
        return put_back(state) or change_document(state, intent)
    state.tracer.cancel()
    return "The program stays as it is."


def select(state: ExplorerState, intent: Select) -> Answer:
    before, selected = state.selection, selected_after(state.selection, intent, state.plan)
    if isinstance(selected, Refused):
        return selected
    if selected != before:
        state.selection = selected
        state.changes.tell("selection" if selected.place == before.place else "tensor")
    return None


def compare_with(state: ExplorerState, intent: Baseline) -> Answer:
    document = _of_text(state, intent.document) if intent.document else state.documents.opened
    if isinstance(document, Refused):
        return document
    if document != state.tried.compared_with:
        state.tried = state.tried.with_baseline(document, state.document)
        state.changes.tell("comparison")
    return None


def show_beside(state: ExplorerState, intent: Beside) -> Answer:
    other = None
    if intent.preset:
        other = _preset_beside(state, intent.preset)
    elif intent.document:
        document = _of_text(state, intent.document)
        other = document if isinstance(document, Refused) else _beside(state, document, "")
    if isinstance(other, Refused):
        return other
    if other != state.other:
        state.other = other
        state.changes.tell("beside")
    return None


def _beside(state: ExplorerState, document: Document, label: str) -> TriedLayout:
    return state.tried.known(document) or TriedLayout(-1, label or str(document.layout) or "empty", document)


def _preset_beside(state: ExplorerState, name: str) -> TriedLayout | Refused:
    try:
        preset = preset_of(state.documents.presets, name)
        if preset.layout is None:
            raise LayoutError(preset.refused)
    except LayoutError as error:
        return refused(error)
    document = dataclasses.replace(state.document, layout=preset.layout)
    refusal = state.documents.unplanned(document)
    return _beside(state, document, preset.label) if refusal is None else refusal


def _of_text(state: ExplorerState, text: str) -> Document | Refused:
    """Returns a document by its JSON; a refusal where it has no plan."""
    programs = state.documents.programs
    try:
        document = programs.read(text)
    except (ExplorerError, LayoutError) as error:
        return Refused(str(error), code="invalid")
    if programs.known(document):
        document = settled(document, programs.at(document))
    refusal = state.documents.unplanned(document)
    return document if refusal is None else refusal


def predict(state: ExplorerState, intent: Predict) -> Answer:
    """Predicts the number that the task asks for; who waits for it is told, this board among them."""
    if state.task is None or not state.task.question:
        return Refused("The board asks for no number.", code="nothing")
    counts = state.task.prediction.make(intent.number)
    return None if counts else Refused("The first prediction counts.", code="nothing")


def start_run(state: ExplorerState, intent: Start) -> Answer:
    if state.runs.training and state.document.resized:
        return Refused("The data have the sizes of the original trace.", "Undo the resizing.")
    if state.runs.training and state.document.model != state.documents.programs.models.opened:
        return Refused("The data belong to the program that the board was opened with.", "Undo to it.")

    if state.profiles.working:
        fix = "Wait for it, or cancel it."
        return Refused("The step is being measured, and a run would be measured too.", fix, "running")

    def told() -> None:
        state.changes.tell("run")

    refusal = state.runs.start(intent.steps, state.plan, state.document, state.revision, told)
    if refusal is None:
        state.looks.forget()
        told()
    return refusal


def look(state: ExplorerState, intent: Look) -> Answer:
    run = next(reversed([*state.runs]), None)
    return state.looks.look(run, intent.value)


def cancel_look(state: ExplorerState, intent: CancelLook) -> Answer:
    return None if state.looks.cancel() else Refused("Nothing is being looked at.", code="nothing")


def measure(state: ExplorerState, intent: Measure) -> Answer:
    refusal = refused_to_measure(state)
    if refusal is None:
        state.profiles.measure(state.document, state.plan)
    return refusal


def refused_to_measure(state: ExplorerState) -> Refused | None:
    """Says why the step cannot be measured now: a run would be measured with it."""
    if not any(run.active for run in state.runs):
        return None
    return Refused("A run is going on, which would be measured too.", "Wait for it, or cancel it.", "running")


def cancel_measure(state: ExplorerState, intent: CancelMeasure) -> Answer:
    return None if state.profiles.cancel() else Refused("No step is being measured.", code="nothing")


def cancel_search(state: ExplorerState, intent: CancelAuto) -> Answer:
    refusal = state.searches.cancel()
    return None if refusal is None else state.regrets.cancel()


def stop_search(state: ExplorerState, intent: StopAuto) -> Answer:
    def take(choice: Any) -> None:
        apply(state, Load(choice.plan.layout))

    return state.searches.stop(take)


def begin_curve(state: ExplorerState, intent: Sweep) -> Answer:
    try:
        state.curves.begin(intent.kind, intent.name)
    except MeshlabError as error:
        return Refused(str(error))
    return None


def cancel_curve(state: ExplorerState, intent: CancelCurve) -> Answer:
    return None if state.curves.cancel() else Refused("No curve is being computed.", code="nothing")


def ask_xla(state: ExplorerState, intent: AskXla) -> Answer:
    state.partitioned.begin()
    return None


def cancel_xla(state: ExplorerState, intent: CancelXla) -> Answer:
    return None if state.partitioned.cancel() else Refused("XLA is not compiling.", code="nothing")


@dataclasses.dataclass(frozen=True)
class Handler:
    """How an intent is carried out.

    Attributes:
        op: its name, in a message of the page and as a method of the Explorer.
        act: carries it out.
    """

    op: str
    act: Callable[[ExplorerState, Any], Answer]


HANDLERS: Mapping[type[Intent], Handler] = {
    **{kind: Handler(change.op, change_document) for kind, change in CHANGES.items()},
    Undo: Handler("undo", undo),
    Select: Handler("select", select),
    Baseline: Handler("baseline", compare_with),
    Label: Handler("label", label),
    Forget: Handler("forget", forget),
    Beside: Handler("beside", show_beside),
    Predict: Handler("predict", predict),
    Start: Handler("run", start_run),
    Cancel: Handler("cancel", lambda state, _: state.runs.cancel()),
    Auto: Handler("auto", lambda state, intent: state.searches.start(intent.objective)),
    SearchRegrets: Handler("exact_regrets", lambda state, _: state.regrets.start(state.searches.fastest)),
    CancelAuto: Handler("cancel_auto", cancel_search),
    StopAuto: Handler("stop_auto", stop_search),
    Open: Handler("open", open_named),
    OpenSaved: Handler("open_saved", lambda state, intent: open_saved(state, intent, change_document)),
    ListModels: Handler("list_models", list_models),
    Sweep: Handler("curve", begin_curve),
    CancelCurve: Handler("cancel_curve", cancel_curve),
    Look: Handler("look", look),
    CancelLook: Handler("cancel_look", cancel_look),
    Measure: Handler("profile", measure),
    CancelMeasure: Handler("cancel_profile", cancel_measure),
    AskXla: Handler("xla", ask_xla),
    CancelXla: Handler("cancel_xla", cancel_xla),
}
# What a page can ask for.
OPERATIONS: Mapping[str, type[Intent]] = {handler.op: kind for kind, handler in HANDLERS.items()}
