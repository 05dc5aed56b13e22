"""Runs: they train on what they are given, one at a time, can be cancelled, and say what went wrong."""

from __future__ import annotations

import gc
import itertools
import json
import re
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from meshlab.opening.open_explorer import explore
from meshlab.training.feeding import Training
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Refused, Start
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state import runs as runs_module
from meshlab.widgets.views.runs import job_view
from tests.widgets import small


def shown_run(explorer: Explorer) -> Any:
    return job_view(explorer)["current"]


def test_a_run_is_the_loop_that_one_would_write(explorer: Explorer) -> None:
    run = explorer.run().wait(60)
    params, losses = small.params(), []
    feeds = small.training().feeds()
    for _ in range(5):
        value, params = small.step(params, **small_named(next(feeds)))
        losses.append(float(value))
    assert run.phase == "done"
    assert run.losses == pytest.approx(losses, rel=1e-6)
    np.testing.assert_allclose(run.result["params"]["w2"].array, params["w2"].array, rtol=1e-5, atol=1e-7)


def small_named(feed):
    from meshlab import tensor

    return {
        "images": tensor(feed["images"], small.Batch, small.Rows, small.Cols),
        "labels": tensor(feed["labels"], small.Batch),
    }


def test_every_layout_gives_the_same_losses(explorer: Explorer) -> None:
    losses = []
    for layout in (None, "batch:data", "hidden:model", "batch:data hidden:model"):
        explorer.load(layout)
        losses.append(explorer.run().wait(60).losses)
    for other in losses[1:]:
        assert other == pytest.approx(losses[0], rel=1e-5)


def test_a_run_does_not_wait_and_there_is_one_at_a_time(program, mesh) -> None:
    gate = threading.Event()

    def batches() -> Iterator[dict]:
        for batch in small.batches():
            gate.wait(60)
            yield batch

    explorer = explore(program, mesh, run=Training({"params": small.params()}, batches, 3))
    run = explorer.run()
    assert run.active
    answer = explorer.apply(Start())
    assert isinstance(answer, Refused)
    assert answer.reason == "Run 1 is still running; only one run at a time is possible."
    with pytest.raises(ExplorerError, match="Run 1 is still running"):
        explorer.run()
    assert explorer.place("hidden", "model"), "the layout may change meanwhile"
    gate.set()
    assert run.wait(60).phase == "done"
    shown = shown_run(explorer)
    assert (shown["layout"], shown["stale"], shown["revision"]) == ("", True, 0)
    explorer.undo()
    assert shown_run(explorer)["stale"] is False


def test_a_run_is_cancelled_between_two_steps(program, mesh) -> None:
    third, go = threading.Event(), threading.Event()

    def batches() -> Iterator[dict]:
        for number, batch in enumerate(itertools.cycle(small.batches()), 1):
            if number == 3:
                third.set()
                assert go.wait(60)
            yield batch

    explorer = explore(program, mesh, run=Training({"params": small.params()}, batches, 100_000))
    assert not explorer.cancel()
    run = explorer.run()
    assert third.wait(60)
    assert run.taken == 2
    assert explorer.cancel()
    go.set()
    assert run.wait(60).phase == "cancelled"
    assert len(run.losses) == run.taken == 3
    assert explorer.run(2).wait(60).phase == "done"
    assert [row["phase"] for row in job_view(explorer)["runs"]] == ["done", "cancelled"]


def test_progress_is_told_ten_times_a_second_at_most(program, mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which a step takes a 64th of a second, so that a tenth has gone by with every seventh."""
    steps = itertools.count(1)
    monkeypatch.setattr(runs_module, "time", types.SimpleNamespace(monotonic=lambda: next(steps) / 64))
    explorer = explore(program, mesh, run=small.training(steps=205))
    taken: list[int] = []
    explorer.subscribe(lambda what: taken.append(explorer.runs[-1].taken))
    explorer.run().wait(60)
    assert taken == [0, *range(7, 204, 7), 205]
    chart: Any = job_view(explorer)["chart"]
    assert len(chart["data"][0]["y"]) <= 120


def test_only_the_last_run_keeps_its_arrays(explorer: Explorer) -> None:
    """The Explorer's record of an earlier one has the rest; who holds the run itself has all."""
    run = explorer.run(2).wait(60)
    arrays = [weakref.ref(tensor.array) for tensor in explorer.run(2).wait(60).result["params"].values()]
    explorer.run(1).wait(60)
    gc.collect()
    assert [array() for array in arrays] == [None, None]
    first, second, third = explorer.runs
    assert (repr(first), first.losses) == (repr(run), run.losses)
    assert [len(run.losses) for run in (first, second, third)] == [2, 2, 1]
    for record in (first, second):
        with pytest.raises(ExplorerError, match=r"Run . has lost its arrays, .* value of explorer.run\(\)"):
            _ = record.result
    assert run.result.keys() == third.result.keys() == {"params"}
    assert [row["number"] for row in job_view(explorer)["runs"]] == [3, 2, 1]


def test_what_goes_wrong_is_shown(program, mesh) -> None:
    wrong = {"images": np.zeros((8, 4, 5), np.float32), "labels": np.zeros(8, np.int32)}
    explorer = explore(program, mesh, run=Training({"params": small.params()}, lambda: [wrong]))
    run = explorer.run().wait(60)
    assert run.phase == "failed"
    assert "`images` has shape (8, 4, 5), where (8, 4, 4) was traced" in run.error
    assert "failed" in repr(run)
    assert shown_run(explorer)["error"] == run.error


def test_an_error_names_the_line_that_raised(program, mesh) -> None:
    def batches():
        raise ValueError("boom")
        yield {}

    run = explore(program, mesh, run=Training({"params": small.params()}, batches)).run().wait(60)
    assert re.fullmatch(r"ValueError: boom \(test_runs\.py:\d+\)", run.error)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": None}, "A batch came without `labels`; each batch gives the arguments that `start` does not."),
        ({"image": 0}, "A batch came with `image`, which is not an argument of this program .* Did you mean `images`"),
        ({"image": 0, 3: 0}, "A batch came with `image`, `3`, which are not arguments of this program"),
        ({"params": 0}, "A batch came with `params`: `params` is carried, .*; leave it out of the batches."),
        ({"params": 0, "foo": 0}, "with `foo`, which is not an argument .* `params` is carried"),
    ],
)
def test_a_batch_of_other_arguments(program, mesh, wrong: dict, message: str) -> None:
    """What is misspelt is no reason to train on what `start` has, or on the batch before."""
    first = next(small.batches())
    second = {name: value for name, value in (first | wrong).items() if value is not None}
    run = explore(program, mesh, run=Training({"params": small.params()}, lambda: [first, second])).run().wait(60)
    assert (run.phase, run.taken) == ("failed", 1)
    assert re.search(message, run.error)


def test_a_batch_may_replace_what_is_not_carried(program, mesh) -> None:
    start = {"params": small.params(), **next(small.batches())}
    labels = {"labels": np.zeros(8, np.int32)}
    losses = explore(program, mesh, run=Training(start, lambda: [labels])).run(2).wait(60).losses
    whole = explore(program, mesh, run=Training(start | labels)).run(2).wait(60).losses
    assert losses == whole


def test_batches_that_are_empty(program, mesh) -> None:
    explorer = explore(program, mesh, run=Training({"params": small.params()}, list))
    assert "gave no batch at all" in explorer.run().wait(60).error


@pytest.mark.parametrize("batches", [lambda: 3, lambda: [3], lambda: None])
def test_batches_that_are_no_dicts(program, mesh, batches) -> None:
    explorer = explore(program, mesh, run=Training({"params": small.params()}, batches))
    error = explorer.run().wait(60).error
    assert error.startswith("RunError: Training's batches() gave ")
    assert "batches() must give dicts by argument name: batches=lambda: (" in error


def test_nothing_to_train_on(program, mesh) -> None:
    explorer = explore(program, mesh)
    with pytest.raises(ExplorerError, match=r"has no data to train on. Open it with ml.explore\(program, mesh, run="):
        explorer.run()


def test_bad_steps(explorer: Explorer) -> None:
    with pytest.raises(
        ExplorerError, match="A run of -1 steps is invalid. The number must be an integer of at least 1"
    ):
        explorer.run(-1)


def test_a_start_of_wider_numbers_is_legal(program, mesh) -> None:
    params = {name: np.asarray(each.array, np.float64) for name, each in small.params().items()}
    assert explore(program, mesh, run=Training({"params": params}, small.batches)).run(1).wait(60).phase == "done"


def test_a_loss_that_is_no_number_is_sent_in_words(program, mesh) -> None:
    """Jupyter makes a text of NaN, with a warning for each message: the page must not take it for a number."""
    params = {name: np.full(each.array.shape, np.nan, np.float32) for name, each in small.params().items()}
    explorer = explore(program, mesh, run=Training({"params": params}, small.batches))
    assert explorer.run(2).wait(60).phase == "done"
    job = json.loads(json.dumps(job_view(explorer), allow_nan=False))
    assert (job["current"]["loss"], job["chart"]) == ("nan", None)


def test_a_run_tells_what_it_is(explorer: Explorer) -> None:
    explorer.place("hidden", "model")
    run = explorer.run(2).wait(60)
    assert repr(run) == f"Run 1 (hidden:model): done, step 2/2, loss {run.losses[-1]:.6g}"
