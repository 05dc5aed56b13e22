"""`meshlab report`: a board of a program from a file, or of a model by its name, in one HTML file."""

from __future__ import annotations

import re

from tests.commands.small import called, written


def test_the_board_of_a_file_is_written(tmp_path, capsys):
    file, out = written(tmp_path), tmp_path / "board.html"
    words = ("--mesh", "data=2,model=2", "--on", "v5e:2x2", "--layout", "batch:data", "--dims", "ffn,batch")
    status, said, told = called(capsys, "report", file, *words, "--out", out)
    assert (status, told) == (0, "printed by the file\n")
    assert re.fullmatch(
        rf"Shared: {re.escape(str(out))}, \d+ kB\. \d+ layouts are recorded: all that drops of `ffn`,"
        r" `batch` lead to, and \d+ others: presets, tried layouts and Auto's\.\n",
        said,
    )
    page = out.read_text()
    assert "<h1>step.py:program: data=2 × model=2 on Google TPU v5e, 2x2</h1>" in page
    assert "# With the program of step.py:program:\nml.explore(program, mesh, layout)" in page


def test_a_model_is_opened_again_by_its_name_and_sizes(tmp_path, capsys):
    out = tmp_path / "board.html"
    words = ("--mesh", "data=2", "--size", "batch=8", "--dims", "batch", "--auto", "traffic")
    assert called(capsys, "report", "mlp", *words, "--out", out)[0] == 0
    assert "ml.explore(&quot;mlp&quot;, mesh, layout, batch=8)" in out.read_text()


def test_a_program_of_a_file_by_its_name_is_no_model(tmp_path, capsys, monkeypatch):
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "board.html"
    words = ("--mesh", "data=2", "--layout", "batch:data", "--dims", "batch")
    assert called(capsys, "report", "step.py:program", *words, "--out", out)[0] == 0
    assert "# With the program of step.py:program:\nml.explore(program, mesh, layout)" in out.read_text()


def test_what_cannot_be_written_is_said_before_anything_is_recorded(tmp_path, capsys):
    words = ("report", "mlp", "--mesh", "data=2", "--out")
    status, _, told = called(capsys, *words, tmp_path / "none" / "board.html")
    assert (status, "there is no folder" in told) == (2, True)
    status, _, told = called(capsys, *words, tmp_path / "board.html", "--dims", "bach")
    assert (status, "Did you mean `batch`?" in told) == (2, True)
    assert not (tmp_path / "board.html").exists()
