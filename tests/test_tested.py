"""The versions that are tested: one table, which agrees with what is asked for, and says what to do outside of it."""

import logging
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from meshlab import tested

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TABLE = {each.name: each for each in tested.TESTED}


def test_the_oldest_are_those_that_are_asked_for():
    asked = {name.partition("[")[0]: least for name, _, least in (d.partition(">=") for d in PROJECT["dependencies"])}
    asked["python"] = PROJECT["requires-python"].removeprefix(">=")
    # Serializers, of `jax.export` and of what is saved, in whatever version.
    assert asked.pop("flatbuffers")
    assert asked.pop("msgspec")
    assert asked == {each.name: each.oldest for each in tested.TESTED} | {"jaxlib": TABLE["jax"].oldest}


def test_what_is_installed_here_is_tested():
    assert tested.warning(tested.installed()) == ""


def test_the_pinned_versions_are_tested():
    lines = (line.partition("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    pinned = {name.lower(): version for name, _, version in lines}
    assert all(not TABLE[name].problem(pinned[name]) for name in TABLE if name != "python")


@pytest.mark.parametrize(
    ("name", "version", "problem"),
    [
        ("jax", "0.10.0", ""),
        ("jax", "0.12.7", ""),
        ("jax", "0.9.2", "0.10.0 to 0.12.0.1: pip install"),
        ("jax", "0.13.0rc1", 'pip install "jax>=0.10.0,<0.13"'),
        ("numpy", "2.6.0", "numpy 2.6.0 is not among the tested versions"),
        ("numpy", "1.26.4", "numpy>=2.0.0"),
        ("python", "3.13.5", ""),
        ("python", "3.14.0", "use Python >=3.11,<3.14"),
    ],
)
def test_other_versions_are_told_with_what_to_do(name, version, problem):
    versions = {each.name: each.oldest for each in tested.TESTED} | {name: version}
    text = tested.warning(versions)
    assert problem in text
    assert bool(text) == bool(problem)


def test_all_that_is_not_tested_is_told_at_once():
    text = tested.warning({each.name: "1.0" for each in tested.TESTED})
    assert all(f"{name} 1.0 is not among the tested versions" in text for name in TABLE)


def test_a_version_that_is_not_tested_is_told_when_meshlab_is_imported(tmp_path):
    """With a PuLP that says of itself to be newer than any, in a process of its own."""
    claimed = tmp_path / "pulp-9.9.9.dist-info"
    claimed.mkdir()
    (claimed / "METADATA").write_text("Metadata-Version: 2.1\nName: pulp\nVersion: 9.9.9\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import meshlab; import meshlab.auto"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.count("pulp 9.9.9 is not among the tested versions") == 1
    quiet = subprocess.run(
        [sys.executable, "-c", "import meshlab"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert quiet.stderr == ""


def test_it_is_told_by_the_logger(caplog, monkeypatch):
    monkeypatch.setattr(tested, "installed", lambda: {each.name: "1.0" for each in tested.TESTED})
    with caplog.at_level(logging.WARNING, "meshlab"):
        tested.warn()
    assert len(caplog.records) == 1


def test_the_oldest_are_printed_for_pip():
    done = subprocess.run([sys.executable, "meshlab/tested.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    oldest = {name: each.oldest for name, each in TABLE.items() if name != "python"} | {"jaxlib": TABLE["jax"].oldest}
    assert done.stdout.split() == [f"{name}=={version}" for name, version in oldest.items()]


# Finding a Python


def program(path, text):
    """Writes a program of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def picked(wanted, tmp_path, versions, pyenv=()):
    """What scripts/pythons.sh finds among programs that say of themselves to be of these versions, or fail (None)."""
    shells = tmp_path / "bin"
    places = [(shells / name, version) for name, version in versions.items()]
    places += [(tmp_path / "pyenv" / "versions" / v / "bin" / "python3", v) for v in pyenv]
    for path, version in places:
        program(path, f"echo {version.replace('.', '')}" if version else "exit 127")
    for tool in ("sh", "tr", "basename"):
        if not (shells / tool).exists():
            (shells / tool).symlink_to(str(shutil.which(tool)))
    environment = {"PATH": str(shells), "PYENV_ROOT": str(tmp_path / "pyenv"), "HOME": str(tmp_path)}
    command = [str(shells / "sh"), str(ROOT / "scripts" / "pythons.sh"), wanted]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()).relative_to(tmp_path).as_posix() if done.returncode == 0 else done.stderr


def test_the_first_python_on_the_path_is_taken(tmp_path):
    assert picked("first", tmp_path, {"python3": "3.12", "python3.13": "3.13"}) == "bin/python3"


def test_the_newest_python_is_found_on_the_path_or_among_those_of_pyenv(tmp_path):
    versions = {"python3": "3.11", "python3.14": None, "python3.13": None, "python3.12": "3.12"}
    assert picked("newest", tmp_path, versions) == "bin/python3.12"
    assert picked("newest", tmp_path, versions, pyenv=("3.13", "3.11")) == "pyenv/versions/3.13/bin/python3"


def test_one_of_a_certain_version_is_found(tmp_path):
    assert picked("3.11", tmp_path, {"python3": "3.13"}, pyenv=("3.12", "3.11")) == "pyenv/versions/3.11/bin/python3"


def test_where_there_is_none_it_says_what_to_do(tmp_path):
    text = picked("3.16", tmp_path, {"python3": "3.13"})
    assert "meshlab needs Python 3.16" in text
    assert "PYTHON=/path/to/python3.16" in text


# What continuous integration makes of that

CLOSING = "============ 1457 passed in 690.00s (0:11:30) ============"


def ci(tmp_path, status):
    """Runs .ci/run beside a `make` that says what it was asked for, and ends so."""
    shells = tmp_path / "bin"
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    program(shells / "make", f'echo "make $*"; echo "{CLOSING}"; echo "No errors."; exit {status}')
    for tool in ("bash", "dirname", "mktemp", "rm", "tee", "grep", "tail"):
        (shells / tool).symlink_to(str(shutil.which(tool)))
    command = [str(shells / "bash"), str(tmp_path / ".ci" / "run")]
    environment = {"PATH": str(shells), "HOME": str(tmp_path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_ci_runs_the_readmes_own_command_and_ends_with_what_it_says(tmp_path):
    done = ci(tmp_path, 0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["make test", CLOSING, "No errors.", CLOSING]
    assert "    make test " in (ROOT / "README.md").read_text()


def test_ci_fails_where_the_command_does(tmp_path):
    assert ci(tmp_path, 2).returncode == 2


# What runs beside the tests


@pytest.mark.parametrize(("first", "second", "status"), [(0, 0, 0), (3, 0, 3), (0, 4, 4), (3, 4, 4)])
def test_both_commands_must_end_well_and_both_are_seen(first, second, status):
    ends = [f"echo first; exit {first}", "sh", "-c", f"echo second; exit {second}"]
    done = subprocess.run(["sh", str(ROOT / "scripts/beside.sh"), *ends], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stdout.split() == ["second", "first"]
    assert ("failed: see above" in done.stderr) == bool(first)
