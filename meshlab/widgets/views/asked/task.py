"""The task of a board, as JSON-like data; the number that it asks for is sent once it was predicted."""

from __future__ import annotations

from typing import TypedDict

from ...state.explorer_state import ExplorerState


class TaskView(TypedDict):
    """What is to be done; while it is `locked`, its number is to be predicted before the board shows any figure."""

    heading: str
    text: str
    given: str
    question: str
    locked: bool
    predicted: float | None
    number: float | None
    right: bool | None


class TaskPartView(TypedDict):
    task: TaskView | None


def task_part(explorer: ExplorerState) -> TaskPartView:
    """Describes the task, None without one."""
    task = explorer.task
    if task is None:
        return {"task": None}
    return {
        "task": {
            "heading": task.heading,
            "text": task.text,
            "given": task.given,
            "question": task.question,
            "locked": task.locked,
            "predicted": task.prediction.value,
            "number": None if task.right is None else task.number,
            "right": task.right,
        }
    }
