"""A release: an sdist, and the wheel that is built from it, installed where nothing else is; they have all of meshlab.

In `make nightly` alone: it asks pip's index for what meshlab depends on, and takes minutes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from meshlab import workbooks
from meshlab.version import __version__
from tests.browser.server import START_SECONDS, wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
ROOT = Path(__file__).parents[1]

# What README shows, without a clone: a plan, and a board as one file, which holds the page's code.
PLANNED = """
import pathlib, jax, meshlab as ml

assert pathlib.Path(ml.__file__).is_relative_to(pathlib.Path({venv!r}).resolve()), ml.__file__
Batch, Embed, Hidden = ml.dims(batch=64, embed=256, hidden=1024)

def loss(params, x):
    return ml.square(ml.dot(ml.gelu(ml.dot(x, params["up"], Embed)), params["down"], Hidden) - x).mean()

params = {{"up": ml.f32[Embed, Hidden], "down": ml.f32[Hidden, Embed]}}
program = ml.trace(jax.value_and_grad(loss), params, ml.f32[Batch, Embed])
plan = program.plan(ml.mesh("v5e:2x2", data=2, model=2), "batch:data hidden:model")
print(plan.explain())
assert plan.memory.peak_bytes and plan.time.estimate
"""


def environment(**own: str) -> dict[str, str]:
    """The environment of a process that knows nothing of this clone and of what Jupyter's user has set."""
    mine = ("JUPYTER", "PYTHON", "VIRTUAL_ENV", "XDG")
    return {name: value for name, value in os.environ.items() if not name.startswith(mine)} | own


def ran(*command: object, cwd: Path, **own: str) -> str:
    """What a command prints; it succeeds."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment(**own), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def venv(folder: Path, *packages: object) -> Path:
    """Makes a virtual environment with packages; returns its folder of commands."""
    ran(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    install(folder / "bin", *packages)
    return folder / "bin"


def install(commands: Path, *packages: object):
    pip = (commands / "python", "-m", "pip", "--disable-pip-version-check", "install", "-qq")
    ran(*pip, "--constraint", ROOT / "constraints.txt", *packages, cwd=commands.parent)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sdist, and of the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("built")
    builder = venv(folder / "builder", "build")
    ran(builder / "python", "-m", "build", "--outdir", folder / "dist", ROOT, cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return built / f"meshlab-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel and what it depends on."""
    return venv(tmp_path_factory.mktemp("clean") / "venv", wheel)


@pytest.fixture(scope="module")
def notebooks(core: Path, wheel: Path) -> Path:
    """The same with what the notebooks need."""
    install(core, f"{wheel}[notebook]")
    return core


def of_git(*under: str) -> set[str]:
    """The files of folders, but for what git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *under]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in listed if (ROOT / name).exists()}


def test_wheel_has_the_package_and_the_course(wheel):
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
        commands = opened.read(f"meshlab-{__version__}.dist-info/entry_points.txt").decode()
    package = {name for name in of_git("meshlab") if not name.startswith("meshlab/widgets/js/")}
    assert names == package | {f"meshlab/{name}" for name in of_git("notebooks")}
    assert "meshlab = meshlab.cli:main" in commands


def test_sdist_has_what_it_is_built_and_read_with(built):
    with tarfile.open(built / f"meshlab-{__version__}.tar.gz") as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "constraints.txt", "pyproject.toml"} <= names
    assert of_git("meshlab", "notebooks", "tests", "scripts") <= names
    assert not [name for name in names if name.startswith((".git/", ".venv", ".site", "dist/"))]


def test_commands_and_plans_need_no_notebook(core, tmp_path):
    assert ran(core / "meshlab", "--version", cwd=tmp_path) == f"meshlab {__version__}\n"
    help_ = ran(core / "meshlab", "--help", cwd=tmp_path)
    assert all(verb in help_ for verb in ("lab", "plan", "explain", "models"))
    text = ran(core / "python", "-W", "error", "-c", PLANNED.format(venv=str(core.parent)), cwd=tmp_path)
    assert "all-reduce" in text
    models = [core / "meshlab", "models"]
    refused = subprocess.run(models, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert 'pip install optax, or "meshlab[notebook]"' in refused.stderr


def test_named_models_come_with_the_notebooks(notebooks, tmp_path):
    assert "llama3-8b" in ran(notebooks / "meshlab", "models", cwd=tmp_path)


def test_boards_are_made_of_the_packages_page(notebooks, tmp_path):
    shared = 'ml.explore(program, plan.mesh, plan.layout).share("board.html")\n'
    ran(notebooks / "python", "-c", PLANNED.format(venv=str(notebooks.parent)) + shared, cwd=tmp_path)
    assert "<!doctype html>" in (tmp_path / "board.html").read_text(encoding="utf-8").lower()


def test_lab_opens_the_course_from_the_package(notebooks, tmp_path):
    with lab(notebooks, tmp_path) as contents:
        course = {f"{name}.ipynb": source for name, source in workbooks.sources().items()}
        assert {entry["name"] for entry in contents("")["content"]} == {*course}
        for name, source in course.items():
            cells = contents(name)["content"]["cells"]
            wanted = workbooks.convert(source)["cells"]
            assert [(c["cell_type"], "".join(c["source"])) for c in cells] == [
                (c["cell_type"], "".join(c["source"])) for c in wanted
            ]


@contextmanager
def lab(commands: Path, folder: Path) -> Iterator[Callable[[str], Any]]:
    """Runs `meshlab lab` while the block runs; yields what reads a file or folder through JupyterLab's own API."""
    home, log = folder / "home", folder / "lab.log"
    own = environment(HOME=str(home), JUPYTER_RUNTIME_DIR=str(home / "runtime"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(commands / "meshlab"), "lab", "--no-browser", "--port=0", "--ServerApp.ip=127.0.0.1"],
            cwd=folder,
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            server = wait_until(process, lambda: answering(home / "runtime"), log)
            yield lambda name: asked(server, f"api/contents/{name}")
            asked(server, "api/shutdown", "POST")
            assert process.wait(START_SECONDS) == 0, log.read_text()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def answering(runtime: Path) -> dict[str, Any]:
    """What a server that answers has written of itself: its address and its token."""
    server = json.loads(next(runtime.glob("jpserver-*.json"), runtime / "none").read_text())
    asked(server, "api")
    return server


def asked(server: dict[str, Any], path: str, method: str = "GET") -> Any:
    request = urllib.request.Request(f"{server['url']}{path}", method=method)
    request.add_header("Authorization", f"token {server['token']}")
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read() or "null")
