"""Runs: they train on what they are given, one at a time, can be cancelled, and say what went wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from meshlab.widgets.board import job_view
from meshlab.widgets.document import ExplorerError
from meshlab.widgets.explorer import Explorer, explore
from meshlab.widgets.intents import Refused, Start
from meshlab.widgets.training import Training
from tests.widgets import small


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
    assert answer.reason == "Run 1 is still going on; there is one run at a time."
    with pytest.raises(ExplorerError, match="Run 1 is still going on"):
        explorer.run()
    assert explorer.place("hidden", "model"), "the layout may change meanwhile"
    gate.set()
    assert run.wait(60).phase == "done"
    shown = job_view(explorer)["current"]
    assert (shown["layout"], shown["stale"], shown["revision"]) == ("", True, 0)
    explorer.undo()
    assert job_view(explorer)["current"]["stale"] is False


def test_a_run_is_cancelled_between_two_steps(program, mesh) -> None:
    explorer = explore(program, mesh, run=small.training(steps=100_000))
    assert not explorer.cancel()
    run = explorer.run()
    while run.taken < 3:
        time.sleep(0.01)
    assert explorer.cancel()
    assert run.wait(60).phase == "cancelled"
    assert 3 <= run.taken < 100_000
    assert len(run.losses) == run.taken
    assert explorer.run(2).wait(60).phase == "done"
    assert [row["phase"] for row in job_view(explorer)["runs"]] == ["done", "cancelled"]


def test_progress_is_told_ten_times_a_second_at_most(program, mesh) -> None:
    explorer = explore(program, mesh, run=small.training(steps=100_000))
    told: list[float] = []
    explorer.subscribe(lambda what: told.append(time.monotonic()))
    run = explorer.run()
    while run.taken < 200:
        time.sleep(0.01)
    run.cancel()
    run.wait(60)
    elapsed = told[-1] - told[0]
    assert 3 <= len(told) <= elapsed * 10 + 4
    assert len(job_view(explorer)["current"]["losses"]) <= 120


def test_what_goes_wrong_is_shown(program, mesh) -> None:
    wrong = {"images": np.zeros((8, 4, 5), np.float32), "labels": np.zeros(8, np.int32)}
    explorer = explore(program, mesh, run=Training({"params": small.params()}, lambda: [wrong]))
    run = explorer.run().wait(60)
    assert run.phase == "failed"
    assert "`images` has shape (8, 4, 5), where (8, 4, 4) was traced" in run.error
    assert "failed" in repr(run)
    assert job_view(explorer)["current"]["error"] == run.error


def test_a_batch_that_lacks_an_argument(program, mesh) -> None:
    explorer = explore(program, mesh, run=Training({"params": small.params()}, lambda: [{"images": 0}]))
    assert "A batch came without `labels`" in explorer.run().wait(60).error


def test_batches_that_are_empty(program, mesh) -> None:
    explorer = explore(program, mesh, run=Training({"params": small.params()}, list))
    assert "gave no batch at all" in explorer.run().wait(60).error


def test_nothing_to_train_on(program, mesh) -> None:
    explorer = explore(program, mesh)
    with pytest.raises(ExplorerError, match=r"has no data to train on. Open it with ml.explore\(program, mesh, run="):
        explorer.run()


def test_bad_steps(explorer: Explorer) -> None:
    with pytest.raises(ExplorerError, match="A run of -1 steps was asked for. Ask for an integer, at least 1"):
        explorer.run(-1)


def test_a_training_that_does_not_fit(program, mesh) -> None:
    with pytest.raises(ExplorerError, match=r"starts from `parms`, which is no argument .* Did you mean `params`"):
        explore(program, mesh, run=Training({"parms": 0}))
    with pytest.raises(ExplorerError, match="lacks a value to start from for `params`"):
        explore(program, mesh, run=Training({}, small.batches))
    with pytest.raises(ExplorerError, match="lacks a value to start from for `images`, `labels`"):
        explore(program, mesh, run=Training({"params": small.params()}))
    with pytest.raises(ExplorerError, match="given steps=0; it takes an integer, at least 1"):
        Training({}, steps=0)
    with pytest.raises(ExplorerError, match="given batches of type generator, which is used up by one run"):
        Training({}, small.batches())  # type: ignore[arg-type]


def test_a_run_tells_what_it_is(explorer: Explorer) -> None:
    explorer.place("hidden", "model")
    run = explorer.run(2).wait(60)
    assert repr(run) == f"Run 1 (hidden:model): done, step 2/2, loss {run.losses[-1]:.6g}"
