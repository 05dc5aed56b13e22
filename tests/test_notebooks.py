"""Every notebook, executed from its first cell to its last; and what each promises its reader, asserted."""

from pathlib import Path

import jupytext
import pytest

from tests import notebooks

FOLDER = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted(FOLDER.glob("*.py"))
MOST_CODE_LINES = 12
# What a lesson needs that meshlab's notebooks do not bring.
NEEDS = {"09_your_own_model": ("equinox", "flax"), "11_run_it_for_real": ("orbax.checkpoint",)}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_is_prose_first_in_short_cells(source):
    cells = jupytext.read(source).cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    for cell in cells:
        code = [line for line in cell.source.splitlines() if line.strip()] if cell.cell_type == "code" else []
        assert len(code) <= MOST_CODE_LINES, cell.source


@pytest.mark.share(8)
@pytest.mark.notebook
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_runs_from_top_to_bottom_and_keeps_its_promises(source):
    for library in NEEDS.get(source.stem, ()):
        pytest.importorskip(library)
    with notebooks.run(source) as done:
        PROMISES[source.stem](done)


def start(done):
    losses, text = done.value("losses"), done.text()
    assert set(losses) == {"no layout", "data-parallel", "model-parallel", "both"}
    for each in losses.values():
        assert each == pytest.approx(losses["no layout"], rel=1e-5)
        assert each[0] == pytest.approx(2.3, abs=0.2)
        assert each[-1] < 0.3
    assert done.value("float((guesses == test_labels).mean())") > 0.9
    assert "✓ checked against the compiled program" in text
    for problem in ("Did you mean `hidden`?", "Did you mean `data`?", "`classes` has size 10"):
        assert problem in text
    in_turn = done.value("[explorer.layout.to_dict(), explorer.run().wait().phase, explorer.runs[-1].losses[-1]]")
    assert in_turn == [{}, "done", pytest.approx(losses["no layout"][-1], rel=1e-5)]
    assert done.value("str(choice.layout)") == "hidden:data+model"
    assert done.value("choice.plan.wire_bytes < plan.wire_bytes")


def solves(done, *names):
    """Each puzzle was asked in the notebook, and a reader who predicts and answers rightly solves it there."""
    for name in names:
        puzzle = f"puzzles.{name}"
        assert f"First predict: {done.value(f'{puzzle}.ask.text')}?" in done.text()
        assert done.value(f"[{puzzle}.predict({puzzle}.number), bool({puzzle}.check({puzzle}.answer))][1]")


def answers(done, *names):
    """Each question is predicted, rightly: it was not before."""
    for name in names:
        question = f'puzzles.Q["{name}"]'
        assert f"{name}. {done.value(f'{question}.text')}?" in done.text()
        assert done.value(f"bool({question}.predict({question}.value))")


def names(done):
    text = done.text()
    for proposed in ("Did you mean `embed`?", "Write ml.dot(x, w, Hidden)", 'x.sum("batch")', "use ml.scan, ml.vmap"):
        assert proposed in text
    assert "names:     batch=2 hidden=4\n" in text
    assert "nothing listed: batch=2 embed=3 hidden=4\n" in text
    assert "each with itself: batch=2 seq=5\neach with each:   batch=2 seq=5 kv=5\n" in text
    assert "ml.vmap: batch=2 hidden=4\n" in text
    assert done.value("same and {name: g.dims == weights[name].dims for name, g in gradients.items()}") == {
        "up": True,
        "down": True,
    }
    assert done.value("['hidden' in value.dims for value in program.values]") == [True, True, False, True, True, False]
    for name, dims in {"1a": "batch seq hidden", "1b": "batch", "1c": "batch seq heads kv"}.items():
        assert f"{name}. " in text
        assert done.value(f'bool(puzzles.Q["{name}"].predict("{dims}"))')
    assert "C01: not yet" in text
    right = 'lambda q, k, v: ml.dot(ml.softmax(ml.dot(q, k, "head"), "kv"), v, "kv")'
    assert done.value(f"bool(puzzles.C01.check({right}))")


def meshes_and_shards(done):
    text = done.text()
    assert "`embed` and `hidden` cannot both be on `data`" in text
    assert done.value('bool(puzzles.Q["2a"].predict(32))')
    solves(done, "P01", "P02", "P03")


def where_communication_comes_from(done):
    text = done.text()
    assert text.count("No device sends anything") == 2
    for sent in (
        "all-reduce over x · out [batch hidden] · 2,048 B payload, 3,072 B sent",
        "all-gather over x · w [embed",
    ):
        assert sent in text
    assert "✓ all-reduce over x      2,048     2,048" in text
    assert "`batch` and `hidden` cannot both be on `x`" in text
    hops = "__import__('meshlab.widgets.views.devices.hops', fromlist=['hops_view']).hops_view"
    reduced = "explorer.view()['collectives']['rows'][0]['id']"
    assert done.value(f"len({hops}(explorer, {reduced}, 0)['hops'])") == 2 * 3
    assert "16 devices: payload 2,048 B, sent 3,840 B, 1.875 times as much" in text
    assert "the same: True" in text
    instead = 'puzzles.P05.plan("{}:x").collectives[0].shape'
    assert [done.value(instead.format(dim)) for dim in ("rows", "hidden")] == [(100, 1024), (100, 10)]
    for timed in ("1,000 B:       6.0 µs", "100,000 B:       6.0 µs", " 90.00 GB/s", "21.8 µs"):
        assert timed in text
    assert done.value("abs(puzzles.P09.number - 1e6 * matmul - 16_777_216 * 1.5 / 90e3) < 0.1")
    solves(done, "P04", "P05", "P07", "P13", "P09")


def the_backward_pass(done):
    text = done.text()
    for agreed in ("dx sums hidden: True", "dw sums batch:  True", "Array(10., dtype=float32"):
        assert agreed in text
    sums = "[c.value for c in program.plan(mesh, {!r}).collectives]"
    by_layout = {layout: done.value(sums.format(layout)) for layout in ("batch:x", "embed:x", "hidden:x")}
    # The loss, and the gradients of w and of x.
    assert by_layout == {
        "batch:x": ["out/0", "out/1/0"],
        "embed:x": ["dot_general in loss"],
        "hidden:x": ["out/0", "out/1/1"],
    }
    assert "4a. " in text
    assert done.value('bool(puzzles.Q["4a"].predict(4))')
    sent = "puzzles.P06.program.resize(batch={}).plan(mesh, {!r}).wire_bytes"
    few, many = ([done.value(sent.format(n, each)) for each in ("batch:x", "hidden:x")] for n in (100, 1_000_000))
    assert few[0] == many[0] > 800 * few[1]
    assert many[1] > 10 * many[0]
    assert "each: sends    49,158 B, peak   1,359,964 B" in text
    at_once, each = (f"puzzles.P19.program.plan({mesh}, puzzles.P19.answer)" for mesh in ("in_time", "schedule"))
    assert done.value(f"{each}.wire_bytes == 4 * {at_once}.wire_bytes")
    assert done.value(f"{at_once}.memory.donated.peak_bytes < 600_000 and {at_once}.wire_bytes == 49_158")
    solves(done, "P06", "P19")


def tensor_parallelism(done):
    text = done.text()
    assert "all-reduce over y · dot_general in feed [batch seq ffn] · 32,768 B payload" in text
    assert "all-reduce over y · out [batch seq embed] · 16,384 B payload" in text
    for layout, collectives, sent in (("heads:y", 1, 24_576), ("head:y", 2, 122_880), ("seq:y", 2, 24_576)):
        assert f"{layout:8} {collectives} collectives, a device sends {sent:9,} B" in text
    assert "embed:y  8 collectives" in text
    assert "with norms:    4 all-reduces\nwithout norms: 6 all-reduces\n" in text
    assert "ffn:y heads:y\n" in text
    for name, number in {"5a": 3, "5b": 4, "5c": 1.5}.items():
        assert f"{name}. {done.value(f'puzzles.Q[{name!r}].text')}?" in text
        assert done.value(f"bool(puzzles.Q[{name!r}].predict({number}))")
    # The notebook's layer is the one that the questions are about, and so is what XLA makes of it.
    assert "  sent per device      98,304  147,456" in text
    assert done.value("plan.wire_bytes") == 98_304
    each = "[(c.because.partition(' while')[0], c.dims) for c in plan.collectives]"
    assert done.value(each) == [
        (f"`{dim}` is summed{backward}", ("batch", "seq", "embed"))
        for dim, backward in (
            ("heads", ""),
            ("ffn", ""),
            ("ffn", " in the backward pass"),
            ("heads", " in the backward pass"),
        )
    ]
    solves(done, "P08")


def memory(done):
    text = done.text()
    assert done.value("table") == {
        "ZeRO-0": pytest.approx((98, 112, 24.5), rel=1e-3),
        "ZeRO-1": pytest.approx((24.5, 26.25, 24.5), rel=1e-3),
        "ZeRO-2": pytest.approx((24.5, 26.25, 24.5), rel=1e-3),
        "ZeRO-3": pytest.approx((12.25, 26.25, 24.5), rel=1e-3),
    }
    assert "peak 112 GB, fits: False" in text
    assert "reduce-scatter of gradient of params" in text
    assert done.value("[goal.judge(plan).met for plan in plans.values()]") == [False, False, False, True]
    assert done.value("plans['ZeRO-3'].wire_bytes > 1.4 * plans['ZeRO-0'].wire_bytes")
    for part in ("optimizer state", "master copies", "parameters"):
        assert done.value(f"after['{part}'] / before['{part}']") == pytest.approx(1 / 8, rel=0.1)
    assert done.value("after['activations'] > 0.9 * before['activations']")
    assert done.value("after['gathered weights']") < 1e9
    answers(done, "6a", "6b", "6c")
    solves(done, "P10", "P11", "P12")
    assert not done.value("bool(puzzles.P10.check('embed:data'))")
    assert "Did you mean `params/*`?" in done.value("str(puzzles.P11.check({'batch': 'x', 'parms/*': {'embed': 'x'}}))")
    down = "for c in plans[name].collectives if 'layers/down' in c.value and c.kind == 'all-gather'"
    gathers = done.value(f"[[name, c.times, str(c.dtype)] for name in ('ZeRO-1', 'ZeRO-3') {down}]")
    assert gathers == [["ZeRO-1", 1, "float32"], *[["ZeRO-3", 32, "bfloat16"]] * 2]


def your_own_model(done):
    text = done.text()
    assert "`*/dwon/kernel` matches no path (Did you mean `params/down/kernel`?)\n" in text
    assert "'embed ffn' has 2 names" in text
    assert done.value("len(program.dims)") == done.value('puzzles.Q["9a"].value') == 7
    assert done.value("ml.explain(turned, argument).wire_bytes") == done.value('puzzles.Q["9b"].value') == 768
    answers(done, "9a", "9b")
    sent = done.value("[plan.wire_bytes for plan in tried.values()]")
    assert sent[0] == min(sent)
    assert done.value("tried['batch:data'].work.share") == pytest.approx(1 / 2, rel=0.01)
    assert not any(done.value("[bool(goal.judge(plan).met) for plan in tried.values()]"))
    fsdp = {"batch": "data+model", "params/*": {"embed": "data+model"}}
    assert done.value(f"bool(goal.judge(program.plan(mesh, {fsdp})).met)")
    assert done.value("exported.wire_bytes == explorer.plan.wire_bytes > 0")
    assert not done.value("explorer.goal.met")
    assert done.value("[bool(explorer.place('embed', 'model', at='params/*')), explorer.goal.met]") == [True, True]
    again = "ml.explain(alone['jit'](train_step), params, x).wire_bytes > explorer.plan.wire_bytes"
    assert done.value(f"[exec(explorer.form('jit'), alone), {again}][1]")
    assert done.value("'data+model' in str(explorer.layout) and len(explorer.form('axis rules')) > 0")
    assert done.value("[c.axes[0] for c in mlp_plan.collectives]") == ["model", *["data"] * 5]
    assert done.value("mended.after.sent < mended.before.sent / 2")
    assert "hidden = jax.lax.with_sharding_constraint(hidden, " in text


def the_solver(done):
    text = done.text()
    assert done.value("[str(choice.layout), choice.proof.gap]") == ["ffn:x", 0.0]
    at = "[program.plan(mesh, each).time.estimate for each in (None, 'batch:x', 'embed:x', 'ffn:x')]"
    times = done.value(at)
    assert times[3] == min(times) < 3e-3 < times[1]
    assert done.value("bool(explorer.place('batch') and explorer.place('ffn', 'x') and explorer.goal.met)")
    between = done.value("[fall.seconds for fall in choice.waterfall('batch:x').steps]")
    assert between[1] > max(between[0], between[-1])
    assert done.value("[str(regret.change) for regret in choice.exact_regrets()]") == ["`ffn` off `x`"]
    assert done.value("choice.exact_regrets()[0].seconds / pinned.proof.value") == pytest.approx(1)
    assert done.value("[pinned.layout.rules['batch'], bool(pinned.layout.places)]") == [("x",), True]
    assert "found no layout that fits 400 MB of a device's memory" in text
    assert done.value('puzzles.Q["10a"].value') == pytest.approx(2 * 16384, rel=1e-3)
    assert done.value("[list(point.layout.rules) for point in flips.points]") == [
        ["ffn"],
        ["ffn"],
        ["batch"],
        ["batch"],
    ]
    assert done.value("{str(point.layout) for point in links.points}") == {"ffn:x"}
    assert done.value("yours.wire_bytes / choice.plan.wire_bytes") == pytest.approx(4, rel=1e-3)
    assert f"First predict: {done.value('puzzles.P20.ask.text')}?" in text
    answers(done, "10a", "10b")
    assert done.value("puzzles.P20.number / puzzles.P20.plan(puzzles.P20.answer).time.estimate") == pytest.approx(
        4 / 3, abs=0.05
    )
    large = "puzzles.P20.program, puzzles.P20.mesh"
    recipe = f"ml.layouts.fsdp({large}, data='data') & ml.layouts.tensor_parallel({large}, model='model')"
    plans = f"[puzzles.P20.plan(layout) for layout in ({recipe}, puzzles.P20.answer)]"
    exposed, sent = zip(*done.value(f"[(plan.time.exposed, plan.wire_bytes) for plan in {plans}]"), strict=True)
    assert exposed == pytest.approx([1.2, 0.4], abs=0.05)
    assert sent[0] == pytest.approx(sent[1], rel=0.05)


def long_sequences(done):
    text = done.text()
    peaks = done.value("[plan.memory.donated.peak_bytes / 1e9 for plan in lengths.values()]")
    step = (peaks[2] - peaks[1]) / (32_768 - 8192)
    assert peaks[3] == pytest.approx(peaks[2] + step * (131_072 - 32_768), rel=0.01)
    assert peaks[1] - peaks[0] == pytest.approx(2.8, abs=0.1)
    assert done.value("[plan.memory.donated.fits for plan in lengths.values()]") == [True, True, True, False]
    assert done.value("lengths[131_072].time.estimate / lengths[32_768].time.estimate > 9")
    assert "`kv` and `seq` cannot both be on `y`" in text
    assert "The layout 'seq:y · @core: heads:y'" in text
    assert done.value("gathered.wire_bytes / ulysses.wire_bytes") == done.value('puzzles.Q["7b"].value') == 4
    assert "✓ checked against the compiled program and the unsharded function" in text
    assert done.value("ring.wire_bytes == one.plan(eight, 'seq:y').wire_bytes == gathered.wire_bytes")
    kinds = "{c.kind for c in ring.collectives}, {c.times for c in ring.collectives}"
    assert done.value(f"[sorted(each) for each in ({kinds})]") == [["collective-permute"], [7]]
    found = "layer.plan(eight, 'seq:y kv:y')"
    assert done.value(f"[c.wire_bytes for c in {found}.collectives] == [c.wire_bytes for c in ring.collectives]")
    assert done.value("ring.memory.peak_bytes < one.plan(eight, 'seq:y').memory.peak_bytes")
    assert done.value("all(plan.memory.donated.fits for plan in ways.values())")
    slow, even = done.value("[[p.time.estimate, p.time.given(balanced=True).estimate] for p in ways.values()]")
    assert slow[0] > 1.5 * even[0]
    assert slow[1] == pytest.approx(even[1], rel=0.05)
    assert even[0] == pytest.approx(even[1], rel=0.01)
    assert "`heads` has size 8, which 16 (`a`) does not divide" in text
    answers(done, "7a", "7b", "7c", "7d")
    layouts = "('seq:y kv:y', 'seq:zigzag(y) kv:zigzag(y)')"
    assert done.value(f"[masked.plan(eight, layout).work.is_divided for layout in {layouts}]") == [False, True]
    solves(done, "P14", "P15", "P18")


OF_LLAMA = "llama.plan(ml.mesh('h100:2x8', data=4, pipe=ml.stages(4, name), micro=ml.serial(8)), layout)"


def experts_and_pipelines(done):
    text = done.text()
    for layout in ("groups:y", "experts:y"):
        assert f"{layout}: all-gather, 24,576 bytes." in text
        assert done.value(f"program.plan(mesh, '{layout}').work.share > 1 / 4 + 0.1")
    assert done.value("dict(program.dims) == dict(puzzles.P16.program.dims)")
    times = done.value("[plan.time.estimate for plan in plans.values()]")
    assert times[2] == min(times)
    assert done.value("[plan.work.share for plan in plans.values()]") == pytest.approx([1 / 16] * 3, rel=0.02)
    sent, exposed = zip(*done.value("[(p.wire_bytes, p.time.exposed) for p in plans.values()]"), strict=True)
    assert sent[0] > sent[1] > sent[2]
    assert exposed[0] < exposed[1]
    assert done.value("all(plan.memory.donated.fits for plan in plans.values())")
    sent = (
        "[sum(c.wire_bytes * c.times for c in plans[n].collectives if c.axes == ('model',) and c.kind != 'all-reduce')"
    )
    inside, experts = done.value(f"{sent} for n in ('ffn in the experts', 'experts')]")
    assert inside / experts == pytest.approx(8, rel=0.01)
    assert done.value("[row.count(False) for row in busy] == [STAGES - 1] * STAGES and len(busy[0])") == 11
    assert done.value("[puzzles.Q[name].value for name in ('8a', '8b', '8e')]") == [4, 4, 28]
    assert done.value("puzzles.Q['8c'].value") == pytest.approx(8 / 14 * 4)
    twice_the_places = "{**sorted_rows.dims, 'rows': 64}"
    assert done.value(f"{twice_the_places} == dict(puzzles.P21.program.dims)")
    assert "experts:y: all-reduce, 12,288 bytes\n" in text
    rows = "tokens:y experts:y: all-to-all, 192 bytes; all-to-all, 6,144 bytes; all-to-all, 6,144 bytes"
    assert rows in text
    assert "with a factor of 4, which never drops; the factor is 2" in text
    busiest = (
        "device 0 of 4 along `y`, with `experts` 0 to 1, is the busiest: it gets 2.29 times the mean number of rows"
    )
    assert f"{busiest}, and has places for 2 times; 7.14% of all choices are dropped" in text
    assert done.value("max(puzzles.P21.plan(puzzles.P21.answer).memory.range.most.values())") == 4
    assert done.value("plan.schedule.name") == "interleaved"
    assert "paired: 4 stages, 8 micro-batches" in text
    assert "14 × collective-permute over pipe, " in text
    times = done.value(f"{{name: {OF_LLAMA}.time.estimate for name in ('gpipe', '1f1b', 'paired', 'interleaved')}}")
    assert max(times["gpipe"], times["paired"]) < min(times["1f1b"], times["interleaved"])
    kept = done.value(f"{{name: {OF_LLAMA}.memory.donated.stages[0].in_flight for name in ('gpipe', 'paired')}}")
    assert kept["paired"] < kept["gpipe"]
    assert done.value("[puzzles.Q[name].value for name in ('8f', '8g')]") == pytest.approx([4, 0.4])
    answers(done, "8a", "8b", "8c", "8d", "8e", "8f", "8g")
    solves(done, "P16", "P17", "P21")


def run_it_for_real(done):
    text = done.text()
    assert text.startswith("JAX has 8 CPU devices")
    assert "The power fails.\n" in text
    assert done.value("[fit.begun, fit.step, len(fit.losses)]") == [20, 40, 40]
    assert done.value("fit.losses") == pytest.approx(done.value("whole.losses"), rel=1e-6)
    assert done.value("whole.losses[0]") == pytest.approx(2.3, abs=0.2)
    assert done.value("whole.losses[-1]") < 0.5
    assert done.value("[move.new[0], int(move.wire_bytes)]") == [37_888, 37_888]
    assert "hidden: (128, 256) on device 3: (32, 128)\nlogits: addends (2, 128, 10)\n" in text
    assert done.value("bool(np.allclose(seen['logits'].addends.sum(0), seen['logits'].whole, atol=1e-5))")
    assert "The first NaN is in `images`, on devices 6, 7." in text
    spread = "plan.run(params, ml.tensor(bad, Batch, Rows, Cols), labels)[1]['w2'].array"
    assert done.value(f"bool(np.isnan({spread}).all())")
    assert text.count("This is process 0 of 2; it has 4 of the devices.\n") == 2
    assert "step 2: 16.0\n" in text
    left = text.partition("Process 1 of 2 finished the file while others waited for it, and the others were ended.")[2]
    assert left.rstrip().splitlines()[-1] == "step 1: 8.0"
    answers(done, "11a", "11b", "11c")


# A notebook without an entry is one whose promises nobody has written down: that is an error, not a pass.
PROMISES = {
    "00_start": start,
    "01_names": names,
    "02_meshes_and_shards": meshes_and_shards,
    "03_where_communication_comes_from": where_communication_comes_from,
    "04_the_backward_pass": the_backward_pass,
    "05_tensor_parallelism": tensor_parallelism,
    "06_memory": memory,
    "07_long_sequences": long_sequences,
    "08_experts_and_pipelines": experts_and_pipelines,
    "09_your_own_model": your_own_model,
    "10_the_solver": the_solver,
    "11_run_it_for_real": run_it_for_real,
}
