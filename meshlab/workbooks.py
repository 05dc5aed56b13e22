"""The reader's copies of the notebooks: made from the text sources, and never overwritten once edited.

    for note in refresh(Path("meshlab-notebooks")):
        print(note)                        # "00_start.ipynb: new"

The sources (`notebooks/*.py`) belong to the project and are the same for everyone; a copy (`*.ipynb`) belongs to its
reader. Each copy carries, in its own metadata, a fingerprint of the cells as they were written. From that follow the
four cases, without any other bookkeeping:

    no copy                                → written
    cells as we wrote them, source as then → left alone, with its outputs
    cells as we wrote them, source newer   → written anew
    cells changed by the reader            → left alone; a note says that the source is newer, if it is

Running a notebook changes outputs, not cells, and so does not make it the reader's own.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from meshlab.engine.errors import MeshlabError, closest, listed

_PACKAGE = Path(__file__).parent


class WorkbookError(MeshlabError):
    """A notebook that is not there, or a copy that cannot be read."""


def sources() -> dict[str, Path]:
    """Returns the text sources by name, in order: from the wheel, or from the clone around an editable install."""
    for folder in (_PACKAGE / "notebooks", _PACKAGE.parent / "notebooks"):
        texts = {path.stem: path for path in sorted(folder.glob("*.py"))}
        if texts:
            return texts
    raise WorkbookError(
        f"No notebooks were found in {_PACKAGE / 'notebooks'} (a wheel) or {_PACKAGE.parent / 'notebooks'} (a clone). "
        "Install meshlab from a wheel or with `pip install -e`."
    )


def pick(name: str) -> str:
    """Returns the name of a notebook, for a name with or without its ending."""
    known = sources()
    stem = Path(name).name.removesuffix(".ipynb").removesuffix(".py")
    if stem not in known:
        raise WorkbookError(f"There is no notebook `{name}`.{closest(stem, known)} There are: {listed(known)}.")
    return stem


def refresh(folder: Path) -> list[str]:
    """Brings the copies in `folder` up to date where that loses nothing; returns a note for each that is not as before.

    Args:
        folder: the reader's folder; made if it is not there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        notes = [(name, _refresh_one(source, folder / f"{name}.ipynb")) for name, source in sources().items()]
    except OSError as error:
        raise WorkbookError(
            f"The notebooks cannot be written to {folder} ({error}). Give a folder that you may write to:"
            " --folder meshlab-notebooks."
        ) from None
    return [f"{folder / name}.ipynb: {note}" for name, note in notes if note]


def convert(source: Path) -> dict[str, Any]:
    """Returns the notebook that a text source describes, with its fingerprint in the metadata."""
    import jupytext  # noqa: PLC0415 - of the notebook extra

    notebook = jupytext.read(source)
    # Jupytext's own entries would make later saves write a text file beside the reader's copy.
    notebook.metadata.pop("jupytext", None)
    # What a notebook application would write there, which makes a notebook unsaved as soon as it is opened.
    notebook.metadata |= _kernel()
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # Jupytext draws ids at random; equal sources should give equal files.
    notebook.metadata["meshlab"] = {"cells": _fingerprint(notebook)}
    return notebook


def _kernel() -> dict[str, Any]:
    """Returns what the kernel of this Python says of itself, as a notebook application notes it."""
    from ipykernel.ipkernel import IPythonKernel  # noqa: PLC0415 - of the notebook extra
    from ipykernel.kernelspec import get_kernel_dict  # noqa: PLC0415

    spec = get_kernel_dict()
    return {
        "kernelspec": {"name": "python3", "display_name": spec["display_name"], "language": spec["language"]},
        "language_info": dict(IPythonKernel.language_info),
    }


def write(source: Path, copy: Path) -> None:
    """Writes the notebook that a text source describes, whatever is there."""
    import nbformat  # noqa: PLC0415 - of the notebook extra

    copy.write_text(nbformat.writes(convert(source)), encoding="utf-8")


def _refresh_one(source: Path, copy: Path) -> str:
    """Writes `copy` if that loses nothing; returns what was done, or "" for nothing to tell."""
    fresh = convert(source)
    if not copy.exists():
        write(source, copy)
        return "new"
    old = _read(copy)
    written = old.get("metadata", {}).get("meshlab", {}).get("cells")
    current = fresh["metadata"]["meshlab"]["cells"]
    if written == _fingerprint(old):
        if written == current:
            return ""
        write(source, copy)
        return "updated, since the project's notebook has changed and yours had not"
    if written == current:
        return "yours, with your changes"
    return (
        "yours, with your changes; the project's notebook has changed since: rename or delete yours to get the new one"
    )


def _fingerprint(notebook: dict[str, Any]) -> str:
    """Returns a hash of what a reader may edit: the kind and text of each cell, and not the outputs."""
    cells = [[cell["cell_type"], "".join(cell["source"])] for cell in notebook["cells"]]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def _read(copy: Path) -> dict[str, Any]:
    try:
        notebook = json.loads(copy.read_text(encoding="utf-8"))
        _fingerprint(notebook)
    except (ValueError, KeyError, TypeError) as error:
        raise WorkbookError(
            f"{copy} is not a notebook that can be read ({error}). "
            "Rename or delete it, and `meshlab lab` writes it again."
        ) from None
    return notebook
