"""A fit is the loop that one would write; it saves, and goes on from what it has saved, under any layout."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.training import fit as fit_module
from tests.widgets import small

pytestmark = pytest.mark.share(2, of="file")

PROGRAM = small.program()
PLAN = PROGRAM.plan(small.mesh(), "batch:data hidden:model")
OTHER = PROGRAM.plan(ml.mesh(data=4), "batch:data")


def start() -> dict[str, Any]:
    return {"params": small.params()}


def whole(steps: int) -> list[float]:
    return PLAN.fit(start(), small.batches, steps=steps).losses


class Places:
    """Batches that know where they stand, as grain's iterators do."""

    def __init__(self, wrap: Any = None):
        self.at, self.wrap, self.taken = 0, wrap, 0

    def __iter__(self) -> Iterator[dict]:
        return self

    def __next__(self) -> dict:
        self.at, self.taken = self.at + 1, self.taken + 1
        return list(small.batches())[(self.at - 1) % 3]

    def get_state(self) -> Any:
        return self.wrap({"at": self.at}) if self.wrap else {"at": self.at}

    def set_state(self, state: Any) -> None:
        self.at = (json.loads(state) if isinstance(state, bytes) else state)["at"]


def test_a_fit_is_the_loop_that_one_would_write() -> None:
    params, losses = small.params(), []
    feeds = small.training().feeds()
    for _ in range(5):
        feed = next(feeds)
        images = ml.tensor(feed["images"], small.Batch, small.Rows, small.Cols)
        value, params = small.step(params, images, ml.tensor(feed["labels"], small.Batch))
        losses.append(float(value))
    fit = PLAN.fit(start(), small.batches, steps=5)
    assert (fit.step, fit.begun, fit.ended) == (5, 0, "steps")
    np.testing.assert_allclose(fit.losses, losses, rtol=1e-6)
    for name, tensor in fit.state["params"].items():
        assert tensor.dims == params[name].dims
        np.testing.assert_allclose(tensor.array, params[name].array, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "batches",
    [
        small.batches,
        lambda: (each for _ in range(2) for each in small.batches()),
        list(small.batches()),
        tuple(small.batches()) * 2,
        iter([*small.batches()] * 2),
        small.training().feeds(),
    ],
    ids=["function", "function of many", "list", "tuple", "iterator", "endless iterator"],
)
def test_batches_come_from_anything_that_can_be_iterated(batches: Any) -> None:
    assert PLAN.fit(start(), batches, steps=5).losses == whole(5)


def test_a_fit_ends_where_an_iterator_does() -> None:
    fit = PLAN.fit(start(), small.batches(), steps=9)
    assert (fit.step, fit.ended, fit.losses) == (3, "batches", whole(3))
    assert re.fullmatch(r"Fit\(step 3 of 9, loss [\d.]+, no batches left\)", repr(fit))


def test_the_same_data_in_each_step() -> None:
    fit = PLAN.fit(start() | next(small.batches()), steps=2)
    assert fit.losses == PLAN.fit(start(), [next(small.batches())], steps=2).losses
    assert list(fit.state) == ["params"]


def test_the_training_of_a_board_is_the_same() -> None:
    training = small.training(4)
    run = ml.explore(PROGRAM, small.mesh(), "batch:data hidden:model", run=training).run().wait(60)
    assert PLAN.fit(training).losses == run.losses
    assert PLAN.fit(training, steps=2).losses == run.losses[:2]


def test_it_goes_on_from_a_fit_under_another_layout() -> None:
    first = PLAN.fit(start(), small.batches, steps=4)
    second = OTHER.fit(first, small.batches, steps=7)
    assert (second.begun, second.step, first.step, len(first.losses)) == (4, 7, 4, 4)
    np.testing.assert_allclose(second.losses, whole(7), rtol=1e-6)
    assert {len(each.array.sharding.device_set) for each in second.state["params"].values()} == {4}


def test_nothing_is_overwritten_but_what_the_steps_have_made() -> None:
    inputs, _ = PLAN.shardings
    home = jax.device_put(tuple(small.params()[name].array for name in ("w1", "w2")), tuple(inputs[0].values()))
    mine = {name: ml.tensor(array, *small.params()[name].dims) for name, array in zip(("w1", "w2"), home, strict=True)}
    before, seen = [np.array(array) for array in home], []

    def look(fit: ml.Fit) -> None:
        assert [array.is_deleted() for array in seen] == [True] * len(seen), "the last step took its memory"
        seen[:] = [each.array for each in fit.state["params"].values()]

    PLAN.fit({"params": mine}, small.batches, steps=3, until=look)
    assert not any(array.is_deleted() for array in (*home, *seen))
    for array, other in zip(home, before, strict=True):
        np.testing.assert_array_equal(array, other)
    PLAN.fit({"params": mine}, small.batches, steps=1, donate=True)
    assert all(array.is_deleted() for array in home)


def test_numpy_arrays_are_not_overwritten() -> None:
    arrays = {name: np.array(each.array) for name, each in small.params().items()}
    PLAN.fit({"params": arrays}, small.batches, steps=3)
    for name, each in small.params().items():
        np.testing.assert_array_equal(arrays[name], each.array)


def test_it_ends_early_and_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "REPORT_SECONDS", 0)
    steps: list[str] = []
    fit = PLAN.fit(
        start(), small.batches, steps=9, until=lambda fit: fit.step == 3, progress=lambda fit: steps.append(repr(fit))
    )
    assert (fit.step, fit.ended) == (3, "until")
    assert [text.partition(",")[0] for text in steps] == [f"Fit(step {i} of 9" for i in (1, 2, 3, 3)]
    assert steps[-1].endswith(", ended by until)")


@pytest.mark.parametrize("wrap", [None, lambda state: json.dumps(state).encode()], ids=["dict", "bytes"])
def test_batches_that_know_where_they_stand_are_set_there(tmp_path: Any, wrap: Any) -> None:
    PLAN.fit(start(), Places(wrap), steps=4, checkpoint=tmp_path, every=3)
    again = Places(wrap)
    fit = OTHER.fit(start(), again, steps=7, checkpoint=tmp_path)
    np.testing.assert_allclose(fit.losses, whole(7), rtol=1e-6)
    assert (fit.begun, again.taken, again.at) == (4, 3, 7), "none was taken twice"


def test_a_state_of_batches_that_is_no_json(tmp_path: Any) -> None:
    with pytest.raises(ml.RunError, match=r"The state of the batches \(Places.get_state\(\)\) is not JSON: "):
        PLAN.fit(start(), Places(lambda state: object()), steps=1, checkpoint=tmp_path)


def test_other_batches_are_skipped(tmp_path: Any) -> None:
    PLAN.fit(start(), small.batches, steps=4, checkpoint=tmp_path)
    fit = PLAN.fit(start(), iter([*small.batches()] * 3), steps=7, checkpoint=tmp_path)
    assert fit.losses == whole(7)


def test_a_training_that_has_ended_takes_no_step(tmp_path: Any) -> None:
    done = PLAN.fit(start(), small.batches, steps=2, checkpoint=tmp_path)
    again = PLAN.fit(start(), small.batches, steps=2, checkpoint=tmp_path)
    assert (again.step, again.begun, again.losses, again.ended) == (2, 2, done.losses, "steps")
    np.testing.assert_array_equal(again.state["params"]["w1"].array, done.state["params"]["w1"].array)


def test_a_fit_that_fails_says_how_far_it_was(tmp_path: Any) -> None:
    def broken() -> Iterator[dict]:
        yield from small.batches()
        raise OSError("the data loader broke")

    with pytest.raises(OSError, match="the data loader broke") as caught:
        PLAN.fit(start(), broken, steps=9, checkpoint=tmp_path / "run", every=2)
    assert caught.value.__notes__ == [
        f"The training ended after step 3; the last checkpoint in {tmp_path / 'run'} is step 2."
    ]
    assert PLAN.fit(start(), small.batches, steps=5, checkpoint=tmp_path / "run").losses == whole(5)
    with pytest.raises(ml.RunError, match="A batch came without `labels`") as refused:
        PLAN.fit(start(), [{"images": 0}], steps=9, checkpoint=tmp_path / "new")
    assert refused.value.__notes__ == ["The training ended after step 0; nothing was saved."]


def test_it_saves_where_an_event_loop_runs(tmp_path: Any) -> None:
    """As in a notebook, whose kernel is one."""

    async def cell() -> list[float]:
        PLAN.fit(start(), small.batches, steps=1, checkpoint=tmp_path)
        return PLAN.fit(start(), small.batches, steps=2, checkpoint=tmp_path).losses

    # In a thread of its own: a browser that other tests drive has a loop in this one.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, cell()).result() == whole(2)


# --- what a step returns ----------------------------------------------------------------------------------------------

Batch, Embed = ml.dims(batch=4, embed=8)


def traced(returned: Any) -> ml.Program:
    """A step of `w` whose outputs a function makes of its loss and the next `w`."""

    def step(w, x):
        value, grad = jax.value_and_grad(lambda w: ml.square(ml.dot(x, w, Embed)).mean())(w)
        return returned(value, w - 0.1 * grad)

    return ml.trace(step, ml.f32[Embed], ml.f32[Batch, Embed])


def fitted(program: ml.Program, **more: Any) -> ml.Fit:
    data = {"w": np.arange(8, dtype=np.float32), "x": np.ones((4, 8), np.float32)}
    return program.plan(ml.mesh(data=2), "batch:data").fit(data, steps=2, **more)


def test_the_loss_is_found_or_asked_for() -> None:
    alone = fitted(traced(lambda value, w: (value, w)))
    assert len(alone.losses) == 2
    assert alone.metrics == {}
    named = fitted(traced(lambda value, w: ({"half": value / 2, "loss": value}, w)))
    assert named.losses == alone.losses
    assert named.metrics == {"out/0/half": [loss / 2 for loss in alone.losses]}
    two = traced(lambda value, w: (value / 2, value, value > 3, w))
    with pytest.raises(ml.RunError, match='numbers, `out/0`, `out/1`, `out/2`: say which is the loss, loss="out/0"'):
        fitted(two)
    assert fitted(two, loss="out/1").losses == alone.losses
    assert list(fitted(two, loss="out/1").metrics) == ["out/0", "out/2"]
    with pytest.raises(ml.RunError, match="loss='out/7' is not the place of a number that .* Did you mean `out/"):
        fitted(two, loss="out/7")
    assert fitted(traced(lambda value, w: (w,))).losses == []


def test_a_board_asks_for_the_loss_too() -> None:
    two = traced(lambda value, w: (value / 2, value, w))
    data = {"w": np.ones(8, np.float32), "x": np.ones((4, 8), np.float32)}
    with pytest.raises(ml.RunError, match='say which is the loss, loss="out/0"'):
        ml.explore(two, ml.mesh(data=2), run=ml.Training(data))
    run = ml.explore(two, ml.mesh(data=2), run=ml.Training(data, loss="out/1")).run(1).wait(60)
    assert run.losses == fitted_once(two, data)


def fitted_once(program: ml.Program, data: dict) -> list[float]:
    return program.plan(ml.mesh(data=2)).fit(data, steps=1, loss="out/1").losses


def test_all_problems_are_said_at_once() -> None:
    plan = traced(lambda value, w: (value, value / 2)).plan(ml.mesh(data=2))
    wrong: dict[str, Any] = {"batches": 3, "until": True, "progress": "yes"}
    with pytest.raises(ml.RunError) as caught:
        plan.fit({"v": 0}, every=2, **wrong)
    text = str(caught.value)
    for line in (
        "fit() cannot begin:\n  1. The step carries nothing to the next one, so there is nothing to train. No output",
        '2. The step returns several numbers, `out/0`, `out/1`: say which is the loss, loss="out/0".',
        "3. fit() starts from `v`, which is not an argument of this program (it has `w`, `x`).",
        "4. fit() needs a number of steps: steps=1000.",
        '5. fit() was given `every`, but no folder to save in: checkpoint="runs/first".',
        "6. fit() was given until=True; it must be a function of a fit.",
        "7. fit() was given progress='yes'; it must be a function of a fit.",
        "8. fit() was given batches=3; they must be an iterable, or make one when called.",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"state": 3}, r"fit\(\) was given 3; it starts from a dict by argument name, \{\"params\": params\}, or"),
        ({"state": {}}, "lacks a value to start from for `params`; add it to the state"),
        ({"state": {"params": {"w1": 0, "w2": 1}}}, r"does not fit the program:\n  1. `params/w1` has shape \(\), "),
        ({"steps": 0}, r"fit\(\) was given the steps 0; it must be an integer of at least 1"),
        ({"checkpoint": "gs://bucket/run"}, "checkpoint='gs://bucket/run' is not a folder of a file system; "),
        ({"checkpoint": "x", "every": 1.5}, r"fit\(\) was given the every 1.5; it must be an integer of at least 1"),
        ({"donate": 1}, r"fit\(\) was given donate=1; it must be True or False"),
        ({"batches": [3]}, r"fit\(\)'s batches gave 3; batches must give dicts by argument name: batches=\(\{"),
        ({"batches": lambda: 3}, r"fit\(\)'s batches\(\) gave 3; batches\(\) must give dicts .* batches=lambda: \(\{"),
        ({"batches": []}, r"fit\(\)'s batches gave no batch at all; it must give at least one"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict, message: str) -> None:
    asked: dict[str, Any] = {"state": start(), "batches": small.batches, "steps": 1} | given
    with pytest.raises(ml.RunError, match=message):
        PLAN.fit(asked.pop("state"), asked.pop("batches"), **asked)


def test_a_state_of_keys_padding_and_small_numbers_is_saved_as_it_is(tmp_path: Any) -> None:
    """Typed keys, 16 and 8 bits, truth values, nothing at all, and an axis that its devices do not divide."""
    (Odd,) = ml.dims(odd=6)

    def step(state, x):
        key, draw = jax.random.split(state["key"])
        noise = jax.random.normal(draw, ())
        half = state["half"] * jnp.bfloat16(0.5)
        new = {"key": key, "half": half, "w": state["w"] + x.mean() + noise, "flag": ~state["flag"]}
        return (noise + x.mean()), new | {"small": state["small"] + jnp.int8(1), "none": state["none"]}

    shapes = {
        "key": jax.eval_shape(lambda: jax.random.key(0)),
        "half": ml.bf16[Odd],
        "w": ml.f32[Odd],
        "flag": ml.bool_[Odd],
        "small": jax.ShapeDtypeStruct((), jnp.int8),
        "none": jax.ShapeDtypeStruct((0, 3), jnp.float32),
    }
    program = ml.trace(step, shapes, ml.f32[Odd], carry={"state": 1})
    state = {
        "key": jax.random.key(3),
        "half": np.arange(6).astype(jnp.bfloat16),
        "w": np.ones(6, np.float32),
        "flag": np.arange(6) % 2 == 0,
        "small": np.int8(3),
        "none": np.zeros((0, 3), np.float32),
    }
    x = np.ones(6, np.float32)
    plans = [program.plan(ml.mesh(data=4), "odd:data", pad=True), program.plan(ml.mesh(data=3), "odd:data")]
    unbroken = plans[0].fit({"state": state, "x": x}, steps=4)
    plans[0].fit({"state": state, "x": x}, steps=2, checkpoint=tmp_path)
    fit = plans[1].fit({"state": state, "x": x}, steps=4, checkpoint=tmp_path)
    np.testing.assert_allclose(fit.losses, unbroken.losses, rtol=1e-6)
    for one, other in zip(jax.tree.leaves(fit.state), jax.tree.leaves(unbroken.state), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        are_keys = jnp.issubdtype(one.dtype, jax.dtypes.prng_key)
        data = map(jax.random.key_data, (one, other)) if are_keys else (one, other)
        np.testing.assert_allclose(*(np.asarray(each, np.float32) for each in data), rtol=1e-6)
