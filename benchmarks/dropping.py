"""From the drop of a chip to the redrawn board, in a real browser with a real mouse.

The clock is the page's own: it starts at the release of the mouse button, and stops after the frame in which the board
shows the new revision. In between lie the way to the kernel, the re-plan, and the way back. The drops are a random walk
of legal moves: in the transformer hardly one leads to a layout that was planned before.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from benchmarks.planning import subjects
from benchmarks.timing import Sample
from meshlab import workbooks
from tests.browser.board import TRAY, Board
from tests.browser.page import NotebookPage, new_context, open_browser
from tests.browser.server import serve

NOTEBOOK = Path(__file__).parent / "notebooks" / "drops.py"
DROPS = 40
DROP_SECONDS = 0.300

# A frame after the attribute has changed, and then whatever runs next: the frame has been painted.
WATCH = """root => {
    window.__drops = [];
    let released = 0;
    root.addEventListener("pointerup", () => { released = performance.now(); }, true);
    const painted = () => window.__drops.push(performance.now() - released);
    new MutationObserver(records => {
        // Costs and advice that follow are drawn at the same revision.
        if (records.some(each => each.oldValue !== root.dataset.rev)) requestAnimationFrame(() => setTimeout(painted));
    }).observe(root, {attributes: true, attributeFilter: ["data-rev"], attributeOldValue: true});
}"""


def measure(drops: int = DROPS) -> list[Sample]:
    """Returns a sample for each subject of the planning benchmarks.

    Args:
        drops: how many chips to drop on each board.
    """
    with tempfile.TemporaryDirectory() as scratch, open_browser() as browser:
        folder, home = Path(scratch, "notebooks"), Path(scratch, "home")
        folder.mkdir()
        home.mkdir()
        workbooks.write(NOTEBOOK, folder / "drops.ipynb")
        with serve(folder, home) as server:
            page = NotebookPage(new_context(browser), server, "drops.ipynb")
            page.run_all()
            names = [(subject.name, shown) for subject, shown in zip(subjects()[:2], ("small", "large"), strict=True)]
            samples = [
                Sample(f"{name}: drop to redrawn", _drops(Board(page, number), variable, drops), DROP_SECONDS)
                for number, (name, variable) in enumerate(names)
            ]
            page.assert_clean()
            page.close()
    return samples


def _drops(board: Board, variable: str, times: int) -> tuple[float, ...]:
    """Drops chips where they may go, and returns the seconds that each took."""
    board.root.evaluate(WATCH)
    choose = random.Random(0)
    for _ in range(times):
        dim, axis = choose.choice(_moves(board.page, variable))
        with board.next_revision():
            board.drag(dim, axis)
    board.page.view.wait_for_function(f"() => window.__drops.length >= {times}")
    return tuple(milliseconds / 1000 for milliseconds in board.page.view.evaluate("() => window.__drops"))


def _moves(page: NotebookPage, variable: str) -> list[tuple[str, str]]:
    """Returns the dims and axes of the moves that are legal now and change something, back to the tray included."""
    onto_axes = page.python(
        f"[(d, a) for d, axes in {variable}.refusals().items() for a, refusal in axes.items()"
        f" if refusal is None and {variable}.layout.rules.get(d) != (a,)]"
    )
    return onto_axes + [(dim, TRAY) for dim in page.python(f"list({variable}.layout.rules)")]
