"""Traffic: the tables add up to what plans send, and the answer is the best of all plans."""

from __future__ import annotations

import random

import pytest

import meshlab as ml
from meshlab.auto.additive.sent_bytes import sent_by_value
from meshlab.auto.additive.space import Space, space_of
from meshlab.auto.additive.tables import Table, covering, images, parts_of, total, traffic_tables
from meshlab.auto.brute_force import planned_layouts
from meshlab.engine.planning.provenance import provenance
from tests.auto import awkward
from tests.auto.programs import MODELS, SMALL, traced

MESHES = [{"a": 2}, {"a": 4}, {"a": 8}, {"a": 2, "b": 2}, {"a": 4, "b": 2}, {"a": 2, "b": 4}]


def tables_of(program: ml.Program, mesh: ml.Mesh) -> tuple[Space, tuple[Table, ...]]:
    space = space_of(program, mesh.axes)
    follows = provenance(program)
    parts = parts_of(space, (space.free(dims) for dims in follows.values()))
    return space, traffic_tables(space, parts, follows, lambda splits: sent_by_value(program.plan(mesh, dict(splits))))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("axes", MESHES, ids=str)
def test_tables_add_up_for_every_layout(name, axes):
    program, mesh = traced(name), ml.mesh(**axes)
    space, tables = tables_of(program, mesh)
    for splits in space.splits():
        assert total(tables, splits) == pytest.approx(program.plan(mesh, dict(splits)).wire_bytes), dict(splits)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in SMALL])
@pytest.mark.parametrize("axes", [{"a": 4}, {"a": 4, "b": 2}], ids=str)
def test_tables_add_up_for_random_layouts_of_many_dims(name, axes):
    program, mesh = traced(name), ml.mesh(**axes)
    space, tables = tables_of(program, mesh)
    layouts = sorted(space.splits(), key=sorted)
    for splits in random.Random(0).sample(layouts, min(len(layouts), 30)):
        assert total(tables, splits) == pytest.approx(program.plan(mesh, dict(splits)).wire_bytes), dict(splits)


@pytest.mark.parametrize("name", awkward.PROGRAMS)
@pytest.mark.parametrize("axes", [{"a": 2}, {"a": 4, "b": 2}], ids=str)
def test_tables_add_up_for_awkward_programs(name, axes):
    program, mesh = awkward.program(name), ml.mesh(**axes)
    space, tables = tables_of(program, mesh)
    layouts = sorted(space.splits(), key=sorted)
    for splits in random.Random(0).sample(layouts, min(len(layouts), 60)):
        assert total(tables, splits) == pytest.approx(program.plan(mesh, dict(splits)).wire_bytes), dict(splits)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("axes", MESHES, ids=str)
def test_no_plan_sends_less(name, axes):
    program, mesh = traced(name), ml.mesh(**axes)
    every = planned_layouts(program, mesh)
    choice = ml.auto.layout(program, mesh)
    assert choice.proof.value == pytest.approx(every[0].value)
    # Of equals, the fewest dims are split.
    fewest = min(len(p.splits) for p in every if p.value == pytest.approx(every[0].value))
    assert len(choice.layout.rules) == fewest


@pytest.mark.parametrize(
    ("name", "axes", "layout"),
    [
        ("transformer_sgd", {"data": 4}, "batch:data"),
        ("transformer_sgd", {"data": 4, "model": 2}, "batch:data ffn:model heads:model vocab:model"),
        ("transformer_adamw", {"data": 2, "model": 2}, "batch:data ffn:model heads:model vocab:model"),
        ("block", {"model": 4}, "d_ff:model heads:model"),
        ("block", {"data": 2, "model": 2}, "batch:data d_ff:model heads:model"),
        ("two_layer", {"model": 4}, "hidden:model"),
    ],
)
def test_it_finds_what_people_use(name, axes, layout):
    assert str(ml.auto.layout(traced(name), ml.mesh(**axes)).layout) == layout


def test_what_is_sent_by_value_is_what_is_sent():
    for name in MODELS:
        plan = traced(name).plan(ml.mesh(a=2, b=2), "batch:a embed?:b hidden?:b")
        assert sum(sent_by_value(plan).values()) == pytest.approx(plan.wire_bytes)


def test_a_shift_is_sent_by_the_value_that_it_makes():
    Batch, Length = ml.dims(batch=4, length=16)
    program = ml.trace(lambda x: ml.shift(x, Length, 3), ml.f32[Batch, Length])
    plan = program.plan(ml.mesh(a=4), "length:a")
    assert plan.wire_bytes > 0
    assert sum(sent_by_value(plan).values()) == plan.wire_bytes
    space, tables = tables_of(program, ml.mesh(a=4, b=2))
    for splits in space.splits():
        assert total(tables, splits) == program.plan(ml.mesh(a=4, b=2), dict(splits)).wire_bytes


def test_renames_and_sorted_dims_are_in_the_tables():
    """Moves that no zoo model has: a rename on both sides, a dim that must be whole, a maximum over a split dim."""
    Batch, Seq, Embed = ml.dims(batch=4, seq=4, embed=8)

    def fn(x, w):
        y = ml.sort(ml.relu(x.rename(seq="key")), "key")
        weights = ml.softmax(ml.dot(x, y, Embed), "key")
        return ml.dot(weights, w, "key").sum(Seq), y

    program = ml.trace(fn, ml.f32[Batch, Seq, Embed], ml.f32[ml.Dim("key", 4), Embed])
    for axes in ({"a": 2}, {"a": 2, "b": 4}):
        mesh = ml.mesh(**axes)
        space, tables = tables_of(program, mesh)
        for splits in space.splits():
            assert total(tables, splits) == pytest.approx(program.plan(mesh, dict(splits)).wire_bytes), dict(splits)


def test_few_plans_cover_all_parts():
    space = Space(
        {"m": 2, "n": 2}, {d: ("m", "n", None) for d in "abcd"}, frozenset({frozenset("ab"), frozenset("cd")})
    )
    sets = [frozenset("ab"), frozenset("cd"), frozenset("bc")]
    parts = parts_of(space, sets)
    planned = covering(space, parts)
    covered = {image for layout in planned for image in images(space, layout)}
    for dims, given in parts.items():
        for part in given:
            assert any({pair for pair in layout if pair[0] in dims} == part for layout in covered)
    assert len(planned) < sum(map(len, parts.values())) / 2


def test_axes_of_one_size_change_places():
    space = Space({"m": 2, "n": 2, "o": 4}, {"a": ("m", "n", "o", None)}, frozenset())
    assert images(space, frozenset({("a", "m")})) == [frozenset({("a", "m")}), frozenset({("a", "n")})]
    assert images(space, frozenset({("a", "o")})) == [frozenset({("a", "o")})] * 2
