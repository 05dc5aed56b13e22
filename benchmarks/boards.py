"""The boards of `notebooks/drops.py` in a real JupyterLab, for the benchmarks that move chips on them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect

from meshlab import workbooks
from tests.browser.board import TRAY, Board
from tests.browser.page import NotebookPage, new_context, open_browser
from tests.browser.server import serve

NOTEBOOK = Path(__file__).parent / "notebooks" / "drops.py"
# The Explorers of the notebook, in its order.
NAMES = {
    "small": "MLP, 2 layers",
    "large": "Llama 3 8B",
    "fine": "Llama 3 8B, 6 axes",
    "unrolled": "Llama 3 8B, a loop",
    "long": "10,000 steps",
    "puzzle": "P08, a puzzle",
}

# Whether advice is still being worked out for a board that was just opened.
BUSY = "any(each.name == 'meshlab-costs' for each in __import__('threading').enumerate())"


@contextmanager
def boards() -> Iterator[dict[str, Board]]:
    """Opens the notebook, and gives its boards by their Python names."""
    with tempfile.TemporaryDirectory() as scratch, open_browser() as browser:
        folder, home = Path(scratch, "notebooks"), Path(scratch, "home")
        folder.mkdir()
        home.mkdir()
        workbooks.write(NOTEBOOK, folder / "drops.ipynb")
        with serve(folder, home) as server:
            page = NotebookPage(new_context(browser), server, "drops.ipynb")
            page.run_all()
            shown = {variable: Board(page, number) for number, variable in enumerate(NAMES)}
            for board in shown.values():
                expect(board.root).not_to_have_attribute("data-pending", "", timeout=180_000)
            while page.python(BUSY):
                page.view.wait_for_timeout(500)
            yield shown
            page.assert_clean()
            page.close()


def moves(page: NotebookPage, variable: str) -> list[tuple[str, str]]:
    """Returns the dims and axes of the moves that are legal now and change something, back to the tray included."""
    onto_axes = page.python(
        f"[(d, a) for d, axes in {variable}.documents.refusals().items() for a, refusal in axes.items()"
        f" if refusal is None and {variable}.layout.rules.get(d) != (a,)]"
    )
    return onto_axes + [(dim, TRAY) for dim in page.python(f"list({variable}.layout.rules)")]
