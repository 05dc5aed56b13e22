"""A JupyterLab server for tests: in folders of its own, quiet, and gone when the tests are.

    with serve(folder, source_root) as server:
        server.url("00_start.ipynb")        # http://127.0.0.1:43211/doc/tree/00_start.ipynb?token=...&reset

Everything that JupyterLab reads or writes about its user is in a temporary folder, so that neither the developer's own
settings nor an earlier run can change what a test sees. What could move on the page by itself is off: the news, update
checks, auto-save, the blinking cursor, windowing of cells.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
START_SECONDS = 180
ROOT = Path(__file__).parents[2]

# The server outlives a killed test run otherwise, with its kernels: a thread in it watches for its parent.
CONFIG = """
import os, signal, threading, time

def leave_with_parent(parent={parent}):
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=leave_with_parent, daemon=True).start()

c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = 0
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.root_dir = {root!r}
c.ServerApp.terminals_enabled = False
c.IdentityProvider.token = {token!r}
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.extension_manager = "readonly"
c.LabApp.expose_app_in_browser = True
c.JupyterNotebookApp.expose_app_in_browser = True
"""

PAGE = {
    "disabledExtensions": {
        "@jupyterlab/apputils-extension:announcements": True,
        "@jupyterlab/extensionmanager-extension": True,
    }
}

SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/completer-extension:manager": {"autoCompletion": False},
    "@jupyterlab/codemirror-extension:plugin": {"defaultConfig": {"cursorBlinkRate": 0}},
}


@dataclass(frozen=True)
class Server:
    """A running JupyterLab."""

    base: str
    token: str
    folder: Path
    log: Path

    def url(self, notebook: str, mode: str = "doc") -> str:
        """Returns the address of a notebook, without what an earlier page left behind.

        Args:
            notebook: its path.
            mode: "doc", alone on its page, "lab", in a tab of the whole JupyterLab, or "notebooks", in Notebook 7.
        """
        path = notebook if mode == "notebooks" else f"tree/{notebook}"
        return f"{self.base}/{mode}/{path}?token={self.token}&reset"


@contextmanager
def serve(folder: Path, home: Path, theme: str = "JupyterLab Light") -> Iterator[Server]:
    """Runs a server while the block runs.

    Args:
        folder: what it serves: the notebooks.
        home: an empty folder for its settings, runtime files and log.
        theme: the colours of JupyterLab.
    """
    token = secrets.token_hex(16)
    environment = _environment(home)
    _write_settings(home, folder, token, theme)
    log = home / "jupyterlab.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            # The file is named after the process.
            info = home / "runtime" / f"jpserver-{process.pid}.json"
            base = wait_until(process, lambda: _address(info, token), log)
            yield Server(base, token, folder, log)
        finally:
            _stop(process)


def _environment(home: Path) -> dict[str, str]:
    own = {
        "HOME": home,
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JAX_PLATFORMS": "cpu",
        # The clone under test, installed or not.
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    return {**os.environ, **{name: str(value) for name, value in own.items()}}


def _write_settings(home: Path, folder: Path, token: str, theme: str) -> None:
    config = home / "config"
    (config / "labconfig").mkdir(parents=True)
    (config / "jupyter_server_config.py").write_text(CONFIG.format(parent=os.getpid(), root=str(folder), token=token))
    (config / "labconfig" / "page_config.json").write_text(json.dumps(PAGE))
    settings = {**SETTINGS, "@jupyterlab/apputils-extension:themes": {"theme": theme}}
    (config / "labconfig" / "default_setting_overrides.json").write_text(json.dumps(settings))


def _address(info: Path, token: str) -> str:
    """Returns the address of a server that answers: its port is in a file that it writes."""
    base = f"http://127.0.0.1:{json.loads(info.read_text())['port']}"
    urllib.request.urlopen(f"{base}/api/status?token={token}", timeout=5).close()
    return base


def wait_until(process: subprocess.Popen, ask: Callable[[], T], log: Path) -> T:
    """Waits until a server answers.

    Args:
        process: the server, which its caller ends.
        ask: asks it; raises OSError or ValueError as long as it is not there.
        log: what it writes.

    Returns:
        What `ask` returned.

    Raises:
        RuntimeError: it has ended, or was not there in time; with the end of its log.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return ask()
        except (OSError, ValueError):
            time.sleep(0.05)
    why = f"did not start within {START_SECONDS} s" if process.poll() is None else f"ended with {process.returncode}"
    raise RuntimeError(f"{process.args} {why}. Its log:\n{log.read_text()[-4000:]}")


def _stop(process: subprocess.Popen) -> None:
    """Ends the server gently, so that it ends its kernels; a server that hangs is killed."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
