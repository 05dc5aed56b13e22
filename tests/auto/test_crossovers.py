"""Crossovers: where another layout gets the fastest, held to closed forms and to searches at each value."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.cost.machines.scaled import with_network
from tests.auto.best_first.programs import MODELS, grown, llama3

MESH = ml.mesh("v5p:2x2x2", data=8)
BATCHES = [8192, 16_384, 65_536, 131_072]


@pytest.fixture(scope="module")
def choice() -> ml.auto.Choice:
    program = MODELS["mlp_sgd"].trace().resize(batch=16_384, ffn=16_384, embed=4096)
    return ml.auto.layout(program, MESH, memory=None)


def test_along_the_batch_at_the_closed_form(choice: ml.auto.Choice) -> None:
    """Gradients of 2·ffn·embed are added up, or activations of batch·embed: they are as many where batch = 2·ffn."""
    for found in (choice.crossovers(batch=BATCHES), choice.exact_crossovers(batch=BATCHES)):
        ((before, after),) = found.flips
        assert before.layout is not None
        assert after.layout is not None
        assert (before.layout.rules, after.layout.rules) == ({"ffn": ("data",)}, {"batch": ("data",)})
        assert before.value < 2 * 16_384 < after.value
        assert [each.value for each in found.points] == BATCHES


def test_what_is_priced_at_other_sizes_is_what_is_planned_there(choice: ml.auto.Choice) -> None:
    for each in choice.crossovers(batch=BATCHES).points:
        program = choice.plan.program.resize(batch=int(each.value))
        assert program.plan(MESH, each.layout).time.estimate == pytest.approx(each.seconds, rel=1e-9)
    for each in choice.crossovers(data=[4, 8, 16]).points:
        mesh = ml.mesh("v5p", data=int(each.value))
        assert choice.plan.program.plan(mesh, each.layout).time.estimate == pytest.approx(each.seconds, rel=1e-9)
    for each in choice.crossovers(bandwidth=[0.5, 1, 4]).points:
        mesh = ml.mesh(with_network(ml.hardware("v5p"), each.value), data=8)
        assert choice.plan.program.plan(mesh, each.layout).time.estimate == pytest.approx(each.seconds, rel=1e-9)


@pytest.mark.share(3)
@pytest.mark.parametrize("on", ["v5p:2x2x2", "h100:8"])
def test_a_faster_network_never_makes_the_best_slower(on: str) -> None:
    choice = ml.auto.layout(grown("mlp_adamw"), ml.mesh(on, a=4, b=2), memory=None)
    for found in (choice.crossovers(bandwidth=[0.01, 1, 100]), choice.exact_crossovers(bandwidth=[0.01, 1, 100])):
        seconds = [each.seconds for each in found.points]
        assert seconds == sorted(seconds, reverse=True)
        assert seconds[1] == pytest.approx(choice.proof.value, rel=0.006)


@pytest.mark.nightly
def test_what_does_not_fit_is_no_answer() -> None:
    choice = ml.auto.layout(llama3("8b", 64), ml.mesh("v5p:4x4x4", data=16, model=4), tolerance=0.05)
    found = choice.crossovers(batch=[64, 1024, 65_536])
    assert found.points[0].layout is not None
    assert found.points[-1].layout is None
    assert "nothing fits" in str(found)
    assert "from here on another" in found._repr_html_()
    assert all(each.seconds >= 0.99 * choice.proof.value for each in found.points)


def test_where_nothing_fits_a_search_goes_on_with_the_next_value() -> None:
    program, capacity = grown("mlp_adamw"), ml.hardware("v5p").memory_bytes
    choice = ml.auto.layout(program, MESH, objective="memory", exact=True)
    tight = ml.auto.layout(program, MESH, memory=1.5 * choice.proof.value / capacity)
    batch = program.dims["batch"]
    found = tight.exact_crossovers(batch=[batch, 64 * batch])
    assert found.points[0].layout is not None
    assert found.points[1].layout is None
    assert "nothing fits" in str(found)


def test_what_cannot_vary(choice: ml.auto.Choice) -> None:
    with pytest.raises(
        ml.MeshlabError, match="along `bach`, which is neither a dim nor a mesh axis. Did you mean `batch`"
    ):
        choice.crossovers(bach=[1, 2])
    with pytest.raises(ml.MeshlabError, match="are along one thing, not none: write"):
        choice.crossovers()
    with pytest.raises(ml.MeshlabError, match="are along one thing, not `batch`, `data`: write"):
        choice.crossovers(batch=[1, 2], data=[1, 2])
    with pytest.raises(ml.MeshlabError, match=r"`batch` was given \[0, 2\] for crossovers: give two sizes, 1 or more"):
        choice.crossovers(batch=[0, 2])
    with pytest.raises(ml.MeshlabError, match="`bandwidth` was given 2 for crossovers: give two numbers above 0"):
        choice.exact_crossovers(bandwidth=2)  # type: ignore[arg-type]
    with pytest.raises(ml.MeshlabError, match="choice.crossovers explains the fastest layout"):
        ml.auto.layout(choice.plan.program, MESH, objective="memory").crossovers(batch=[1, 2])
