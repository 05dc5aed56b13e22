"""One step over time: a lane for kernels, one for each set of mesh axes, all of them, and the memory below.

A segment has its name where that fits, on a plate of its own, so that it is read on any pattern; at the end of a lane
are the seconds for which it is busy. Where no kernel runs, communication is exposed.
"""

from __future__ import annotations

from typing import Any

from ....cost.machines.units import bytes_text, seconds_text
from ...state.explorer_state import ExplorerState
from ...tables.needed import timed
from ..palette import INK, NEUTRAL, SOFT
from .axes import steps
from .costs import marked, spaced
from .curves import draw_area
from .letters import LINE, SMALL, TEXT, UP, width_of, wrapped
from .page import SWATCH, Page, filled
from .places import lines_of_spans, named_spans
from .sheet import Box, Fill, Sheet, box_of

# Points: the height of a lane, the gap to the next, and the height of the memory; the share of the width for names.
_LANE, _GAP, _MEMORY, _NAMES = 11.0, 3.0, 38.0, 0.22
# What stands above the seconds of the lanes. A limit is drawn where it is at most so many times as much as the most.
_BUSY, _NEAR = "busy", 5.0
# Points that one time along the step needs at least.
_TICK = 40.0
_WHITE = Fill("#ffffff")


def draw_timeline(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the lanes of a step between its phases and its memory."""
    timed(view)
    _Drawing(page, view).draw()


class _Drawing:
    """One timeline while it is drawn.

    Attributes:
        left: where the step begins, in points.
        right: where it ends.
    """

    def __init__(self, page: Page, view: dict[str, Any]):
        self.page, self.sheet, self.view = page, page.sheet, view
        self.timeline = timeline = view["timeline"]
        lanes = timeline["lanes"]
        self.names = [wrapped(spaced(lane["key"]) or "kernels", _NAMES * page.width, TEXT) for lane in lanes]
        self.sums = [seconds_text(sum(each["seconds"] for each in lane["segments"])) for lane in lanes]
        self.most = max((amount for _, amount in timeline["memory"]), default=0.0)
        self.limit = view["peak_memory"]["limit"]
        lines = ["memory", *(line for lines in self.names for line in lines)]
        self.left = max(width_of(line, TEXT) for line in lines) + 4
        self.right = page.width - max(width_of(text, SMALL) for text in self.right_texts()) - 4

    def right_texts(self) -> list[str]:
        """Returns what stands to the right."""
        return [_BUSY, *self.sums, bytes_text(self.most), bytes_text(self.limit)]

    def x(self, seconds: float) -> float:
        whole = self.timeline["seconds"]
        return self.left + (self.right - self.left) * (seconds / whole if whole else 0.0)

    def draw(self) -> None:
        page, timeline = self.page, self.timeline
        page.title(f"One step over time on {self.view['machine']['title']}, {seconds_text(timeline['seconds'])}")
        if timeline["exposed"]:
            page.legend([(filled(Fill(NEUTRAL)), "kernels"), (_outlined, "no kernel runs: communication is exposed")])
        top = page.y
        self.draw_phases()
        self.draw_loops()
        self.head_sums()
        for lane, lines, text in zip(timeline["lanes"], self.names, self.sums, strict=True):
            self.draw_lane(lane, lines, text)
        self.draw_memory()
        for phase in timeline["phases"][1:]:
            x = self.x(phase["begin"])
            self.sheet.line([(x, top), (x, page.y)], SOFT, 0.5, "2 2")
        self.draw_times()

    def draw_phases(self) -> None:
        """Names the phases, each where it begins."""
        spans = [(each["name"], self.x(each["begin"]) + 2, self.x(each["end"])) for each in self.timeline["phases"]]
        lines = lines_of_spans(spans, self.page.width)
        named_spans(self.sheet, lines, self.page.y)
        self.page.y += len(lines) * LINE * SMALL

    def draw_loops(self) -> None:
        """Says how often loops run, where that fits; else below."""
        page, loops = self.page, self.timeline["loops"]
        base = page.y + UP * SMALL
        for loop in loops:
            words, begin, end = f"× {loop['times']:,}", self.x(loop["begin"]), self.x(loop["end"])
            middle = (begin + end) / 2
            box = box_of(middle, base, words, SMALL, "middle")
            fits = box.right - box.left + 6 < end - begin
            if fits:
                self.sheet.text(middle, base, words, SMALL, "middle", fill=SOFT)
            else:
                page.note(f"A loop of {loop['times']:,} takes {seconds_text(loop['end'] - loop['begin'])}.")
            for a, b in ((begin, box.left - 2), (box.right + 2, end)) if fits else ((begin, end),):
                self.sheet.line([(a, base - 2), (b, base - 2)], SOFT, 0.5)
        if loops:
            page.y += LINE * SMALL
            page.note("A loop is drawn as one iteration, stretched over the time of all.")

    def head_sums(self) -> None:
        """Says what the seconds to the right are, in a line above where that is free."""
        x, by = self.page.width, UP * SMALL
        if not self.sheet.is_free(box_of(x, self.page.y - LINE * SMALL + by, _BUSY, SMALL, "end")):
            self.page.y += LINE * SMALL
        self.sheet.text(x, self.page.y - LINE * SMALL + by, _BUSY, SMALL, "end", fill=SOFT)

    def draw_lane(self, lane: dict[str, Any], lines: list[str], text: str) -> None:
        """Draws one lane; in that of the kernels also where none runs."""
        sheet, page = self.sheet, self.page
        high = max(_LANE, len(lines) * LINE * TEXT)
        top = page.y + (high - _LANE) / 2
        for n, line in enumerate(lines):
            base = page.y + high / 2 + (n - len(lines) / 2 + 0.5) * LINE * TEXT + 0.26 * TEXT
            sheet.text(self.left - 4, base, line, TEXT, "end")
        sheet.line([(self.left, top + _LANE), (self.right, top + _LANE)], SOFT, 0.4)
        fill = marked(self.view, lane["key"]) if lane["key"] else Fill(NEUTRAL)
        for each in [] if lane["key"] else self.timeline["exposed"]:
            x, end = self.x(each["begin"]), self.x(each["end"])
            sheet.rect(x, top, end - x, _LANE, _WHITE, stroke=SOFT)
        for each in lane["segments"]:
            x, end = self.x(each["begin"]), self.x(each["end"])
            sheet.rect(x, top, max(end - x, 0.4), _LANE, Fill(NEUTRAL, 2) if each["kind"] == "waiting" else fill)
            self.name(x, end, top, each["kind"] if lane["key"] else each["name"])
        sheet.text(page.width, top + _LANE / 2 + 0.36 * SMALL, text, SMALL, "end")
        page.y += high + _GAP

    def name(self, begin: float, end: float, top: float, name: str) -> None:
        """Writes a segment's name into it, where that fits."""
        long, middle = width_of(name, SMALL), (begin + end) / 2
        if name and long + 4 <= end - begin:
            self.sheet.rect(middle - long / 2 - 1, top + 1.5, long + 2, _LANE - 3, _WHITE, round_by=1)
            self.sheet.text(middle, top + _LANE / 2 + 0.36 * SMALL, name, SMALL, "middle")

    def draw_memory(self) -> None:
        """Draws the memory that is in use over the step, from 0 on, below what a device has; says both."""
        page, memory = self.page, self.timeline["memory"]
        if not memory:
            return
        top, bottom = page.y + 4, page.y + _MEMORY
        near = self.limit <= _NEAR * self.most
        high = max(self.most, self.limit if near else 0) or 1
        ends = [*(begin for begin, _ in memory[1:]), self.timeline["seconds"]]
        level = [
            (self.x(at), bottom - (bottom - top) * amount / high)
            for (begin, amount), end in zip(memory, ends, strict=True)
            for at in (begin, end)
        ]
        draw_area(page, level, bottom)
        self.sheet.line([(self.left, bottom), (self.right, bottom)], SOFT, 0.5)
        self.sheet.text(self.left - 4, bottom - 1, "memory", TEXT, "end")
        if near:
            y = bottom - (bottom - top) * self.limit / high
            self.sheet.line([(self.left, y), (self.right, y)], INK, 0.75, "4 2")
            self.say(y, bytes_text(self.limit), INK, "limit")
        else:
            page.note(f"A device has {bytes_text(self.limit)} of memory.")
        self.say(bottom - (bottom - top) * self.most / high, bytes_text(self.most), INK)
        self.say(bottom - 0.36 * SMALL, "0 B", SOFT)
        page.y = bottom

    def say(self, y: float, text: str, fill: str, name: str = "") -> None:
        """Says an amount of memory to the right of its height, or next to that, and to the left what it is."""
        for base in (y + 0.36 * SMALL + by for by in (0.0, *(sign * n for n in range(1, 9) for sign in (1, -1)))):
            if self.sheet.is_free(box_of(self.page.width, base, text, SMALL, "end")):
                self.sheet.text(self.page.width, base, text, SMALL, "end", fill=fill)
                break
        at = (self.left - 4, y + 0.36 * SMALL)
        if name and self.sheet.is_free(box_of(*at, name, SMALL, "end")):
            self.sheet.text(*at, name, SMALL, "end", fill=fill)

    def draw_times(self) -> None:
        """Says the time below, at round values that do not meet."""
        page, whole = self.page, self.timeline["seconds"]
        base = page.y + 4 + UP * SMALL
        for value in steps(0.0, whole, max(2, int((self.right - self.left) / _TICK))) if whole else []:
            x, words = self.x(value), seconds_text(value)
            self.sheet.line([(x, page.y), (x, page.y + 2.5)], SOFT, 0.5)
            box = box_of(x, base, words, SMALL, "middle")
            if self.sheet.is_free(Box(box.left - 2, box.top, box.right + 2, box.bottom)):
                self.sheet.text(x, base, words, SMALL, "middle", fill=SOFT)
        page.y = base + 0.3 * SMALL + 4


def _outlined(sheet: Sheet, x: float, y: float) -> None:
    sheet.rect(x + 0.25, y - 2.5, SWATCH - 0.5, 5, _WHITE, stroke=SOFT)
