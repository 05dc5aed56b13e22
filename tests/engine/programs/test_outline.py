"""What is planned once for all repetitions is what planning every operation for itself comes to."""

import dataclasses
from collections import Counter

import jax
import pytest

import meshlab as ml
from meshlab.api.stages import Plan
from meshlab.engine.code.operations import Block, walk
from meshlab.engine.legality.examine import resolve
from meshlab.engine.planning.plan_steps import plan_steps
from meshlab.engine.planning.shared_steps import counted
from meshlab.engine.planning.step import unfolded
from meshlab.engine.planning.steps import Compute, Move
from meshlab.engine.programs.outline import Repetition, outline, outline_of
from meshlab.engine.specs.spec import Grid
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.language import llama
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from tests.engine.small_programs import A, B, C, D

LAYERS = 5


def net(params, x):
    """Layers whose weights a tag, a rename, a mask made on the spot and a maximum along a split dim meet."""

    def loss(params):
        y = x
        for w, v in params:
            hidden = ml.relu(ml.dot(y, w, "b"))
            hidden = ml.where(hidden > hidden.max("c") * 0.5, hidden, 0.0)
            y = ml.tag(ml.dot(hidden, v, "c") + y, "residual").rename(a="c").rename(c="a")
        return ml.square(y).sum()

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)


NET = ([(ml.f32[B, C], ml.f32[C, B]) for _ in range(LAYERS)], ml.f32[A, B])


def accumulated(params, batches):
    """The same layers inside a scan over batches, whose gradients gather in its carry."""

    def turn(total, x):
        value, new = net(params, x)
        return jax.tree.map(lambda t, w: t + w, total, new), value

    return ml.scan(turn, jax.tree.map(lambda w: w * 0.0, params), batches, "d")


def edges(x, w):
    """Every layer asks for the edges of one value, which are sent once, and for those of its own."""
    y = x
    for _ in range(LAYERS):
        y = ml.tanh(ml.shift(y, "a", 1) * w + ml.shift(x, "a", 1))
    return y


def recomputed(params, x):
    def layer(y, pair):
        w, v = pair
        return ml.dot(ml.tanh(ml.dot(y, w, "b")), v, "c") + y

    def loss(params):
        y = x
        for pair in params:
            y = jax.checkpoint(layer)(y, pair)
        return ml.square(y).sum()

    return jax.value_and_grad(loss)(params)


def llama_step():
    config, optimizer = llama.Config(layers=4, unrolled=True), training.adamw()
    params = shapes(llama.init, config)
    arguments = (params, jax.eval_shape(optimizer.init, params), *llama.inputs(config))
    return ml.trace(training.adamw_step(llama.loss, optimizer), *arguments)


PROGRAMS = {
    "net": lambda: ml.trace(net, *NET),
    "accumulated": lambda: ml.trace(accumulated, NET[0], ml.f32[D, A, B]),
    "edges": lambda: ml.trace(edges, ml.f32[A, B], ml.f32[A, B]),
    "recomputed": lambda: ml.trace(recomputed, *NET),
    "llama": llama_step,
}
# So many layouts are planned; the first few of them are compiled as well.
COUNTS = {"net": (60, 4), "accumulated": (40, 2), "edges": (20, 3), "recomputed": (40, 2), "llama": (8, 1)}


def both(program, mesh, layout):
    """A program planned without an outline, and with one that finds short stretches too."""
    rules = resolve(program, mesh, layout)
    grid = Grid(mesh.axes, rules.padded)
    plans = []
    for repetitions in ({}, outline_of(program, 10, 4)):
        own = dataclasses.replace(program)
        own.scoped_analyses[outline] = (
            repetitions  # in the place of the one that would be worked out, for stretches worth it
        )
        plans.append(Plan(own, mesh, layout, rules, plan_steps(own, rules, grid, repetitions)))
    return plans


def totals(plan):
    """Bytes and number of the collectives, by all that is told of them but for the value's name and place.

    An outline names the first of its repetitions: the first layer's input is the argument `x`, the next one's is not.
    """
    sums = Counter()
    for c in plan.collectives:
        moved = c.moved and c.moved._replace(place=None)
        bare = dataclasses.replace(c, times=1, value="", because="", proposed=(), moved=moved)
        sums[bare] += c.times
    return sums


@pytest.mark.share(20)
@pytest.mark.parametrize("name", PROGRAMS)
def test_step_by_step_the_plan_is_the_one_without_an_outline(name):
    program = PROGRAMS[name]()
    count, compiled = COUNTS[name]
    for position, (mesh, layout) in enumerate(draw(program, seed=7, count=count)):
        flat, outlined = both(program, mesh, layout)
        assert len(outlined.planned.steps) < len(flat.planned.steps) or name == "accumulated"
        assert outlined.steps == flat.steps, f"{layout} on {mesh}"
        assert outlined.producer_specs == flat.producer_specs, f"{layout} on {mesh}"
        assert totals(outlined) == totals(flat), f"{layout} on {mesh}"
        if position < compiled:
            report = outlined.check()
            assert report.ok, f"{layout} on {mesh}:\n{report}"
    jax.clear_caches()


def items_of(program):
    outline = outline_of(program, 10, 4)
    return [item for items in outline.values() for item in items]


def test_layers_of_a_loop_are_repetitions_inside_scans_too():
    for name in ("net", "accumulated"):
        groups = Counter(item.representative for item in items_of(PROGRAMS[name]()) if isinstance(item, Repetition))
        assert max(len(first.operations) * count for first, count in groups.items()) > 4 * LAYERS


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_outline_holds_every_operation_once(name):
    program = PROGRAMS[name]()
    for block, items in outline_of(program, 10, 4).items():
        flat = [op for item in items for op in (item.operations if isinstance(item, Repetition) else (item,))]
        assert tuple(flat) == block.operations


@pytest.mark.parametrize("name", PROGRAMS)
def test_repetitions_are_alike_to_the_number(name):
    program = PROGRAMS[name]()
    for repetition in (item for item in items_of(program) if isinstance(item, Repetition)):
        blocks = (Block((), each.operations, ()) for each in (repetition.representative, repetition))
        for first, own in zip(*map(walk, blocks), strict=True):
            assert repetition.counterparts[first] is own
            assert [repetition.from_representative[v] for v in first.reads] == list(own.reads)
            assert [repetition.from_representative[v] for v in first.outputs] == list(own.outputs)
            assert [program.code.shapes[v] for v in first.outputs] == [program.code.shapes[v] for v in own.outputs]


def test_only_long_blocks_are_looked_through():
    program = PROGRAMS["net"]()
    assert outline_of(program, least_operations=10_000) == {}
    assert outline(program) == {}


def test_what_is_wired_otherwise_is_no_repetition():
    def fn(x):
        y = x
        for number in range(12):
            y = ml.exp(y) * y + (x if number < 6 else y)
        return y

    (items,) = outline_of(ml.trace(fn, ml.f32[A]), 1, 4).values()
    groups = Counter(item.representative for item in items if isinstance(item, Repetition))
    assert len(groups) == 2
    assert all(len(repetition.operations) * count >= 3 * 5 for repetition, count in groups.items())


def test_the_table_of_a_deep_model_is_short():
    def fn(weights, x):
        for w, v in weights:
            x = ml.dot(ml.relu(ml.dot(x, w, "b")), v, "c")
        return x

    program = ml.trace(fn, [(ml.f32[B, C], ml.f32[C, B]) for _ in range(150)], ml.f32[A, B])
    plan = program.plan(ml.mesh(x=4), "c:x")
    assert {c.kind for c in plan.collectives} == {"all-reduce"}
    assert sum(c.times for c in plan.collectives) == 150
    assert len(plan.collectives) < 5


def test_a_row_of_several_copies_names_the_places_of_all():
    def fn(weights, x):
        for w in weights:
            x = ml.relu(ml.dot(x, w["in"], "b")).rename(c="b")
        return x

    Square = ml.dims(c=B.size)[0]
    layer = {"in": ml.f32[B, Square]}
    program = ml.trace(fn, [layer] * 120, ml.f32[A, B])
    rows = program.plan(ml.mesh(x=4), {"weights/*": {"b": "x"}}).collectives
    merged = [row for row in rows if row.times > 1]
    assert {row.value for row in merged} == {"weights/*/in"}
    assert all("weights/*/" in row.because for row in merged)


def test_of_parts_alike_the_first_is_counted_for_all():
    program = PROGRAMS["net"]()
    flat, outlined = both(program, ml.mesh(x=2), "a:x")
    for kind in (Compute, Move):
        alone = sum(times for step, times in counted(flat.planned.steps) if isinstance(step, kind))
        assert sum(times for step, times in counted(outlined.planned.steps) if isinstance(step, kind)) == alone
    assert len(list(counted(outlined.planned.steps))) < len(list(counted(flat.planned.steps)))
    assert unfolded(flat.planned.steps) == flat.planned.steps
