"""The command line: what it starts, and what it says when it cannot."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshlab import cli
from meshlab.commands import lab
from meshlab.version import __version__


@pytest.fixture
def called(monkeypatch):
    """The commands that would have been run."""
    commands = []
    monkeypatch.setattr(subprocess, "call", lambda command, env: commands.append(command) or 0)
    return commands


def test_lab_opens_the_start_notebook_in_a_folder_of_copies(called, tmp_path, capsys):
    assert cli.main(["lab", "--folder", str(tmp_path / "mine")]) == 0
    (command,) = called
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path / 'mine'}" in command
    assert "--LabApp.default_url=/lab/tree/00_start.ipynb" in command
    assert "--no-browser" not in command
    assert (tmp_path / "mine" / "00_start.ipynb").exists()
    assert "00_start.ipynb: new" in capsys.readouterr().out


def test_lab_passes_on_port_and_no_browser(called, tmp_path):
    cli.main(["lab", "00_start.ipynb", "--no-browser", "--port", "8901", "--folder", str(tmp_path)])
    assert "--no-browser" in called[0]
    assert "--port=8901" in called[0]


@pytest.mark.parametrize("before", [None, "mine"])
def test_lab_asks_for_no_news_and_no_updates_by_default(monkeypatch, before):
    if before:
        monkeypatch.setenv("JUPYTER_CONFIG_PATH", before)
    else:
        monkeypatch.delenv("JUPYTER_CONFIG_PATH", raising=False)
    *others, ours = lab.lab_environment()["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert others == ([before] if before else [])
    overrides = json.loads(Path(ours, "labconfig", "default_setting_overrides.json").read_text(encoding="utf-8"))
    settings = {"fetchNews": "false", "checkForUpdates": False}
    assert overrides == {"@jupyterlab/apputils-extension:notification": settings}


def test_lab_hands_other_options_on_and_they_win(called, tmp_path):
    others = ["--ServerApp.token=x", "--LabApp.default_url=/lab", "--collaborative"]
    cli.main(["lab", "00_start", *others, "--folder", str(tmp_path), "--port=8901"])
    assert called[0][-3:] == others
    assert "--port=8901" in called[0]
    assert sum(word.startswith("--LabApp.default_url=") for word in called[0]) == 1


def test_lab_does_not_guess_that_an_option_is_one_of_ours(called, tmp_path):
    cli.main(["lab", "--no-b", "--folder", str(tmp_path)])
    assert "--no-browser" not in called[0]


def test_help_says_where_other_options_go(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["lab", "--help"])
    assert "passed to JupyterLab" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("root", [True, False])
def test_only_root_is_let_in_as_root(called, tmp_path, monkeypatch, root):
    monkeypatch.setattr(lab, "_is_root", lambda: root)
    cli.main(["lab", "--folder", str(tmp_path)])
    assert ("--allow-root" in called[0]) == root


def test_lab_without_jupyterlab_says_how_to_get_it(called, monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jupyterlab" else find_spec(name))
    assert cli.main(["lab"]) == 1
    message = capsys.readouterr().err
    assert f"meshlab lab needs jupyterlab, which this Python does not have ({sys.executable})" in message
    assert f'{sys.executable} -m pip install "meshlab[notebook]"' in message
    assert called == []


def test_lab_with_an_unknown_notebook_lists_those_there_are(called, tmp_path, capsys):
    assert cli.main(["lab", "start", "--folder", str(tmp_path)]) == 2
    assert "There is no notebook `start`. Did you mean `00_start`?" in capsys.readouterr().err
    assert called == []


@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_lab_refuses_ports_that_cannot_be(called, tmp_path, capsys, port):
    assert cli.main(["lab", f"--port={port}", "--folder", str(tmp_path / "mine")]) == 2
    assert capsys.readouterr().err == f"There is no port {port}: --port takes 1 to 65535, or 0 for any free one.\n"
    assert called == []
    assert not list(tmp_path.iterdir())
    assert cli.main(["lab", "--port=0", "--folder", str(tmp_path / "mine")]) == 0
    assert "--port=0" in called[0]


def test_lab_refuses_a_folder_that_can_hold_no_copies(called, tmp_path, capsys):
    (tmp_path / "file").touch()
    (tmp_path / "mine" / "00_start.ipynb").mkdir(parents=True)
    for folder in (tmp_path / "file", tmp_path / "file" / "mine", tmp_path / "mine"):
        assert cli.main(["lab", "--folder", str(folder)]) == 2
        message = capsys.readouterr().err
        assert message.startswith(f"The notebooks cannot be written to {folder} (")
        assert message.endswith(" Give a folder that you may write to: --folder meshlab-notebooks.\n")
    assert called == []


@pytest.mark.parametrize("count", ["0", "-3", "100"])
def test_calibrate_refuses_numbers_of_devices_that_cannot_be(capsys, count):
    assert cli.main(["calibrate", "--simulate", count]) == 2
    out, text = capsys.readouterr()
    assert out == ""
    assert text == f"--simulate was given {count}; it takes 1 to 64 devices.\n"


def test_calibrate_refuses_what_it_cannot_write_before_it_measures(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        "meshlab.cost.machines.calibration.calibrate", lambda *args, **options: pytest.fail("it measures")
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for output, text in (
        (
            str(tmp_path),
            f"{tmp_path}, which is a folder. Give the name of a file: --output {tmp_path / 'machine.toml'}.",
        ),
        ("", "., which is a folder. Give the name of a file: --output machine.toml."),
        (os.devnull, f"{os.devnull}, which is not a file. Give the name of a file: --output machine.toml."),
        ("file/x.toml", "file/x.toml ("),
    ):
        assert cli.main(["calibrate", "--quick", "--simulate", "1", "--output", output]) == 2
        assert capsys.readouterr().err.startswith(f"The figures cannot be written to {text}")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_interrupting_is_not_an_error_of_ours(monkeypatch, tmp_path):
    def interrupted(command, env):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "call", interrupted)
    assert cli.main(["lab", "--folder", str(tmp_path)]) == 130


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"meshlab {__version__}\n"


def test_without_a_verb_it_says_which_there_are(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main([])
    assert "the following arguments are required: VERB" in capsys.readouterr().err


def test_an_option_that_is_none_is_told_with_the_closest(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["--verison"])
    assert "there is no option `--verison`. Did you mean `--version`?" in capsys.readouterr().err


def test_a_fault_of_its_own_is_no_verdict_of_a_plan(monkeypatch, capsys):
    def broken(options, others):
        raise IndexError("of the engine")

    monkeypatch.setattr(lab, "run", broken)
    assert cli.main(["lab"]) == 70
    said = capsys.readouterr().err
    assert "IndexError: of the engine" in said
    assert "This is a bug in meshlab." in said
