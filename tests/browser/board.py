"""The Explorer's board as a person meets it: chips, zones, tabs, buttons; moved by a real mouse and a real keyboard.

board = Board(page)
with board.next_revision():
    board.drag("hidden", "model")
board.collectives                        # [("all-reduce", "model"), ...] as the page lists them
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Locator, expect

from tests.browser.page import NotebookPage
from tests.browser.touch import Finger

TRAY = ""


class Board:
    """A board on a page: the first, or the one with this number."""

    def __init__(self, page: NotebookPage, number: int = 0):
        self.page = page
        self.mouse = page.view.mouse
        self.keyboard = page.view.keyboard
        self.root = page.view.locator(".mlb[data-rev]").nth(number)
        expect(self.root).to_be_visible()

    def chip(self, dim: str, zone: str | None = None) -> Locator:
        """The chip of a dim: the one in a zone as `name` gives it, or the first."""
        where = "" if zone is None else f'[data-zone="{zone}"]'
        return self.root.locator(f'.mlb-chip[data-dim="{dim}"]{where}:not(.mlb-ghost)').first

    def zone(self, axis: str, at: str = "") -> Locator:
        """The drop zone of a mesh axis, among the compute rules or at a place; or the tray."""
        return self.root.locator(f'.mlb-zone[data-zone="{name(axis, at)}"]')

    def note(self, axis: str, at: str = "") -> Locator:
        """What a zone says to the chip that is held."""
        return self.zone(axis, at).locator(".mlb-zone-note")

    def total(self, key: str) -> Locator:
        """A figure of the score line: "step", "expected", "peak", "arguments", "sends" or "work"."""
        return self.root.locator(f'.mlb-total[data-total="{key}"]')

    @property
    def status(self) -> Locator:
        """The status line, which screen readers read out."""
        return self.root.locator(".mlb-status")

    def button(self, operation: str) -> Locator:
        """One of the buttons: "run", "cancel", "cancel_auto", "undo", "redo", "reset"."""
        return self.root.locator(f'button[data-op="{operation}"]')

    def panel(self, tab: str) -> Locator:
        """The panel of a tab, shown or not."""
        return self.root.locator(f'[data-panel="{tab}"]')

    def show(self, tab: str) -> Locator:
        """Shows a panel, as a click on its tab does: "devices", "traffic", "memory", "time", "compare" or "run"."""
        self.root.locator(f'[role=tab][data-tab="{tab}"]').click()
        expect(self.panel(tab)).to_be_visible()
        return self.panel(tab)

    @property
    def revision(self) -> int:
        """The revision that the page shows."""
        return int(self.root.get_attribute("data-rev") or -1)

    @property
    def layout(self) -> str:
        """The layout as the page writes it."""
        return self.root.locator(".mlb-layout-text").text_content() or ""

    @property
    def collectives(self) -> list[tuple[str, str]]:
        """Kind and axes of each collective, in the order of the page's list."""
        rows = self.show("traffic").locator("tr[data-kind]")
        return rows.evaluate_all("rows => rows.map(row => [row.dataset.kind, row.dataset.axes])")

    @property
    def chart(self) -> dict[str, str]:
        """The bars of the communication chart: wire bytes and payload by mesh axis."""
        bars = self.show("traffic").locator('[data-chart="axes"] [data-axis]')
        texts = "[...bar.children].map(each => each.innerText).join(' ')"
        pairs = bars.evaluate_all(f"bars => bars.map(bar => [bar.dataset.axis, {texts}])")
        return {axis: re.sub(r"\s+", " ", text).strip() for axis, text in pairs}

    @contextmanager
    def next_revision(self) -> Iterator[None]:
        """Waits, after the block, until the page shows a later revision than before it."""
        before = self.revision
        yield
        expect(self.root).not_to_have_attribute("data-rev", str(before))

    @contextmanager
    def next_answer(self) -> Iterator[None]:
        """Waits, after the block, until the page has heard Python's answer to what it sent."""
        before = self.root.get_attribute("data-ack") or ""
        yield
        expect(self.root).to_have_attribute("data-ack", re.compile(f"^(?!{re.escape(before)}$)."))

    def drag(self, dim: str, axis: str, at: str = "", zone: str | None = None) -> None:
        """Drags a chip onto a zone with the mouse: press, a first small move, the way there, release.

        Args:
            dim: the dim.
            axis: the mesh axis of the zone, or the tray.
            at: the place of the zone.
            zone: where the chip is, if the dim has several.
        """
        self.press(dim, zone)
        self.move_to(axis, at)
        self.mouse.up()

    def press(self, dim: str, zone: str | None = None) -> tuple[float, float]:
        """Presses the mouse on a chip, and moves it just enough to be a drag; returns where it is."""
        self.root.locator(".mlb-zones").scroll_into_view_if_needed()  # all of them: the mouse cannot leave the window
        # Under the pointer the tray keeps its order, so that the chip stays where it is measured.
        self.root.locator(".mlb-zones").hover(position={"x": 1, "y": 1})
        x, y = _middle(self.chip(dim, zone))
        self.mouse.move(x, y)
        self.mouse.down()
        self.mouse.move(x + 6, y + 6)
        return x + 6, y + 6

    def on_the_way(self, start: tuple[float, float], axis: str, at: str = "", stops: int = 6) -> Iterator[None]:
        """Moves the pressed mouse to the middle of a zone, and stops on the way."""
        (x, y), box = start, _middle(self.zone(axis, at))
        for stop in range(1, stops + 1):
            self.mouse.move(x + (box[0] - x) * stop / stops, y + (box[1] - y) * stop / stops)
            yield

    def move_to(self, axis: str, at: str = "") -> None:
        """Moves the pressed mouse to the middle of a zone, in several steps as a hand would."""
        self.mouse.move(*_middle(self.zone(axis, at)), steps=8)

    def swipe(self, dim: str, axis: str, at: str = "", zone: str | None = None) -> None:
        """Does by a finger what `drag` does by mouse, on a page with a touch screen."""
        self.root.locator(".mlb-zones").scroll_into_view_if_needed()
        Finger(self.page.view).drag(_middle(self.chip(dim, zone)), _middle(self.zone(axis, at)))

    def carry(self, dim: str, axis: str, at: str = "", zone: str | None = None) -> None:
        """Does by keyboard what `drag` does by mouse: pick up, arrow keys until the zone is aimed at, put down."""
        self.chip(dim, zone).focus()
        self.keyboard.press("Enter")
        aimed = self.root.locator(f'.mlb-zone[data-aim][data-zone="{name(axis, at)}"]')
        for _ in range(self.root.locator(".mlb-zone").count()):
            if aimed.count():
                break
            self.keyboard.press("ArrowRight")
        self.keyboard.press("Enter")


def name(axis: str, at: str = "") -> str:
    """Returns the page's name of a zone: `model`, `model@params/*`, or nothing for the tray."""
    return f"{axis}@{at}" if at else axis


def _middle(locator: Locator) -> tuple[float, float]:
    box = locator.bounding_box()
    assert box is not None, f"{locator} is not on the page"
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
