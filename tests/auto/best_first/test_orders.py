"""Orders of a dim's axes: those that store are searched, and of the best layout all others are tried."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.auto.best_first.orders import reordered
from meshlab.auto.brute_force import priced_layouts
from tests.auto.best_first.programs import FEW, grown

AXES = ("a", "b")


def test_each_other_order_once_and_storing_axes_last() -> None:
    layout = ml.Layout.of({"batch": ("a", "b", "micro"), "params/*": {"ffn": ("a", "b")}})
    (other,) = reordered(layout, AXES)
    assert other.rules == {"batch": ("b", "a", "micro")}
    assert other.places == {"params/*": {"ffn": ("b", "a")}}
    stored = ml.Layout.of({"ffn": "b", "params/*": {"ffn": ("b", "a")}})
    assert list(reordered(stored, AXES)) == []
    assert len(list(reordered(ml.Layout.of("batch:a+b+c"), ("a", "b", "c")))) == 5


@pytest.mark.share(8)
@pytest.mark.parametrize("on", ["v5p:2x2x2", "h100:8"])
@pytest.mark.parametrize("name", FEW)
def test_no_other_order_of_any_layout_is_faster(name: str, on: str) -> None:
    program, mesh = grown(name), ml.mesh(on, a=4, b=2)
    choice = ml.auto.layout(program, mesh, exact=True, memory=None)
    others = [other for price in priced_layouts(program, mesh) for other in reordered(price.layout, AXES)]
    assert others
    for layout in others:
        assert program.plan(mesh, layout).time.estimate >= choice.proof.value * (1 - 1e-9), layout


def test_axes_that_compute_nothing_are_stored_first_where_that_sends_less() -> None:
    """Gradients that are the same along `b` are cut there, and so scattered over `a` in halves."""
    program, mesh = grown("autoencoder"), ml.mesh("v5p:2x2x2", a=4, b=2)
    first, last = (program.plan(mesh, {"batch": "a", "params/*": {"hidden_odd": over}}) for over in (("b", "a"), AXES))
    assert first.time.estimate < last.time.estimate
    choice = ml.auto.layout(program, mesh, exact=True, memory=None)
    assert choice.proof.value <= first.time.estimate * (1 + 1e-9)


def test_a_pinned_order_stays() -> None:
    mesh = ml.mesh("v5p:2x2x2", a=4, b=2)
    choice = ml.auto.layout(grown("mlp_sgd"), mesh, pin={"batch": ("b", "a")}, memory=None)
    assert choice.layout.rules["batch"] == ("b", "a")
