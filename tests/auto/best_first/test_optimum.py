"""The optimum is that of brute force over real plans, with and without a cap on memory; no recipe is better."""

from __future__ import annotations

import functools

import pytest

import meshlab as ml
from benchmarks import optima
from meshlab.auto.best_first.pricer import LayoutPrice
from meshlab.auto.best_first.recipes import recipes
from meshlab.auto.brute_force import priced_layouts
from tests.auto.best_first.programs import FEW, MODELS, grown

MESHES = {
    "one axis": ml.mesh("v5p:2x2x2", a=8),
    "two axes": ml.mesh("v5p:2x2x2", a=4, b=2),
    "h100": ml.mesh("h100:8", a=2, b=4),
}


@functools.cache
def priced(name: str, on: str) -> list[LayoutPrice]:
    return list(priced_layouts(grown(name), MESHES[on]))


@pytest.mark.share(12)
@pytest.mark.parametrize("on", MESHES)
@pytest.mark.parametrize("name", FEW)
def test_time_under_caps_is_that_of_brute_force(name: str, on: str) -> None:
    prices, mesh = priced(name, on), MESHES[on]
    capacity = mesh.on.hardware.memory_bytes
    fastest, peaks = min(prices, key=lambda price: price.seconds), sorted(price.peak_bytes for price in prices)
    caps = [None, (fastest.peak_bytes - 1) / capacity, (peaks[len(peaks) // 50] + 1) / capacity]
    for cap in caps:
        fitting = [price for price in prices if cap is None or price.peak_bytes <= cap * capacity]
        if not fitting:
            with pytest.raises(ml.auto.NothingFits):
                ml.auto.layout(grown(name), mesh, exact=True, memory=cap)
            continue
        choice = ml.auto.layout(grown(name), mesh, exact=True, memory=cap)
        least = min(price.seconds for price in fitting)
        assert optima.of_space(choice) == pytest.approx(least, rel=1e-12)
        assert choice.proof.value <= least * (1 + 1e-12)
        assert choice.proof.gap == 0
        assert cap is None or choice.plan.memory.donated.peak_bytes <= cap * capacity


@pytest.mark.share(12)
@pytest.mark.parametrize("on", MESHES)
@pytest.mark.parametrize("name", FEW)
def test_the_least_peak_is_that_of_brute_force(name: str, on: str) -> None:
    choice = ml.auto.layout(grown(name), MESHES[on], objective="memory", exact=True)
    least = min(price.peak_bytes for price in priced(name, on))
    assert optima.of_space(choice) == least
    assert choice.proof.value <= least


@pytest.mark.share(12)
@pytest.mark.parametrize("machine", ["v5e:2x4", "h100:8"])
@pytest.mark.parametrize("name", ["transformer_adamw", "t5_adafactor", "moe_sgd", "convnet_sgd", "plain"])
def test_no_recipe_is_faster(name: str, machine: str) -> None:
    program = optima.grown(MODELS["gpt2_adamw" if name == "plain" else name].trace())
    mesh = ml.mesh(machine, data=2, model=4)
    choice = ml.auto.layout(program, mesh, seconds=0.1, memory=None)
    assert choice.proof.plans > 5
    for recipe, layout in recipes(program, mesh):
        assert program.plan(mesh, layout).time.estimate >= choice.proof.value / 1.006, recipe


def test_where_a_bound_does_not_hold_all_are_taken_lower_or_for_nothing() -> None:
    """Weights that are large beside activations are computed where they are stored: two bounds do not hold."""
    program, mesh = MODELS["block"].trace(), ml.mesh("v5e:2x4", a=8)
    lower = ml.auto.layout(program, mesh)
    assert "some bounds did not hold, and were taken " in lower.proof.method
    assert 0.5 < lower.answer.search.trust < 1
    surest = ml.auto.layout(program, mesh, exact=True)
    assert "no longer counted, except the safest" in surest.proof.method
    assert surest.answer.search.trust == 0
    assert lower.proof.value <= surest.proof.value * 1.01
    assert optima.of_space(surest) == min(price.seconds for price in priced_layouts(program, mesh))
