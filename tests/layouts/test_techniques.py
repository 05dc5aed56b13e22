"""Every technique of docs/techniques.md sends what its formulas say, planned and compiled, and changes no result."""

import functools
from pathlib import Path

import jax
import numpy as np
import pytest

import meshlab as ml
from benchmarks.techniques import compiled
from benchmarks.techniques.__main__ import SECTION
from benchmarks.techniques.table import ROWS, page, steps
from benchmarks.techniques.technique import evaluated, found
from meshlab.cost.machines.installed_compilers import CompilerError, check_installed
from meshlab.engine.verifying.results import compare
from tests.widened import widened

PAGE = Path(__file__).parents[2] / "docs" / "techniques.md"
EACH = pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
# Meshes of other sizes: how many devices a first axis of 8, 4 and 2 has instead, and a later one.
OTHERS = {8: 4, 4: 2, 2: 4}, {4: 2, 2: 2}
STEPS = 3


@pytest.mark.nightly
def test_the_page_has_what_the_command_writes():
    assert SECTION.read(PAGE) == page()


def test_rows_differ():
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(row.mesh.size == 8 and row.sources and row.there and row.here for row in ROWS)


@pytest.mark.share(6)
@pytest.mark.parametrize("step", steps(), ids=lambda step: step.name)
def test_a_formula_of_all_parameters_counts_them(step):
    if "P" in step.defined:
        program = step.program()
        params = [program.value(a.value) for a in program.arguments if a.parameter == "params"]
        assert sum(np.prod(array.shape) for array in params) == step.names(ml.mesh(x=8))["P"]


@pytest.mark.share(24)
@EACH
@pytest.mark.parametrize("size", ["small", "middle", "large"])
@pytest.mark.parametrize("other", [False, True], ids=["eight", "other"])
def test_formulas_are_the_plan(row, size, other):
    """By kind, axes, times and bytes; and by the paper's formula, whatever a ring sends."""
    sizes = row.mesh.devices.axes.items()
    changed = {axis: OTHERS[i > 0][size] for i, (axis, size) in enumerate(sizes)} if other else {}
    mesh = row.mesh.resized(changed)
    plan = row.plan(size, mesh)
    assert found(plan) == row.sent(size, mesh)
    counted, law = row.ring_bytes(size, mesh)
    assert counted == pytest.approx(law, rel=1e-12)
    beside = row.wire_bytes_beside(size, mesh)
    assert plan.wire_bytes == pytest.approx(law + beside, rel=1e-12)


@pytest.mark.parametrize("row", [row for row in ROWS if row.bubble], ids=lambda row: row.name)
def test_bubbles_are_those_of_the_papers(row):
    for pipe, micro in ((2, 4), (4, 8), (4, 16), (8, 32)):
        mesh = row.mesh.resized({"pipe": pipe, "micro": micro})
        schedule = mesh.stages["pipe"].order(micro)
        names = row.step.names(mesh)
        assert schedule.bubble() == pytest.approx(evaluated(row.bubble, names), rel=1e-9)
        assert schedule.bubble(lockstep=True) == pytest.approx(evaluated(row.lockstep, names), rel=1e-9)
    assert row.plan().schedule.name == row.mesh.stages["pipe"].order(8).name


@pytest.mark.share(35)
@EACH
def test_the_compiled_program_is_the_plan(row):
    report = row.plan().check()
    assert report.ok, report
    assert not report.merged


@pytest.mark.share(35)
@EACH
def test_three_steps_are_those_of_one_device(row):
    """In float64: in float32 AdamW multiplies what is rounded otherwise, on some processors beyond any tolerance."""
    with jax.enable_x64(True):
        program, data, expected = wide(row.step)
        result = after(row.planned(program).run, program, data)
    for place, error, _ in compare(program, expected, result):
        assert error < 1e-11, place


@functools.cache
def wide(step):
    """A step in float64, its arguments, and what it gives on one device."""
    model = step.model(step.sizes["small"])
    program = ml.trace(model.step, *widened(model.shapes), carry=model.carry)
    data = widened(model.data(0))
    return program, data, after(jax.jit(program.fn), program, data)


def after(step, program, data):
    """The outputs of the last of several steps, each of which begins with what the one before carries."""
    arguments, outputs = list(data), ()
    for _ in range(STEPS):
        outputs = jax.tree.map(np.asarray, step(*arguments))
        for number, parameter in enumerate(program.parameters):
            if parameter in program.carry:
                arguments[number] = outputs[program.carry[parameter]]
    return jax.tree.leaves(outputs)


def test_no_table_and_no_gradient_of_one_is_sent():
    (row,) = (row for row in ROWS if row.name == "Tables sharded by row")
    plan = row.plan("large")
    assert not [c for c in plan.collectives if {"users", "items"} & set(c.dims)]
    table = row.step.sizes["large"]["users"].size * row.step.sizes["large"]["embed"].size * 4
    assert plan.wire_bytes < table / 100
    assert plan.stored.argument_bytes < 1.01 * 3 * (table + table // 10) / 8


def test_momentum_is_never_sent():
    rows = [row for row in ROWS if row.name.startswith("Muon")]
    assert len(rows) == 2
    for row in rows:
        assert not [c for c in row.plan().collectives if "momentum" in c.value or "/mu/" in c.value]
    whole, shards = (row.plan("large").memory.parts["gradients"] for row in rows)
    assert shards < whole / 7


@pytest.mark.nightly
@EACH
@pytest.mark.parametrize("machine", compiled.MACHINES)
def test_the_compilers_were_asked_for_todays_plan_and_accept_it(row, machine):
    """If not: python -m benchmarks.techniques --compile docs/techniques.md."""
    (line,) = (line for line in compiled.lines() if (line["technique"], line["machine"]) == (row.name, machine))
    assert compiled.asked(row).items() <= line.items()
    assert line["ok"]
    assert compiled.mark(line) == "=" or set(compiled.mark(line)) <= set("abcde")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "machine", "platform"),
    [
        ("Megatron, tensor-parallel", "v5e:2x4", "tpu"),
        ("Tables sharded by row", "h100:1x1x8", "cuda"),
    ],
)
def test_the_compilers_answer_as_the_journal_has_it(name, machine, platform):
    try:
        check_installed(platform)
    except CompilerError as error:
        pytest.skip(f"{error} (`make test` does so on Linux)")
    (row,) = (row for row in ROWS if row.name == name)
    (line,) = (line for line in compiled.lines() if (line["technique"], line["machine"]) == (name, machine))
    answer = ml.compile_for(row.plan("middle"), machine)
    assert answer.ok
    assert answer.equal == line["equal"]
    assert len(answer.comparison.differences) == len(line["differences"])


def test_marks_of_answers():
    differences = [["narrowed", 1, 8, 4], ["summed whole", 1, 8, 8]]
    assert compiled.mark(None) == ""
    assert compiled.mark({"error": "no"}) == "!"
    assert compiled.mark({"equal": True, "ok": True}) == "="
    assert compiled.mark({"equal": False, "ok": False}) == "✗"
    assert compiled.mark({"equal": False, "ok": True, "differences": differences}) == "ab"
