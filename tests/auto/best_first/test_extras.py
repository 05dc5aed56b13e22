"""Layouts on an axis in time, and with rules in scopes: found by themselves, and equal to brute force."""

from __future__ import annotations

import pytest

import meshlab as ml
from benchmarks.techniques.steps import TWO_TOWERS
from meshlab.auto.best_first.points import Point
from meshlab.auto.best_first.pricer import Pricer
from meshlab.auto.best_first.space import search_space
from meshlab.auto.brute_force import priced_layouts
from meshlab.cost.workload.options import USUAL
from tests.auto.best_first.programs import grown, llama3, mixtral

pytestmark = pytest.mark.share(12, of="file")

IN_TIME = ml.mesh("v5p:2x2x2", a=4, b=2, micro=ml.serial(4))
LOOKUP = ["@lookup"]


def assert_found(choice: ml.auto.Choice, best: float) -> None:
    """The best of the space is found; what is better yet is outside of it, and made by single changes."""
    if choice.proof.made:
        assert choice.proof.value < best
    else:
        assert choice.proof.value == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("name", ["mlp_sgd", "mlp_adamw", "two_layer", "autoencoder"])
def test_in_time_it_is_that_of_brute_force(name: str) -> None:
    prices, capacity = list(priced_layouts(grown(name), IN_TIME)), IN_TIME.on.hardware.memory_bytes
    peaks = sorted(price.peak_bytes for price in prices)
    for most in (peaks[0], peaks[len(peaks) // 50], peaks[len(peaks) // 2]):
        choice = ml.auto.layout(grown(name), IN_TIME, exact=True, memory=(most + 1) / capacity)
        best = min(price.seconds for price in prices if price.peak_bytes <= most + 1)
        assert_found(choice, best)
        assert choice.proof.gap == 0
    least = ml.auto.layout(grown(name), IN_TIME, objective="memory", exact=True)
    assert_found(least, peaks[0])


def test_in_a_scope_it_is_that_of_brute_force() -> None:
    program, mesh = TWO_TOWERS.program("middle"), ml.mesh("v5p:2x2x2", data=8)
    prices = list(priced_layouts(program, mesh, scopes=LOOKUP))
    assert len(prices) > len(list(priced_layouts(program, mesh)))
    capacity, peaks = mesh.on.hardware.memory_bytes, sorted(price.peak_bytes for price in prices)
    for most in (capacity, peaks[len(peaks) // 2], peaks[0] + 1):
        found = ml.auto.layout(program, mesh, scopes=LOOKUP, exact=True, memory=most / capacity)
        wanted = min(price.seconds for price in prices if price.peak_bytes <= most)
        assert_found(found, wanted)


@pytest.mark.nightly
def test_micro_batches_where_memory_binds() -> None:
    sizes = {"data": 4, "model": 4}
    with pytest.raises(ml.auto.NothingFits):
        ml.auto.layout(llama3("8b", 64), ml.mesh("v5e:4x4", **sizes))
    mesh = ml.mesh("v5e:4x4", **sizes, micro=ml.serial(8))
    choice = ml.auto.layout(llama3("8b", 64), mesh, tolerance=0.05)
    assert choice.layout.rules["batch"][-1] == "micro"
    assert "with and without `micro`" in choice.proof.searched
    assert choice.plan.memory.donated.fits
    assert {regret.change: regret.layout for regret in choice.regrets}["nothing on `micro`"] is None
    roomy = ml.auto.layout(llama3("8b", 64), ml.mesh("v5p:4x4x4", data=16, model=4, micro=ml.serial(4)))
    assert not any("micro" in axes for axes in roomy.layout.rules.values())


def test_groups_go_with_the_batch() -> None:
    mesh = ml.mesh("v5p:2x2x2", data=8, micro=ml.serial(4))
    space = search_space(Pricer(mixtral(32), mesh, USUAL))
    assert space.extras.in_time == (frozenset({"batch", "groups"}),)
    computed = (frozenset({"batch", "groups"}),)
    for extra in space.beside(computed):
        rules = mixtral(32).plan(mesh, space.layout(Point(computed, extra=extra))).layout.rules
        assert ("micro" in rules.get("groups", ())) == ("micro" in rules["batch"]) == bool(extra.blocks)


def test_tables_are_looked_up_where_their_rows_are() -> None:
    program = TWO_TOWERS.program("large")
    choice = ml.auto.layout(program, ml.mesh("v5p:2x2x2", data=8), scopes=LOOKUP)
    assert choice.layout.rules == {"batch": ("data",)}
    assert choice.layout.scopes == {"@lookup": {"users": ("data",), "items": ("data",), "batch": ()}}
    table = 4 * program.dims["items"] * program.dims["embed"] / 8
    assert all(sent.payload_bytes < table for sent in choice.plan.collectives)
    assert "`@lookup` computed otherwise" in choice.proof.searched
    without = next(regret for regret in choice.regrets if regret.change == "no rules in `@lookup`")
    assert without.seconds > choice.proof.value
    plain = ml.auto.layout(program, choice.plan.mesh)
    assert without.bound <= plain.proof.value
    pinned = ml.auto.layout(program, choice.plan.mesh, pin=choice.layout, scopes=LOOKUP)
    assert pinned.layout.scopes == choice.layout.scopes


def test_scopes_that_are_none() -> None:
    program, mesh = grown("mlp_sgd"), ml.mesh("v5p:2x2x2", data=8)
    towers = TWO_TOWERS.program("middle")
    with pytest.raises(ml.LayoutError, match=r"no operation is in a scope '@core'"):
        ml.auto.layout(program, mesh, scopes=["@core"])
    with pytest.raises(
        ml.LayoutError, match=r'(?s)1\. pin: .*`bach`.*2\. scopes: a scope begins with `@`: write "@lookup"'
    ):
        ml.auto.layout(towers, mesh, pin="bach:data", scopes="lookup")
    with pytest.raises(ml.LayoutError, match=r"scopes: no operation .*'@lokup'; .*Did you mean `@lookup`"):
        ml.auto.layout(towers, mesh, scopes=["@lokup"])
    with pytest.raises(ml.LayoutError, match=r'a search for "live" has no rules in scopes: leave'):
        ml.auto.layout(towers, mesh, scopes=LOOKUP, objective="live")
    with pytest.raises(ml.LayoutError, match="scopes: no operation is in a scope 3"):
        ml.auto.layout(towers, mesh, scopes=[3])  # type: ignore[list-item]
    with pytest.raises(ml.LayoutError, match="scopes=3: give globs of scopes"):
        ml.auto.layout(towers, mesh, scopes=3)  # type: ignore[arg-type]
