"""What a layout costs, as bars: what is sent, what is held, how long a step takes, and the way to Auto's layout."""

from __future__ import annotations

import itertools
from typing import Any

from ....cost.machines.units import bytes_text, seconds_text
from ...state.explorer_state import ExplorerState
from ...tables.needed import timed, way
from ...views.machine_figures import RECALLED
from ..palette import NEUTRAL, PATTERN, SOFT, SOLID, mark
from .bars import Bar, draw_bars
from .page import Page, filled
from .sheet import Fill

# So many lines are drawn, and a limit that is at most so many times as much as what is drawn.
_LINES, _NEAR = 12, 2.5
LESS, MORE = Fill(SOLID[2]), Fill(SOLID[1], 1)


def marked(view: dict[str, Any], key: str) -> Fill:
    """Returns how the mark of a mesh axis, or of a set of axes, is filled."""
    number = mark(view, key)
    return Fill(SOLID[number], number % len(PATTERN))


def spaced(key: str) -> str:
    """Writes a set of mesh axes: "data + model"."""
    return key.replace("+", " + ")


def draw_communication(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the bytes that each device sends, by mesh axis."""
    page.title("Bytes that a device sends, by mesh axis")
    sums = view["communication"]
    if not sums["by_axis"]:
        page.write("Nothing is sent under this layout.")
    draw_bars(
        page,
        [
            Bar(spaced(part["key"]), ((part["bytes"], marked(view, part["key"])),), bytes_text(part["bytes"]))
            for part in sums["by_axis"]
        ],
    )


def draw_lines(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the bytes that each device sends, by source line and mesh axis."""
    page.title("Bytes that a device sends, by source line")
    lines = view["communication"]["by_line"]
    if not lines:
        page.write("Nothing is sent under this layout.")
    shown = {part["key"] for line in lines[:_LINES] for part in line["parts"]}
    groups = [group["key"] for group in view["groups"] if group["key"] in shown]
    page.legend([(filled(marked(view, key)), spaced(key)) for key in groups])
    draw_bars(
        page,
        [
            Bar(
                line["line"],
                tuple((part["bytes"], marked(view, part["key"])) for part in line["parts"]),
                bytes_text(line["bytes"]),
            )
            for line in lines[:_LINES]
        ],
    )
    rest = lines[_LINES:]
    if rest:
        more = len(rest) + view["communication"]["left_out"]
        page.note(f"{more:,} more lines send less than {bytes_text(lines[_LINES - 1]['bytes'])} each.")


def draw_memory(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the peak by role where there is a machine; without one, the exact bytes of arguments and outputs."""
    peak = view["peak_memory"]
    if not peak:
        page.title("Bytes that a device holds; outputs are hatched")
        rows = view["memory"]["parts"]
        return draw_bars(
            page,
            [
                Bar(row["name"], ((row["bytes"], Fill(NEUTRAL, 1 if row["output"] else 0)),), bytes_text(row["bytes"]))
                for row in rows
            ],
        )
    page.title("Predicted peak memory of a device")
    limit = peak["limit"]
    near = limit <= _NEAR * peak["bytes"]
    rows = [Bar(part["name"], ((part["bytes"], Fill(NEUTRAL)),), bytes_text(part["bytes"])) for part in peak["parts"]]
    whole = Bar("all", ((peak["bytes"], Fill(SOFT)),), bytes_text(peak["bytes"]), bold=True)
    draw_bars(page, [*rows, whole], (limit, f"device memory {bytes_text(limit)}") if near else None)
    page.note(peak["text"])
    page.note(f"The machine's memory is {RECALLED}." if peak["recalled"] else "")
    page.note(peak["note"])
    return None


def draw_time(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the parts of the predicted time, and the step between its bounds."""
    time = timed(view)
    page.title(f"Predicted time of a step on {view['machine']['title']}")
    bars = [Bar(part["label"], ((part["seconds"], _part(view, part)),), part["text"]) for part in time["parts"]]
    texts = time["texts"]
    ends = (time["lower"], time["upper"])
    whole = Bar("step", ((time["estimate"], Fill(SOFT)),), texts["estimate"], ends=ends, bold=True)
    draw_bars(page, [*bars, whole])
    page.note(time["limit"]["text"])
    page.note(
        f"The step takes {texts['lower']} where all communication that can overlap does, {texts['upper']} where none"
        " does."
    )
    page.note(time["use"])
    page.note(time["substituted"])
    page.note(f"Depends on figures that are {RECALLED}: {'; '.join(time['recalled'])}." if time["recalled"] else "")


def _part(view: dict[str, Any], part: dict[str, Any]) -> Fill:
    if part["sends"]:
        return marked(view, part["key"])
    return Fill(NEUTRAL, {"memory": 1, "waiting": 2}.get(part["key"], 0))


def draw_waterfall(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the way from yours to Auto's: what the step takes, and what each change adds to it."""
    known = way(explorer)
    steps = known.steps
    page.title("Step by step, from yours to Auto's: predicted time of a step")
    page.legend([(filled(LESS), "takes less"), (filled(MORE), "takes more")])
    bars = [_total(steps[0].change, steps[0].seconds)]
    for before, after in itertools.pairwise(steps):
        by = after.seconds - before.seconds
        fill = LESS if by < 0 else MORE
        low = min(before.seconds, after.seconds)
        text = f"{'+' * (by >= 0)}{seconds_text(by)}"
        bars.append(Bar(after.change, ((abs(by), fill),), text, begin=low))
    draw_bars(page, [*bars, _total("Auto's layout", steps[-1].seconds)])
    page.note(known.order)


def _total(name: str, seconds: float) -> Bar:
    return Bar(name, ((seconds, Fill(NEUTRAL)),), seconds_text(seconds), bold=True)
