"""What the TPU compiler sends in place of collectives: where it does, what it costs, and what it keeps in memory."""

import dataclasses
import math

import pytest

import meshlab as ml
from benchmarks import compilers, substitutes
from benchmarks.substitutes import JOURNAL, compile_case, predicted
from meshlab.cost.machines import collective_time
from meshlab.cost.machines.installed_compilers import CompilerError, check_installed
from meshlab.cost.machines.xla_substitutes import most_summed
from meshlab.cost.peak_memory.backends import BACKENDS
from meshlab.cost.peak_memory.build import build_graph
from meshlab.engine.collectives.kinds import ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER

B, E, F = ml.dims(batch=1024, embed=4096, ffn=4096)
GRADIENT = ml.trace(lambda x, g: ml.dot(x, g, B), ml.f32[B, E], ml.f32[B, F])
WEIGHTS = ml.trace(lambda w: 2 * w, ml.f32[E, F])
SCATTERED = {"batch": "data", "out": {"embed": "data"}}
GATHERED = {"w": {"embed": "data"}, "out": {}}
LINES = compilers.read(JOURNAL)


def sent(program, layout, mesh, **options):
    """The seconds of all that is sent, beside those of an all-reduce and of the collective itself."""
    plan = program.plan(mesh, layout)
    (only,) = plan.collectives
    kinds = ("all-reduce", only.kind)
    either = [collective_time.seconds(kind, 4 * 4096 * 4096, mesh.on, ("data",), **options) for kind in kinds]
    (seconds,) = plan.time.given(**options).communication.values()
    return seconds, *either


@pytest.mark.parametrize("line", LINES, ids=[f"{line['slice']} {line['mesh']}" for line in LINES])
def test_what_was_compiled_is_what_is_told(line):
    assert predicted(line) == line["all-reduces"]


def test_the_journal_has_slices_of_all_machines_and_both_answers():
    assert {line["slice"].partition(":")[0] for line in LINES} == {"v3", "v5e", "v5p", "v6e", "v7x"}
    for name in substitutes.SENT:
        assert {name in line["all-reduces"] for line in LINES} == {True, False}


@pytest.mark.nightly
def test_the_page_shows_what_was_compiled():
    """If not: python -m benchmarks.substitutes --write docs/accuracy.md."""
    page = JOURNAL.parents[1] / "docs" / "accuracy.md"
    assert substitutes.SECTION.read(page) == substitutes.page(LINES)


@pytest.mark.share(8)
@pytest.mark.parametrize(("slice_", "devices"), [("v5e:2x4", 8), ("v5e:4x4", 16), ("v5p:2x2x2", 8), ("v5p:4x4x4", 64)])
def test_the_tpu_compiler_makes_what_is_told(slice_, devices):
    try:
        check_installed("tpu")
    except CompilerError as error:
        pytest.skip(f"{error} (`make test` does so on Linux)")
    line = compile_case(ml.mesh(slice_, data=devices))
    assert predicted(line) == line["all-reduces"]


def test_a_reduce_scatter_that_is_summed_whole_takes_as_long_as_an_all_reduce():
    seconds, whole, itself = sent(GRADIENT, SCATTERED, ml.mesh("v5e:4x4", data=16))
    assert seconds == whole == pytest.approx(2 * itself)
    seconds, whole, itself = sent(GRADIENT, SCATTERED, ml.mesh("v5e:2x8", data=16))
    assert seconds == itself < whole


def test_large_gathers_are_sums_along_three_axes_alone():
    seconds, whole, _ = sent(WEIGHTS, GATHERED, ml.mesh("v5p:4x4x4", data=64))
    assert seconds == whole
    seconds, whole, itself = sent(WEIGHTS, GATHERED, ml.mesh("v5e:8x8", data=64))
    assert seconds == itself < whole


def test_the_books_and_ideal_machines_count_each_as_what_it_is_called():
    mesh = ml.mesh("v5e:4x4", data=16)
    seconds, _, itself = sent(GRADIENT, SCATTERED, mesh, book=True)
    assert seconds == itself
    seconds, whole, itself = sent(GRADIENT, SCATTERED, ml.mesh(ml.hardware("v5e").ideal, data=16))
    assert seconds == itself < whole
    ideal = ml.mesh(ml.hardware("v5p").ideal, data=64).on
    assert most_summed(ALL_GATHER, ideal, ("data",)) == 0


def test_a_sweep_charges_each_slice_and_each_size_what_is_compiled_there():
    plan = WEIGHTS.plan(ml.mesh("v5e:8x8", data=64), GATHERED)
    swept = ml.sweep(plan, embed=[256, 1024, 4096])
    for at, embed in enumerate((256, 1024, 4096)):
        kind = "all-reduce" if 4 * embed * 4096 <= 16 * 2**20 else "all-gather"
        alone = ml.collective_time(kind, 4 * embed * 4096, plan.mesh, "data")
        assert swept.communication["data"][at] == pytest.approx(alone), embed
    gradient = GRADIENT.plan(ml.mesh("v5e:4x4", data=16), SCATTERED)
    slices = ml.sweep(gradient, on=["v5e:4x4", "v5e:2x8"])
    for at, name in enumerate(("v5e:4x4", "v5e:2x8")):
        alone = GRADIENT.plan(ml.mesh(name, data=16), SCATTERED).time
        assert slices.estimate[at] == pytest.approx(alone.estimate)
        assert slices.communication["data"][at] == pytest.approx(alone.communication["data"])


def test_a_time_says_which_collectives_are_sent_as_all_reduces():
    time = GRADIENT.plan(ml.mesh("v5e:4x4", data=16), SCATTERED).time
    assert time.substituted == time.to_dict()["substituted"] == {"reduce-scatter over data": 1}
    assert ("replaced by all-reduces", "1 × reduce-scatter over data") in time.rows()
    assert WEIGHTS.plan(ml.mesh("v5p:4x4x4", data=64), GATHERED).time.substituted == {"all-gather over data": 1}
    for other in (time.given(book=True), GRADIENT.plan(ml.mesh("v5e:2x8", data=16), SCATTERED).time):
        assert other.substituted == {}
        assert "replaced by all-reduces" not in dict(other.rows())
    # A gather is small by the array that it makes, not by its part.
    assert WEIGHTS.plan(ml.mesh("v5e:8x8", data=64), GATHERED).time.substituted == {}


def test_other_machines_and_several_slices_are_left_alone():
    assert most_summed(REDUCE_SCATTER, None, ("data",)) == 0
    assert most_summed(REDUCE_SCATTER, ml.mesh("h100", data=16).on, ("data",)) == 0
    assert most_summed(REDUCE_SCATTER, ml.mesh("v5e:2*4x4", data=32).on, ("data",)) == 0
    assert most_summed(ALL_TO_ALL, ml.mesh("v5e:4x4", data=16).on, ("data",)) == 0
    assert most_summed(REDUCE_SCATTER, ml.mesh("v5e:4x4", data=16, other=1).on, ("data",)) == math.inf
    flags = dict.fromkeys(("reduce_scatter_as_all_reduce", "all_gather_as_all_reduce"), True)
    flagged = dataclasses.replace(ml.Torus.of(64, link=1e11), **flags)
    own = ml.Hardware.of("own", flops={"bf16": 1e14}, memory=1e10, bandwidth=1e12, network=flagged, platform="tpu")
    line = ml.mesh(own, data=64).on
    assert most_summed(REDUCE_SCATTER, line, ("data",)) == 0
    assert most_summed(ALL_GATHER, line, ("data",)) == 16 * 2**20


@pytest.mark.parametrize(("slice_", "ops"), [("v5e:4x4", ["all-reduce"]), ("v5e:2x8", [""])])
def test_what_is_summed_whole_lies_whole_in_memory_until_it_is_read(slice_, ops):
    plan = GRADIENT.plan(ml.mesh(slice_, data=16), SCATTERED)
    graph = build_graph(plan, BACKENDS["tpu"])
    collectives = [node for node in graph.nodes if node.kind == "collective"]
    assert [node.op for node in collectives] == ops
    assert collectives[0].shape == ((4096, 4096) if ops[0] else (256, 4096))
    # Another compiler's memory does not follow this one's.
    assert [node.op for node in build_graph(plan, BACKENDS["cpu"]).nodes if node.kind == "collective"] == [""]
