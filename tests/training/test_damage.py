"""What is damaged is never restored without a word, and the last undamaged checkpoint is."""

from __future__ import annotations

import collections
import gc
import logging
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import RunError
from meshlab.training import checkpoints, folder
from tests import share
from tests.training import digits_and_text as trainings
from tests.training.test_checkpoints import EIGHT, FOUR, PLAN, equal, numbers, saved

# TensorStore goes on reading after Orbax has given up, and finds its event loop closed: nothing of ours.
pytestmark = [
    pytest.mark.share(2, of="file"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """What Orbax leaves of a failed read goes while those warnings are ignored."""
    yield
    gc.collect()


def files(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file())


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def flip_an_array(path: Path) -> None:
    """Flips a bit in the numbers themselves, which Orbax does not notice."""
    largest = max(files(path), key=lambda each: each.stat().st_size)
    flip(largest, largest.stat().st_size // 2)


def test_damage_is_named_and_the_last_good_one_is_offered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan, begin = trainings.digits_program().plan(EIGHT, "batch:data hidden:model"), trainings.digits_start()
    whole = plan.fit(begin, trainings.digits_batches, steps=6)
    plan.fit(begin, trainings.digits_batches, steps=4, checkpoint=tmp_path, every=1)
    for step in (3, 4):
        flip_an_array(tmp_path / str(step))
    with pytest.raises(RunError) as caught:
        ml.restore(tmp_path).under(plan)
    assert re.fullmatch(
        rf"Checkpoint 4 in {tmp_path} is damaged: `params/w[12]` has changed since it was saved. The last undamaged one"
        rf' before it is step 2: ml.restore\("{tmp_path}", step=2\).',
        str(caught.value),
    )
    with caplog.at_level(logging.WARNING, "meshlab"):
        fit = plan.fit(begin, trainings.digits_batches, steps=6, checkpoint=tmp_path, every=1)
    assert (fit.begun, sorted(fit.damaged), fit.losses) == (2, [3, 4], whole.losses)
    # Orbax orders arrays within a file by chance.
    assert [re.sub("params/w[12]", "params/w1", record.getMessage()) for record in caplog.records] == [
        f"Checkpoint 4 in {tmp_path} is damaged: `params/w1` has changed since it was saved. It is now 4.damaged.",
        f"Checkpoint 3 in {tmp_path} is damaged: `params/w1` has changed since it was saved. It is now 3.damaged.",
        "The training goes on from the last undamaged checkpoint, step 2.",
    ]
    assert folder.steps(tmp_path) == [4, 5, 6]
    assert equal(ml.restore(tmp_path).under(plan), whole.state)
    for step in (4, 5, 6):
        flip_an_array(tmp_path / str(step))
    with pytest.raises(RunError, match=r"All checkpoints in .* are damaged; .*\n  1. step 6: `params/w[12]`"):
        plan.fit(begin, trainings.digits_batches, steps=7, checkpoint=tmp_path)
    with pytest.raises(RunError, match="Checkpoint 6 in .* is damaged: .* No earlier checkpoint is undamaged"):
        ml.restore(tmp_path).under(plan)
    flip(tmp_path / "6" / "meta" / "metadata", 100)
    with pytest.raises(
        RunError, match="Checkpoint 6 in .* is damaged: .* The folder also has step 4 or 5, not checked yet"
    ):
        ml.restore(tmp_path)


def test_a_checkpoint_that_was_renamed_is_damaged(tmp_path: Path) -> None:
    saved(tmp_path)
    shutil.move(tmp_path / "4", tmp_path / "9")
    with pytest.raises(RunError, match="damaged: it was saved at step 4, not 9: its folder was renamed"):
        ml.restore(tmp_path)


def test_a_disk_that_cannot_be_reached_now_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path)

    def raises(error: Exception) -> Callable[..., Any]:
        def restore(*_: Any, **__: Any) -> Any:
            raise error

        return restore

    ocp: Any = folder.orbax()
    for error in (PermissionError("no"), ValueError("UNAVAILABLE: the server is busy")):
        monkeypatch.setattr(ocp.Checkpointer, "restore", raises(error))
        with pytest.raises(RunError, match="Checkpoint 4 in .* cannot be read now: "):
            saved(tmp_path, steps=5)
    assert folder.steps(tmp_path) == [2, 4]


def test_a_checkpoint_of_another_version_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checkpoints, "Meta", collections.namedtuple("Meta", "step leaves losses metrics batches layout mesh")
    )
    saved(tmp_path)
    monkeypatch.undo()
    with pytest.raises(RunError, match="Checkpoint 4 in .* is from another version of meshlab: Expected `object`"):
        ml.restore(tmp_path)


def test_an_array_that_orbax_does_not_find_any_more_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen after one flipped bit: it gives back what it was asked for, without numbers."""
    saved(tmp_path)
    read = checkpoints._orbax

    def forgets(path: Path, step: int, **what: Any) -> Any:
        found = read(path, step, **what)
        if step == 4 and "state" in what:
            asked = what["state"].item
            return {"state": found["state"] | dict(list(asked.items())[:1])}
        return found

    monkeypatch.setattr(checkpoints, "_orbax", forgets)
    with pytest.raises(RunError, match=r"Checkpoint 4 in .* is damaged: `\S+` is not in it any more. .*step 2"):
        ml.restore(tmp_path).under(PLAN)


class Outcomes(collections.Counter[str]):
    """What was restored after some damage of the later of two checkpoints."""

    def __init__(self, path: Path, plan: ml.Plan, begin: Any, batches: Any):
        super().__init__()
        self.path, self.plan = path, plan
        plan.fit(begin, batches, steps=2, checkpoint=path, every=1)
        self.good = {step: numbers(ml.restore(path, step).under(plan)) for step in (1, 2)}
        self.files = [each for each in files(path / "2") if each.stat().st_size]

    def after(self, damage: Callable[[Path], Any], file: Path) -> None:
        """Damages a file, restores, and repairs it."""
        data = file.read_bytes()
        damage(file)
        found, values, damaged = checkpoints.last_good(self.path, self.plan, list(self.plan.program.carry), whole=True)
        expected = 1 if damaged else 2
        same = found and found.step == expected and all(map(np.array_equal, numbers(values), self.good[expected]))
        self[f"silent: {file}" if not same else "the last good one" if damaged else "no effect"] += 1
        file.write_bytes(data)


@pytest.fixture(scope="module")
def of_digits(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    plan = trainings.digits_program().plan(FOUR, "batch:data hidden:model")
    return Outcomes(tmp_path_factory.mktemp("damage"), plan, trainings.digits_start(), trainings.digits_batches)


def test_files_that_are_missing_or_cut_are_never_silent(of_digits: Outcomes) -> None:
    of_digits.clear()
    for file in of_digits.files:
        of_digits.after(Path.unlink, file)
        of_digits.after(lambda file: os.truncate(file, file.stat().st_size // 2), file)
        of_digits.after(lambda file: file.write_bytes(b""), file)
    assert set(of_digits) == {"no effect", "the last good one"}, of_digits
    # Orbax writes more files where it takes longer, and does not need all of them.
    assert of_digits["the last good one"] >= len(of_digits.files) // 2


def flipped(outcomes: Outcomes, count: int) -> None:
    """Flips bits: half of them in any file, half where most bytes are."""
    draw = random.Random(share.number())
    sizes = [file.stat().st_size for file in outcomes.files]
    outcomes.clear()
    for i in range(count):
        file = draw.choices(outcomes.files, sizes if i % 2 else None)[0]
        at, bit = draw.randrange(file.stat().st_size), draw.randrange(8)
        outcomes.after(lambda file, at=at, bit=bit: flip(file, at, bit), file)
    print(outcomes)
    assert set(outcomes) <= {"no effect", "the last good one"}, outcomes
    assert outcomes["the last good one"] > count / 4


def test_no_flipped_bit_is_silent(of_digits: Outcomes) -> None:
    flipped(of_digits, 30)


@pytest.mark.nightly
def test_none_of_a_thousand_flipped_bits_is_silent(of_digits: Outcomes) -> None:
    flipped(of_digits, 1000)
