"""The sweep's limit: a case that never ends is a failure of the journal, and all others are checked."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from meshlab import verify

pytestmark = pytest.mark.share(2, of="file")

# The second layout of the sweep hangs, as a compiler does: the thread that called it never comes back.
HANGING = """
import os, sys, threading
from meshlab import verify

def check(program, mesh, layout, data, *, pad=False, of=verify.check_case):
    if verify._key({"model": "mlp_sgd", "mesh": mesh.to_dict(), "layout": layout.to_dict(), "pad": pad}) == HANGS:
        threading.Event().wait()
    return of(program, mesh, layout, data, pad=pad)

verify.check_case = check
sys.exit(verify.main())
"""
WORDS = ["--models", "mlp_sgd", "--each", "3", "--checked", "0"]


def lines_of(journal: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in journal.read_text().splitlines()]


def test_a_case_over_the_limit_fails_and_the_sweep_goes_on(tmp_path):
    whole, journal = tmp_path / "whole.jsonl", tmp_path / "sweep.jsonl"
    assert verify.main([*WORDS, "--journal", str(whole)]) == 0
    cases = [verify._key(line) for line in lines_of(whole)]
    assert len(cases) == 3
    code = f"HANGS = {cases[1]!r}\n{HANGING}"
    command = [sys.executable, "-c", code, *WORDS, "--journal", str(journal), "--limit", "20"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    lines = lines_of(journal)
    assert [verify._key(line) for line in lines] == cases
    assert [line["ok"] for line in lines] == [True, False, True]
    assert lines[1]["report"] == "it took longer than the limit of 20 s"
    assert "FAILED {" in ended.stdout
    (row,) = (line for line in ended.stdout.splitlines() if line.startswith("all "))
    assert row.split()[1:5] == ["0", "3", "0", "1"]


@pytest.mark.parametrize("limit", ["0", "-1", "nan"])
def test_a_limit_is_above_zero(limit, capsys):
    with pytest.raises(SystemExit):
        verify.main(["--limit", limit])
    assert f"--limit was given {limit}; it must be a number of seconds above 0" in capsys.readouterr().err
