"""What the site executes: notebooks, which are text, and when they are to be executed anew.

A hidden first cell lets the boards of a notebook be dragged on its page (`boards.py`).
"""

import functools
import hashlib
import pathlib
import re

import jupytext
import nbformat

# A page that a notebook's prose names, `docs/serial.md`, is a link on the site.
PAGE = re.compile(r"`docs/([\w-]+)\.md`")
FIRST = "import boards\n\nboards.drag_boards_of_cells({folder!r}, {to_root!r})"


def notebook(text: str, boards: str, to_root: str) -> nbformat.NotebookNode:
    """Returns the notebook that a source in jupytext's percent format describes, for MyST-NB.

    Args:
        text: the source.
        boards: the folder in which the notebook's boards are written.
        to_root: the way from the notebook's page to the root of the site.
    """
    read = jupytext.reads(text, fmt="py:percent")
    first = nbformat.v4.new_code_cell(FIRST.format(folder=boards, to_root=to_root), metadata={"tags": ["remove-cell"]})
    read.cells.insert(1, first)
    for cell in read.cells:
        if cell.cell_type == "markdown":
            cell.source = PAGE.sub(r"[\1.md](/\1.md)", cell.source)
    return read


@functools.cache
def fingerprint(*folders: pathlib.Path) -> str:
    """Returns a hash of the sources in folders: no page shows what another version of them printed."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        if path.suffix in {".py", ".toml", ".json", ".css", ".js"} and "node_modules" not in path.parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
