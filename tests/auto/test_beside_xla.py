"""Beside XLA's own auto-sharding: what `benchmarks/xla_auto` asked both, and what its answers say today.

XLA itself is not asked here: its pass is in an older JAX, and takes minutes. Its answers are in `answers.jsonl`.
"""

from __future__ import annotations

import functools
import pathlib
import subprocess
import sys

import pytest
from jax.sharding import PartitionSpec as P

import meshlab as ml
from benchmarks.compilers import read
from benchmarks.xla_auto import page
from benchmarks.xla_auto.__main__ import JOURNAL
from benchmarks.xla_auto.environment import BEGINS, ENDS, answer_of
from benchmarks.xla_auto.questions import MACHINE, MESHES, Question, questions
from benchmarks.xla_auto.solver_log import Log, Stage
from benchmarks.xla_auto.solver_log import read as read_log
from meshlab.cost.machines.installed_compilers import CompilerError, check_installed
from meshlab.layouts.given_globs import source

pytestmark = pytest.mark.share(2, of="file")

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "auto.md"
LINES = page.by_question(read(JOURNAL))
PERCEPTRON = Question("perceptron", "x=2 y=4", "XLA's own")
# What XLA answers under its own cap; not in every run the same way of storing w2 behind the step.
XLAS = {
    "batch": "x",
    "ffn": "y",
    "x": {"batch": "y", "embed": "x"},
    "y": {"out": "y"},
    "out/w1": {"embed": "x"},
    "out/w2": {"out": "x"},
}


@functools.cache
def program() -> ml.Program:
    return PERCEPTRON.traced()


def test_the_perceptron_takes_six_hundred_microseconds():
    """No person's layout of two dims does: data and tensor parallelism take a sixth more."""
    mesh = PERCEPTRON.placed
    choice = ml.auto.layout(program(), mesh, exact=True)
    assert choice.proof.gap == 0
    assert choice.plan.time.estimate <= 600e-6
    assert program().plan(mesh, "batch:x ffn:y").time.estimate > 1.15 * choice.plan.time.estimate
    # Nor on one axis: both are all devices.
    assert ml.auto.layout(program(), ml.mesh(MACHINE, **MESHES["x=8"]), exact=True).proof.value == choice.proof.value


def test_xlas_layout_of_it_is_slower():
    """By the model, with the memory that it takes, and with all there is."""
    mesh = PERCEPTRON.placed
    assert mesh.on is not None
    theirs = program().plan(mesh, XLAS)
    assert theirs.partition_specs == (
        ({"w1": P(None, "y"), "w2": P("y", None)}, P("y", "x"), P("x", "y")),
        {"w1": P("x", "y"), "w2": P("y", "x")},
    )
    assert theirs.time.estimate > 1.5 * ml.auto.layout(program(), mesh).plan.time.estimate
    # Under XLA's own cap there is a faster one as well.
    cap = LINES[PERCEPTRON]["xla"]["budget"]
    assert theirs.memory.donated.peak_bytes < cap
    lean = ml.auto.layout(program(), mesh, memory=cap / mesh.on.hardware.memory_bytes)
    assert lean.plan.memory.donated.peak_bytes <= cap
    assert theirs.time.estimate > 1.4 * lean.plan.time.estimate


@pytest.mark.nightly
def test_the_tpu_compiler_agrees_in_which_is_slower():
    """It gives cycles, of computation alone, and no time of what is sent.

    So the account is its cycles, and the seconds of the collectives that it has compiled, at the machine's links. By
    bytes alone Auto's layout sends more, over both axes at once, which has twice the links.
    """
    try:
        check_installed("tpu")
    except CompilerError as error:
        pytest.skip(f"{error} (`make test` does so on Linux)")
    mesh = PERCEPTRON.placed
    ours, theirs = (ml.compile_for(program().plan(mesh, layout)) for layout in ("ffn:x+y", XLAS))
    assert ours.ok
    assert theirs.ok
    assert ours.cycles is not None
    assert theirs.cycles is not None
    assert ours.cycles < theirs.cycles
    sending = [
        page.sending([[c.kind, c.axes, c.payload_bytes, c.times] for c in each.collectives if c.axes], mesh)
        for each in (ours, theirs)
    ]
    assert sending[0] < sending[1]


# The answers and the page


def test_each_question_has_its_answers():
    assert list(LINES) == list(questions())
    for lines in LINES.values():
        assert set(lines) == {"xla", "auto", "said"}


@pytest.mark.nightly
def test_the_page_shows_what_is_predicted_today():
    """If not: python -m benchmarks.xla_auto --only-write --write docs/auto.md."""
    assert page.SECTION.read(DOCS) == page.page(LINES)


def test_what_the_page_says_of_peaks_holds():
    """The perceptron is too small for a compiler's peak to be that of memory; all others are within their cap."""
    for row in page.rows(LINES):
        for account in filter(None, row.compiled):
            small = row.question.program == "perceptron" and row.question.own
            assert (account.peak > row.xla["budget"]) == small


def stored(entries):
    """A spec without axes that are whole behind the others."""
    spec = [(entry,) if isinstance(entry, str) else tuple(entry or ()) for entry in entries]
    while spec and not spec[-1]:
        spec.pop()
    return spec


@pytest.mark.parametrize("question", [q for q, lines in LINES.items() if "once" in lines["said"]], ids=str)
def test_what_is_priced_stores_all_as_xla_does(question):
    """And, to be repeated, parameters alike before and after."""
    said, xla, traced = LINES[question]["said"], LINES[question]["xla"], question.traced()
    plan = traced.plan(question.placed, said["once"])
    by_place = {a.place: plan.argument_specs[a.value] for a in traced.arguments}
    by_place |= dict(zip(traced.outputs, plan.output_specs, strict=True))
    for place, entries in {**xla["inputs"], **xla["outputs"]}.items():
        assert stored(by_place[place].splits) == stored(entries), place
    again = traced.plan(question.placed, said["repeated"])
    carried = dict(zip(traced.outputs, again.output_specs, strict=True))
    arguments = {a.place: again.argument_specs[a.value] for a in traced.arguments}
    for place, spec in carried.items():
        if source(traced, place):
            assert spec == arguments[source(traced, place)]


@pytest.mark.parametrize("question", [q for q in LINES if q.program == "perceptron"], ids=str)
def test_auto_answers_as_the_journal_has_it(question):
    """If not: python -m benchmarks.xla_auto --again auto said."""
    lines, mesh = LINES[question], question.placed
    assert mesh.on is not None
    choice = ml.auto.layout(question.traced(), mesh, memory=lines["xla"]["budget"] / mesh.on.hardware.memory_bytes)
    assert choice.layout == ml.Layout.of(lines["auto"]["rules"])


# The process that is asked, and what it logs

LOG = """
I1125 02:48:34.790686    9016 auto_sharding.cc:3666] Processing partial mesh shape: [1, 4]
Number variables for ILP: 368
Memory budget: 101502160 (0GB)
I1125 02:48:34.899973    9016 auto_sharding_cpsat_for_problem.cc:102] Solver absl::Status: MPSOLVER_OPTIMAL
I1125 02:48:34.900281    9016 auto_sharding_cpsat_for_problem.cc:765] Solver took 108 ms
I1125 02:48:34.900463    9016 auto_sharding.cc:3666] Processing partial mesh shape: [2, 4]
Number variables for ILP: 1976
Memory budget: 50751080 (0GB)
"""


def test_the_log_tells_of_each_mesh():
    first = Stage("1, 4", 368, 0.108, "OPTIMAL")
    assert read_log(LOG) == Log((first, Stage("2, 4", 1976, None, None)), ended=False, budget=50_751_080)
    assert read_log(f"{LOG}I1125 02:48:38.029842 auto_sharding.cc:3932] {ENDS} 3 seconds").ended
    assert read_log("") == Log((), ended=False, budget=None)


def python(code, seconds):
    """Runs Python as XLA's process is run."""
    code = f"import sys\ndef log(text): print(text, file=sys.stderr, flush=True)\n{code}"
    return answer_of([sys.executable, "-c", code], {}, seconds)


def test_a_process_answers_as_json():
    answer = python(f"log({BEGINS!r}); log({ENDS!r}); print('[1, 2]')", 60)
    assert answer.value == [1, 2]
    assert answer.seconds is not None
    assert answer.log.split("\n") == [BEGINS, ENDS, ""]
    assert python("print('{}')", 60).seconds is None


def test_a_pass_that_takes_longer_than_it_may_is_ended():
    answer = python(f"log({BEGINS!r})\nwhile True: pass", 0.1)
    assert answer.value is None
    assert answer.seconds is not None
    assert answer.seconds > 0.1
    assert answer.log == f"{BEGINS}\n"


def test_a_process_that_fails_is_an_error_with_its_last_lines():
    with pytest.raises(subprocess.CalledProcessError, match="returned non-zero exit status 3") as error:
        python("log('no TPU'); sys.exit(3)", 60)
    assert error.value.stderr == "no TPU\n"
