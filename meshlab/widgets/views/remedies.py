"""The remedies of one collective as JSON-like data: those of the plan, each tried, with the message that makes it.

    remedies_view(explorer, "1f03a2b9")     {"rows": [{"text": "take `hidden` off `model`", "op": "remedy", …}]}

The page asks when a collective's row opens, since each remedy is planned: what planning refuses, or what sends as much
for the same cause, is offered neither here nor by `plan.explain()`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from ...engine.plans.remedies import Remedy
from ..documents.intents import TakeRemedy
from ..state.explorer_state import ExplorerState
from ..state.selection import identities
from .prices import intent_view


class RemedyView(TypedDict):
    """A remedy in words, and the intent that makes it, where that changes the layout."""

    text: str
    effect: str
    op: NotRequired[str]
    args: NotRequired[dict[str, object]]


class RemediesView(TypedDict):
    rows: list[RemedyView]


def remedies_view(explorer: ExplorerState, collective: str) -> RemediesView:
    """Describes the remedies of a collective of the present plan.

    Args:
        explorer: the Explorer.
        collective: its name in `identities`.

    Returns:
        The remedies as "rows"; none where the plan has no such collective.
    """
    plan = explorer.plan
    named = dict(zip(identities(plan), plan.collectives, strict=True))
    remedies = named[collective].remedies if collective in named else ()
    return {"rows": [_remedy_view(remedy) for remedy in remedies]}


def _remedy_view(remedy: Remedy) -> RemedyView:
    """Describes a remedy: its words, and, where it is a change of the layout, the message that makes it."""
    words: RemedyView = {"text": remedy.text, "effect": remedy.effect}
    return {**words, **intent_view(TakeRemedy(remedy.changes))} if remedy.changes else words
