"""Numbers after a run: each cell is what numpy says of the run's own arrays, each device holds what the plan says."""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.plans.plan_data import Plan
from meshlab.opening.open_explorer import explore
from meshlab.training.feeding import Training
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer
from meshlab.widgets.views.devices import device_shards, heat
from meshlab.widgets.views.devices.cells import grid_of
from meshlab.widgets.views.devices.heat import heat_view, numbers_view, strides_of
from meshlab.widgets.views.devices.holdings import tensor_view
from tests.widgets import small
from tests.widgets.views.test_sameness import without_all_reduce

pytestmark = pytest.mark.share(2, of="file")

LAYOUTS = ["", "batch:data", "batch:data hidden:model", {"params/*": {"hidden": ("data", "model")}, "rows": "model"}]
Array = np.ndarray


def read(explorer: Explorer, place: str, run: int = 1, what: str = "heat", **args: Any) -> dict:
    """What a page is sent, as JSON has it."""
    reply = answer(
        explorer, {"v": 2, "kind": "read", "id": 1, "what": what, "args": {"place": place, "run": run, **args}}
    )
    assert reply["kind"] == "read", reply
    return json.loads(json.dumps(reply["data"], allow_nan=False))


def blocks_of(explorer: Explorer, place: str) -> Iterator[dict[int, slice]]:
    """The index range of each block along the axes that are drawn or cut, by the drawing's own numbers."""
    shards = tensor_view(explorer.plan, place)
    blocks = shards["blocks"]
    for slice_ in blocks["slices"]:
        at = np.unravel_index(slice_, shards["parts"]) if shards["parts"] else ()
        yield {axis: slice(*shards["edges"][axis][i : i + 2]) for axis, i in enumerate(at)}


def assert_cells(explorer: Explorer, place: str, array: Array, view: dict) -> None:
    """Holds every cell against numpy on the whole array."""
    shards, cells = tensor_view(explorer.plan, place), view["cells"]
    drawn = shards["blocks"]
    wide, statistic = array.astype(float), cells["statistic"]
    assert len(cells["blocks"]) == len(drawn["x"])
    seen = 0
    for index, block in zip(blocks_of(explorer, place), cells["blocks"], strict=True):
        shown = iter(
            zip(block["values"], block.get("least", block["values"]), block.get("most", block["values"]), strict=True)
        )
        assert block["facets"] == [[index[axis].start, index[axis].stop] for axis in drawn["facets"]]
        bounds = (list(itertools.pairwise(block[name])) for name in ("down", "across"))
        for (top, bottom), (left, right) in itertools.product(*bounds):
            chosen = dict(index)
            for axis, span in ((drawn["down"], (top, bottom)), (drawn["across"], (left, right))):
                if axis >= 0:
                    assert chosen[axis].start <= span[0] < span[1] <= chosen[axis].stop, "a cell crosses its slice"
                    chosen[axis] = slice(*span)
            numbers = wide[tuple(chosen[axis] for axis in range(wide.ndim))]
            value, least, most = next(shown)
            wanted = np.abs(numbers).mean() if statistic == "mean magnitude" else numbers.mean()
            assert value == pytest.approx(wanted, rel=1e-4, abs=1e-12)
            assert (least, most) == pytest.approx((numbers.min(), numbers.max()), rel=1e-4)
            seen += numbers.size
        assert next(shown, None) is None
    assert seen == array.size, "each number is in one cell"
    assert (cells["least"], cells["most"]) == pytest.approx((array.min(), array.max()), rel=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_cells_are_what_numpy_says_of_the_result(explorer: Explorer, layout: Any) -> None:
    explorer.load(layout)
    run = explorer.run().wait(60)
    batch = list(small.batches())[4 % 3]
    weights = {name: np.asarray(tensor.array) for name, tensor in run.result["params"].items()}
    arrays = batch | {f"{at}/{name}": each for at in ("params", "out/1") for name, each in weights.items()}
    for place, array in arrays.items():
        view = read(explorer, place)
        assert_cells(explorer, place, array, view)
        assert (view["there"], view["as_planned"], view["differences"], view["devices"]) == (True, True, [], 8)
        assert view["read"].startswith("✓ ")
    loss = read(explorer, "out/0")
    assert loss["cells"]["blocks"] == [
        {"down": [0, 1], "across": [0, 1], "facets": [], "values": [pytest.approx(run.losses[-1], rel=1e-4)]}
    ]
    assert read(explorer, "params/w1")["when"] == "after step 5 of run 1"
    assert read(explorer, "images")["when"] == "in the batch of step 5 of run 1"
    assert read(explorer, "out/1/w2")["when"] == "given by step 5 of run 1"


def test_a_run_under_another_layout_has_the_same_numbers_and_says_so(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    run = explorer.run().wait(60)
    explorer.load({"params/*": {"hidden": "data"}})
    view = read(explorer, "params/w2")
    assert_cells(explorer, "params/w2", np.asarray(run.result["params"]["w2"].array), view)
    assert (view["stale"], view["parts"]) == (True, [2, 1])
    assert view["when"] == "after step 5 of run 1, under batch:data hidden:model"
    # Its devices held other slices than those on the board (B28).
    assert view["unframed"] == (
        "In run 1 it has `hidden` split over `model`: its slices differ from these, so they do not frame its numbers."
    )
    # Beside it the first layout again, in its own slices.
    explorer.beside("batch:data hidden:model")
    beside = read(explorer, "params/w2", beside=True)
    assert (beside["parts"], beside["unframed"]) == ([4, 1], "")
    explorer.beside("")
    explorer.undo()
    assert read(explorer, "params/w2")["stale"] is False


def test_slices_frame_the_numbers_of_any_layout_under_which_the_devices_held_them(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    explorer.run().wait(60)
    framed = {
        "hidden:model": True,  # another layout, in which the weights are cut alike
        "batch:model hidden:data": False,
        "batch:data": False,
        "batch:data rows:model": False,  # as many slices of another dim
    }
    for layout, frames in framed.items():
        explorer.load(layout)
        view = read(explorer, "params/w1")
        assert (view["stale"], not view["unframed"]) == (True, frames)
    explorer.load("batch:data hidden:model")
    explorer.resize_axis("data", 1)
    assert read(explorer, "params/w1")["unframed"].startswith("In run 1 it has `hidden` split over `model`")


def test_there_are_no_numbers_without_a_run_nor_while_one_goes_on(program, mesh) -> None:
    gate = threading.Event()

    def batches() -> Iterator[dict]:
        for number, batch in enumerate(itertools.cycle(small.batches()), 1):
            if number == 3:
                assert gate.wait(60)
            yield batch

    explorer = explore(program, mesh, run=Training({"params": small.params()}, batches, 10_000))
    assert read(explorer, "params/w1") == read(explorer, "params/w1", what="numbers") | {"cells": None}
    assert read(explorer, "params/w1", what="numbers")["there"] is False
    run = explorer.run()
    assert read(explorer, "params/w1")["there"] is False
    explorer.cancel()
    gate.set()
    run.wait(60)
    view = read(explorer, "params/w1")
    assert view["when"] == f"after step {run.taken} of run 1, which was cancelled"
    assert_cells(explorer, "params/w1", np.asarray(run.result["params"]["w1"].array), view)
    # The next run takes its place.
    explorer.run(1).wait(60)
    assert read(explorer, "params/w1")["there"] is False
    assert read(explorer, "params/w1", run=2)["when"] == "after step 1 of run 2"


def test_of_what_a_later_call_took_the_memory_there_are_no_numbers_and_of_all_else_there_are(
    explorer: Explorer,
) -> None:
    explorer.load("batch:data hidden:model")
    run, batch = explorer.run().wait(60), next(small.batches())
    explorer.plan.run(run.result["params"], batch["images"], batch["labels"], donate=True)
    for place in ("params/w1", "out/1/w1"):
        view = read(explorer, place)
        assert (view["there"], view["cells"]) == (False, None)
        assert view["why"] == (
            f"No numbers: a later call took the memory of `{place}` (donate=True). Run again to see them."
        )
        assert read(explorer, place, what="numbers")["why"] == view["why"]
    assert read(explorer, "images")["read"].startswith("✓ ")


def test_a_run_that_failed_has_what_its_last_step_left(program, mesh) -> None:
    wrong = {"images": np.zeros((8, 4, 5), np.float32), "labels": np.zeros(8, np.int32)}
    good = next(small.batches())
    explorer = explore(program, mesh, run=Training({"params": small.params()}, lambda: [good, good, wrong]))
    run = explorer.run().wait(60)
    assert run.phase == "failed"
    assert read(explorer, "images")["when"] == "in the batch of step 2 of run 1, which failed"
    assert_cells(explorer, "images", good["images"], read(explorer, "images"))
    failing = explore(program, mesh, run=Training({"params": small.params()}, lambda: [wrong]))
    failing.run().wait(60)
    assert read(failing, "params/w1", what="numbers")["there"] is False


def test_replicas_that_are_not_alike_are_found(explorer: Explorer) -> None:
    """A plan without the all-reduce of a gradient: the devices of `data` go on with different parameters."""
    explorer.load("batch:data")
    reduces = [c for c in explorer.plan.collectives if c.kind == "all-reduce"]
    views = []
    for number in range(len(reduces)):
        explorer.documents.plans.put(explorer.document, without_all_reduce(small_plan(explorer), number))
        explorer.run(2).wait(60)
        views += [read(explorer, place, run=len(explorer.runs)) for place in ("params/w1", "params/w2")]
    apart = [view for view in views if view["differences"]]
    assert apart
    for view in apart:
        assert [each[:2] for each in view["differences"]] == [[4, 0], [5, 0], [6, 0], [7, 0]]
        assert view["as_planned"] is True
        assert "replicas differ by up to" in view["read"]
        assert "devices 4, 5, 6, 7 hold other numbers than the first device with the same slice" in view["read"]


def small_plan(explorer: Explorer) -> Plan:
    return explorer.program.plan(explorer.mesh, explorer.layout)


def test_devices_that_hold_other_ranges_than_planned_are_found(explorer: Explorer, monkeypatch) -> None:
    explorer.load("hidden:model")
    explorer.run(1).wait(60)
    other = explorer.program.plan(explorer.mesh, "rows:model")
    monkeypatch.setattr(device_shards, "stored", lambda plan, place, array: stored_by(other, place, array))
    view = read(explorer, "params/w1")
    assert view["as_planned"] is False
    assert view["read"].endswith("some hold index ranges that differ from the plan.")
    assert view["read"].startswith("✕ ")


stored_by = device_shards.stored


def ran(start: dict, function: Any, *names: str, layout: Any = None, pad: bool = False, mesh: Any = None) -> Explorer:
    """An Explorer of a function that has run once on the values."""
    values = [start[name] for name in start]
    given = [ml.named(value, axes) for value, axes in zip(values, names, strict=True)]
    program = ml.trace(function, *given)
    explorer = explore(program, mesh or ml.mesh(data=2, model=4), run=Training(start, steps=1))
    if pad:
        explorer.pad(True)
    if layout:
        explorer.load(layout)
    assert explorer.run().wait(60).phase == "done", explorer.runs[-1].error
    return explorer


def test_what_is_no_number_is_counted_and_left_out() -> None:
    x = np.arange(-32.0, 32.0, dtype=np.float32).reshape(8, 8)
    x[0, 0], x[3, 5], x[7, 7] = np.nan, np.inf, -np.inf
    x[1, :2] = np.nan
    explorer = ran({"x": x}, lambda x: x * 1, "rows cols", layout="rows:data")
    cells = read(explorer, "x")["cells"]
    assert (cells["nan"], cells["infinite"], cells["statistic"]) == (3, 2, "value")
    assert sorted(map(tuple, cells["odd"])) == [
        (0, 0, 1, 0), (0, 8, 1, 0), (0, 9, 1, 0), (0, 29, 0, 1), (1, 31, 0, 1),
    ]  # fmt: skip
    for block, cell, *_ in cells["odd"]:
        assert cells["blocks"][block]["values"][cell] is None
    finite = x[np.isfinite(x)]
    assert (cells["least"], cells["most"], cells["high"]) == (finite.min(), finite.max(), 31)


def test_a_mean_is_of_what_is_finite() -> None:
    x = np.abs(np.random.default_rng(0).normal(size=(64, 4, 4))).astype(np.float32)
    x[:7, 1, 2] = np.nan
    x[:, 3, 3] = np.inf
    cells = read(ran({"x": x}, lambda x: x * 1, "many rows cols", layout="rows:model"), "x")["cells"]
    assert (cells["nan"], cells["infinite"], cells["statistic"]) == (7, 64, "mean")
    grids = tensor_view(ran({"x": x}, lambda x: x * 1, "many rows cols", layout="rows:model").plan, "x")["blocks"]
    assert grids["down"] == 0
    # Rows are cut and drawn across, `many` down; `cols` are in each cell.
    third = cells["blocks"][1]
    with np.errstate(invalid="ignore"):
        wanted = np.nanmean(np.where(np.isfinite(x[0, 1]), x[0, 1], np.nan))
    assert third["values"][0] == pytest.approx(wanted, rel=1e-4)


def test_means_are_shown_where_they_do_not_cancel() -> None:
    """Half of the columns are above 0 and half below: a cell that is of one side keeps its sign."""
    x = np.abs(np.random.default_rng(0).normal(size=(512, 8))).astype(np.float32)
    x[:, 4:] *= -1
    for array, statistic in ((x, "mean"), (x * np.where(np.arange(512) % 2, 1, -1)[:, None], "mean magnitude")):
        explorer = ran({"x": array.astype(np.float32)}, lambda x: x * 1, "rows cols", layout="cols:model")
        view = read(explorer, "x")
        assert (view["cells"]["statistic"], view["cells"]["diverging"]) == (statistic, statistic == "mean")
        assert_cells(explorer, "x", array, view)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint32, np.float16, "bfloat16", np.complex64])
def test_numbers_of_any_dtype(dtype: Any) -> None:
    x = np.arange(-6, 6).reshape(3, 4)
    x = (x % 2 == 0) if dtype is bool else np.abs(x) if dtype is np.uint32 else x
    array = jax.numpy.asarray(x, dtype=dtype)
    view = read(ran({"x": array}, lambda x: x, "a b", layout="b:model"), "x")
    wanted = np.abs(x) if dtype is np.complex64 else x.astype(float)
    shown = np.concatenate([np.array(block["values"]).reshape(3, 1) for block in view["cells"]["blocks"]], 1)
    np.testing.assert_array_equal(shown, wanted)
    assert view["cells"]["diverging"] is bool(wanted.min() < 0)
    assert view["dtype"] == str(array.dtype)


@pytest.mark.parametrize(("size", "statistic"), [(4, "magnitude"), (4096, "mean magnitude")])
def test_of_complex_numbers_it_is_said_that_magnitudes_are_shown(size: int, statistic: str) -> None:
    x = np.full((size, 4), 3 - 4j, np.complex64)
    cells = read(ran({"x": x}, lambda x: x, "a b", layout="b:model"), "x")["cells"]
    assert (cells["statistic"], cells["complex"], cells["diverging"]) == (statistic, True, False)
    assert {value for block in cells["blocks"] for value in block["values"]} == {5.0}


@pytest.mark.parametrize("rank", range(7))
def test_any_rank_any_layout(rank: int) -> None:
    shape = (4, 2, 8, 3, 5, 2)[:rank]
    names = [f"d{axis}" for axis in range(rank)]
    array = np.asarray(np.random.default_rng(rank).normal(size=shape), np.float32)
    for layout in (
        {},
        dict(zip(names[:1], ["data"], strict=False)),
        dict(zip(names[::2], ["data", "model"], strict=False)),
    ):
        if layout.get("d2") == "model" or rank < 3:
            explorer = ran({"x": array}, lambda x: x * 1, " ".join(names), layout=layout)
            view, values = read(explorer, "x"), explorer.runs[-1].values
            numbers = values and values.at("x")
            assert numbers
            assert_cells(explorer, "x", np.asarray(numbers.array), view)
            assert view["as_planned"]


def test_what_is_padding_is_in_no_cell() -> None:
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    explorer = ran({"x": x}, lambda x: x * 2, "rows cols", layout="rows:model", pad=True)
    # `out` is carried to `x`: after the step `x` is what the next one would begin by.
    for place, array in {"x": 2 * x, "out": 2 * x}.items():
        view = read(explorer, place)
        assert_cells(explorer, place, array, view)
        assert view["as_planned"]
        assert [len(block["values"]) for block in view["cells"]["blocks"]] == [9, 9, 9, 3]
    assert read(explorer, "x")["read"].startswith("✓ Put on the devices again in the step's sharding, and read from 8")


def test_random_keys_and_empty_arrays_have_no_numbers() -> None:
    explorer = ran({"key": jax.random.split(jax.random.key(0), 4)}, lambda key: jax.random.key_data(key), "chain")
    assert read(explorer, "key", what="numbers")["why"] == "No numbers: `key` are random keys."
    assert read(explorer, "key")["cells"] is None
    empty = ran({"x": np.zeros((0, 4), np.float32)}, lambda x: x + 1, "none cols")
    assert read(empty, "x")["why"] == "No numbers: `x` is empty."


def test_what_is_made_inside_the_step_has_no_numbers() -> None:
    explorer = ran({"x": np.ones((8, 4), np.float32)}, lambda x: ml.tag(x * 2, "twice").sum(), "rows cols")
    view = read(explorer, "twice")
    assert (view["there"], view["cells"]) == (False, None)
    assert view["why"] == "No numbers: `twice` is computed inside the step, and not stored. Look shows them."


def test_a_run_at_other_sizes_has_no_numbers(explorer: Explorer) -> None:
    explorer.run(1).wait(60)
    assert explorer.resize_dim("batch", 16)
    assert read(explorer, "images", what="numbers")["why"] == "No numbers: run 1 had other sizes."
    assert read(explorer, "params/w1", what="numbers")["there"] is True


def test_of_very_many_numbers_some_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat, "MOST_READ", 5_000)
    x = np.random.default_rng(0).normal(size=(60, 50, 12)).astype(np.float32)
    explorer = ran({"x": x}, lambda x: x * 1, "a b c", layout="a:data b:model")
    view = read(explorer, "x")
    shards = tensor_view(explorer.plan, "x")
    strides = strides_of(grid_of(shards, shards["blocks"]), x.size)
    assert math.prod(strides) > 1
    assert view["sampled"] == f"One number in {math.prod(strides):,} is read, evenly along each axis."
    assert view["as_planned"]
    sample = np.abs(x[tuple(slice(None, None, stride) for stride in strides)])
    assert sample.size <= 2 * 5_000  # strides are whole numbers
    values = np.array([each for block in view["cells"]["blocks"] for each in block["values"]], float)
    assert np.isfinite(values).all(), "each cell has a number"
    assert view["cells"]["statistic"] == "mean magnitude"
    assert view["cells"]["most"] <= x.max()
    assert values.mean() == pytest.approx(sample.mean(), rel=0.05)
    whole = read(ran({"x": x}, lambda x: x * 1, "a b c"), "x")
    assert whole["read"].endswith("and replicas agree bit for bit in what was read.")


def test_without_an_explorer_s_page_the_views_are_functions(explorer: Explorer) -> None:
    explorer.run(1).wait(60)
    assert numbers_view(explorer, "params/w1", 1).items() <= heat_view(explorer, "params/w1", 1).items()
