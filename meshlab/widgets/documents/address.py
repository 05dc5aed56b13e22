"""An address of a view as text: which tab, which layout, and what is selected.

    traffic?layout=batch:data hidden:model&collective=all-reduce over model of logits
    devices?layout=batch:data · params/*: hidden:data&tensor=params/w1&device=3

A tab, and behind `?` what else is said, in any order, with `&` between. It is what stands behind the `#` of a shared
board's link: `%`, `&` and `#` in a name are written `%25`, `%26` and `%23`, and whatever else a browser writes so is
read as well (`js/src/address.ts` does the same there). A layout is written as the board prints it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote

from ...engine.errors import LayoutError, closest, listed, shown
from ...engine.specs.layout import Layout

# What an address can say behind its tab.
KEYS = ("layout", "baseline", "tensor", "dim", "device", "collective")
_ESCAPES = {"%": "%25", "&": "%26", "#": "%23"}


def written(view: str, said: Mapping[str, str]) -> str:
    """Returns the address of a tab, and of what else is said."""
    pairs = "&".join(f"{key}={_escaped(value)}" for key, value in said.items())
    return f"{view}?{pairs}" if pairs else view


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(letter, letter) for letter in value)


def read(address: str) -> tuple[str, dict[str, str], list[str]]:
    """Reads an address, or a link that ends in one.

    Returns:
        The tab; what else is said; and what is wrong.
    """
    view, _, rest = address.rpartition("#")[2].strip().partition("?")
    said: dict[str, str] = {}
    problems = []
    for pair in filter(None, rest.split("&")):
        key, equals, value = pair.partition("=")
        if not equals:
            problems.append(f"{shown(pair)} is not KEY=VALUE.")
        elif key not in KEYS:
            problems.append(f"There is no `{key}` in an address.{closest(key, KEYS)} There are {listed(KEYS)}.")
        elif key in said:
            problems.append(f"`{key}` appears twice.")
        else:
            said[key] = unquote(value)
    return unquote(view), said, problems


def read_layout(text: str) -> Layout:
    """Reads a layout: as the board prints it, or as JSON, as older addresses have it.

    Raises:
        LayoutError: it is none.
    """
    if not text.lstrip().startswith("{"):
        return Layout.of(text)
    try:
        return Layout.of(json.loads(text))
    except ValueError as error:
        raise LayoutError(str(error)) from None
