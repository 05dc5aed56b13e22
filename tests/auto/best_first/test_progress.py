"""How far a search is, is told on its way: each better layout, each hundredth of the gap, and every ten plans."""

from __future__ import annotations

import itertools

import meshlab as ml
from tests.auto.best_first.programs import grown

MESH = ml.mesh("v5p:2x2x2", a=4, b=2)


def test_it_is_told_before_anything_better_is_met() -> None:
    heard: list[ml.auto.Found] = []
    choice = ml.auto.layout(grown("mlp_adamw"), MESH, exact=True, progress=heard.append)
    values, bounds = [found.value for found in heard], [found.bound for found in heard]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert (values[-1], bounds[-1], heard[-1].gap) == (choice.proof.value, choice.proof.value, 0.0)
    assert [found.plans for found in heard] == sorted(found.plans for found in heard)
    assert len(heard) > len(set(values)), "it is told that the search is further, too"
    begun = list(itertools.dropwhile(lambda found: found.bound == 0, heard))
    for before, after in itertools.pairwise(begun[:-1]):
        closer = after.bound - before.bound >= 0.01 * after.value
        assert after.value < before.value or closer or after.plans - before.plans >= 10
