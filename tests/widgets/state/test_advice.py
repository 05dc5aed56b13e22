"""Advice and presets: what helps most, at the price that is told, and nothing where nothing helps."""

from __future__ import annotations

import dataclasses

import pytest

import meshlab as ml
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import Place, Refused, TogglePreset
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.advice import LEAST, Advice, advise, changes, ranked, surveyed
from meshlab.widgets.state.prices import Price, price_of
from tests.widgets import small
from tests.widgets.state.test_machines import own

pytestmark = pytest.mark.share(8, of="file")

MODELS = {model.name: model for model in zoo.models()}


def follow(explorer: Explorer, most: int = 12) -> list[Price]:
    """Follows advice until there is none; returns the price of each layout on the way."""
    prices = [price_of(explorer.documents, explorer.document, peak=True)]
    for _ in range(most):
        advice = advise(explorer.documents)
        if advice is None:
            return prices
        assert explorer.apply(advice.intent)
        prices.append(price_of(explorer.documents, explorer.document, peak=True))
        assert prices[-1] == advice.price
    raise AssertionError(f"advice without end: {explorer.layout}")


def test_it_is_the_best_of_all_single_changes() -> None:
    explorer = explore(MODELS["transformer_adamw"].trace(), ml.mesh("cpu", data=2, model=4))
    advice = advise(explorer.documents)
    assert advice is not None
    outcomes = [explorer.what_if(intent) for intent, _ in changes(explorer.documents)]
    prices = [price_of(explorer.documents, o.document, peak=False) for o in outcomes if not isinstance(o, Refused)]
    assert advice.price.seconds == min(price.seconds for price in prices if price.seconds is not None)


def pressed(explorer: Explorer) -> list[Price]:
    """The prices after a press of each button of a preset, as the page sends it."""
    here = {part["name"] for part in (explorer.view()["named"] or {"parts": []})["parts"]}
    presses = [
        TogglePreset(preset["name"], over)
        for preset in explorer.view()["presets"]
        if not preset["why"]
        for over in ((preset["name"] not in here and preset["choices"]) or [None])
    ]
    outcomes = [explorer.what_if(press) for press in presses]
    return [price_of(explorer.documents, o.document, peak=True) for o in outcomes if not isinstance(o, Refused)]


def no_button_is_better(explorer: Explorer, advice: Advice | None) -> None:
    now, prices = price_of(explorer.documents, explorer.document, peak=True), pressed(explorer)
    assert len(prices) > 3
    best = min((price for price in prices if price.fits or not now.fits), key=rank, default=now)
    assert rank(advice.price if advice else now) <= (
        rank(best) if advice else (rank(best)[0], rank(best)[1] / (1 - LEAST))
    )


def rank(price: Price) -> tuple[bool, float]:
    return price.fits is False, price.seconds or 0


@pytest.mark.parametrize("asks", [False, True], ids=["finds its axis", "asks for it"])
@pytest.mark.parametrize("layout", [None, "batch:data", "ffn:model heads:model", "embed:model", "batch:data+model"])
def test_no_button_is_better_than_the_advice(layout: str | None, asks: bool) -> None:
    program, names = MODELS["transformer_adamw"].trace(), ("x", "y") if asks else ("data", "model")
    layout = layout and layout.replace("data", names[0]).replace("model", names[1])
    explorer = explore(program, ml.mesh("v5e:2x2", **dict.fromkeys(names, 2)), layout)
    no_button_is_better(explorer, advise(explorer.documents))


def test_a_preset_is_advised_beside_what_is_there() -> None:
    """Of llama3-8b on DP the preset TP+SP was advised, and to apply that took DP away."""
    explorer = explore("llama3-8b", ml.mesh("h100:2x8", data=2, model=8), "batch:data", batch=64)
    advice = advise(explorer.documents)
    assert advice is not None
    assert advice.text == "DP over data + TP+SP over model, by the preset TP+SP"
    no_button_is_better(explorer, advice)
    assert explorer.apply(advice.intent)
    assert explorer.name == "DP over data + TP+SP over model"


@pytest.mark.parametrize("layout", [None, "batch:data"])
def test_a_preset_that_asks_for_its_axis_is_advised_over_that(layout: str | None) -> None:
    """FSDP was advised, of 7.3 s, and beside DP `ffn` on `model`; HSDP takes 1.9 s."""
    explorer = explore("llama3-8b", ml.mesh("v5p:4x4x4", data=16, model=4), layout, batch=64)
    advice = advise(explorer.documents)
    assert advice is not None
    assert advice.text == "HSDP over data (copies over model), by the preset HSDP"
    no_button_is_better(explorer, advice)
    assert explorer.apply(advice.intent)
    assert explorer.name == "HSDP over data (copies over model)"


def test_every_step_on_the_way_is_faster_until_nothing_helps() -> None:
    seconds = [price.seconds for price in follow(explore(small.program(), ml.mesh("cpu", data=2, model=4)))]
    assert None not in seconds
    assert seconds == sorted(seconds, reverse=True)  # type: ignore[type-var]


def test_without_a_machine_it_shares_the_work(explorer: Explorer) -> None:
    prices = follow(explorer)
    assert prices[-1].work == 1 / 8
    assert [price.work for price in prices] == sorted((price.work for price in prices), reverse=True)


def test_what_fits_comes_first() -> None:
    explorer = explore(small.program(), ml.mesh(data=2, model=4))
    explorer.on(dataclasses.replace(own(), memory=ml.Figure(5000.0)))
    assert price_of(explorer.documents, explorer.document, peak=True).fits is False
    advice = advise(explorer.documents)
    assert advice is not None
    assert advice.price.fits


def test_dims_are_ranked_by_the_best_of_their_zones() -> None:
    explorer = explore(small.program(), ml.mesh("cpu", data=2, model=4), "classes:data")
    now = price_of(explorer.documents, explorer.document, peak=True)
    survey = surveyed(explorer.documents, now, lambda: False) or []
    order = ranked(now, survey)
    placed = [(each.intent.dim, each.price.seconds or 0) for each in survey if isinstance(each.intent, Place)]
    least = {dim: min(seconds for name, seconds in placed if name == dim) for dim, _ in placed}
    assert [dim for dim, _ in order] == sorted(least, key=lambda dim: least[dim])
    assert {dim: helps for dim, helps in order} == {
        dim: seconds < (now.seconds or 0) * (1 - LEAST) for dim, seconds in least.items()
    }
    # A dim that no zone takes is not among them.
    alone = explore(small.program(), ml.mesh("cpu", data=5))
    now = price_of(alone.documents, alone.document, peak=True)
    assert [dim for dim, _ in ranked(now, surveyed(alone.documents, now, lambda: False) or [])] == ["classes"]


def test_it_stops_when_the_board_has_moved_on(explorer: Explorer) -> None:
    now = price_of(explorer.documents, explorer.document, peak=True)
    assert surveyed(explorer.documents, now, lambda: True) is None
    assert advise(explorer.documents, stopped=lambda: True) is None
    assert advise(explorer.documents) is not None


def test_presets_are_taken_alone_and_together() -> None:
    explorer = explore(MODELS["transformer_adamw"].trace(), ml.mesh(data=2, model=4))
    assert {preset.name for preset in explorer.documents.presets if preset.layout is None} == {
        "expert_parallel",
        "hsdp",
        "accumulate",
        "pipeline_parallel",
    }
    assert explorer.preset("fsdp")
    assert explorer.layout == ml.layouts.fsdp(explorer.program, explorer.mesh)
    assert explorer.preset("tensor_parallel", combine=True)
    both = ml.layouts.fsdp(explorer.program, explorer.mesh) & ml.layouts.tensor_parallel(
        explorer.program, explorer.mesh
    )
    assert explorer.layout == both
    assert explorer.undo()
    assert explorer.layout == ml.layouts.fsdp(explorer.program, explorer.mesh)


@pytest.mark.parametrize(
    ("name", "reason"), [("fsbp", "There is no preset 'fsbp'. Did you mean `fsdp`?"), ("expert_parallel", "expert")]
)
def test_a_preset_that_there_is_not_is_refused(explorer: Explorer, name: str, reason: str) -> None:
    refused = explorer.preset(name)
    assert isinstance(refused, Refused)
    assert reason in refused.reason
    assert explorer.revision == 0
