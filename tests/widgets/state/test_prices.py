"""Prices: what a change would cost before it is made."""

from __future__ import annotations

from meshlab.widgets.documents.intents import Place
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.prices import Price, prices_of


def test_the_price_of_a_drop_is_what_it_then_costs(explorer: Explorer) -> None:
    drop = Place("hidden", ("model",))
    assert prices_of(explorer.documents, [drop], peak=True) == [Price(480)]  # on no machine
    explorer.on("v5e")
    explorer.assume(attention="flash")
    (price,), (quick,) = prices_of(explorer.documents, [drop], peak=True), prices_of(explorer.documents, [drop])
    assert isinstance(quick, Price)
    assert (quick.peak_bytes, quick.fits) == (None, None)
    explorer.place("hidden", "model")
    assert price == Price(
        explorer.plan.wire_bytes, explorer.time.estimate, explorer.plan.memory.donated.peak_bytes, True
    )
    assert (quick.wire_bytes, quick.seconds) == (explorer.plan.wire_bytes, explorer.time.estimate)


def test_where_costs_take_long_a_price_is_what_follows_from_the_plan_alone(explorer: Explorer) -> None:
    explorer.on("v5e")
    explorer.documents.slow = True
    (price,) = prices_of(explorer.documents, [Place("hidden", ("model",))], peak=True)
    assert isinstance(price, Price)
    assert (price.wire_bytes, price.seconds, price.peak_bytes) == (480, None, None)
    assert price.work < 1
