"""Checkpoints do not depend on a layout: whatever saves and reads them, there is one loss curve."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import RunError
from meshlab.training import folder
from tests.training import digits_and_text as trainings
from tests.widgets import small

PROGRAM = small.program()
PLAN = PROGRAM.plan(small.mesh(), "batch:data hidden:model")
OTHER = PROGRAM.plan(ml.mesh(data=4), "batch:data")


def start() -> dict[str, Any]:
    return {"params": small.params()}


def saved(path: Path, steps: int = 4, every: int = 2, **more: Any) -> ml.Fit:
    return PLAN.fit(start(), small.batches, steps=steps, checkpoint=path, every=every, **more)


def numbers(state: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


def equal(state: Any, other: Any) -> bool:
    return all(map(np.array_equal, numbers(state), numbers(other)))


# --- one loss curve ---------------------------------------------------------------------------------------------------

EIGHT, FOUR = ml.mesh(data=2, model=4), ml.mesh(data=2, model=2)
LAYOUTS: dict[str, list[tuple[ml.Mesh, Any]]] = {
    "digits": [
        (EIGHT, "batch:data hidden:model"),
        (ml.mesh(data=4), "batch:data"),
        (EIGHT, "hidden:data+model"),
        (FOUR, "rows:data hidden:model"),
        (ml.mesh(data=8), "batch:data"),
        (ml.mesh(data=1), ""),
    ],
    "llama": [
        (EIGHT, "batch:data heads:model ffn:model"),
        (ml.mesh(data=4), "batch:data"),
        (EIGHT, {"batch": "data", "params/*": {"embed": "model"}, "opt_state/*": {"embed": "model"}}),
        (FOUR, "batch:data vocab:model"),
        (ml.mesh(data=8), {"batch": "data", "opt_state/*": {"embed": "data"}}),
        (ml.mesh(data=4, micro=ml.serial(2)), "batch:data+micro"),
        (ml.mesh(data=1), ""),
    ],
}


def curve(name: str, path: Path, order: list[int], each: int) -> None:
    program: ml.Program = getattr(trainings, f"{name}_program")()
    begin, batches = getattr(trainings, f"{name}_start"), getattr(trainings, f"{name}_batches")
    plans = [program.plan(mesh, layout) for mesh, layout in LAYOUTS[name]]
    unbroken = plans[-1].fit(begin(), batches(), steps=each * len(order))
    losses: list[float] = []
    for number, i in enumerate(order):
        fit = plans[i].fit(begin(), batches(), steps=each * (number + 1), checkpoint=path, every=each)
        assert (fit.begun, fit.step, fit.losses[: len(losses)]) == (each * number, each * (number + 1), losses)
        losses = fit.losses
    assert len(losses) == len(unbroken.losses) == each * len(order)
    apart = np.abs(np.array(losses) / np.array(unbroken.losses) - 1)
    print(name, "greatest relative difference of the losses:", apart.max(), "losses", losses[0], losses[-1])
    assert apart.max() < 1e-6 * max(1, len(apart) / 20), apart
    assert losses[-1] < losses[0]


@pytest.mark.share(2)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_that_changes_in_the_middle_changes_no_loss(tmp_path: Path, name: str) -> None:
    """Eight devices, then four, then eight again."""
    curve(name, tmp_path, [0, 1, 2], 3)


@pytest.mark.nightly
@pytest.mark.parametrize("name", LAYOUTS)
def test_all_layouts_one_curve(tmp_path: Path, name: str) -> None:
    curve(name, tmp_path, list(range(len(LAYOUTS[name]))), 20)


def test_the_same_layout_goes_on_bit_by_bit(tmp_path: Path) -> None:
    whole = PLAN.fit(start(), small.batches, steps=5)
    saved(tmp_path, steps=3)
    again = saved(tmp_path, steps=5)
    assert again.losses == whole.losses
    assert equal(again.state, whole.state)


# --- a checkpoint by itself -------------------------------------------------------------------------------------------


def test_a_checkpoint_says_what_it_has(tmp_path: Path) -> None:
    fit = saved(tmp_path)
    checkpoint = ml.restore(tmp_path)
    assert (checkpoint.step, checkpoint.losses, checkpoint.metrics) == (4, fit.losses, {})
    assert checkpoint.places == ("params/w1", "params/w2")
    assert (checkpoint.meta.layout, checkpoint.meta.mesh) == ("batch:data hidden:model", "data=2, model=4")
    assert ml.restore(tmp_path, step=2).losses == fit.losses[:2]


def test_another_program_with_the_same_parameters_reads_them(tmp_path: Path) -> None:
    fit = saved(tmp_path)
    shapes = {"w1": ml.f32[small.Rows, small.Cols, small.Hidden], "w2": ml.f32[small.Hidden, small.Classes]}
    arguments = shapes, ml.f32[small.Batch, small.Rows, small.Cols], ml.i32[small.Batch]
    plan = ml.trace(small.loss, *arguments).plan(ml.mesh(data=2), "hidden:data")
    params = ml.restore(tmp_path).under(plan)
    assert list(params) == ["params"]
    assert equal(params, fit.state)
    assert {len(each.array.sharding.device_set) for each in params["params"].values()} == {2}
    batch = next(small.batches())
    assert float(plan.run(params["params"], batch["images"], batch["labels"])) > 0


def test_it_goes_on_elsewhere_from_a_checkpoint(tmp_path: Path) -> None:
    saved(tmp_path / "a")
    fit = OTHER.fit(ml.restore(tmp_path / "a"), small.batches, steps=6, checkpoint=tmp_path / "b")
    assert (fit.begun, ml.restore(tmp_path / "b").step) == (4, 6)
    again = OTHER.fit(ml.restore(tmp_path / "a"), small.batches, steps=7, checkpoint=tmp_path / "b")
    assert again.begun == 6, "the folder to save in has a later one"
    with pytest.raises(RunError, match="has a later checkpoint than step 2: step 4. Save to another folder"):
        OTHER.fit(ml.restore(tmp_path / "a", step=2), small.batches, steps=6, checkpoint=tmp_path / "a")
    assert OTHER.fit(ml.restore(tmp_path / "a"), small.batches, steps=5, checkpoint=tmp_path / "a").begun == 4


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    """Whatever else is there stays."""
    for name in ("1", "notes"):
        (tmp_path / "two" / name).mkdir(parents=True)
        (tmp_path / "two" / name / "mine").write_text("")
    saved(tmp_path / "two", steps=6, every=2, keep=2)
    assert folder.steps(tmp_path / "two") == [4, 6]
    assert sorted(each.name for each in (tmp_path / "two").iterdir()) == ["1", "4", "6", "notes"]
    saved(tmp_path / "all", steps=6, every=1, keep=None)
    assert folder.steps(tmp_path / "all") == [1, 2, 3, 4, 5, 6]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"There is no checkpoint in {tmp_path}"):
        ml.restore(tmp_path)
    saved(tmp_path)
    with pytest.raises(RunError, match="There is no checkpoint of step 3 in .*; there are 2, 4"):
        ml.restore(tmp_path, step=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="Checkpoints cannot be saved in .*: FileExistsError: .* No checkpoint is there"):
        PLAN.fit(start(), small.batches, steps=1, checkpoint=tmp_path / "file")


def test_a_checkpoint_of_another_program_is_no_damage(tmp_path: Path) -> None:
    saved(tmp_path)
    Batch, Rows, Cols, Hidden, Classes = ml.dims(batch=8, rows=4, cols=4, hidden=32, classes=10)
    shapes = {"w1": ml.f32[Rows, Cols, Hidden], "w3": ml.f32[Hidden, Classes]}

    def loss(params, images, labels):
        logits = ml.dot(ml.relu(ml.dot(images, params["w1"], Rows, Cols)), params["w3"], Hidden)
        return ml.cross_entropy(logits, labels, Classes).mean()

    def step(params, images, labels):
        value, grads = jax.value_and_grad(loss)(params, images, labels)
        return value, jax.tree.map(lambda w, g: w - g, params, grads)

    program = ml.trace(step, shapes, ml.f32[Batch, Rows, Cols], ml.i32[Batch])
    plan = program.plan(ml.mesh(data=2), "batch:data")
    with pytest.raises(RunError) as caught:
        ml.restore(tmp_path).under(plan)
    for line in (
        f"Checkpoint 4 in {tmp_path} is from another program:",
        "`params/w1` was saved as float32 of shape (4, 4, 16); this program has float32 of shape (4, 4, 32)",
        "`params/w3` was not saved. Did you mean `params/w2` or `params/w1`?",
        "`params/w2` was saved, and this program has no such array",
    ):
        assert line in str(caught.value)
    for state in (ml.restore(tmp_path), {"params": {"w1": np.zeros((4, 4, 32), np.float32), "w3": np.zeros((32, 10))}}):
        with pytest.raises(
            RunError, match=f"Checkpoint 4 in {tmp_path} is from another program:\n  1. `params/w1` was s"
        ):
            plan.fit(state, small.batches, steps=5, checkpoint=tmp_path)
    x = ml.trace(lambda x: x + 1, ml.f32[Batch]).plan(ml.mesh(data=2))
    with pytest.raises(
        RunError, match="Nothing in .* belongs to an argument of this program: it has `x`; the checkpoint has "
    ):
        ml.restore(tmp_path).under(x)


def test_without_orbax_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "orbax"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "orbax", None)
    with pytest.raises(RunError, match=r'Checkpoints need Orbax \(.*\): pip install "meshlab\[checkpoints\]"'):
        saved(tmp_path)
