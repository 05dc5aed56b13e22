"""What XLA's own partitioner makes of the layout on the board: compiled in the background, kept, and cancelled."""

from __future__ import annotations

import threading

import pytest

import meshlab as ml
from meshlab.widgets.documents.intents import AskXla
from meshlab.widgets.explorer import Explorer
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def test_it_is_that_of_the_plan_and_kept(explorer: Explorer) -> None:
    assert explorer.view()["xla"] is None
    report = explorer.xla()
    assert report.plan is explorer.plan
    shown = explorer.view()["xla"]
    assert (shown["phase"], shown["error"]) == ("done", "")
    assert (shown["planned"], shown["inserted"]) == (660, round(report.wire_bytes))
    assert [row["source"] for row in shown["rows"]] == [row.source for row in report.beside.rows]
    assert all(row["because"] for row in shown["rows"] if row["inserted"])
    assert explorer.remove("batch")
    assert explorer.view()["xla"] is None
    explorer.undo()
    assert explorer.view()["xla"] == shown
    assert explorer.xla() is report


def test_it_is_cancelled(explorer: Explorer) -> None:
    assert not explorer.cancel_xla()
    compiling = explorer.partitioned.begin()
    assert explorer.cancel_xla()
    assert compiling.ended.wait(120)
    assert explorer.view()["xla"]["phase"] == "cancelled"
    assert explorer.xla().beside.rows


def test_another_layout_ends_the_one_before(explorer: Explorer) -> None:
    """Whoever waited for that is told."""
    before = explorer.partitioned.begin()
    explorer.remove("batch")
    report = explorer.xla()
    assert before.ended.wait(120)
    assert before.stop.is_set()
    assert report.plan is explorer.plan


def test_what_xla_does_not_take_is_said_and_asked_again(explorer: Explorer) -> None:
    explorer.pad(True)
    explorer.remove("hidden")
    assert explorer.place("classes", "model")
    for _ in range(2):
        with pytest.raises(ml.MeshlabError, match="takes no uneven shards"):
            explorer.xla()
    assert "takes no uneven shards" in explorer.view()["xla"]["error"]


def test_it_is_told_as_it_goes_on(explorer: Explorer) -> None:
    told: list[str] = []
    done = threading.Event()

    def hear(what: str) -> None:
        told.append(what)
        if what == "xla" and explorer.partitioned.last and explorer.partitioned.last.phase == "done":
            done.set()

    explorer.changes.subscribe(hear)
    explorer.apply(AskXla())
    assert done.wait(120)
    assert told.count("xla") >= 2
