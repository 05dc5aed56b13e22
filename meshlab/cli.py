"""The command `meshlab`: opens the notebooks in JupyterLab, and measures the attached devices.

    meshlab calibrate                  # for plans on ml.mesh("attached", ...)
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

from meshlab.version import __version__

DEFAULTS = Path(__file__).parent / "jupyter"
# The exit status of invalid arguments, argparse's own; 1 is all else.
WRONG = 2
MOST_PORTS = 65535

MISSING = """meshlab lab needs {missing}, which this Python does not have ({python}).
Install the notebook side with:

    {python} -m pip install "meshlab[notebook]"

or, in a clone of the project, type `make lab`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    Args:
        arguments: the words after `meshlab`; the process's own when `None`.
    """
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if "run" not in options:
        parser.error(_without_verb(others))
    return options.run(options, others)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="meshlab", description="Plan how a JAX model is sharded over devices.")
    parser.add_argument("--version", action="version", version=f"meshlab {__version__}")
    verbs = parser.add_subparsers(metavar="VERB")
    lab = verbs.add_parser(
        "lab",
        help="open the notebooks in JupyterLab",
        description="Open a notebook in JupyterLab. Your copies of the notebooks are kept, with all that you changed.",
        epilog="Every other option is passed to JupyterLab: write it --Name=value, as in --ServerApp.token=x.",
        allow_abbrev=False,  # JupyterLab has options that begin as ours do
    )
    lab.add_argument("notebook", nargs="?", default="00_start", help="the notebook to open (default: %(default)s)")
    lab.add_argument("--no-browser", action="store_true", help="start the server and print its address, open nothing")
    lab.add_argument("--port", type=int, help="the server's port; 0 is any free one (default: JupyterLab's choice)")
    lab.add_argument(
        "--folder", type=Path, default=Path("meshlab-notebooks"), help="where your copies are (default: %(default)s)"
    )
    lab.set_defaults(run=open_lab)
    _calibrate_parser(verbs)
    return parser


def _without_verb(others: Sequence[str]) -> str:
    """The error where no verb is given: the verb is missing, or an option was meant."""
    from .engine.errors import closest, listed  # noqa: PLC0415 - only to say this

    if not others:
        return "the following arguments are required: VERB"
    hint = closest(others[0], ("--version", "--help"))
    return f"there is no option {listed(others)}.{hint} `meshlab --help` lists what there is."


def _calibrate_parser(verbs: Any):
    calibrate = verbs.add_parser(
        "calibrate",
        help="measure the attached devices",
        description="Measure the attached devices: matmuls, memory and collectives, for about a minute. Plans on"
        ' ml.mesh("attached", ...) are timed with what was measured.',
    )
    calibrate.add_argument("--output", type=Path, help="where to write (default: where `attached` looks for it)")
    calibrate.add_argument("--simulate", type=int, metavar="N", help="measure N simulated CPU devices instead")
    calibrate.add_argument("--quick", action="store_true", help="small sizes only: seconds, and less to be trusted")
    calibrate.set_defaults(run=measure_devices)


def open_lab(options: argparse.Namespace, others: Sequence[str]) -> int:
    """Opens a notebook in JupyterLab; returns its exit status.

    Args:
        options: those of `meshlab lab`.
        others: those that JupyterLab is given.
    """
    missing = [name for name in ("jupyterlab", "jupytext") if importlib.util.find_spec(name) is None]
    if missing:
        return _fail(MISSING.format(missing=" and ".join(missing), python=sys.executable))

    from meshlab import workbooks  # noqa: PLC0415 - needs jupytext, whose absence was just answered for

    if options.port is not None and not 0 <= options.port <= MOST_PORTS:
        return _fail(f"There is no port {options.port}: --port takes 1 to {MOST_PORTS}, or 0 for any free one.", WRONG)
    try:
        notebook = workbooks.pick(options.notebook)
        for note in workbooks.refresh(options.folder):
            print(note)
    except workbooks.WorkbookError as error:
        return _fail(str(error), WRONG)
    command = lab_command(options.folder, notebook, port=options.port, browser=not options.no_browser, others=others)
    try:
        return subprocess.call(command, env=lab_environment())
    except KeyboardInterrupt:  # Ctrl-C reaches JupyterLab as well, which asks and says what it does.
        return 130


def measure_devices(options: argparse.Namespace, others: Sequence[str]) -> int:
    """Measures the attached devices and writes what they reach; returns the exit status.

    Args:
        options: those of `meshlab calibrate`.
        others: what is no option of it.
    """
    if others:
        return _fail(
            f"meshlab calibrate does not know {' '.join(others)}; `meshlab calibrate --help` lists its options.", WRONG
        )
    import jax  # noqa: PLC0415 - the notebooks open without it

    from .cost.machines import calibrate  # noqa: PLC0415
    from .engine.devices import LIMIT, simulate  # noqa: PLC0415
    from .engine.errors import MeshlabError  # noqa: PLC0415

    if options.simulate is not None and not 1 <= options.simulate <= LIMIT:
        return _fail(
            f"--simulate was given {options.simulate}; it takes a number of devices, at least 1, and at most"
            f" {LIMIT} can be simulated: --simulate 8.",
            WRONG,
        )
    try:
        if options.simulate is not None:
            simulate(options.simulate)
        devices = jax.devices()[: options.simulate]
        calibrate.destination(devices[0].device_kind, options.output)
        print(f"{devices[0].device_kind}, {len(devices)} device{'s' * (len(devices) != 1)}")
        measured = calibrate.calibrate(
            devices, largest=calibrate.QUICK if options.quick else None, progress=lambda s: print(f"  {s}", flush=True)
        )
        path = calibrate.save(measured, devices[0].device_kind, options.output)
    except MeshlabError as error:
        return _fail(str(error), WRONG)
    except KeyboardInterrupt:
        return _fail("Stopped; nothing was written.")
    print(f"{measured}\nWritten to {path}.")
    return 0


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


def _fail(message: str, status: int = 1) -> int:
    print(message, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
