"""A search on a mesh with stages: every layout of its space in a pipeline too, and no other dim on the stages."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

import meshlab as ml
from benchmarks import optima
from meshlab.auto.best_first.pricer import LayoutPrice
from meshlab.auto.best_first.recipes import recipes
from meshlab.auto.best_first.space import kinds_of
from meshlab.auto.brute_force import priced_layouts
from meshlab.cost.step_time.lockstep import free
from meshlab.engine.planning.staged import BACKWARD, FORWARD, MID, POST, PRE
from tests.auto.best_first.programs import llama3
from tests.engine.pipelines import stacks

pytestmark = pytest.mark.share(2, of="file")

Batch, Embed, Hidden, Layers, Encoders, Classes = ml.dims(
    batch=2048, embed=2048, hidden=8192, layers=8, encoders=4, classes=1024
)
MESHES = {
    "beside one axis": ml.mesh("h100:8", pipe=ml.stages(2), x=4, micro=ml.serial(4)),
    "interleaved": ml.mesh("v5e:2x2", x=2, pipe=ml.stages(2, "interleaved"), micro=ml.serial(4)),
    "1f1b": ml.mesh("h100:8", pipe=ml.stages(4, "1f1b"), x=2, micro=ml.serial(8)),
    "uneven": ml.mesh("v5e:2x2", x=2, pipe=ml.stages(2, layers=(5, 3)), micro=ml.serial(8)),
    "alone": ml.mesh("h100:4", pipe=ml.stages(4), micro=ml.serial(16)),
    "two stacks": ml.mesh("v5e:2x2", x=2, pipe=ml.stages(2), micro=ml.serial(4)),
    "two stacks, gpipe": ml.mesh("h100:8", x=2, pipe=ml.stages(4, "gpipe"), micro=ml.serial(8)),
}


@functools.cache
def grown() -> ml.Program:
    """A step of eight residual layers, large enough that layouts matter."""

    def loss(params, x, y):
        def layer(x, w):
            return x + ml.dot(ml.relu(ml.dot(x, w["up"], "embed")), w["down"], "hidden"), None

        x, _ = ml.scan(layer, x, params["layers"], Layers)
        return ((ml.dot(x, params["head"], "embed") - y) ** 2).mean()

    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    layers = {"up": ml.f32[Layers, Embed, Hidden], "down": ml.f32[Layers, Hidden, Embed]}
    params = {"layers": layers, "head": ml.f32[Embed, Classes]}
    return ml.trace(step, params, ml.f32[Batch, Embed], ml.f32[Batch, Classes])


@functools.cache
def both() -> ml.Program:
    """A step of two stacks of residual layers, of two dims; those of the second read the end of the first one."""

    def loss(params, x, y):
        def encode(x, w):
            return x + ml.dot(ml.relu(ml.dot(x, w, "embed")), w, "hidden"), None

        def decode(x, w):
            return x + ml.dot(ml.relu(ml.dot(x + end, w, "embed")), w, "hidden"), None

        end, _ = ml.scan(encode, x, params["encoder"], Encoders)
        y_hat, _ = ml.scan(decode, ml.tanh(x), params["decoder"], Layers)
        return ((y_hat - y) ** 2).mean()

    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    params = {"encoder": ml.f32[Encoders, Embed, Hidden], "decoder": ml.f32[Layers, Embed, Hidden]}
    return ml.trace(step, params, ml.f32[Batch, Embed], ml.f32[Batch, Embed])


def program_on(on: str) -> ml.Program:
    return both() if on.startswith("two stacks") else grown()


@functools.cache
def priced(on: str) -> list[LayoutPrice]:
    return list(priced_layouts(program_on(on), MESHES[on]))


def is_piped(price: LayoutPrice) -> bool:
    on_stages = {dim for dim, axes in price.layout.rules.items() if "pipe" in axes}
    assert on_stages in (set(), {"layers"}, {"layers", "encoders"})
    return bool(on_stages)


@pytest.mark.share(4)
@pytest.mark.parametrize("on", MESHES)
def test_the_optimum_is_that_of_brute_force(on):
    """Over all layouts, each in a pipeline and not; under caps that only pipelines keep to as well."""
    prices = priced(on)
    alone = [price for price in prices if not is_piped(price)]
    peaks = sorted(price.peak_bytes for price in prices)
    assert peaks[0] < min(price.peak_bytes for price in alone)
    for cap in (None, peaks[len(peaks) // 10], peaks[0]):
        least = min(price.seconds for price in prices if cap is None or price.peak_bytes <= cap)
        choice = ml.auto.layout(program_on(on), MESHES[on], exact=True, memory=None if cap is None else f"{cap} B")
        assert optima.of_space(choice) == pytest.approx(least, rel=1e-12)
        assert choice.proof.gap == 0
    smallest = ml.auto.layout(program_on(on), MESHES[on], objective="memory", exact=True)
    assert optima.of_space(smallest) == peaks[0]


@pytest.mark.parametrize("on", MESHES)
def test_no_pipeline_is_below_its_bound(on):
    """What stages leave to each device at least, and how long they wait for each other: nearly all of a large step."""
    ratios = {}
    small = program_on(on)
    for program in (small, small.resize(batch=2**18, embed=8192, hidden=32768)):
        search = ml.auto.layout(program, MESHES[on], seconds=0.1, memory=None).answer.search
        space, found = search.space, ratios.setdefault(program, [])
        for point in space.points():
            price = search.pricer.price(space.layout(point)) if point.extra.layers and not point.stored.over else None
            if price is not None:
                assert is_piped(price)
                found.append(price.seconds / search.first_bound(point.computed, in_stages=True))
        assert search.bounds.max() < search.alone.max()
    of_small, of_large = (min(found) for found in ratios.values())
    assert 1 <= of_large < min(of_small, 1.6)


@pytest.mark.parametrize("on", ["beside one axis", "interleaved", "1f1b", "alone"])
def test_stages_wait_at_least_as_long_as_their_schedule_by_itself(on):
    """Where all cells take the same, in the free-running form, which waits least."""
    mesh = MESHES[on]
    asked = dict(mesh.stages)["pipe"]
    schedule = ml.Schedule.of(str(asked.schedule or "paired"), mesh.axes["pipe"], mesh.axes["micro"])
    elapsed = free(schedule, {PRE: 0.0, FORWARD: 1.0, MID: 0.0, BACKWARD: 1.0, POST: 0.0}, 0.0, max)
    work = 2 * schedule.micro * schedule.chunks
    search = ml.auto.layout(grown(), mesh, seconds=0.1, memory=None).answer.search
    assert search.space.extras.ticks == pytest.approx(elapsed / work)


def test_what_activations_cost_is_shared_by_stages():
    """As sharp a bound without the share is above what pipelines cost."""
    mesh = ml.mesh("h100:4", pipe=ml.stages(2), x=2, micro=ml.serial(4))
    search: Any = ml.auto.layout(llama3(), mesh, seconds=0.1, memory=None).answer.search
    seen = above = 0
    for point in search.space.points():
        if not point.extra.layers or point.stored.over:
            continue
        bound = search.star.bound(point.computed, point.extra.in_one_piece)
        price = search.pricer.price(search.space.layout(point)) if bound else None
        if price is not None:
            cost = search.of_activations(price)
            assert bound * search._share(point.computed) <= cost
            seen, above = seen + 1, above + (bound > cost)
    assert seen >= above > 0


@pytest.fixture(scope="module")
def program():
    return stacks.program("plain")


def test_recipes_put_layers_alone_on_stages(program):
    mesh = ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(2))
    found = dict(recipes(program, mesh))
    on = {dim for layout in found.values() for dim, axes in layout.rules.items() if "pipe" in axes}
    assert on == {"layers"}
    assert str(found["data pipeline_parallel"]) == "batch:data+micro layers:pipe"


def test_a_pipeline_is_found_where_nothing_else_divides_the_work(program):
    best = ml.auto.layout(program, ml.mesh(pipe=ml.stages(2), micro=ml.serial(2)))
    assert str(best.layout) == "batch:micro layers:pipe"
    assert "with and without a pipeline over `pipe`" in str(best)


def test_layers_that_are_whole_or_forbidden_are_in_no_stages(program):
    mesh = ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(2))
    for pin, forbid in (({"layers": None}, None), (None, "layers:pipe")):
        best = ml.auto.layout(program, mesh, pin=pin, forbid=forbid)
        assert "layers" not in best.layout.rules
        assert "a pipeline over" not in str(best)


def test_a_pipeline_is_named_before_a_search_where_layers_are_scanned():
    mesh, rows = (
        ml.mesh(pipe=ml.stages(2), micro=ml.serial(2)),
        ml.named(jax.ShapeDtypeStruct((8, 4), float), "batch _"),
    )
    looped = ml.trace(jax.grad(lambda ws, x: functools.reduce(lambda x, w: x @ w, ws, x).sum()), [np.eye(4)] * 3, rows)
    assert "with and without a pipeline over `pipe`" in kinds_of(both(), mesh)
    assert "pipeline" not in kinds_of(looped, mesh)


def test_stages_without_micro_batches_are_left_alone(program):
    best = ml.auto.layout(program, ml.mesh(data=2, pipe=ml.stages(2)))
    assert not [dim for dim, axes in best.layout.rules.items() if "pipe" in axes]


def test_pins_that_nothing_satisfies(program):
    with pytest.raises(ml.LayoutError) as error:
        ml.auto.layout(program, ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(2)), pin="batch:pipe")
    assert "`batch` cannot be on `pipe`" in str(error.value)
    assert "over none" not in str(error.value)
