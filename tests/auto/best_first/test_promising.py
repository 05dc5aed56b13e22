"""Large spaces: what points may cost says where to look first, and proves nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import meshlab as ml
from benchmarks import optima
from meshlab.auto.best_first import fastest
from meshlab.auto.best_first.bounds import compute_bounds
from meshlab.auto.best_first.fastest import Fastest
from meshlab.auto.best_first.points import Point
from meshlab.auto.best_first.pricer import Pricer
from meshlab.auto.best_first.promising import estimates
from meshlab.auto.best_first.space import search_space
from meshlab.auto.brute_force import priced_layouts
from meshlab.auto.request.answer import Found, Limits
from meshlab.cost.workload.options import Options
from meshlab.models.published import published
from tests.auto.best_first.programs import MODELS, grown

SPACES = {
    "moe_sgd": ml.mesh("h100:4x8", a=4, b=2, c=4),
    "transformer_adamw": ml.mesh("v5p:2x2x2", a=2, b=2, c=2),
}


@pytest.mark.nightly
def test_what_promises_most_is_faster_than_luck_and_than_what_kernels_promise() -> None:
    program = published()["mixtral-8x7b"].trace()
    pricer = Pricer(program, ml.mesh("h100:8x8", data=4, expert=4, model=4), Options())
    space = search_space(pricer)
    unsplit = pricer.price(ml.Layout())
    assert unsplit is not None
    kernels = compute_bounds(space, unsplit)
    promised = estimates(space, pricer, unsplit, kernels, lambda: False)

    def seconds(order: np.ndarray) -> float:
        """The median of the first points in an order."""
        found = []
        for place in itertools.islice(zip(*np.unravel_index(order, kernels.shape), strict=True), 5000):
            computed = tuple(sets[i] for sets, i in zip(space.sets, place, strict=True))
            if len(found) < 12 and space.divides(space.rules(computed)):
                price = pricer.price(space.layout(Point(computed, space.storages(computed)[0])))
                found += [price.seconds] if price is not None else []
        assert len(found) == 12
        return float(np.median(found))

    luck = seconds(np.random.default_rng(0).permutation(kernels.size))
    assert 2 * seconds(np.argsort(promised, axis=None, kind="stable")) < luck
    assert seconds(np.argsort(promised, axis=None, kind="stable")) < seconds(np.argsort(kernels, axis=None))


@pytest.mark.parametrize("name", ["mlp_sgd", "two_layer"])
def test_the_optimum_is_that_of_brute_force(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest, "_LARGE", 0)
    program, mesh = grown(name), ml.mesh("h100:8", a=2, b=4)
    choice = ml.auto.layout(program, mesh, exact=True, memory=None)
    least = min(price.seconds for price in priced_layouts(program, mesh))
    assert optima.of_space(choice) == pytest.approx(least, rel=1e-12)
    assert choice.proof.gap == 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", SPACES)
def test_looking_ahead_finds_no_worse_in_as_many_plans(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[int, Found] = {}
    for large in (0, 10**12):
        monkeypatch.setattr(fastest, "_LARGE", large)
        pricer = Pricer(optima.grown(MODELS[name].trace()), SPACES[name], Options())
        search = Fastest(search_space(pricer), pricer, Limits(tolerance=0.01))
        found[large] = list(itertools.takewhile(lambda each: each.plans < 300, search.run()))[-1]
    assert found[0].value <= found[10**12].value * 1.001
    assert found[0].bound <= found[0].value
