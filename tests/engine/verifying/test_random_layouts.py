"""A sample of the sweep, new with each commit, and every case of it that ever failed.

The whole sweep is `python -m meshlab.verify`; a case that fails there is written to failed_cases.json (model, mesh,
layout), and stays there when it is mended.
"""

import functools
import itertools
import json
from collections import Counter
from pathlib import Path

import jax
import pytest

import meshlab as ml
from meshlab import verify
from meshlab.engine.axes.serial import Serial
from meshlab.engine.planning.steps import Iterated
from meshlab.engine.specs.layout import Layout
from meshlab.engine.specs.mesh import Mesh
from meshlab.engine.verifying.check import Report
from meshlab.engine.verifying.drawn_meshes import MESHES, MESHES_IN_TIME, SCHEDULES, TURNS
from meshlab.engine.verifying.forms import FORMS, forms_of, shown
from meshlab.engine.verifying.random_layouts import draw, draw_in_turn
from meshlab.models.loop_models import loops
from meshlab.models.operation_models import operations
from meshlab.models.zoo import imported_models, models
from tests import share

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in (*models(), *imported_models())}
LOOPS = {model.name: model for model in loops()}
OPERATIONS = {model.name: model for model in operations()}
# Of small steps one layout each on a mesh with a serial axis.
IN_TIME = [
    "mlp_sgd",
    "mlp_adamw",
    "convnet_sgd",
    "transformer_sgd",
    "llama",
    "t5",
    "moe_sgd",
    "moe_dropless",
    "decoding",
]
# Each commit draws layouts of its own, and the same ones again.
SEED = share.number()
FAILED = json.loads(Path(__file__).with_name("failed_cases.json").read_text())


def merges_little(report: Report) -> bool:
    """Says whether what XLA merged is at most a few hundred bytes: equal scalars that several parameters need."""
    return all(each.payload_bytes * (each.predicted - each.compiled) <= 256 for each in report.merged)


@pytest.mark.share(16)
@pytest.mark.parametrize("name", MODELS)
def test_a_sample_of_the_sweep(name):
    model = MODELS[name]
    program, data = model.trace(), model.data(0)
    ((mesh, layout),) = draw(program, seed=SEED, count=1)
    report = program.plan(mesh, layout).check(*data)
    assert report.ok, f"{name}, {layout} on {mesh}:\n{report}"
    assert merges_little(report), f"{name}, {layout} on {mesh}:\n{report}"
    jax.clear_caches()


@pytest.mark.share(8)
@pytest.mark.parametrize("name", IN_TIME)
def test_a_sample_of_layouts_in_time(name):
    model = MODELS[name]
    program, data = model.trace(), model.data(0)
    drawn = list(draw(program, seed=SEED, count=1, meshes=MESHES_IN_TIME))
    assert len(drawn) == 1
    for mesh, layout in drawn:
        plan = program.plan(mesh, layout)
        assert any(isinstance(step, Iterated) for step in plan.steps)
        report = plan.check(*data)
        assert report.ok, f"{name}, {layout} on {mesh}:\n{report}"
        assert merges_little(report), f"{name}, {layout} on {mesh}:\n{report}"
    jax.clear_caches()


@pytest.mark.share(5)
@pytest.mark.parametrize("name", LOOPS)
def test_a_sample_of_loops_scopes_padding_and_time_together(name):
    program, data = LOOPS[name].trace(), LOOPS[name].data(0)
    drawn = list(draw_in_turn(program, seed=SEED, count=2))
    assert len(drawn) == 2
    for mesh, layout, pad in drawn:
        report = program.plan(mesh, layout, pad=pad).check(*data)
        assert report.ok, f"{name}, {layout} on {mesh}, pad={pad}:\n{report}"
    jax.clear_caches()


def test_what_is_merged_is_told_beside_an_all_to_all():
    """XLA cuts the operand of an all-to-all, and takes equal gathers in two scopes for one."""
    layout = {"points": "x", "@white": {"points": "x"}, "@fit": {"batch": "x", "points": None}}
    plan = LOOPS["whitened"].trace().plan(ml.mesh(x=2), layout)
    report = plan.check(*LOOPS["whitened"].data(0))
    assert report.ok, report
    assert "all-to-all" in {c.kind for c in plan.collectives}
    assert [(one.kind, one.predicted, one.compiled) for one in report.merged] == [("all-gather", 5, 4)]


def test_all_kinds_of_meshes_come_in_turn():
    program = LOOPS["ring_cache"].trace()
    drawn = list(draw_in_turn(program, seed=2, count=24))
    assert drawn == list(draw_in_turn(program, seed=2, count=24))
    kinds = Counter((bool(mesh.in_time), pad) for mesh, _, pad in drawn)
    assert kinds == {(in_time, pad): 6 for in_time in (False, True) for pad in (False, True)}
    assert [next(iter(draw_in_turn(program, seed, 1))).pad for seed in range(4)] == [False, False, True, True]
    assert any(layout.scope_rules for _, layout, _ in drawn)
    assert any(layout.place_rules for _, layout, _ in drawn)
    plans = [program.plan(mesh, layout, pad=pad) for mesh, layout, pad in drawn]
    assert any(plan.grid.padded for plan in plans)
    assert all(any(isinstance(step, Iterated) for step in plan.steps) == bool(plan.mesh.in_time) for plan in plans)


def test_an_edge_that_no_iteration_changes_is_sent_once():
    """The convolution's input is whole in time, and only its filters are split: XLA sends its edges once."""
    model = MODELS["resnet"]
    layout = {"classes": "y", "hidden_1": "t", "width": "x", "residual": {"channels_2": "x", "height": None}}
    plan = model.trace().plan(Mesh((("x", 2), ("y", 2), ("t", Serial(2, "each")))), layout)
    report = plan.check(*model.data(0))
    assert report.ok, report


@pytest.mark.share(12)
@pytest.mark.parametrize("case", FAILED, ids=lambda case: case["model"])
def test_what_failed_once_works(case):
    model = MODELS[case["model"]]
    program = model.trace()
    plan = program.plan(ml.mesh(**case["mesh"]), Layout.of(case["layout"]), pad=case.get("pad", False))
    report = plan.check(*model.data(0))
    assert report.ok, f"{case}:\n{report}"


def test_of_all_models_some_are_checked_and_others_planned(tmp_path, capsys):
    journal = tmp_path / "sweep.jsonl"
    given = ["--models", "mlp", "two_layer", "--each", "2", "--checked", "1", "--seed", "3", "--journal", str(journal)]
    assert verify.main(given) == 0
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    checked = {line["model"] for line in lines if line["checked"]}
    assert len(checked) == 1
    assert Counter(line["model"] for line in lines) == dict.fromkeys(("mlp", "mlp_sgd", "mlp_adamw", "two_layer"), 2)
    assert all(line["ok"] for line in lines)
    totals = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("all"))
    assert totals.split()[:5] == ["all", "2", "6", "0", "0"]
    # What is done is not done again.
    before = journal.read_text()
    assert verify.main(given) == 0
    assert journal.read_text() == before


def test_layouts_are_drawn_reproducibly_legal_and_of_all_kinds():
    program = MODELS["transformer_adamw"].trace()
    drawn = list(draw(program, seed=1, count=70))
    assert drawn == list(draw(program, seed=1, count=70))
    assert len({(m, str(layout)) for m, layout in drawn}) == 70
    assert {m for m, _ in drawn} == set(MESHES)
    assert any(len(axes) > 1 for _, layout in drawn for axes in layout.rules.values())
    assert any(axes == () for _, layout in drawn for own in layout.places.values() for axes in own.values())
    places = {place for _, layout in drawn for place in layout.places}
    assert places >= {"params/*", "opt_state/*", "residual", "grads/*", "grads/params/embedding"}
    for mesh, layout in drawn:
        program.plan(mesh, layout)


# Each form, with a program that may have it.
BEGUN = [
    *((form, "documents") for form in ("ring", "zig-zag", "USP", "Ulysses")),
    ("flash decoding", "answered"),
    ("capacity", "moe_sgd"),
    *((form, "routed") for form in ("dropless", "gathered")),
    *((f"pipeline {schedule}", "attended") for schedule in SCHEDULES),
]


@functools.cache
def traced(name):
    return (MODELS | OPERATIONS)[name].trace()


def test_what_a_program_may_have_is_found_in_it():
    attention = ["ring", "zig-zag", "flash decoding", "USP", "Ulysses"]
    pipelines = [f"pipeline {schedule}" for schedule in SCHEDULES]
    assert {name: [form.name for form in forms_of(traced(name))] for name in OPERATIONS} == {
        "attended": [*attention, *pipelines],
        "documents": attention,
        "windowed": [name for name in attention if name != "zig-zag"],
        "answered": [name for name in attention if name != "zig-zag"],
        "routed": ["ring", "zig-zag", "USP", "Ulysses", "dropless", "gathered", *pipelines],
    }
    # Its two layers are too few for two chunks on each of two stages.
    assert [form.name for form in forms_of(traced("moe_sgd"))] == [
        *("ring", "zig-zag", "USP", "Ulysses", "capacity"),
        *pipelines[:-1],
    ]
    assert forms_of(MODELS["mlp_sgd"].trace()) == []


@pytest.mark.share(4)
@pytest.mark.parametrize(("form", "name"), BEGUN)
def test_each_form_is_drawn(form, name):
    """Most layouts that begin with it have it; the same ones are drawn again."""
    program, ((meshes, pad), *_) = traced(name), FORMS[form].turns or TURNS
    drawn = list(draw(program, seed=1, count=4, meshes=meshes, pad=pad, form=FORMS[form]))
    assert drawn == list(draw(program, seed=1, count=4, meshes=meshes, pad=pad, form=FORMS[form]))
    assert len(drawn) == 4
    assert sum(form in shown(program, program.plan(mesh, layout, pad=pad)) for mesh, layout in drawn) >= 2


@pytest.mark.share(6)
@pytest.mark.parametrize(("form", "name"), BEGUN)
def test_a_sample_of_forms(form, name):
    program, data = traced(name), (MODELS | OPERATIONS)[name].data(0)
    (meshes, pad), *_ = FORMS[form].turns or TURNS[SEED % 2 :]
    for mesh, layout in draw(program, SEED, 1, meshes, pad, form=FORMS[form]):
        report = program.plan(mesh, layout, pad=pad).check(*data)
        assert report.ok, f"{name}, {layout} on {mesh}, pad={pad}:\n{report}"
    jax.clear_caches()


def test_a_sweep_that_draws_no_ring_fails(tmp_path, capsys, monkeypatch):
    given = ["--models", "answered", "--each", "32", "--checked", "0"]
    assert verify.main([*given, "--journal", str(tmp_path / "all.jsonl")]) == 0
    rows = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert {"ring", "flash decoding", "USP", "Ulysses"} <= rows.keys()
    assert int(rows["ring"][2]) >= 1

    def without(program, seed, count, turns, forms):
        left = [form for form in forms if form.name not in ("ring", "USP")]
        drawn = draw_in_turn(program, seed, 100, turns, left)
        rings = lambda each: "ring" in shown(program, program.plan(each.mesh, each.layout, pad=each.pad))  # noqa: E731
        return itertools.islice((each for each in drawn if not rings(each)), count)

    monkeypatch.setattr(verify, "draw_in_turn", without)
    assert verify.main([*given, "--journal", str(tmp_path / "none.jsonl")]) == 2
    assert "FAILED: no layout had a form that some model may have: USP, ring" in capsys.readouterr().out
