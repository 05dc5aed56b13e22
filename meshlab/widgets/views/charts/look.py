"""What the charts have in common: a chart is Plotly's data and layout as plain dicts, and a sentence that says it.

    chart(data, {"xaxis": axis("step")}, "memory over the step", 220)

The page draws it by the plotly.js of the installed wheel, and `explorer.figure` makes a `go.Figure` of it: nothing here
imports Plotly. A colour is a variable of the board, `var(--ink)`, which the page looks up in its theme and
`render/palette.py` in the light one.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, TypedDict

INK, SOFT, EDGE, QUIET, CARD = (f"var(--{name})" for name in ("ink", "soft", "edge", "quiet", "card"))
USED, ACTION, BAD = (f"var(--{name})" for name in ("used", "action", "bad"))
NOTHING = "rgba(0,0,0,0)"
FONT = 12


class ChartView(TypedDict):
    """A chart as Plotly's data and layout, and what it shows, for screen readers."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    label: str


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Returns an axis with this title: quiet grid lines, a line at its edge, and no second line at zero."""
    look = {"gridcolor": EDGE, "linecolor": SOFT, "showline": True, "zeroline": False, "ticks": "outside"}
    small = {"tickcolor": SOFT, "ticklen": 4, "automargin": True}
    return look | small | {"title": {"text": title, "standoff": 6}} | more


def chart(data: list[dict[str, Any]], layout: dict[str, Any], label: str, height: int, same: Any = None) -> ChartView:
    """Returns a chart.

    Args:
        data: the traces.
        layout: what is particular of its layout.
        label: what it shows, for screen readers.
        height: in CSS pixels.
        same: while this is the same, a chart that was zoomed stays so; the data where it is None.
    """
    common = {
        "paper_bgcolor": NOTHING,
        "plot_bgcolor": NOTHING,
        "font": {"size": FONT, "color": SOFT},
        "margin": {"l": 10, "r": 16, "t": 26, "b": 10},
        "height": height,
        "hoverlabel": {"bgcolor": CARD, "bordercolor": SOFT, "font": {"color": INK, "size": FONT}, "align": "left"},
        "dragmode": "zoom",
        "showlegend": False,
    }
    shown = data if same is None else same
    revision = zlib.crc32(json.dumps(shown).encode())
    return {"data": data, "layout": common | layout | {"uirevision": revision}, "label": label}


def legend() -> dict[str, Any]:
    """Returns a legend in one line above the chart; a click on it hides nothing, as hidden traces add up to less."""
    place = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return place | {"itemclick": False, "itemdoubleclick": False, "font": {"color": INK}}
