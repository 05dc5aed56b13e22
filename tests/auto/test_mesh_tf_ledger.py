"""Ledgers of programs: the same layouts as Mesh TensorFlow's graphs give, and what loops hold."""

from __future__ import annotations

import jax
import pytest

import meshlab as ml
from meshlab.auto.additive.mesh_tf_ledger import ledger_of, planned_live_bytes
from meshlab.auto.additive.mesh_tf_liveness import most_live_bytes
from meshlab.auto.brute_force import planned_layouts
from tests.auto.programs import MODELS, SMALL, recorded, traced

pytestmark = pytest.mark.share(3, of="file")

# Our programs are not Mesh TensorFlow's graphs: JAX's gradient of a division, a softmax or a relu has other values in
# between. So the bytes differ, by up to a tenth, and the layouts do not. `auto_mtf`'s bytes stand beside ours.
OURS = [
    ("mlp_forward", {"all": 4}, ["hidden:all"], 1_234_056),  # 1,233,056
    ("mlp_forward", {"a": 4, "b": 2}, ["classes:b cols:b hidden:a", "classes:b hidden:a rows:b"], 668_228),  # 667,728
    ("mlp_train", {"all": 4}, ["hidden:all"], 2_422_692),  # 2,412,452
    ("mlp_train", {"a": 4, "b": 2}, ["classes:b cols:b hidden:a", "classes:b hidden:a rows:b"], 1_211_348),  # 1,206,228
    ("two_layer", {"all": 4}, ["hidden:all"], 24_576),  # 24,576
    ("two_layer", {"a": 2, "b": 2}, ["batch:a hidden:b"], 28_672),  # 28,672
    ("block_forward", {"a": 2, "b": 2}, ["batch:a d_ff:b heads:b"], 47_104),  # 39,424: one residual less
    ("block_train", {"all": 4}, ["batch:all"], 116_740),  # 111,108
    ("block_train", {"a": 2, "b": 2}, ["batch:a d_ff:b heads:b"], 126_980),  # 115,204
    ("block_train", {"a": 4, "b": 2}, ["batch:a d_ff:b heads:b"], 68_612),  # 65,796
]


@pytest.mark.parametrize(("name", "axes", "layouts", "nbytes"), OURS)
def test_our_programs_have_mesh_tensorflows_layouts(name, axes, layouts, nbytes):
    choice = ml.auto.layout(recorded(name), ml.mesh(**axes), objective="live")
    assert str(choice.layout) in layouts
    assert choice.proof.value == nbytes


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("axes", [{"a": 4}, {"a": 2, "b": 2}, {"a": 4, "b": 2}], ids=str)
def test_no_plan_holds_less(name, axes):
    program, mesh = traced(name), ml.mesh(**axes)
    every = planned_layouts(program, mesh, "live")
    choice = ml.auto.layout(program, mesh, objective="live")
    assert choice.proof.value == every[0].value
    assert len(choice.layout.rules) == max(len(p.splits) for p in every if p.value == every[0].value)


@pytest.mark.parametrize("name", MODELS)
def test_arguments_and_outputs_are_held(name):
    program = traced(name)
    ledger, plan = ledger_of(program), program.plan(ml.mesh(a=2), "batch:a")
    assert ledger.lives.first.keys() == ledger.entries.keys()
    assert planned_live_bytes(plan) == most_live_bytes(ledger, {"batch": "a"}, {"a": 2})
    assert planned_live_bytes(plan) >= plan.memory.output_bytes


def test_stored_rules_shrink_what_is_held():
    program = traced("mlp_sgd")
    whole = planned_live_bytes(program.plan(ml.mesh(a=2), "batch:a"))
    stored = planned_live_bytes(program.plan(ml.mesh(a=2), {"batch": "a", "params/*": {"embed": "a"}}))
    assert stored < whole


def test_a_loop_holds_its_stacks_and_what_one_step_makes():
    Layers, Embed = ml.dims(layers=5, embed=4)

    def fn(w, x):
        return ml.scan(lambda x, w: (ml.relu(x + w), None), x, w, Layers)[0]

    ledger = ledger_of(ml.trace(fn, ml.f32[Layers, Embed], ml.f32[Embed]))
    # The stack, the carry before and after; and in a step the slice and the sum, then the sum and the new carry.
    assert most_live_bytes(ledger, {}, {}) == (5 + 2) * 16 + 2 * 16


def test_a_rematerialised_region_copies_neither_operands_nor_results():
    (Embed,) = ml.dims(embed=4)

    def fn(x):
        return jax.grad(lambda x: ml.checkpoint(lambda x: ml.exp(ml.sin(x)))(x).sum())(x)

    (region,) = [line for line in ledger_of(ml.trace(fn, ml.f32[Embed])).lines if line.inside is not None]
    assert region.inside is not None
    # Inside are sin, cos, exp and one product; the other product is the result, which has its room already.
    assert len(region.inside.lines) == 5
    assert len(region.inside.entries) == 4
    assert not {*region.inputs, *(entry.name for entry in region.outputs)} & set(region.inside.entries)


def test_a_rename_may_be_on_both_sides():
    """Mesh TensorFlow's search cannot put both names of a rename on one axis, and so needs 40 bytes here."""
    (A,) = ml.dims(a=8)
    program = ml.trace(lambda x: ml.square(x.rename(a="b")), ml.f32[A])
    choice = ml.auto.layout(program, ml.mesh(m=4), objective="live")
    assert (str(choice.layout), choice.proof.value) == ("a:m b:m", 16)


def test_a_ledger_is_written_once_for_each_program():
    program = traced("mlp_sgd")
    assert ledger_of(program) is ledger_of(program)
    assert ledger_of(program).lives is ledger_of(program).lives
