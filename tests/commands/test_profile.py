"""`meshlab profile` runs a step of a user's file, and prints what each of its lines took."""

import json
import re

from tests.commands.small import SOURCE, called


def test_each_line_of_a_file_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step.py").write_text(SOURCE)
    options = ("--mesh", "data=2,model=2", "--on", "v5e:2x2", "--layout", "batch:data ffn:model", "--runs", "1")
    status, out, err = called(capsys, "profile", "step.py", *options, "--trace", "profile.json")
    assert (status, err) == (0, "printed by the file\n")
    lines = SOURCE.splitlines()
    hidden = next(number for number, line in enumerate(lines, 1) if "hidden = " in line)
    assert re.search(rf"step.py:{hidden} +kernels", out)
    assert re.search(r"step.py:\d+ +all-reduce over model", out)
    assert "predicted for Google TPU v5e, 2x2" in out
    assert "their times say nothing about speed" in out
    assert json.loads((tmp_path / "profile.json").read_text())["traceEvents"]


def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step.py").write_text(SOURCE)
    status, out, err = called(capsys, "profile", "step.py", "--trace", "nowhere/profile.json")
    assert (status, out) == (2, "")
    assert "nowhere" in err
    assert "printed by the file" not in err
