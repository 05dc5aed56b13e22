"""`meshlab report`: a board of a program from a file, or of a model by its name, in one HTML file."""

from __future__ import annotations

import re
import signal
import sys

import pytest

import meshlab as ml
from tests.commands.small import Terminal, called, written

pytestmark = pytest.mark.share(2, of="file")


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


def test_auto_shows_how_far_it_is_and_its_front_is_recorded(tmp_path, capsys, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    words = ("--mesh", "data=2", "--on", "v5e:2x1", "--dims", "batch", "--auto", "time")
    status, said, _ = called(capsys, "report", "mlp_adamw", *words, "--out", tmp_path / "board.html")
    assert (status, ", gap " in terminal.getvalue()) == (0, True)
    explorer = ml.explore("mlp_adamw", ml.mesh("v5e:2x1", data=2))
    choice = explorer.auto("time")
    explorer.load(choice.layout)
    shared = explorer.share(tmp_path / "other.html", dims=["batch"])
    assert len(choice.pareto) > 1
    assert said.endswith(f"{shared.said}\n")


@pytest.mark.parametrize("verb", ["plan", "report"])
def test_auto_is_that_of_plan(verb, tmp_path, capsys, monkeypatch):
    """A board was written of a search that ignored --pad; and what does not fit had another status than with plan."""
    out = () if verb == "plan" else ("--out", tmp_path / "board.html")
    status, _, told = called(capsys, verb, "mlp", "--mesh", "data=2", "--pad", "--auto", "traffic", *out)
    assert (status, f"meshlab {verb} was given --pad with a search, which does not pad" in told) == (2, True)
    status, _, told = called(capsys, verb, "gpt2-xl", "--on", "v5e", "--auto", "time", *out)
    assert (status, "found no layout that fits" in told) == (1, True)
    terminal = Terminal(at=lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(sys, "stderr", terminal)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        words = ("gpt2_adamw", "--mesh", "data=2,model=2", "--on", "v5e:2x2", "--auto", "memory")
        status, _, _ = called(capsys, verb, *words, *out)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (status, "Stopped. The best layout so far has " in terminal.getvalue()) == (130, True)
    assert not (tmp_path / "board.html").exists()


def test_what_cannot_be_written_is_said_before_anything_is_recorded(tmp_path, capsys):
    words = ("report", "mlp", "--mesh", "data=2", "--out")
    status, _, told = called(capsys, *words, tmp_path / "none" / "board.html")
    assert (status, "there is no folder" in told) == (2, True)
    status, _, told = called(capsys, *words, tmp_path / "board.html", "--dims", "bach")
    assert (status, "Did you mean `batch`?" in told) == (2, True)
    assert not (tmp_path / "board.html").exists()
