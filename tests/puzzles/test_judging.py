"""A check compiles quickly, and believes no failure before all is compiled as users run it."""

from __future__ import annotations

import dataclasses
from typing import Any

from meshlab import puzzles
from meshlab.engine.devices import quick_options
from meshlab.engine.running.run import compiled
from meshlab.engine.specs.layout import Layout
from meshlab.engine.verifying import check
from meshlab.puzzles.play import judging

ANSWER = Layout.of(puzzles.P08.answer)


def test_what_differs_where_it_compiles_quickly_is_compiled_as_users_run_it(monkeypatch):
    found: list[bool] = []

    def wrong(plan: Any, args: Any, *, quick: bool) -> check.Report:
        found.append(quick)
        return dataclasses.replace(check.check(plan, args, quick=quick), memory=((1, 1), (0, 0)))

    monkeypatch.setattr(judging, "check", wrong)
    assert judging.differences(puzzles.P08, ANSWER, "a word") == ""
    assert found == [True]


def test_what_differs_however_it_is_compiled_is_said(monkeypatch):
    plan = puzzles.P08.plan(puzzles.P08.answer)
    other = dataclasses.replace(check.check(plan, ()), memory=((1, 1), (0, 0)))
    monkeypatch.setattr(judging, "check", lambda *args, **kwargs: other)
    monkeypatch.setattr(type(plan), "check", lambda plan: other)
    assert judging.differences(puzzles.P08, ANSWER, "a word").startswith(": not at ")


def test_a_quick_check_leaves_the_program_that_users_run_alone():
    plan = puzzles.P08.plan(puzzles.P08.answer)
    report = check.check(plan, (), quick=True)
    assert report.ok
    assert compiled(plan, quick=True) is compiled(plan, quick=True)
    assert compiled(plan, quick=True) is not compiled(plan)
    assert check.check(plan, ()).compiled == report.compiled
    assert quick_options("cpu")
    assert not quick_options("gpu")
