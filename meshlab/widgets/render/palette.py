"""The colours of mesh axes in figures and snapshots: the light set of the board (see js/src/colours.css).

An axis has the same colour wherever it is drawn, and a pattern as well, for those who do not see the colour. Which that
is the view says (`state/marks.py`).
"""

from __future__ import annotations

from typing import Any

from ..state.marks import SEVERAL

NEUTRAL = "#242c3a"
INK, SOFT, EDGE, QUIET = "#171b22", "#4d5664", "#dfe3e9", "#eef0f3"
# By the number of a mark; the last is that of sets of axes for which no colour is left (state/marks.py).
SOLID = ("#1652a3", "#cb6f3d", "#1f8a8d", "#9151f9", "#b52963", "#525c05", SOFT)
TINT = ("#e7effc", "#fdeee0", "#dff4ef", "#f0e9fb", "#fce7f0", "#f1f4da", QUIET)
PATTERN = ("", "/", "-", "\\", "|", "x", ".")
# The strokes of links, by mark: dashes and gaps.
DASH = ("", "5 3", "2 2", "8 3 2 3", "3 4", "10 2 2 2", "1 3")
# The board's variables of which charts are made (views/charts/look.py).
VARIABLES = {"used": NEUTRAL, "ink": INK, "soft": SOFT, "edge": EDGE, "quiet": QUIET, "card": "#ffffff"}
VARIABLES |= {"action": "#1f5fbf", "bad": "#a4262c"}


def mark(view: dict, key: str) -> int:
    """Returns the number of the mark of a mesh axis, or of a set of axes, as on the board."""
    return next((group["mark"] for group in view["groups"] if group["key"] == key), SEVERAL)


def coloured(drawn: Any) -> Any:
    """Returns plain data with colours in place of the board's variables, `var(--ink)`."""
    if isinstance(drawn, dict):
        return {key: coloured(value) for key, value in drawn.items()}
    if isinstance(drawn, list):
        return [coloured(value) for value in drawn]
    is_variable = isinstance(drawn, str) and drawn.startswith("var(--")
    return VARIABLES[drawn.removeprefix("var(--").removesuffix(")")] if is_variable else drawn
