"""From the choice of a tab to its view on the screen, in a real browser, after a change of the layout.

The clock starts at the press on the tab, and stops after the frame in which the view has what it shows: what it asks
Python for by itself included; a Plotly chart in it is drawn after that frame, and is timed as well. Between two
measurements the layout changes, so that nothing is known beforehand.
"""

from __future__ import annotations

from playwright.sync_api import expect

from benchmarks.boards import BUSY, NAMES, moves
from benchmarks.timing import Sample
from meshlab.widgets.notebook.standalone import VIEWS
from tests.browser.board import Board

TIMES = 20
# Seconds to the first paint of every view; on boards that have promised more, of the program.
PROMISES = {"small": 0.100, "large": 0.100, "unrolled": 0.300, "long": 0.300}

# The views that have a Plotly chart whatever the layout is.
CHARTED = ("memory", "time")

# A view is there when something stands in its panel and nothing in it is on its way.
WATCH = """([root, name]) => {
    const tab = root.querySelector(`[data-tab="${name}"]`), panel = root.querySelector(`[data-panel="${name}"]`);
    window.__shown = null;
    tab.addEventListener("click", () => {
        const since = performance.now();
        const look = () => {
            if (panel.ariaBusy === "true" || !panel.innerText.trim()) return requestAnimationFrame(look);
            // Behind the frame, and ahead of the next one; a timer may come after that.
            const frame = new MessageChannel();
            frame.port1.onmessage = () => {
                const seen = performance.now() - since;
                const chart = () => {
                    if (panel.querySelector(".mlb-chart[data-fresh=false]")) return requestAnimationFrame(chart);
                    window.__shown = [seen, performance.now() - since];
                };
                chart();
            };
            frame.port2.postMessage(null);
        };
        setTimeout(() => requestAnimationFrame(look));  // behind what the click does
    }, {once: true, capture: true});
}"""


def measure(shown: dict[str, Board], times: int = TIMES) -> list[Sample]:
    """Returns a sample for each view of each board.

    Args:
        shown: the boards, by their Python names.
        times: how often each view is shown.
    """
    samples = []
    for variable, promise in PROMISES.items():
        for view in VIEWS[:-1] if promise == min(PROMISES.values()) else ["program"]:
            seen, drawn = zip(*_shown(shown[variable], variable, view, times), strict=True)
            samples.append(Sample(f"{NAMES[variable]}: {view} shown", seen, promise))
            if view in CHARTED:
                samples.append(Sample(f"{NAMES[variable]}: {view} with its chart", drawn))
    return samples


def _shown(board: Board, variable: str, view: str, times: int) -> list[tuple[float, float]]:
    """Shows a view again and again, and returns the seconds that each took, without and with its chart."""
    seconds, page = [], board.page.view
    away = "run" if view != "run" else "devices"
    for number in range(times):
        board.show(away)
        choices = moves(board.page, variable)
        dim, axis = choices[number % len(choices)]
        with board.next_revision():
            change = f"place({dim!r}, {axis!r})" if axis else f"remove({dim!r})"
            board.page.python(f"bool({variable}.{change})")
        expect(board.root).not_to_have_attribute("data-pending", "", timeout=60_000)
        while board.page.python(BUSY):  # nobody chooses a tab while the picture of the last change is still drawn
            page.wait_for_timeout(50)
        root = board.root.element_handle()
        page.evaluate(WATCH, [root, view])
        board.root.locator(f'[data-tab="{view}"]').click()
        page.wait_for_function("() => window.__shown !== null")
        seen, drawn = page.evaluate("() => window.__shown")
        seconds.append((seen / 1000, drawn / 1000))
    return seconds
