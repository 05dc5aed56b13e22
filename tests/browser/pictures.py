"""Pictures of the workbench and of its views alone, in all sizes and themes, with contact sheets: `make pictures`.

They land in `tests/browser/artifacts/pictures/`, which git ignores: one PNG for each model, width, theme and tab, and a
sheet for each model with all of its pictures side by side. What is cut or covered is printed, and fails.
`python -m tests.browser.pictures docs` takes those few again that the docs show.
"""

from __future__ import annotations

import base64
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Browser, expect

import meshlab as ml
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.standalone import VIEWS
from tests.browser import film
from tests.browser.blank import BlankBoard, BlankPage
from tests.browser.overflow import CUT, overflowing
from tests.browser.page import ARTIFACTS, open_browser
from tests.widgets.printed import BOARDS

FOLDER = ARTIFACTS / "pictures"
DOCS = Path(__file__).parents[2] / "docs" / "images"
# What JupyterLab leaves a cell at 1280 x 720, 1440 x 900 and 1920 x 1080, at zoom 200 %, and in a narrow cell.
SIZES = ((1112, 640), (1272, 820), (1752, 1000), (556, 320), (700, 900))
TABS = VIEWS[:-2]
ALONE = (556, 1112)


def subjects() -> dict[str, Callable[[], Explorer]]:
    """Returns what is pictured: digits, Llama 3 8B on three axes, Mixtral on five, a U-Net with halos, and Flax."""
    unet = next(model for model in zoo.models() if model.name == "unet3d_sgd")
    flax = next(model for model in zoo.imported_models() if "linen" in model.name)
    halo, eight = ml.mesh("h100", data=2, space=4), ml.mesh("v5e", data=4, model=2)
    return {
        **BOARDS,
        "unet": lambda: explore(unet.trace(), halo, "batch:data depth:space"),
        "flax": lambda: explore(flax.trace(), eight, "batch:data ffn:model heads:model"),
    }


# Asks Python for what it has worked out meanwhile, and says whether all that is in sight is there.
DRAWN = """() => {
    window.poll();
    const waiting = document.querySelectorAll(".mlb-reading, [aria-busy=true], [data-fresh=false]");
    return ![...waiting].some(each => each.checkVisibility());
}"""


def wait_for(board: BlankBoard) -> None:
    """Waits until all that is in sight has been worked out, fetched and drawn."""
    board.blank.view.wait_for_function(DRAWN, polling=100)


def pictures(browser: Browser, name: str, explorer: Explorer) -> Iterator[tuple[Path, list[str]]]:
    """Takes the pictures of one board, once its costs are known, each with what does not fit in it."""
    explorer.view()
    for (width, height), theme in itertools.product(SIZES, ("light", "dark")):
        page = BlankPage(browser, explorer, theme=theme, width=width)
        page.view.set_viewport_size({"width": width, "height": height})
        board = BlankBoard(page)
        expect(board.root).to_be_visible()
        for tab in TABS:
            board.root.locator(f'[data-tab="{tab}"]').click()
            wait_for(board)
            path = FOLDER / f"{name}-{width}-{theme}-{tab}.png"
            page.view.screenshot(path=str(path), full_page=True)
            yield path, overflowing(board)
        page.close()
    for width, theme, view in itertools.product(ALONE, ("light", "dark"), VIEWS):
        page = BlankPage(browser, explorer, theme=theme, width=width, panel=view)
        board = BlankBoard(page)
        expect(board.root).to_be_visible()
        wait_for(board)
        path = FOLDER / f"{name}-alone-{width}-{theme}-{view}.png"
        page.view.screenshot(path=str(path), full_page=True)
        yield path, board.blank.view.evaluate(CUT)
        page.close()


def sheet(browser: Browser, name: str, paths: list[Path]) -> Path:
    """Puts pictures side by side, each with its name."""
    cells = "".join(
        f'<figure style="margin:0"><figcaption>{path.stem}</figcaption><img style="width:100%" '
        f'src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"></figure>'
        for path in paths
    )
    page = browser.new_page(viewport={"width": 1800, "height": 1000})
    page.set_content(f'<body style="display:grid;grid-template-columns:repeat(6,1fr);gap:12px;background:#999">{cells}')
    target = FOLDER / f"sheet-{name}.png"
    page.screenshot(path=str(target), full_page=True)
    page.close()
    return target


# The docs' pictures of one view alone, and its width.
SHOWN = {"devices": 820, "program": 820, "time": 820}


def in_docs() -> Explorer:
    """Opens Llama 3 8B with two presets on two axes."""
    explorer = explore("llama3-8b", ml.mesh("v5p:4x4x4", data=16, model=4), batch=64)
    explorer.toggle("fsdp")
    explorer.toggle("tensor_parallel")
    return explorer


def for_docs(browser: Browser) -> None:
    """Takes the pictures that the docs show."""
    explorer = in_docs()
    explorer.view()
    for view, width in SHOWN.items():
        page = BlankPage(browser, explorer, width=width, height=640, panel=view)
        board = BlankBoard(page)
        expect(board.root).to_be_visible()
        wait_for(board)
        board.root.screenshot(path=str(DOCS / f"{view}.png"))
        page.close()
    film.take(browser, DOCS / "drag.gif", wait_for)


def main(what: str = "") -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open_browser() as browser:
        if what == "docs":
            for_docs(browser)
            return
        failed = False
        for name, opened in subjects().items():
            taken = list(pictures(browser, name, opened()))
            for path, problems in taken:
                failed |= bool(problems)
                for problem in problems:
                    print(f"{path.stem}: {problem}")
            print(sheet(browser, name, [path for path, _ in taken]))
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
