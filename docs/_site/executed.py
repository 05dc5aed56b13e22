"""What the site executes: notebooks, which are text, and when they are to be executed anew."""

import functools
import hashlib
import pathlib
import re

import jupytext
import nbformat

# A page that a notebook's prose names, `docs/serial.md`, is a link on the site.
PAGE = re.compile(r"`docs/([\w-]+)\.md`")


def notebook(text: str) -> nbformat.NotebookNode:
    """Returns the notebook that a source in jupytext's percent format describes, for MyST-NB."""
    read = jupytext.reads(text, fmt="py:percent")
    for cell in read.cells:
        if cell.cell_type == "markdown":
            cell.source = PAGE.sub(r"[\1.md](/\1.md)", cell.source)
    return read


@functools.cache
def fingerprint(package: pathlib.Path) -> str:
    """Returns a hash of a package's sources: no page shows what another version of it printed."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in {".py", ".toml", ".json", ".css", ".js"} and "node_modules" not in path.parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
