"""A finger on a touch screen, as Chromium's own protocol has it.

finger = Finger(board.blank.view)
finger.drag((30, 40), (300, 200))        down, along the way in parts, and up
"""

from __future__ import annotations

from playwright.sync_api import Page

Point = tuple[float, float]


class Finger:
    """A finger on a page that was opened with a touch screen."""

    def __init__(self, page: Page):
        self.session = page.context.new_cdp_session(page)

    def __call__(self, kind: str, *point: float) -> None:
        points = [{"x": point[0], "y": point[1]}] if point else []
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def move(self, start: Point, goal: Point) -> None:
        """Puts the finger down and moves it, without lifting it."""
        self("touchStart", *start)
        for part in (0.1, 0.4, 0.7, 1.0):
            self("touchMove", *(a + (b - a) * part for a, b in zip(start, goal, strict=True)))

    def drag(self, start: Point, goal: Point) -> None:
        """Drags from one point to another."""
        self.move(start, goal)
        self("touchEnd")
