"""What docs/commands.md prints runs as printed."""

import json
import re
import shlex
import shutil

import pytest

import meshlab as ml
from meshlab.commands.saved import record
from meshlab.models.zoo import models
from tests.commands.small import ROOT, TRAIN, called

pytestmark = pytest.mark.share(2, of="file")

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
LINES = re.findall(r"^    meshlab (.*)$", PAGE, re.MULTILINE)


def test_every_command_of_the_page_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    assert len(LINES) == 16
    for line in LINES:
        if "plans/gpt2.json" in line:
            shutil.copy("new.json", "plans/gpt2.json")
        status, out, err = called(capsys, *shlex.split(line))
        assert status == 0, line
        # What a form cannot say is no part of it.
        assert err.startswith("jit cannot say: ") if "--as jit" in line else err in ("", "printed by the file\n"), line
        assert out
        assert "--json" not in line or json.loads(out)


def test_every_field_is_on_the_page():
    (model,) = [model for model in models() if model.name == "mlp"]
    known = record("mlp", model.trace().plan(ml.mesh(data=2)))
    table = PAGE[PAGE.index("## What is saved") :]
    assert [name for name in known if f"`{name}`" not in table and f'"{name}"' not in table] == ["meshlab"]


@pytest.mark.parametrize("verb", ["plan", "diff", "report", "explain", "models"])
def test_every_option_is_on_the_page(verb, capsys):
    with pytest.raises(SystemExit, match="0"):
        called(capsys, verb, "--help")
    options = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}
    assert {option for option in options if option not in PAGE} == set()
