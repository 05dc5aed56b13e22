"""What docs/commands.md and docs/ci.md print runs as printed."""

import json
import re
import shlex
import shutil

import pytest

import meshlab as ml
from meshlab.commands.saved import record
from meshlab.models.zoo import models
from tests.commands.small import ROOT, SOURCE, TRAIN, called

pytestmark = pytest.mark.share(4, of="file")

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


def lines(page):
    return re.findall(r"^    meshlab (.*)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_command_of_the_page_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    assert len(lines("commands.md")) == 19
    for line in lines("commands.md"):
        if "plans/gpt2.json" in line:
            shutil.copy("new.json", "plans/gpt2.json")
        status, out, err = called(capsys, *shlex.split(line))
        assert status == 0, line
        # What a form cannot say is no part of it.
        quiet = err in ("", "printed by the file\n")
        assert err.startswith("jit cannot express: ") if "--as jit" in line else quiet, line
        assert out or line.startswith("run"), "a file prints to this process's own streams"
        assert "--json" not in line or json.loads(out)


def test_every_command_for_ci_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "step.py").write_text(SOURCE)
    assert len(lines("ci.md")) == 5
    for line in lines("ci.md"):
        status, out, _ = called(capsys, *shlex.split(line))
        assert status == 0, line
        assert out
    # A dim that is taken off its axis makes the step slower: the comparison fails.
    worse = next(line for line in lines("ci.md") if "new.json" in line).replace("batch:data ffn:model", "batch:data")
    assert called(capsys, *shlex.split(worse))[0] == 0
    assert called(capsys, "diff", "plans/step.json", "new.json")[0] == 1


def test_every_field_is_on_the_page():
    (model,) = [model for model in models() if model.name == "mlp"]
    known = record("mlp", model.trace().plan(ml.mesh(data=2)))
    table = PAGE[PAGE.index("## The saved file") :]
    assert [name for name in known if f"`{name}`" not in table and f'"{name}"' not in table] == ["meshlab"]


@pytest.mark.parametrize("verb", ["plan", "diff", "report", "explain", "profile", "models"])
def test_every_option_is_on_the_page(verb, capsys):
    with pytest.raises(SystemExit, match="0"):
        called(capsys, verb, "--help")
    options = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}
    assert {option for option in options if option not in PAGE} == set()
