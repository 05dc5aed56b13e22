"""Pictures of the workbench and of its views alone, in all sizes and themes, with contact sheets: `make pictures`.

They land in `tests/browser/artifacts/pictures/`, which git ignores: one PNG for each model, width, theme and tab, and a
sheet for each model with all of its pictures side by side. `python -m tests.browser.pictures docs` takes those few
again that the docs show.
"""

from __future__ import annotations

import base64
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from playwright.sync_api import Browser, expect

import meshlab as ml
from meshlab.models import zoo
from meshlab.models.language import llama, moe
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.standalone import VIEWS
from tests.browser.blank import BlankBoard, BlankPage
from tests.browser.page import ARTIFACTS, open_browser
from tests.widgets import small

FOLDER = ARTIFACTS / "pictures"
DOCS = Path(__file__).parents[2] / "docs" / "images"
# What JupyterLab leaves a cell at 1280 x 720, 1440 x 900 and 1920 x 1080, at zoom 200 %, and in a narrow cell.
SIZES = ((1112, 640), (1272, 820), (1752, 1000), (556, 320), (600, 900))
TABS = VIEWS[:-2]
ALONE = (556, 1112)


def trained(model: Any, config: Any, mesh: ml.Mesh, layout: Any) -> Explorer:
    """Opens a training step of a model with AdamW, on shapes alone."""
    optimizer, params = training.adamw(), shapes(model.init, config)
    arguments = params, jax.eval_shape(optimizer.init, params), *model.inputs(config)
    return explore(ml.trace(training.adamw_step(model.loss, optimizer), *arguments), mesh, layout)


def subjects() -> dict[str, Callable[[], Explorer]]:
    """Returns what is pictured: a small net, Llama 3 8B on two axes, experts on four, a U-Net with halos, and Flax."""
    v5p = ml.mesh("v5p:4x4x4", data=16, model=4)
    sharded = {"batch": "data", "heads": "model", "ffn": "model", "params/*": {"embed": "data"}}
    named = {model.name: model for model in zoo.models()}
    flax = next(model for model in zoo.imported_models() if "linen" in model.name)
    halo, eight = ml.mesh("h100", data=2, space=4), ml.mesh("v5e", data=4, model=2)
    four = ml.mesh(data=2, model=2, expert=2, pod=2)
    return {
        "mlp": lambda: explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", run=small.training()),
        "llama": lambda: trained(llama, llama.Config.llama3_8b(batch=64), v5p, sharded),
        "moe": lambda: trained(moe, moe.Config(), four, {"batch": "data", "experts": "expert"}),
        "unet": lambda: explore(named["unet3d_sgd"].trace(), halo, "batch:data depth:space"),
        "flax": lambda: explore(flax.trace(), eight, "batch:data ffn:model heads:model"),
    }


def wait_for(board: BlankBoard) -> None:
    """Waits until all that is in sight has been worked out, fetched and drawn."""
    waiting = ".mlb-reading:visible, [aria-busy=true]:visible, [data-fresh=false]:visible"
    expect(board.root.locator(waiting)).to_have_count(0)


def pictures(browser: Browser, name: str, explorer: Explorer) -> Iterator[Path]:
    """Takes the pictures of one board, once its costs are known."""
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
            yield path
        page.close()
    for width, theme, view in itertools.product(ALONE, ("light", "dark"), VIEWS):
        page = BlankPage(browser, explorer, theme=theme, width=width, panel=view)
        board = BlankBoard(page)
        expect(board.root).to_be_visible()
        wait_for(board)
        path = FOLDER / f"{name}-alone-{width}-{theme}-{view}.png"
        page.view.screenshot(path=str(path), full_page=True)
        yield path
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


# The docs' pictures: the model, the view that stands alone or "" for the workbench, and the width.
SHOWN = {
    "explorer": ("llama", "", 1280),
    "devices": ("llama", "devices", 820),
    "program": ("llama", "program", 820),
    "time": ("llama", "time", 820),
}


def for_docs(browser: Browser) -> None:
    """Takes the pictures that the docs show."""
    opened = {name: subjects()[name]() for name in {name for name, _, _ in SHOWN.values()}}
    for file, (name, view, width) in SHOWN.items():
        opened[name].view()
        page = BlankPage(browser, opened[name], width=width, height=640, panel=view)
        board = BlankBoard(page)
        expect(board.root).to_be_visible()
        wait_for(board)
        board.root.screenshot(path=str(DOCS / f"{file}.png"))
        page.close()


def main(what: str = "") -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open_browser() as browser:
        if what == "docs":
            for_docs(browser)
            return
        for name, opened in subjects().items():
            print(sheet(browser, name, list(pictures(browser, name, opened()))))


if __name__ == "__main__":
    main(*sys.argv[1:])
