"""Goals judge what the devices of a plan do: every condition, against what the plan says by other ways."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random

import jax
import pytest

from meshlab.cost.machines.units import bytes_text
from meshlab.engine.verifying.drawn_meshes import MESHES, MESHES_IN_TIME
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.zoo import models
from tests.engine.pipelines import stacks
from tests.engine.plans.test_work import LOST, MICRO, STAGES, WAITS_OF_1F1B, WAITS_OF_OTHERS
from tests.given import MESH, PROGRAM, ml

MODELS = {model.name: model.trace for model in models()}
FREE = {"busy": False}


def judged(goal, layout, program=PROGRAM, mesh=MESH):
    """The verdict of a goal on a layout."""
    return goal.judge(program.plan(mesh, layout))


def only(**condition):
    """A goal of one condition."""
    goal = ml.goal(**{**FREE, **condition})
    assert len(goal.conditions) == 1
    return goal


# Numbers


def test_a_bound_is_met_at_what_the_plan_has_and_not_below():
    plan = PROGRAM.plan(ml.mesh("v5e:2x2", data=2, model=2), "batch:data hidden:model")
    found = {
        "sends": plan.wire_bytes,
        "stores": plan.stored.argument_bytes,
        "peak": plan.memory.donated.peak_bytes,
        "step": float(plan.time.estimate),
    }
    for name, value in found.items():
        assert value > 0
        assert only(**{name: value}).judge(plan).met, name
        less = only(**{name: value * 0.999}).judge(plan)
        assert not less.met, name
        assert less.each[0].value


def test_a_peak_and_a_step_that_are_too_much_say_what_most_of_them_is_and_why():
    plan = PROGRAM.plan(ml.mesh("v5e:2x2", data=2, model=2), "batch:data hidden:model")
    (peak,) = only(peak=1).judge(plan).each
    (step,) = only(step=1e-12).judge(plan).each
    assert peak.because == plan.memory.donated.because
    assert step.because == plan.time.because
    of_both = [each.because.partition(":")[0] for each in (peak, step)]
    assert set(of_both) <= {"Most of it", "The largest part"}
    small = dataclasses.replace(
        plan.mesh.on.hardware, memory=dataclasses.replace(plan.mesh.on.hardware.memory, value=9)
    )
    (fits,) = only(fits=small).judge(plan).each
    assert (fits.met, fits.because) == (False, plan.memory.donated.because)
    assert not only(fits=True).judge(plan).each[0].because


def test_what_misses_by_less_than_three_digits_is_written_out():
    plan = PROGRAM.plan(MESH, "batch:data hidden:model")
    (found,) = only(sends=plan.wire_bytes - 1).judge(plan).each
    assert (found.met, found.value) == (False, f"{plan.wire_bytes:,.0f} B")


def test_too_much_is_blamed_on_what_is_most_of_it():
    plan = PROGRAM.plan(MESH, "batch:data hidden:model")
    most = max(plan.collectives, key=lambda c: c.wire_bytes * c.times)
    (sent,) = only(sends=0).judge(plan).each
    assert sent.because.startswith(f"Most of it: {bytes_text(most.wire_bytes * most.times)}: {most.kind}")
    assert most.because in sent.because
    (stored,) = only(stores=0).judge(plan).each
    assert stored.because == f"Most of it: {bytes_text(plan.stored.parts['params'])} of `params`."


def test_what_fits_is_the_donated_peak_on_the_meshs_machine():
    fits = only(fits=True)
    for name in ("v5e:2x2", "h100"):
        plan = PROGRAM.plan(ml.mesh(name, data=2, model=2), "batch:data")
        assert fits.judge(plan).met is plan.memory.donated.fits is True
    tiny = dataclasses.replace(ml.hardware("v5e"), memory=ml.Figure(4000.0))
    plan = PROGRAM.plan(ml.mesh(tiny, data=2, model=2), "batch:data")
    peak = plan.memory.donated.peak_bytes
    (found,) = fits.judge(plan).each
    assert (found.met, found.value) == (peak <= 4000, f"{bytes_text(peak)} of 4.00 kB")
    assert found.met is plan.memory.donated.fits is False


def test_a_machine_by_name_is_fitted_as_if_the_mesh_were_on_it():
    program = MODELS["transformer_adamw"]()
    (found,) = judged(only(fits="v5e"), "batch:data", program).each
    there = program.plan(ml.mesh("v5e:2x2", data=2, model=2), "batch:data").memory.donated
    assert found.value == f"{bytes_text(there.peak_bytes)} of {bytes_text(there.limit_bytes)}"
    assert there.peak_bytes != program.plan(MESH, "batch:data").memory.donated.peak_bytes


def test_collectives_are_counted_as_they_are_executed():
    program, mesh = MODELS["llama_adamw"](), ml.mesh(data=2, model=2)
    plan = program.plan(mesh, "batch:data heads:model ffn:model")
    by = {
        "*": plan.collectives,
        "all-reduce": [c for c in plan.collectives if c.kind == "all-reduce"],
        "all-reduce over model": [c for c in plan.collectives if c.kind == "all-reduce" and "model" in c.axes],
        "* over data": [c for c in plan.collectives if "data" in c.axes],
        "all-to-all": [],
    }
    assert any(c.times > 1 for c in plan.collectives)
    for key, counted in by.items():
        number = sum(c.times for c in counted)
        assert only(collectives={key: number}).judge(plan).met, key
        (more,) = only(collectives={key: number + 1}).judge(plan).each
        assert (more.met, more.value, more.because) == (False, f"{number:,}", "")
        if number:
            (less,) = only(collectives={key: (0, number - 1)}).judge(plan).each
            assert not less.met
            assert any(c.because in less.because for c in counted), key


# Specs


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["mlp_adamw", "gpt2_adamw", "llama_adamw", "moe_sgd", "t5"])
def test_conditions_are_what_the_plan_says_by_other_ways(name):
    program, seed = MODELS[name](), random.Random().randrange(2**32)
    for mesh, layout in (*draw(program, seed, 6, MESHES), *draw(program, seed, 3, MESHES_IN_TIME)):
        plan, at = program.plan(mesh, layout), (seed, str(mesh), str(layout))
        assert ml.goal().judge(plan).met is plan.work.is_divided, at
        for axis in mesh.devices.axes:
            assert only(silent=axis).judge(plan).met is _is_silent(plan, axis), at
        for place, (dim, whole, nbytes) in _stored(plan).items():
            assert only(stored={place: nbytes}).judge(plan).met, (*at, place)
            assert not only(stored={place: nbytes - 1}).judge(plan).met, (*at, place)
            if dim:
                assert only(stored={place: {dim: None}}).judge(plan).met is whole, (*at, place)
        for dim in itertools.islice(program.dims, 4):
            found = _lies(plan, dim)
            for axes in ((), *found):
                assert only(keeps={dim: axes}).judge(plan).met is (found <= {axes}), (*at, dim, axes)


def _is_silent(plan, axis):
    try:
        plan.assert_silent(axis)
    except ml.LayoutError:
        return False
    return True


def _stored(plan):
    """By place a dim of it, whether that is whole on every device, and the bytes of the first device's shard."""
    found = {}
    for place in random.Random(0).sample(plan.program.places, k=min(6, len(plan.program.places))):
        if place not in plan.program.places_values:
            continue
        value = plan.program.place(place)
        ranges = [plan.shard(place, device) for device in range(plan.mesh.size)]
        size = math.prod(stop - start for start, stop in ranges[0]) * value.dtype.itemsize
        position = next((i for i, dim in enumerate(value.dims) if dim in plan.program.dims), None)
        whole = all(each[position] == (0, value.shape[position]) for each in ranges) if position is not None else True
        found[place] = (None if position is None else value.dims[position], whole, size)
    return found


def _lies(plan, dim):
    """The mesh axes that a dim lies on, in all that is computed: the steps written out, one by one."""
    found, program, devices = set(), plan.program, plan.mesh.devices.axes

    def walk(steps):
        for step in steps:
            if step.runs is not None and step.named is None and not step.droppable:
                for values, specs in (step.read(), step.made()):
                    for value, spec in zip(values, specs, strict=True):
                        if isinstance(value, int) and spec is not None:
                            pairs = zip(program.dims_of(value), spec.splits, strict=True)
                            found.update(tuple(a for a in axes if a in devices) for name, axes in pairs if name == dim)
            for part in step.parts:
                walk(part.steps)

    walk(plan.steps)
    return found


def test_a_rule_that_is_undone_elsewhere_keeps_nothing():
    """A cheat: the letter of the layout has the rule, and nothing is computed so."""
    Batch, Embed, Hidden = ml.dims(batch=8, embed=8, hidden=16)

    def scoped(w, x):
        with jax.named_scope("all"):
            return ml.dot(ml.relu(ml.dot(x, w["a"], "embed")), w["b"], "hidden")

    weights = {"a": ml.f32[Embed, Hidden], "b": ml.f32[Hidden, Embed]}
    program, mesh = ml.trace(scoped, weights, ml.f32[Batch, Embed]), ml.mesh(x=2, y=2)
    goal = only(keeps={Batch: ("x", "y")})
    assert judged(goal, "batch:x+y", program, mesh).met
    (undone,) = judged(goal, {"batch": "x+y", "@all": {"batch": None, "hidden": "x"}}, program, mesh).each
    assert (undone.met, undone.value) == (False, "whole")
    assert "`batch` is whole at test_goals.py:" in undone.because


def test_spellings_of_one_layout_are_judged_alike():
    goal = ml.goal(sends=700, keeps={"batch": "data", "hidden": "model"}, stored={"params/w1": "hidden:model"})
    spelt = ("batch:data hidden:model", {"batch?": "data", "hidden": ["model"], "no_dim?": "data"})
    spelt += ({"batch": "data", "hidden": "model", "params/*": {"hidden": "model"}},)
    verdicts = [judged(goal, layout) for layout in spelt]
    assert all(verdict == verdicts[0] for verdict in verdicts)
    assert verdicts[0].met


def test_an_axis_of_one_device_and_one_in_time_split_nothing():
    goal = only(keeps={"batch": "data"})
    assert judged(goal, "batch:data", mesh=ml.mesh(data=1, model=2)).met
    assert judged(goal, "batch:data+micro", mesh=ml.mesh(data=2, micro=ml.serial(2))).met
    assert judged(only(keeps={"batch": None}), "batch:micro", mesh=ml.mesh(data=2, micro=ml.serial(2))).met


def test_a_glob_of_places_is_bounded_all_together():
    plan = PROGRAM.plan(MESH, {"params/*": {"hidden": "model"}})
    both = sum(plan.argument_sizes[i] for i, a in enumerate(PROGRAM.arguments) if a.parameter == "params")
    assert only(stored={"params/*": both}).judge(plan).met
    assert not only(stored={"params/*": both - 1}).judge(plan).met
    assert only(stored={"params/*": "hidden:model"}).judge(plan).met
    (embed,) = only(stored={"params/*": {"embed": "data"}}).judge(plan).each
    assert embed.because == "`params/w1` is stored with `embed` whole."


# Work


def test_repeated_work_is_blamed_on_the_axis_that_splits_nothing():
    (whole,) = judged(ml.goal(), None).each
    assert whole.value == "100% each, not 25%"
    assert whole.because.startswith("Devices along `data` and `model` repeat given.py:")
    (half,) = judged(ml.goal(), "batch:data").each
    assert "Devices along `model` repeat given.py:" in half.because
    assert judged(ml.goal(), "batch:data hidden:model").met


def test_lost_parallelism_is_blamed_on_its_line():
    for make, devices, *_ in LOST.values():
        plan = make(devices)
        assert plan.whole_from is not None
        (found,) = ml.goal().judge(plan).each
        assert f"Parallelism is lost at {plan.whole_from.source} (reshape)" in found.because


def test_a_number_is_how_many_times_its_share_a_device_may_do():
    plan = PROGRAM.plan(MESH, "batch:data")
    assert plan.work.share == pytest.approx(0.5)
    assert ml.goal(busy=2).judge(plan).met
    assert not ml.goal(busy=1.9).judge(plan).met
    assert ml.goal(busy=1).conditions == ml.goal(busy=True).conditions


def test_what_stages_wait_counts_where_there_is_room_for_more_work():
    """Stages take as much longer as they wait, which is derived where work is tested; no work is repeated."""
    program, mesh = stacks.program("plain", batch=64, layers=8, _=64, embed=64, rows=1, classes=1), ml.mesh
    for schedule, waits in (("paired", WAITS_OF_OTHERS), ("1f1b", WAITS_OF_1F1B)):
        placed, times = mesh(pipe=ml.stages(STAGES, schedule), micro=ml.serial(MICRO)), 1 / (1 - waits)
        plan = program.plan(placed, "batch:micro layers:pipe")
        assert plan.work.is_divided
        assert ml.goal(busy=True).judge(plan).met
        assert ml.goal(busy=times).judge(plan).met
        verdict = ml.goal(busy=times - 0.05).judge(plan)
        assert not verdict.met
        assert "stages wait for " in verdict.each[0].value
        assert verdict.each[0].because.endswith(f"of the schedule {schedule}: {STAGES} stages, {MICRO} micro-batches.")
        # A drop's price says what is computed, not how long stages wait.
        assert ml.goal(busy=2).conditions[0].priced(plan) is None
        assert ml.goal(busy=True).conditions[0].priced(plan) is not None


# Verdicts


def test_a_goal_and_its_verdict_print_as_sentences_and_as_a_table():
    goal = ml.goal(
        fits="v5e", sends="≤ 8 kB", peak="1 GiB", stores=2e6, step="90 ms", silent="data", keeps={"batch": None}
    )
    assert str(goal).splitlines() == [
        "Goal: each device",
        "  fits the memory of one Google TPU v5e",
        "  sends at most 8 kB",
        "  uses at most 1 GiB at its peak",
        "  holds at most 2 MB of arguments",
        "  takes at most 90 ms a step",
        "  repeats no work",
        "  sends nothing over `data`",
        "  keeps `batch` whole",
    ]
    verdict = judged(ml.goal(sends=0, silent="model"), "batch:data")
    head, *lines = str(verdict).splitlines()
    assert head == "goal: 1 of 3 conditions met"
    assert [line[0] for line in lines] == ["✗", "✗", "✓"]
    assert lines[0].startswith("✗ sends nothing")
    assert not verdict
    page = verdict._repr_html_()
    assert page.count("<tr>") == 4
    assert "goal: 1 of 3 conditions met" in page
    met = judged(ml.goal(), "batch:data hidden:model")
    assert met
    assert str(met).splitlines()[0] == "goal met: its condition holds"


def test_a_quiet_verdict_gives_nothing_away_before_the_goal_is_met():
    missed = judged(ml.goal(sends="8 kB", quiet=True), "batch:data")
    assert [(each.met, each.value, each.because) for each in missed.told] == [(True, "", ""), (False, "", "")]
    assert "kB" not in str(missed).replace("at most 8 kB", "")
    assert "given.py" not in missed._repr_html_()
    met = judged(ml.goal(sends="8 kB", quiet=True), "batch:data hidden:model")
    assert met.told == met.each


def test_goals_are_values():
    one, other = (ml.goal(sends="8 kB", keeps={"batch": None}) for _ in range(2))
    assert one == other
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.quiet = True
