"""Remedies: each is legal, changes no more than it says, and the collective is gone when it is followed."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections import Counter

import pytest

import meshlab as ml
from benchmarks import presets
from meshlab.engine.plans.remedies import OFF, ON, STORED, Change, Remedy, sentence
from meshlab.engine.specs.layout import Layout
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo

MODELS = {model.name: model for model in zoo.models()}
SEED, COUNT = 3, 20


def sent(plan: ml.Plan, axes: tuple[str, ...], because: str) -> float:
    return sum(c.wire_bytes * c.times for c in plan.collectives if c.axes == axes and c.because == because)


@pytest.mark.share(24)
@pytest.mark.parametrize("name", ["mlp", "transformer_adamw"])
def test_each_remedy_is_legal_and_takes_its_cause_away(name: str) -> None:
    program = MODELS[name].trace()
    followed: Counter[str] = Counter()
    for mesh, layout in draw(program, SEED, COUNT):
        plan = program.plan(mesh, layout)
        remedies = {(c.axes, c.because, remedy) for c in plan.collectives for remedy in c.remedies if remedy.changes}
        for axes, because, remedy in remedies:
            after = remedy.applied(layout)
            assert after != layout, (str(layout), remedy)
            then = program.plan(mesh, after)
            assert remedy.outcome.sent == (plan.wire_bytes, then.wire_bytes)
            assert remedy.outcome.peak == (plan.memory.peak_bytes, then.memory.peak_bytes)
            assert sent(then, axes, because) < sent(plan, axes, because), (str(layout), remedy, because)
            followed["+".join(change.how for change in remedy.changes)] += 1
    assert {OFF, STORED} <= followed.keys(), followed


def test_experts_alone_on_an_axis_are_told_to_put_the_batch_there_too() -> None:
    """Each device gathered all experts' outputs; with the batch on the axis too, the two change places: all-to-alls."""
    program, mesh = MODELS["moe"].trace(), ml.mesh(expert=4)
    plan = program.plan(mesh, "experts:expert")
    gathers = [c for c in plan.collectives if c.kind == "all-gather"]
    assert gathers
    first, *others = gathers[0].remedies
    assert others
    then = program.plan(mesh, first.applied(plan.layout))
    for c in gathers:
        first = c.remedies[0]
        assert first.text == "put `batch` on `expert` as well"
        assert str(then.layout) == "batch:expert experts:expert"
        assert first.outcome.sent == (plan.wire_bytes, then.wire_bytes)
        assert then.wire_bytes < plan.wire_bytes
    assert "all-to-all" in {each.kind for each in then.collectives}
    # Back again sends more in all: what is offered where it saves alone is not offered then.
    swaps = next(c for c in then.collectives if c.kind == "all-to-all")
    assert swaps.trials is not None
    back = Remedy("take `batch` off `expert`", (Change(OFF, "batch", ("expert",)),))
    trials = swaps.trials
    assert trials
    assert [each.text for each in trials.of([back], swaps.axes, swaps.because)] == [back.text]
    assert trials.of([dataclasses.replace(back, saves=True)], swaps.axes, swaps.because) == ()


def test_a_plan_goes_with_its_last_reference_and_its_remedies_are_tried_all_the_same() -> None:
    program, mesh, layout = MODELS["mlp"].trace(), ml.mesh(x=2), "hidden:x"
    held = program.plan(mesh, layout)
    expected = [(str(remedy), str(remedy.outcome)) for c in held.collectives for remedy in c.remedies]
    assert expected
    gc.disable()  # a cycle would wait for it
    try:
        plan = program.plan(mesh, layout)
        rows, left = plan.collectives, weakref.ref(plan)
        del plan
        assert left() is None
    finally:
        gc.enable()
    tried = [remedy for c in rows for remedy in c.remedies]
    assert [(str(remedy), str(remedy.outcome)) for remedy in tried] == expected
    assert len({id(remedy.outcome.now) for remedy in tried if remedy.outcome}) == 1


def changed(layout: object, *changes: Change) -> object:
    return Remedy("", changes).applied(Layout.of(layout)).to_dict()  # type: ignore[arg-type]


def test_a_dim_comes_off_its_axes_alone() -> None:
    assert changed("vocab:data+model batch:data", Change(OFF, "vocab", ("data",))) == {
        "batch": "data",
        "vocab": "model",
    }
    assert changed("batch?:data hidden:model", Change(OFF, "batch", ("data",))) == {"hidden": "model"}


def test_where_no_compute_rule_shards_a_dim_the_rules_at_places_do() -> None:
    layout = {
        "hidden": "model",
        "params/*": {"embed": ["data", "model"], "hidden": "data"},
        "out/*": {"embed": "model"},
    }
    assert changed(layout, Change(OFF, "embed", ("data",))) == layout | {
        "params/*": {"embed": "model", "hidden": "data"}
    }
    assert changed(layout, Change(OFF, "hidden", ("model",)))["params/*"] == layout["params/*"]  # type: ignore[index]


def test_what_is_stored_at_one_place_keeps_what_a_wider_glob_says_of_other_dims() -> None:
    layout = {"params/*": {"embed": "data", "ffn": "model"}, "opt/*": {"embed": "data"}}
    after = changed(layout, Change(STORED, "embed", (), "params/w1"))
    assert after == layout | {"params/w1": {"embed": None, "ffn": "model"}}
    # A rule that is there already keeps its position.
    assert changed(after, Change(STORED, "embed", ("data",), "params/w1")) == layout | {"params/w1": layout["params/*"]}


def test_a_dim_goes_on_further_axes() -> None:
    assert changed("embed:x", Change(ON, "embed", ("x", "y"))) == {"embed": ["x", "y"]}
    assert changed(None, Change(ON, "embed", ("x",))) == {"embed": "x"}


def test_a_layout_is_never_told_to_move_a_made_up_name() -> None:
    rename = 'first rename `~seq`, so that layouts can address it: program.rename({"~seq": "kv"})'
    assert Remedy("take `~seq` off `x` and `seq` off `x`", effect="then every device adds up") == Remedy(rename)
    assert Remedy('store it split: {"out/0": {"~seq": "x"}}').text == rename
    assert Remedy("compute with `~seq` split over `x` as well").at("out/0", "out/*").text == rename

    program = next(model for model in zoo.imported_models() if model.name == "plain_gpt").trace()
    sums = [c for c in program.plan(ml.mesh(x=4), "seq:x").collectives if "`~seq`" in c.because]
    assert sums
    for c in sums:
        assert c.remedy.endswith('program.rename({"~seq": "kv"}).')
        assert "off `x`" not in c.remedy
        assert not any(remedy.changes for remedy in c.remedies)


def test_a_sentence_lists_the_alternatives() -> None:
    assert sentence(()) == ""
    assert (
        sentence([Remedy("do this"), Remedy("do that", effect="then it is so")])
        == "Do this, or do that: then it is so."
    )


PRESETS = ("data_parallel", "zero2", "fsdp", "tensor_parallel", "fsdp beside tensor_parallel")
EVERY = {model.name: model for model in (*zoo.models(), *zoo.imported_models())}


@pytest.mark.share(240)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", EVERY)
def test_no_remedy_of_a_preset_is_refused_and_each_does_what_it_promises(name: str, preset: str) -> None:
    program, mesh = EVERY[name].trace(), presets.MESH
    known = {} if presets.tells(program) else {"params": "params/*"}
    first, *rest = reversed(preset.split(" beside "))
    try:
        layout = presets.preset(first)(program, mesh, **(known if first in presets.DATA else {}))
        for each in rest:
            layout = presets.preset(each)(program, mesh, beside=layout, **known)
    except ml.LayoutError:
        pytest.skip("test_presets holds which models a preset is legal for")
    plan = program.plan(mesh, layout)
    assert plan.collectives or name == "decoding"
    tried = [(c, remedy) for c in plan.collectives for remedy in c.remedies if remedy.changes]
    assert tried or preset != "fsdp"  # what is stored in shards could be stored whole
    for c, remedy in tried:
        then = program.plan(mesh, remedy.applied(plan.layout))
        assert remedy.outcome.sent == (plan.wire_bytes, then.wire_bytes)
        assert remedy.outcome.peak == (plan.memory.peak_bytes, then.memory.peak_bytes)
        assert sent(then, c.axes, c.because) < sent(plan, c.axes, c.because), (c, remedy)
        assert str(remedy.outcome) in str(remedy.sentence)
