"""What people do with the layouts that were tried: call them something, write a note, delete them, and take that back.

label(state, Label("#4", "wide", "for the long sequences"))
forget(state, Forget(("#2", "wide")))                           None, or why not
put_back(state)                                                 what was undone, in words; "" where nothing was

The board and its document stay as they are; so these are no documents of the history, and undo takes them back before
it goes on to the document before (`Tried.undone`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from msgspec import UNSET

from ...engine.errors import MeshlabError, closest, listed, shown
from ..documents.intents import Forget, Intent, Label, OpenSaved, Refused
from .explorer_state import ExplorerState
from .marks_of_layouts import label_problem, note_problem
from .saved_boards import read_board
from .tried import START, Tried, TriedLayout

# Why an intent is refused, or what else is to be said of it.
Answer = Refused | str | None


def label(state: ExplorerState, intent: Label) -> Answer:
    found = named(state, intent.of)
    if isinstance(found, Refused):
        return found
    text = found.label if intent.label is UNSET else " ".join(intent.label.split())
    note = found.note if intent.note is UNSET else intent.note.strip()
    if problem := label_problem(text, [each for each in state.tried if each is not found]) or note_problem(note):
        return Refused(problem, code="invalid")
    marked = dataclasses.replace(found, label=text, note=note)
    if marked != found:
        state.tried = state.tried.with_marks(marked, state.history)
        state.changes.tell("comparison")
    return None


def forget(state: ExplorerState, intent: Forget) -> Answer:
    """Deletes layouts, all of them or none; one that is named twice is one."""
    gone, titles = dict[int, TriedLayout](), state.titles()
    for name in intent.of:
        found = named(state, name)
        if isinstance(found, Refused):
            return found
        title = titles[found.number]
        if found.is_of(state.document):
            return Refused(f"`{title}` is on the board.", "Put another layout on the board first.")
        if found is state.tried.baseline:
            return Refused(f"All layouts are compared with `{title}`.", "Choose another baseline first.")
        gone[found.number] = found
    if not gone:
        return None
    state.tried = state.tried.without(gone.values(), state.history)
    state.changes.tell("comparison")
    return f"Deleted {_said([*gone.values()], titles)}. Undo brings {'them' if len(gone) > 1 else 'it'} back."


def put_back(state: ExplorerState) -> str:
    """Takes back the last change of labels, notes and of what there is, if it was the last thing that was done."""
    undone = state.tried.undone(state.history)
    if undone is None:
        return ""
    before = {each.number for each in state.tried}
    state.tried, change = undone
    state.changes.tell("comparison")
    there = "is back" if len(change.was) == 1 else "are back"
    done = "is as it was" if change.was[0].number in before else there
    return f"{_said(change.was, state.titles())} {done}."


def open_saved(state: ExplorerState, intent: OpenSaved, change: Callable[[ExplorerState, Intent], Answer]) -> Answer:
    """Opens a board that was saved: its document, and what was tried there beside what was tried here.

    Args:
        state: the state.
        intent: has the file.
        change: puts the document on the board.
    """
    try:
        board = read_board(intent.document, state.documents)
    except MeshlabError as error:
        return Refused(str(error), "Open a file that explorer.save() wrote; the board is as it was.", "invalid")
    before = state.tried
    if not intent.tried_alone:
        answer = change(state, intent)
        if isinstance(answer, Refused) or not state.documents.programs.known(board.document):
            return answer  # which is asked again once its program is traced
    for each in board.tried:
        state.tried = _with_saved(state, each)
    new = sum(before.known(each.document) is None for each in board.tried)
    state.offer = None
    state.changes.tell("comparison")
    state.changes.tell("offer")
    count = len(board.tried) or 1
    return f"Opened: {count} layout{'' if count == 1 else 's'}{f', {new} of them new here' if new else ''}."


def _with_saved(state: ExplorerState, saved: TriedLayout) -> Tried:
    """Returns what was tried with a layout of a file; what is said of it here already stays."""
    given = "" if saved.name in (saved.sign, START) else saved.name
    tried = state.tried.with_document(saved.document, given, state.document)
    here = tried.known(saved.document)
    if here is None:  # there were too many
        return tried
    label = here.label or saved.beside(each for each in tried if each is not here).label
    marked = dataclasses.replace(here, label=label, note=here.note or saved.note)
    return dataclasses.replace(tried, all=tuple(marked if each is here else each for each in tried))


def named(state: ExplorerState, name: str) -> TriedLayout | Refused:
    """Returns the layout of a name or number."""
    titles = state.titles()
    known = state.tried.by_name(titles)
    if name in known:
        return known[name]
    return Refused(
        f"No layout named {shown(name)} was tried.{closest(name, known)} There are {listed(titles.values())}.",
        code="unknown",
    )


def _said(layouts: Sequence[TriedLayout], titles: dict[int, str]) -> str:
    return f"`{titles[layouts[0].number]}`" if len(layouts) == 1 else f"{len(layouts)} layouts"
