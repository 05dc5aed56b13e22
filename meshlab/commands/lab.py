"""`meshlab lab` opens the notebooks in JupyterLab.

    meshlab lab                        # opens 00_start
    meshlab lab 00_start --port 8900 --no-browser
    meshlab lab --ServerApp.token=x    # an option that is not ours is JupyterLab's

Notebooks are kept as text (`notebooks/*.py`, jupytext's percent format), so that they can be reviewed and run as tests.
Readers get real `.ipynb` files, in a folder of their own: `meshlab-notebooks/` in the current directory, or `--folder`.
What a reader has changed there is never overwritten; see `meshlab.workbooks`.

JupyterLab is started as a child process and is given no configuration of ours but its folder, its first page, and the
default not to lay questions about news and updates over the board (`meshlab/jupyter`; no option of the command line
does that): the reader's own settings, which win over that default, kernels and extensions stay in force.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .exits import STOPPED, WRONG, fail

DEFAULTS = Path(__file__).parents[1] / "jupyter"
MOST_PORTS = 65535

MISSING = """meshlab lab needs {missing}, which this Python does not have ({python}).
Install the notebook side with:

    {python} -m pip install "meshlab[notebook]"

or, in a clone of the project, type `make lab`."""


def add(verbs: Any):
    parser = verbs.add_parser(
        "lab",
        help="open the notebooks in JupyterLab",
        description="Open a notebook in JupyterLab. Your copies of the notebooks keep your changes.",
        epilog="Every other option is passed to JupyterLab: write it --Name=value, as in --ServerApp.token=x.",
        allow_abbrev=False,  # JupyterLab has options that begin as ours do
    )
    parser.add_argument("notebook", nargs="?", default="00_start", help="the notebook to open (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="serve, and print the address; open nothing")
    parser.add_argument("--port", type=int, help="the server's port; 0 is any free one (default: JupyterLab's choice)")
    parser.add_argument(
        "--folder", type=Path, default=Path("meshlab-notebooks"), help="where your copies are (default: %(default)s)"
    )
    parser.set_defaults(run=run, parser=parser, hands_on=True)


def run(options: argparse.Namespace, others: Sequence[str]) -> int:
    """Opens a notebook in JupyterLab; returns its exit status.

    Args:
        options: those of `meshlab lab`.
        others: those that JupyterLab is given.
    """
    missing = [name for name in ("jupyterlab", "jupytext") if importlib.util.find_spec(name) is None]
    if missing:
        return fail(MISSING.format(missing=" and ".join(missing), python=sys.executable))

    from meshlab import workbooks  # noqa: PLC0415 - needs jupytext, whose absence was just answered for

    if options.port is not None and not 0 <= options.port <= MOST_PORTS:
        return fail(f"There is no port {options.port}: --port takes 1 to {MOST_PORTS}, or 0 for any free one.", WRONG)
    try:
        notebook = workbooks.pick(options.notebook)
        for note in workbooks.refresh(options.folder):
            print(note)
    except workbooks.WorkbookError as error:
        return fail(str(error), WRONG)
    command = lab_command(options.folder, notebook, port=options.port, browser=not options.no_browser, others=others)
    try:
        return subprocess.call(command, env=lab_environment())
    except KeyboardInterrupt:  # Ctrl-C reaches JupyterLab as well, which asks and says what it does.
        return STOPPED


def lab_command(folder: Path, notebook: str, port: int | None, browser: bool, others: Sequence[str] = ()) -> list[str]:
    """Returns the command that serves `folder` and opens `notebook` in it.

    Args:
        folder: the reader's folder of notebooks; JupyterLab shows it and nothing above it.
        notebook: the name of a notebook, without its ending.
        port: the server's port; JupyterLab's choice when `None`.
        browser: whether to open the reader's browser.
        others: options of JupyterLab, which win over those of ours: it refuses an option that is given twice.
    """
    ours = [f"--ServerApp.root_dir={folder.resolve()}", f"--LabApp.default_url=/lab/tree/{notebook}.ipynb"]
    given = {option.partition("=")[0] for option in others}
    command = [sys.executable, "-m", "jupyterlab", *(each for each in ours if each.partition("=")[0] not in given)]
    if port is not None:
        command += [f"--port={port}"]
    if not browser:
        command += ["--no-browser"]
    if _is_root() and "--allow-root" not in given:
        command += ["--allow-root"]  # In containers, being root is usual, and JupyterLab would refuse to start.
    return [*command, *others]


def lab_environment() -> dict[str, str]:
    """Returns this process's environment, with our defaults where JupyterLab looks for such."""
    path = os.environ.get("JUPYTER_CONFIG_PATH")
    return os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join([*([path] if path else []), str(DEFAULTS)])}


def _is_root() -> bool:
    """Whether this is the superuser; never on Windows, which has no `geteuid`."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
