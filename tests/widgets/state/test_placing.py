"""Dims that go in time together: which others, said and offered where one is placed there alone."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.models.zoo import models
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import Place, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.prices import can_pad, prices_of
from meshlab.widgets.views.prices import price_view


@pytest.fixture
def explorer() -> Explorer:
    return explore(
        next(model for model in models() if model.name == "moe_sgd").trace(), ml.mesh(data=2, micro=ml.serial(2))
    )


@pytest.mark.parametrize(
    ("layout", "placed", "after"),
    [
        ("", Place("batch", ("micro",)), "batch:micro groups:micro"),
        ("", Place("groups", ("micro",)), "batch:micro groups:micro"),
        ("batch:data groups:data", Place("batch", ("data", "micro")), "batch:data+micro groups:data+micro"),
    ],
)
def test_what_is_made_of_the_batch_goes_along(explorer: Explorer, layout: str, placed: Place, after: str) -> None:
    explorer.load(layout)
    answer = explorer.apply(placed)
    assert isinstance(answer, Refused)
    assert "together with" in answer.said[0]
    assert "`groups` is made of `batch`" in answer.said[0]
    [(label, offer)] = answer.instead
    assert label.endswith(" on micro")
    # What is offered is carried out.
    assert explorer.apply(offer)
    assert explorer.layout == ml.Layout.of(after)


def test_a_zone_offers_the_same_before_a_drop_and_no_padding(explorer: Explorer) -> None:
    intent = Place("batch", ("micro",))
    [price] = prices_of(explorer.documents, [intent])
    view = price_view(explorer, intent, price).get("refused")
    assert view
    assert [each["label"] for each in view.get("instead", [])] == ["batch + groups on micro"]
    # Padding would not help: the dims fit.
    assert view.get("pads") is False
    assert can_pad(explorer.documents, Place("capacity", ("data",))) == (explorer.program.dims["capacity"] % 2 > 0)


def test_what_no_other_dim_mends_is_refused_as_it_is(explorer: Explorer) -> None:
    answer = explorer.place("experts", "micro")
    assert isinstance(answer, Refused)
    assert answer.instead == ()
    assert "together with" not in answer.said[0]
