"""Looks into the last step of a run: what the devices held is what numpy computes, and what the run itself returned."""

from __future__ import annotations

import json
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import MeshlabError
from meshlab.opening.open_explorer import explore
from meshlab.training.feeding import Training
from meshlab.widgets.background.latest import Job
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import CancelLook, Look, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer, shared_state
from meshlab.widgets.state import looks
from meshlab.widgets.views.asked.looking import look_part
from tests.engine.looped import SHAPES, Batch, Embed, Hidden, Layers, data, descent
from tests.widgets import small

pytestmark = pytest.mark.share(2, of="file")


def read(explorer: Explorer, what: str, **args: Any) -> dict:
    """What a page is sent, as JSON has it."""
    reply = answer(explorer, {"v": 2, "kind": "read", "id": 1, "what": what, "args": args})
    assert reply["kind"] == "read", reply
    return json.loads(json.dumps(reply["data"], allow_nan=False))


def last(explorer: Explorer) -> Job:
    """The latest look."""
    assert explorer.looks.last is not None
    return explorer.looks.last


def looked(explorer: Explorer, name: str, **args: Any) -> dict:
    """Looks at a value; returns what a page is sent of it."""
    explorer.look(name)
    return again(explorer, **args)


def again(explorer: Explorer, **args: Any) -> dict:
    """What a page is sent of something else of the same look."""
    return read(explorer, "looked", number=last(explorer).number, **args)


@pytest.fixture(scope="module")
def ran() -> Explorer:
    """The small net after four steps."""
    explorer = explore(small.program(), small.mesh(), "batch:data hidden:model", run=small.training(steps=4))
    assert explorer.run().wait(60).phase == "done"
    return explorer


@pytest.fixture(scope="module")
def last_step() -> dict[str, np.ndarray]:
    """By hand, the values of the fourth step: its parameters are those after three, its batch is the first one."""
    params, batches = small.params(), [*small.batches()]
    for batch in batches:
        named = ml.tensor(batch["images"], small.Batch, small.Rows, small.Cols), ml.tensor(batch["labels"], small.Batch)
        _, params = small.step(params, *named)
    w1, w2 = (np.asarray(params[name].array) for name in ("w1", "w2"))
    hidden = np.maximum(np.einsum("brc,rch->bh", batches[0]["images"], w1), 0)
    return {"hidden": hidden, "logits": hidden @ w2, "params/w1": w1, "w2": w2}


def test_it_is_the_last_step_that_the_run_took(ran: Explorer, last_step: dict[str, np.ndarray]) -> None:
    seen = ran.look("hidden")
    np.testing.assert_allclose(seen["hidden"].whole, last_step["hidden"], rtol=1e-5, atol=1e-6)
    assert float(seen.result[0]) == ran.runs[-1].losses[-1], "it returns what the run has returned, to the last bit"
    values = ran.runs[-1].values
    assert values is not None
    for one, other in zip(*map(jax.tree.leaves, (seen.result, values.outputs)), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    # A parameter is what the step began with; the panel's own numbers of it are those that the step gave.
    np.testing.assert_allclose(ran.look("params/w1")["params/w1"].whole, last_step["params/w1"], rtol=1e-5, atol=1e-6)


def test_each_device_has_a_line_with_the_numbers_of_its_slice(ran: Explorer, last_step: dict[str, np.ndarray]) -> None:
    view = looked(ran, "hidden")
    assert (view["label"], view["when"], view["notes"]) == ("hidden", "in step 4 of run 1", [])
    assert (view["shards"]["splits"], view["shards"]["parts"]) == ([["data"], ["model"]], [2, 4])
    assert view["read"] == "✓ Read from 8 devices, each its own shard."
    assert [row["device"] for row in view["rows"]] == [*range(8)]
    for row in view["rows"]:
        down, across = divmod(row["device"], 4)
        held = last_step["hidden"][4 * down : 4 * down + 4, 4 * across : 4 * across + 4]
        assert row["where"] == f"data {down}, model {across}"
        assert (row["slice"], row["nan"], row["infinite"], row["numbers"]) == (row["device"], 0, 0, [])
        bounds = row["least"], row["mean"], row["most"]
        assert bounds == pytest.approx((held.min(), held.mean(), held.max()), rel=1e-4, abs=1e-6)
    # Each cell is one number of the whole.
    drawn = [number for block in view["cells"]["blocks"] for number in block["values"]]
    assert sorted(drawn) == pytest.approx(sorted(last_step["hidden"].ravel()), rel=1e-4, abs=1e-6)


def test_of_a_partial_sum_each_addend_is_shown_and_what_they_come_to(
    ran: Explorer, last_step: dict[str, np.ndarray]
) -> None:
    def numbers(view: dict) -> list[float]:
        assert view["cells"]["statistic"] == "value"
        return [number for block in view["cells"]["blocks"] for number in block["values"]]

    addends, view = [], looked(ran, "logits")
    for addend in range(4):
        view = again(ran, addend=addend)
        columns = slice(4 * addend, 4 * addend + 4)
        addends.append(last_step["hidden"][:, columns] @ last_step["w2"][columns])
        assert sorted(numbers(view)) == pytest.approx(sorted(addends[-1].ravel()), rel=1e-4, abs=1e-5)
        assert view["shards"]["partial"] == ["model"]
        assert view["notes"] == [
            f"A partial sum over `model`: each device holds one of 4 addends. Drawn is the addend of model {addend}."
        ]
    assert view["addends"] == [f"model {addend}" for addend in range(4)]
    # A line of the table has the device's own addend, whichever is drawn.
    for row in view["rows"]:
        down, across = divmod(row["device"], 4)
        assert row["most"] == pytest.approx(addends[across][4 * down : 4 * down + 4].max(), rel=1e-4)
    whole = again(ran, addend=None)
    assert sorted(numbers(whole)) == pytest.approx(sorted(last_step["logits"].ravel()), rel=1e-4, abs=1e-5)
    assert "Drawn is their sum, which no device holds." in whole["notes"][0]
    # After the all-reduce each device has all of it, and replicas are alike.
    made, moved = whole["forms"]
    assert made.startswith("made by dot_general: ")
    assert moved.startswith("after all-reduce over model: ")
    after = again(ran, form=1)
    assert (after["form"], after["shards"]["partial"], after["addends"], after["notes"]) == (1, [], [], [])
    assert sorted(numbers(after)) == pytest.approx(sorted(last_step["logits"].ravel()), rel=1e-4, abs=1e-5)
    assert after["read"] == "✓ Read from 8 devices, each its own shard, and replicas agree bit for bit."


def test_in_a_loop_one_iteration_is_shown() -> None:
    def loss(params, x):
        def layer(x, w):
            hidden = ml.tanh(ml.dot(x, w["up"], Embed))
            return ml.tag(x + ml.dot(hidden, w["down"], Hidden), "residual"), None

        last, _ = ml.scan(layer, x, params, Layers)
        return ml.square(last).mean()

    program = ml.trace(descent(loss), SHAPES, ml.f32[Batch, Embed])
    params, x = data()
    layout, mesh = "batch:data+micro hidden:model", ml.mesh(data=2, model=2, micro=ml.serial(2))
    explorer = explore(program, mesh, layout, run=Training({"params": params, "x": x}, steps=1))
    explorer.run().wait(60)
    values = [x]
    for up, down in zip(params["up"], params["down"], strict=True):
        values.append(values[-1] + np.tanh(values[-1] @ up) @ down)
    view = looked(explorer, "residual")
    for layer in range(4):
        view = again(explorer, iterations=[layer])
        # The blocks of an axis in time meet: two of each device are its rows.
        assert view["loops"] == [{"times": 4, "shown": layer}]
        wanted = [number for row in (values[layer + 1][:4], values[layer + 1][4:]) for number in row.ravel()]
        drawn = [number for block in view["cells"]["blocks"] for number in block["values"]]
        assert sorted(drawn) == pytest.approx(sorted(wanted), rel=1e-4, abs=1e-5)
        for row in view["rows"]:
            rows = values[layer + 1][4 * (row["device"] // 2) :][:4]
            assert (row["least"], row["most"]) == pytest.approx((rows.min(), rows.max()), rel=1e-4)
    assert again(explorer, iterations=[99])["loops"] == [{"times": 4, "shown": 3}], "a page may ask for too many"
    # Gradients of weights are partial sums over devices and micro-batches: each pair has an addend.
    summed = looked(explorer, "grads/params/up")
    assert len(summed["addends"]) == 4
    assert summed["addends"][1] in ("data 0, micro 1", "micro 0, data 1")


def test_rows_that_an_iteration_gathers_from_afar_are_drawn_where_they_lie() -> None:
    def function(x: Any, w: Any) -> Any:
        with jax.named_scope("outer"):
            early = ml.tag(x @ w, "early")
        with jax.named_scope("inner"):
            return ml.tag(early @ w, "late").sum()

    x, w = np.arange(16, dtype=np.float32).reshape(16, 1), np.ones((1, 1), np.float32)
    program = ml.trace(function, ml.named(x, "rows cols"), ml.named(w, "cols out"))
    # Iteration 0 has the first half of what each of four devices has: two of them hold 0, 1, 4, 5.
    layout = {"rows": "x+y+t", "@outer": {"rows": "x+y+t"}, "@inner": {"rows": "x+t"}}
    explorer = explore(program, ml.mesh(x=2, y=2, t=ml.serial(2)), layout, run=Training({"x": x, "w": w}, steps=1))
    assert explorer.run().wait(60).phase == "done"
    assert explorer.look("late")["late"].shards[0].ravel().tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    view = again(explorer)
    assert [number for block in view["cells"]["blocks"] for number in block["values"]] == [*range(16)]
    for device, row in enumerate(view["rows"]):
        assert (row["least"], row["most"]) == ((0, 7), (8, 15))[device // 2]


def test_what_is_no_number_is_counted_on_its_device() -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2) - 1
    program = ml.trace(lambda x: ml.tag(jnp.log(x), "scale").sum(), ml.named(x, "rows cols"))
    explorer = explore(program, ml.mesh(data=2), "rows:data", run=Training({"x": x}, steps=1))
    assert explorer.run().wait(60).phase == "done"
    view = looked(explorer, "scale")
    first, second = view["rows"]
    # The logarithms of -1, 0, 1, 2.
    assert first["numbers"] == ["NaN", "−∞", 0.0, pytest.approx(np.log(2), rel=1e-4)]
    assert (first["nan"], first["infinite"], second["nan"], second["infinite"]) == (1, 1, 0, 0)
    assert (first["least"], first["most"]) == (0.0, pytest.approx(np.log(2), rel=1e-4))
    assert (view["cells"]["nan"], view["cells"]["infinite"]) == (1, 1)


def test_numbers_of_another_layout_say_so_and_of_another_mesh_there_are_none(ran: Explorer) -> None:
    view = looked(ran, "hidden")
    ran.load("batch:model")
    stale = again(ran)
    assert stale["when"] == "in step 4 of run 1, under batch:data hidden:model"
    assert stale["notes"][0].startswith("The board shows another layout by now")
    assert (stale["rows"], stale["shards"]["parts"]) == (view["rows"], [2, 4])
    ran.undo()
    assert again(ran) == view
    ran.rename_axis("model", "m")
    gone = again(ran)
    assert (gone["there"], gone["why"][:28]) == (False, "Run 1 was on another mesh, o")
    ran.undo()
    assert again(ran) == view


def test_the_values_of_a_step_are_listed_each_once(ran: Explorer) -> None:
    groups = read(ran, "values", run=1)["groups"]
    assert [group["title"] for group in groups][:2] == ["places", "values that lines assign"]
    rows = {row["name"]: row for group in groups for row in group["rows"]}
    assert len(rows) == sum(len(group["rows"]) for group in groups)
    assert {"params/w1", "images", "out/0", "grads/params/w2", "hidden", "logits"} <= set(rows)
    assert (rows["hidden"]["dims"], rows["hidden"]["shape"]) == (["batch", "hidden"], [8, 16])
    assert rows["hidden"]["source"].startswith("small.py:")
    for row in rows.values():
        ran.look(row["name"])


def test_a_drop_sends_nothing_of_it(ran: Explorer) -> None:
    ran.look("hidden")
    before = shared_state(ran, "look")
    assert set(before) == {"look", "rev"}
    ran.load("batch:model")
    # A part that is as it was is not sent again.
    assert shared_state(ran, "document")["look"] == before["look"]
    ran.undo()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hiden", r"unknown names: `hiden` \(Did you mean `hidden`\?\)\. It knows"),
        (3, "unknown names: 3"),
    ],
)
def test_an_unknown_name_is_refused_at_once(ran: Explorer, name: Any, message: str) -> None:
    ran.look("hidden")
    before = ran.looks.last
    with pytest.raises(ExplorerError, match=message):
        ran.look(name)
    assert ran.looks.last is before


def test_without_a_step_there_is_nothing_to_look_into(explorer: Explorer) -> None:
    with pytest.raises(ExplorerError, match=r"No step was run that could be looked into\. Run one first\."):
        explorer.look("hidden")
    assert isinstance(explorer.apply(CancelLook()), Refused)


def test_a_run_that_failed_in_a_later_step_has_not_kept_how_the_last_one_began(program, mesh) -> None:
    def batches():
        yield from [*small.batches()][:2]
        raise OSError("no more data")

    explorer = explore(program, mesh, run=Training({"params": small.params()}, batches, 5))
    assert explorer.run().wait(60).phase == "failed"
    with pytest.raises(ExplorerError, match="Run 1 failed after step 2, and does not have what that step began with"):
        explorer.look("hidden")
    assert explorer.run(2).wait(60).phase == "done"
    assert explorer.look("hidden")["hidden"].whole.shape == (8, 16)


def test_what_is_too_large_is_not_read(ran: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "MOST_BYTES", 8 * 16 * 4 - 1)
    with pytest.raises(MeshlabError, match=r"`hidden` would be 512 bytes on all devices, in all .*: more than 511"):
        ran.look("hidden")
    look = look_part(ran)["look"]
    assert look is not None
    assert look["phase"] == "failed"
    assert "512 bytes" in look["error"]


def ran_once(value: Any, function: Any, dims: str, layout: str = "", pad: bool = False) -> Explorer:
    """An Explorer whose run has taken one step."""
    program = ml.trace(lambda x: function(x), ml.named(value, dims))
    explorer = explore(program, small.mesh(), run=Training({"x": value}, steps=1))
    explorer.pad(pad)
    explorer.load(layout)
    assert explorer.run().wait(60).phase == "done"
    return explorer


def test_padding_is_no_number() -> None:
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    explorer = ran_once(x, lambda x: ml.tag(x + 1, "more").sum(), "rows cols", "rows:model", pad=True)
    view = looked(explorer, "more")
    for row in view["rows"]:
        held = x[3 * (row["device"] % 4) :][:3] + 1
        assert (row["least"], row["most"]) == pytest.approx((held.min(), held.max()), rel=1e-4)
    assert len(view["rows"][3]["numbers"]) == 3, "one row of its three is data"
    assert sum(len(block["values"]) for block in view["cells"]["blocks"]) == x.size


def test_random_keys_and_empty_values_are_refused() -> None:
    keys = ran_once(jax.random.split(jax.random.key(0), 4), lambda key: jax.random.key_data(key), "chain")
    with pytest.raises(ExplorerError, match="`x` cannot be shown as numbers: these are random keys"):
        keys.look("x")
    empty = ran_once(np.zeros((0, 4), np.float32), lambda x: x + 1, "none cols")
    with pytest.raises(ExplorerError, match="`x` cannot be shown: no number is in it"):
        empty.look("x")


class Held:
    """Holds looks until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.reached, self.open, watch = threading.Event(), threading.Event(), looks.watch

        def held(*args: Any) -> Any:
            self.reached.set()
            assert self.open.wait(60)
            return watch(*args)

        monkeypatch.setattr(looks, "watch", held)


def test_it_is_cancelled_and_another_one_takes_its_place(ran: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    assert ran.apply(Look("hidden"))
    first = last(ran)
    assert held.reached.wait(60)
    shown = {"number": first.number, "value": "hidden", "run": 1, "phase": "working", "error": ""}
    assert look_part(ran) == {"look": shown}
    assert ran.select("images"), "the board is free meanwhile"
    assert ran.cancel_look()
    assert first.phase == "cancelled"
    with pytest.raises(MeshlabError, match="cancelled"):
        first.wait()
    assert ran.apply(Look("hidden"))
    second = last(ran)
    assert ran.apply(Look("logits"))
    assert second.phase == "cancelled"
    third = last(ran)
    held.open.set()
    assert list(third.wait().seen) == ["logits"]
    assert (first.result, second.result) == (None, None)
    refused = answer(ran, {"v": 2, "kind": "read", "id": 1, "what": "looked", "args": {"number": first.number}})
    assert refused.get("reason") == "This is not looked at any more."


def test_another_run_forgets_it(explorer: Explorer) -> None:
    explorer.run(1).wait(60)
    explorer.look("hidden")
    told: list[str] = []
    explorer.subscribe(told.append)
    explorer.run(1).wait(60)
    assert look_part(explorer)["look"] is None
    assert "look" in told


def test_while_a_run_goes_on_nothing_is_looked_at(program, mesh) -> None:
    gate, third = threading.Event(), threading.Event()

    def batches():
        for number, batch in enumerate([*small.batches()]):
            if number == 2:
                third.set()
                assert gate.wait(60)
            yield batch

    explorer = explore(program, mesh, run=Training({"params": small.params()}, batches, 3))
    run = explorer.run()
    assert third.wait(60)
    assert run.values is not None
    assert run.values.began is None, "the next step may need the memory"
    with pytest.raises(ExplorerError, match="Run 1 is still running"):
        explorer.look("hidden")
    gate.set()
    assert run.wait(60).phase == "done"
    assert run.values.began is not None
