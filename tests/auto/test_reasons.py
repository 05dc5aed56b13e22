"""Why a layout is the best: every figure is held to plans of its own."""

from __future__ import annotations

import functools
import itertools
import json
import threading

import jax
import pytest

import meshlab as ml
from meshlab.auto.best_first.pricer import Pricer
from meshlab.auto.brute_force import priced_layouts
from meshlab.auto.reasons.waterfall import Waterfall, waterfall
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.cost.workload.options import Options
from meshlab.engine.specs.layout import LayoutLike
from tests.auto.best_first.programs import grown

pytestmark = pytest.mark.share(2, of="file")

MESH = ml.mesh("v5p:2x2x2", a=4, b=2)
MANUAL = "batch:a ffn:b"


@functools.cache
def chosen(memory: float | None = None) -> ml.auto.Choice:
    return ml.auto.layout(grown("mlp_adamw"), MESH, exact=True, memory=memory)


@functools.cache
def tight() -> ml.auto.Choice:
    return chosen(0.9 * chosen().plan.memory.donated.peak_bytes / MESH.on.hardware.memory_bytes)


def test_the_waterfall_goes_from_mine_to_the_best_by_real_plans() -> None:
    choice = tight()
    way = choice.waterfall(MANUAL)
    first, *_, last = way.steps
    assert (first.change, str(first.layout)) == ("yours", MANUAL)
    assert last.layout == choice.layout
    for step in way.steps:
        plan = grown("mlp_adamw").plan(MESH, step.layout)
        measured = (plan.time.estimate, plan.wire_bytes, plan.memory.donated.peak_bytes)
        assert (step.seconds, step.wire_bytes, step.peak_bytes) == measured
    lines = str(way).splitlines()
    assert lines[0].split() == ["step", "change", "bytes", "sent", "peak"]
    assert len(lines) == len(way.steps) + 1
    assert "<th" in way._repr_html_()
    assert json.loads(json.dumps(way.to_dict()))[0]["layout"] == {"batch": "a", "ffn": "b"}


def test_changes_that_are_not_legal_alone_are_made_together() -> None:
    choice = ml.auto.layout(grown("mlp_sgd"), MESH, pin="batch:a ffn:b", memory=None)
    way = choice.waterfall("batch:b ffn:a")
    assert way.steps[-1].layout == choice.layout
    assert any(";" in step.change for step in way.steps)


def every_order(pricer: Pricer, way: Waterfall) -> list[list[float]]:
    """The seconds of the steps of every order of the same single changes, where each is legal."""
    first, last = way.steps[0].layout, way.steps[-1].layout
    dims = [dim for dim in dict.fromkeys((*first.rules, *last.rules)) if first.rules.get(dim) != last.rules.get(dim)]
    globs = dict.fromkeys((*first.places, *last.places))
    places = [glob for glob in globs if first.places.get(glob) != last.places.get(glob)]
    orders = []
    for order in itertools.permutations([*dims, *places]):
        rules, seconds = first.to_dict(), []
        for key in order:
            rules = {name: own for name, own in rules.items() if name != key}
            rules |= {key: own} if (own := last.to_dict().get(key)) is not None else {}
            price = pricer.price(ml.Layout.of(rules))
            if price is None:
                break
            seconds.append(price.seconds)
        else:
            orders.append(seconds)
    return orders


# Layouts between which the change that saves most at once leads through a step that is slower than both ends.
AROUND = [
    ("two_layer", "v5p:2x2x2", {"batch": "b+a", "params/*": {"hidden": "a"}}, "batch:b hidden:a", True),
    ("two_layer", "v5p:2x2x2", {"batch": "b", "hidden": "a", "params/*": {"hidden": "a+b"}}, "batch:a+b", False),
    ("two_layer", "v5p:2x2x2", "batch:a+b", "batch:a hidden:b", False),
    ("autoencoder", "h100:8", {"batch": "a", "params/*": {"hidden_even": "a"}}, {"batch": "b"}, True),
]


@pytest.mark.parametrize(("name", "on", "mine", "best", "there_is"), AROUND)
def test_no_step_is_slower_than_both_ends_where_an_order_of_the_changes_has_none(
    name: str, on: str, mine: LayoutLike, best: LayoutLike, there_is: bool
) -> None:
    mesh = ml.mesh(on, a=4, b=2) if on.startswith("v5p") else ml.mesh(on, a=2, b=4)
    pricer = Pricer(grown(name), mesh, Options())
    way = waterfall(pricer, ml.Layout.of(mine), ml.Layout.of(best))
    slower_end = max(way.steps[0].seconds, way.steps[-1].seconds)
    worst = max(step.seconds for step in way.steps)
    least = min(max(seconds) for seconds in every_order(pricer, way))
    assert worst == max(least, slower_end)
    assert (worst <= slower_end) == there_is == (way.order == "")
    assert way.order in str(way)
    assert way.order in way._repr_html_()


def test_where_plans_do_not_suffice_the_order_says_so() -> None:
    pricer = Pricer(grown("two_layer"), ml.mesh("v5p:2x2x2", a=4, b=2), Options())
    pauses = []
    mine, best = ml.Layout.of({"batch": "b", "hidden": "a", "params/*": {"hidden": "a+b"}}), ml.Layout.of("batch:a+b")
    way = waterfall(pricer, mine, best, lambda: pauses.append(1), plans=0)
    assert way.order == "An order in which no layout is slower than both ends was not found in 0 plans."
    assert pauses
    assert way.steps[-1].layout == best


def test_regrets_are_brackets_and_exact_ones_are_those_of_brute_force() -> None:
    choice = tight()
    limit = choice.asked.limits.most_bytes
    assert limit is not None
    fitting = [p for p in priced_layouts(grown("mlp_adamw"), MESH) if p.peak_bytes <= limit]
    exact = {regret.change: regret for regret in choice.exact_regrets()}
    met = {regret.change: regret for regret in choice.regrets}
    assert exact.keys() == met.keys()
    for dim, axes in choice.layout.dim_rules:
        for axis in axes:
            others = [p.seconds for p in fitting if axis not in p.layout.rules.get(dim, ())]
            regret = exact[f"`{dim}` off `{axis}`"]
            assert regret.seconds == pytest.approx(min(others), rel=1e-12)
            assert met[regret.change].bound * (1 - 1e-6) <= regret.seconds <= met[regret.change].seconds * (1 + 1e-12)
    stored = [p.seconds for p in fitting if not p.layout.places]
    if choice.layout.places:
        assert exact["stored as computed with"].seconds == pytest.approx(min(stored, default=float("inf")))
    assert "+" in str(choice.regrets[0])


def test_a_pinned_search_finds_nothing_better_than_an_exact_regret() -> None:
    """What stores gradients split is a preset, outside of the space: a regret of 77% was said, and 54% is so."""
    Batch, Embed, Ffn = ml.dims(batch=8192, embed=4096, ffn=16384)

    def loss(params, x):
        return ml.square(ml.dot(ml.relu(ml.dot(x, params["up"], Embed)), params["down"], Ffn) - x).mean()

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)

    weights = {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Embed]}
    program, mesh = ml.trace(step, weights, ml.f32[Batch, Embed]), ml.mesh("h100:1x8", x=8)
    choice = ml.auto.layout(program, mesh)
    assert str(choice.layout) == "ffn:x"
    (regret,) = choice.exact_regrets()
    assert regret.exact
    assert regret.seconds <= ml.auto.layout(program, mesh, pin="batch:x").proof.value * (1 + 1e-9)
    assert regret.layout is not None
    assert program.plan(mesh, regret.layout).time.estimate == pytest.approx(regret.seconds)


def test_the_front_is_that_of_brute_force() -> None:
    prices = list(priced_layouts(grown("mlp_adamw"), MESH))
    points = chosen().exact_pareto(20)
    assert points[0].seconds == min(p.seconds for p in prices)
    for before, point in itertools.pairwise(points):
        cap = before.peak_bytes * 0.9
        assert point.seconds == pytest.approx(min(p.seconds for p in prices if p.peak_bytes <= cap), rel=1e-12)
        assert point.peak_bytes <= cap
    for wrong in (-1, 0, 2.5, True):
        with pytest.raises(ml.MeshlabError, match=r"the number of points .*; it must be an integer of at least 1"):
            chosen().exact_pareto(wrong)  # pyright: ignore[reportArgumentType]
    front = chosen().pareto
    assert front[0].seconds == points[0].seconds
    assert [p.seconds for p in front] == sorted(p.seconds for p in front)
    assert [p.peak_bytes for p in front] == sorted((p.peak_bytes for p in front), reverse=True)
    assert all(p.bound <= p.seconds for p in front)
    for price in chosen().alternatives:  # a point that takes half a percent more memory does for two
        assert any(p.seconds <= price.seconds and p.peak_bytes * 0.995 <= price.peak_bytes for p in front)
    assert str(points[0]).startswith("22.0 MB: ")


def test_what_binds() -> None:
    choice = tight()
    text, limit = str(choice.binding), choice.asked.limits.most_bytes
    assert limit is not None
    assert choice.binding.peak_bytes == choice.plan.memory.donated.peak_bytes
    assert choice.binding.limited_by == choice.plan.time.limited_by
    assert "exposed communication" in text
    assert f"memory: {bytes_text(choice.binding.peak_bytes)} of {bytes_text(limit)} with arguments donated" in text
    assert f"more memory, {seconds_text(choice.proof.value - chosen().proof.value)} less" in text
    assert chosen().binding.faster is None
    assert "more memory" not in str(chosen().binding)


def test_the_rank_counts_what_is_certain() -> None:
    choice = chosen()
    best = choice.rank(choice.layout)
    assert best.faster == 0
    worst = choice.rank()
    assert worst.faster > 0
    assert worst.ways == choice.proof.layouts
    by_rules: dict[tuple, float] = {}
    for price in priced_layouts(grown("mlp_adamw"), MESH):
        key = price.layout.dim_rules
        by_rules[key] = min(price.seconds, by_rules.get(key, float("inf")))
    for layout in ("", MANUAL, choice.layout):
        rank = choice.rank(layout)
        assert rank.faster <= sum(seconds < rank.seconds for seconds in by_rules.values())
        assert rank.slower <= sum(seconds > rank.seconds for seconds in by_rules.values())
    assert "are certainly faster" in str(worst)


def test_alternatives_are_those_met_the_best_first() -> None:
    prices = chosen().alternatives
    assert prices[0].seconds == chosen().proof.value
    assert [price.seconds for price in prices] == sorted(price.seconds for price in prices)


@pytest.mark.parametrize("wanted", ["alternatives", "pareto", "regrets", "binding"])
def test_other_objectives_have_none(wanted: str) -> None:
    choice = ml.auto.layout(grown("mlp_sgd"), ml.mesh(a=2), objective="traffic")
    with pytest.raises(ml.MeshlabError, match=rf"choice.{wanted} explains the fastest layout, but this search"):
        getattr(choice, wanted)


def test_exact_regrets_are_told_as_they_are_searched_for() -> None:
    choice, heard = chosen(), []
    found = choice.exact_regrets(progress=heard.append)
    assert [sum(regret.exact for regret in regrets) for regrets in heard] == list(range(1, len(found) + 1))
    assert heard[-1] == found
    changes = {regret.change for regret in found}
    assert all({regret.change for regret in regrets} == changes for regrets in heard)
    assert not any(regret.exact for regret in choice.regrets)


def test_exact_regrets_are_cancelled_between_two_plans() -> None:
    cancel, heard = threading.Event(), []

    def stop(regrets: tuple) -> None:
        heard.append(regrets)
        cancel.set()

    with pytest.raises(ml.auto.Cancelled, match="was cancelled"):
        chosen().exact_regrets(progress=stop, cancel=cancel)
    assert len(heard) == 1
    assert chosen().exact_regrets(), "the next has an event of its own"


def test_exact_regrets_take_a_function_and_an_event() -> None:
    with pytest.raises(ml.MeshlabError, match=r"exact_regrets\(\) was given progress=3; give a function, or None"):
        chosen().exact_regrets(progress=3)  # type: ignore[arg-type]
    with pytest.raises(ml.MeshlabError, match=r"was given cancel=3; give a threading.Event, say, or None"):
        chosen().exact_regrets(cancel=3)  # type: ignore[arg-type]
