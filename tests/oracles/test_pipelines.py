"""Pipelined steps in 8 bits that others have measured: within 12% on H100 and 8% on GB200 before any factor.

They are composed of plans and a schedule (benchmarks/pipelines.py); benchmarks/pipelines.toml has the runs.
"""

import dataclasses
import pathlib
import tomllib

import pytest

import meshlab as ml
from benchmarks import mixtures, pipeline_cells, pipelines, published
from meshlab.cost.machines.accuracy import time_factor

pytestmark = pytest.mark.share(2, of="file")

LAYOUTS = pipeline_cells.layouts()
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "accuracy.md"
BY = {(layout.model, layout.on, layout.precision): layout for layout in LAYOUTS}


def test_layouts_fill_their_devices_and_have_a_source():
    data = tomllib.loads(pipeline_cells.DATA.read_text())
    assert all("https://" in each["source"] for each in (data, *data["pairs"]))
    assert len({(layout.model, layout.on, layout.mesh, layout.chunks, layout.precision) for layout in LAYOUTS}) == 7
    assert [layout.devices for layout in LAYOUTS] == [8, 64, 1024, 8, 64, 256, 256]
    for layout in LAYOUTS:
        assert sum(layout.parts) == published.models()[layout.model]["layers"]
        for _, batch, _ in layout.runs:
            assert batch % (layout.ways("data") * layout.micro * layout.stages) == 0


def test_layers_are_dealt_evenly_but_for_embedding_and_head():
    """126 layers over 128 parts, and over 64 of two; 80 as the recipe has them."""
    assert BY["llama3_405b", "gb200", "MXFP8"].parts == (0, *[1] * 126, 0)
    assert BY["llama3_405b", "h100", "FP8"].parts == (1, *[2] * 62, 1)
    layout = BY["llama3_70b", "h100", "FP8"]
    assert max(sum(layout.parts[stage::8]) for stage in range(8)) == 11


def test_tokens_become_seconds():
    """1,619 tokens/s of each of 64 devices, 128 sequences of 8,192."""
    layout = BY["llama3_70b", "h100", "FP8"]
    assert layout.measured(128, 1619) == pytest.approx(128 * 8192 / 64 / 1619)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "most"), [("h100", 0.12), ("gb200", 0.08)])
def test_steps_take_as_long_as_was_measured(machine, most):
    """GB200 was looked at when all was set: kernels, casts, collectives beside matmuls."""
    mine = pipelines.on(machine)
    assert pipelines.before(mine) <= most
    assert pipelines.after(mine) <= 0.05
    assert max(abs(each - 1) for layout in mine for each in pipelines.ratios(layout)) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("pair", range(4))
def test_steps_that_differ_in_one_thing_have_the_measured_ratio(pair):
    """1F1B and interleaved; all recomputed, and attention alone with sequence parallelism."""
    one = pipelines.compared()[pair]
    assert one.measured[0] > 1.25 * one.measured[1]
    assert abs(one.off) <= 0.10


@pytest.mark.slow
def test_steps_on_a100_take_as_long_as_was_measured_without_a_factor():
    pairs = [pair for pair in pipelines.compared() if pair.layout.on == "a100"]
    assert [pair.layout.devices for pair in pairs] == [64, 280, 512]
    off = [one / other - 1 for pair in pairs for one, other in zip(pair.predicted, pair.measured, strict=True)]
    assert max(map(abs, off)) <= 0.06


@pytest.mark.slow
def test_without_the_schedule_1f1b_would_be_as_fast_as_interleaved():
    title, one, other = pipeline_cells.pairs()[0]
    assert title.startswith("interleaved")
    busy = [step.total - step.waiting - step.sums for step in (pipelines.predicted(each, 256) for each in (one, other))]
    assert busy[0] == pytest.approx(busy[1], rel=0.03)


@pytest.mark.slow
def test_the_page_and_the_factors_are_of_today():
    """If not: python -m benchmarks.pipelines docs/accuracy.md, and python -m benchmarks.accuracy."""
    assert pipelines.SECTION.read(PAGE) == pipelines.table().strip("\n")
    assert pipelines.PAIRS.read(PAGE) == pipelines.pairs_table()
    for name, factor in pipelines.factors(LAYOUTS).items():
        machine, _, precision = name.partition(" in ")
        packed = time_factor(ml.hardware(machine), precision)
        assert packed is not None
        assert packed.factor == round(factor, 2)


def test_a_step_in_8_bits_is_expected_as_those_in_8_bits_were():
    tokens, embed, ffn = ml.dims(tokens=4096, embed=1024, ffn=4096)
    program = ml.trace(lambda x, w: ml.dot(x, w, "embed"), ml.bf16[tokens, embed], ml.bf16[embed, ffn])
    for machine, known in (("h100", True), ("h200", False)):
        wide = program.plan(ml.mesh(machine, x=1)).time
        narrow = wide.given(linear="fp8")
        assert narrow.factor == time_factor(ml.hardware(machine), "FP8")
        assert (narrow.expected is not None) == known
        assert narrow.factor != wide.factor or not known
    said = "not known: no steps in FP8 on NVIDIA H200"
    assert dict(narrow.rows())["expected step time"].startswith(said)


@pytest.mark.slow
def test_a_step_is_its_cells_in_the_order_of_the_schedule_and_what_a_step_has_once():
    """Where stages are alike, they wait (p - 1)/v of a stage's cells; 70B has four layers in each part."""
    layout = BY["llama3_70b", "gb200", "MXFP8"]
    step = pipelines.predicted(layout, 256)
    middle = pipeline_cells.seconds(layout, "cell", 4)
    head, embedding = (pipeline_cells.seconds(layout, what) for what in ("head", "embedding"))
    micro = 256 // layout.ways("data")
    busiest = micro * (layout.chunks * middle + max(head, embedding))
    assert step.total == pytest.approx(busiest + step.waiting + step.sums + step.optimizer)
    closed = (layout.stages - 1) * middle
    assert closed * 0.9 < step.waiting < closed * 1.5


@pytest.mark.slow
def test_gradients_are_summed_over_context_once_a_step():
    """Counted for each micro-batch they would make a step much longer."""
    layout = BY["llama3_405b", "h100", "FP8"]
    assert layout.ways("context") == 2
    program = pipeline_cells.program(layout, "cell", 2)
    plan = program.plan(*pipeline_cells.planned(layout, program))
    assert [row for row in plan.collectives if "context" in row.axes and row.kind == "all-reduce"]
    each = plan.time.given(attention="causal", balanced=True, linear="fp8", beside=True).estimate
    assert each > 1.2 * pipeline_cells.seconds(layout, "cell", 2)


@pytest.mark.slow
def test_each_option_is_needed(monkeypatch):
    """In 16 bits, or with collectives exposed, a layer of 70B takes longer than was measured of all there is."""
    layout = BY["llama3_70b", "h100", "FP8"]
    program = pipeline_cells.program(layout, "cell", 2)
    plan = program.plan(*pipeline_cells.planned(layout, program))
    measured = layout.measured(256, 1640) / (128 * 11) * 2
    usual = {"attention": "causal", "balanced": True}
    assert plan.time.given(**usual, beside=True).estimate > 1.3 * measured
    assert plan.time.given(**usual, linear="fp8").estimate > 1.1 * measured
    assert plan.time.given(**usual, linear="fp8", beside=True).estimate < 1.1 * measured


def test_mixtures_have_the_parameters_of_their_source_and_fill_their_devices():
    for layout in pipeline_cells.mixtures():
        sizes = layout.sizes
        norms = layout.sizes["layers"] * 2 * (sizes["embed"] + sizes["head"]) + sizes["embed"]
        whole = dataclasses.replace(layout, mesh=(), chunks=1, parts=(sizes["layers"],))
        assert sum(pipelines._parameters(whole)) + norms == sizes["parameters"]
        assert all(batch % (layout.ways("expert") * layout.micro * layout.stages) == 0 for _, batch, _ in layout.runs)
    assert [layout.devices for layout in pipeline_cells.mixtures()] == [16, 16, 8]


def test_a_mixture_sends_each_row_to_its_expert_and_back_and_sums_gradients_once_a_step():
    layout = pipeline_cells.mixtures()[1]
    program = pipeline_cells.program(layout, "cell", 2)
    plan = program.plan(*pipeline_cells.planned(layout, program))
    rows = layout.seq * layout.sizes["choices"] * layout.sizes["embed"] * 2
    sent = [c for c in plan.collectives if c.kind == "all-to-all" and c.payload_bytes == rows]
    assert sum(c.times for c in sent) == 4 * 2  # forward and backward, two layers
    sums = [c for c in plan.collectives if c.kind == "all-reduce"]
    assert {c.axes for c in sums} == {("expert",)}
    each = plan.time.given(attention="causal", balanced=True, linear="fp8", beside=True).estimate
    assert each > 1.03 * pipeline_cells.seconds(layout, "cell", 2)


@pytest.mark.slow
def test_the_page_has_the_factor_of_each_release_of_mixtures():
    """If not: python -m benchmarks.mixtures docs/accuracy.md."""
    assert mixtures.SECTION.read(PAGE) == mixtures.table()
    old, new = (mixtures.factors(pipeline_cells.mixtures()[2])[release] for release in ("26.04.01", "26.06"))
    assert old > 1.5 * new
