"""The models that can be opened on the board, as JSON-like data; nothing while nobody has asked for them."""

from __future__ import annotations

from typing import TypedDict

from ...state.explorer_state import ExplorerState


class ListedModelView(TypedDict):
    """A model: how many parameters it has, and the sizes that it is opened with."""

    name: str
    group: str
    parameters: int
    sizes: dict[str, int]


class ModelsView(TypedDict):
    """The models listed so far; why there are no more, and whether these are all."""

    rows: list[ListedModelView]
    error: str
    whole: bool


class ModelsPartView(TypedDict):
    models: ModelsView | None


def models_part(explorer: ExplorerState) -> ModelsPartView:
    listing = explorer.listing
    if listing.rows is None:
        return {"models": None}
    rows: list[ListedModelView] = [
        {"name": each.name, "group": each.group, "parameters": each.parameters, "sizes": dict(each.sizes)}
        for each in listing.rows
    ]
    return {"models": {"rows": rows, "error": listing.error, "whole": listing.whole}}
